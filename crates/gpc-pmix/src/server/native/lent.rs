//! Arguments for libpmix, made of messages. They are valid as long as their [`Lent`] exists.

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::ptr;

use crate::abi::{self, ByteObject, Data, DataArray, Proc, PublishedData};
use crate::library::characters;
use crate::server::orders::{Info, Process, Value};
use crate::server::values::{Items, process_of, width};

/// Arrays within arrays. The pairs of a job have one; what processes publish may have more.
pub(in crate::server) const DEPTH_MAX: usize = 8;

/// Owns the memory that arguments point to.
#[derive(Default)]
pub(in crate::server) struct Lent {
    kept: Vec<Box<dyn Any>>,
}

/// Error: a value that has no counterpart in C.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::server) struct Unusable(String);

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has a value that PMIx cannot have", self.0.escape_debug())
    }
}

impl Lent {
    /// Pairs for a call. The pointer is valid for as many elements as the slice has.
    pub(in crate::server) fn infos(&mut self, infos: &[Info]) -> Result<*mut abi::Info, Unusable> {
        let made = self.make_infos(infos, DEPTH_MAX)?;
        Ok(self.keep(made))
    }

    /// Looked up pairs, for as many elements as the slice has.
    pub(in crate::server) fn published(
        &mut self,
        found: &[(Process, Info)],
    ) -> Result<*mut PublishedData, Unusable> {
        let made: Result<Vec<PublishedData>, Unusable> = found
            .iter()
            .map(|(process, info)| {
                let info = self.make_info(info, DEPTH_MAX)?;
                Ok(PublishedData { process: proc(process), key: info.key, value: info.value })
            })
            .collect();
        Ok(self.keep(made?))
    }

    fn make_infos(&mut self, infos: &[Info], depth: usize) -> Result<Vec<abi::Info>, Unusable> {
        infos.iter().map(|info| self.make_info(info, depth)).collect()
    }

    fn make_info(&mut self, info: &Info, depth: usize) -> Result<abi::Info, Unusable> {
        let is_key = info.key.len() < abi::KEY_BYTES && !info.key.contains('\0');
        let value = if is_key { self.value(&info.value, depth) } else { None };
        let value = value.ok_or_else(|| Unusable(info.key.clone()))?;
        let flags = if info.required { abi::INFO_REQUIRED } else { 0 };
        Ok(abi::Info { key: characters(info.key.as_bytes()), flags, value })
    }

    fn value(&mut self, value: &Value, depth: usize) -> Option<abi::Value> {
        let data = match value.kind {
            abi::PROC => {
                let process = process_of(&value.bytes)?;
                Data { pointer: self.keep(vec![proc(&process)]).cast::<c_void>() }
            }
            abi::PROC_NSPACE => {
                let namespace: [c_char; abi::NAMESPACE_BYTES] = characters(&value.bytes);
                Data { pointer: self.keep(vec![namespace]).cast::<c_void>() }
            }
            abi::DATA_ARRAY => {
                let array = self.array(&value.as_items()?, depth.checked_sub(1)?)?;
                Data { pointer: self.keep(vec![array]).cast::<c_void>() }
            }
            kind => self.data(kind, &value.bytes)?,
        };
        Some(abi::Value { kind: value.kind, data })
    }

    /// A value that an array holds as the union does.
    fn data(&mut self, kind: u16, bytes: &[u8]) -> Option<Data> {
        let zero = Data { bytes: [0; 24] };
        match kind {
            abi::UNDEF => Some(zero),
            abi::STRING => Some(Data { string: self.text(bytes)? }),
            abi::BYTE_OBJECT | abi::COMPRESSED_STRING | abi::COMPRESSED_BYTE_OBJECT | abi::REGEX => {
                Some(Data { object: self.object(bytes) })
            }
            abi::ENVAR => {
                let mut parts = bytes.splitn(3, |&byte| byte == 0);
                let (name, value) = (self.text(parts.next()?)?, self.text(parts.next()?)?);
                let mut separator = [0; size_of::<usize>()];
                separator[0] = *parts.next()?.first()?;
                let separator = usize::from_ne_bytes(separator);
                Some(Data { words: [name.expose_provenance(), value.expose_provenance(), separator] })
            }
            kind if width(kind) == Some(bytes.len()) => {
                let mut whole = [0; 24];
                whole[..bytes.len()].copy_from_slice(bytes);
                in_order(&mut whole[..bytes.len()]);
                Some(Data { bytes: whole })
            }
            _ => None,
        }
    }

    fn array(&mut self, items: &Items, depth: usize) -> Option<DataArray> {
        let (kind, size, array) = match items {
            Items::Infos(infos) => {
                let made = self.make_infos(infos, depth).ok()?;
                (abi::INFO, made.len(), self.keep(made).cast::<c_void>())
            }
            Items::Others(abi::PROC, items) => {
                let made: Option<Vec<Proc>> =
                    items.iter().map(|bytes| Some(proc(&process_of(bytes)?))).collect();
                (abi::PROC, items.len(), self.keep(made?).cast())
            }
            Items::Others(abi::STRING, items) => {
                let made: Option<Vec<*mut c_char>> = items.iter().map(|bytes| self.text(bytes)).collect();
                (abi::STRING, items.len(), self.keep(made?).cast())
            }
            Items::Others(abi::BYTE_OBJECT, items) => {
                let made: Vec<ByteObject> = items.iter().map(|bytes| self.object(bytes)).collect();
                (abi::BYTE_OBJECT, items.len(), self.keep(made).cast())
            }
            Items::Others(kind, items) => {
                let width = width(*kind)?;
                if items.iter().any(|bytes| bytes.len() != width) {
                    return None;
                }
                let mut all = items.concat();
                all.chunks_mut(width).for_each(in_order);
                // Words are aligned for every type of this width.
                let words = all.chunks(8).map(|chunk| {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u64::from_ne_bytes(word)
                });
                (*kind, items.len(), self.keep(words.collect::<Vec<u64>>()).cast())
            }
        };
        Some(DataArray { kind, size, array })
    }

    fn object(&mut self, bytes: &[u8]) -> ByteObject {
        let kept = if bytes.is_empty() { ptr::null_mut() } else { self.keep(bytes.to_vec()).cast() };
        ByteObject { bytes: kept, size: bytes.len() }
    }

    /// A text that a zero byte ends; `None` if it has one.
    fn text(&mut self, bytes: &[u8]) -> Option<*mut c_char> {
        let zero_ended = [bytes, &[0]].concat();
        (!bytes.contains(&0)).then(|| self.keep(zero_ended).cast())
    }

    /// Keeps the elements, which do not move when the list does.
    fn keep<T: 'static>(&mut self, mut elements: Vec<T>) -> *mut T {
        let pointer = elements.as_mut_ptr();
        self.kept.push(Box::new(elements));
        pointer
    }
}

/// A process for C.
pub(in crate::server) fn proc(process: &Process) -> Proc {
    Proc { namespace: characters(process.namespace.as_bytes()), rank: process.rank }
}

/// Turns the bytes of a number of a message, which are little-endian, into those of this machine, or back.
pub(in crate::server) fn in_order(bytes: &mut [u8]) {
    if cfg!(target_endian = "big") {
        bytes.chunks_mut(8).for_each(<[u8]>::reverse);
    }
}

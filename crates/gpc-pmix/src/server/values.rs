//! Values of PMIx in messages: their bytes for each type. No I/O.
//!
//! A process is its rank (u32, little-endian) and its namespace. An array is the type of its items (u16), their number
//! (u32), and the items: pairs ([`Info`]), or each its length (u32) and its bytes. An environment variable
//! (`PMIX_ENVAR`) is its name, a zero byte, its value, a zero byte, and the separator.

use bytes::{Bytes, BytesMut};

use super::codec::Field;
use super::orders::{Info, Process, Value};
use crate::abi;

/// The items of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Items {
    /// Pairs.
    Infos(Vec<Info>),
    /// Items of this type, each as the bytes of a [`Value`] of that type.
    Others(u16, Vec<Vec<u8>>),
}

impl Value {
    /// A truth value (`PMIX_BOOL`).
    pub fn boolean(value: bool) -> Value {
        Value { kind: abi::BOOL, bytes: vec![u8::from(value)] }
    }

    /// A text (`PMIX_STRING`).
    pub fn text(text: &str) -> Value {
        Value { kind: abi::STRING, bytes: text.as_bytes().to_vec() }
    }

    /// A number of 16 bits (`PMIX_UINT16`).
    pub fn uint16(value: u16) -> Value {
        Value { kind: abi::UINT16, bytes: value.to_le_bytes().to_vec() }
    }

    /// A number of 32 bits (`PMIX_UINT32`).
    pub fn uint32(value: u32) -> Value {
        Value { kind: abi::UINT32, bytes: value.to_le_bytes().to_vec() }
    }

    /// A size (`PMIX_SIZE`).
    pub fn size(value: u64) -> Value {
        Value { kind: abi::SIZE, bytes: value.to_le_bytes().to_vec() }
    }

    /// A byte object (`PMIX_BYTE_OBJECT`).
    pub fn object(bytes: Vec<u8>) -> Value {
        Value { kind: abi::BYTE_OBJECT, bytes }
    }

    /// A status (`PMIX_STATUS`).
    pub(super) fn status(status: abi::Status) -> Value {
        Value { kind: abi::STATUS, bytes: status.to_le_bytes().to_vec() }
    }

    /// A rank (`PMIX_PROC_RANK`).
    pub fn rank(rank: u32) -> Value {
        Value { kind: abi::PROC_RANK, bytes: rank.to_le_bytes().to_vec() }
    }

    /// A process (`PMIX_PROC`).
    pub fn process(process: &Process) -> Value {
        let mut bytes = process.rank.to_le_bytes().to_vec();
        bytes.extend_from_slice(process.namespace.as_bytes());
        Value { kind: abi::PROC, bytes }
    }

    /// An array of processes (`PMIX_DATA_ARRAY` of `PMIX_PROC`).
    pub fn processes(processes: &[Process]) -> Value {
        let items = processes.iter().map(|process| Value::process(process).bytes);
        Value::array(&Items::Others(abi::PROC, items.collect()))
    }

    /// An array (`PMIX_DATA_ARRAY`).
    pub fn array(items: &Items) -> Value {
        let mut out = BytesMut::new();
        match items {
            Items::Infos(infos) => {
                abi::INFO.put(&mut out);
                infos.put(&mut out);
            }
            Items::Others(kind, items) => {
                kind.put(&mut out);
                items.put(&mut out);
            }
        }
        Value { kind: abi::DATA_ARRAY, bytes: out.to_vec() }
    }

    /// The text, if it is one of UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        if self.kind == abi::STRING { std::str::from_utf8(&self.bytes).ok() } else { None }
    }

    /// The number, if it is an integer of any width that is not negative, or a truth value.
    pub fn as_number(&self) -> Option<u64> {
        let is_number = !matches!(self.kind, abi::FLOAT | abi::DOUBLE | abi::TIMEVAL);
        if !is_number || width(self.kind) != Some(self.bytes.len()) {
            return None;
        }
        let is_signed = matches!(self.kind, abi::PID..=abi::INT64 | abi::STATUS);
        let is_negative = is_signed && self.bytes.last().is_some_and(|&last| last >= 0x80);
        let mut wide = [0; 8];
        wide[..self.bytes.len()].copy_from_slice(&self.bytes);
        (!is_negative).then(|| u64::from_le_bytes(wide))
    }

    /// The process, if it is one.
    pub fn as_process(&self) -> Option<Process> {
        if self.kind == abi::PROC { process_of(&self.bytes) } else { None }
    }

    /// The items, if it is an array.
    pub fn as_items(&self) -> Option<Items> {
        if self.kind != abi::DATA_ARRAY {
            return None;
        }
        let mut bytes = Bytes::copy_from_slice(&self.bytes);
        let items = match u16::get(&mut bytes).ok()? {
            abi::INFO => Items::Infos(Field::get(&mut bytes).ok()?),
            kind => Items::Others(kind, Field::get(&mut bytes).ok()?),
        };
        bytes.is_empty().then_some(items)
    }
}

/// A process of the bytes of its value.
pub(super) fn process_of(bytes: &[u8]) -> Option<Process> {
    let (rank, namespace) = bytes.split_first_chunk::<4>()?;
    let namespace = std::str::from_utf8(namespace).ok()?.to_owned();
    Some(Process { namespace, rank: u32::from_le_bytes(*rank) })
}

/// Bytes of a value of this type that consists of these bytes in C, too; `None` for all other types.
pub(super) fn width(kind: u16) -> Option<usize> {
    match kind {
        abi::BOOL | abi::BYTE | abi::INT8 | abi::UINT8 => Some(1),
        abi::PERSIST | abi::SCOPE | abi::DATA_RANGE | abi::PROC_STATE | abi::ALLOC_DIRECTIVE => Some(1),
        abi::JOB_STATE | abi::LINK_STATE => Some(1),
        abi::INT16 | abi::UINT16 | abi::DATA_TYPE | abi::LOCTYPE => Some(2),
        abi::PID | abi::INT | abi::INT32 | abi::UINT | abi::UINT32 | abi::FLOAT => Some(4),
        abi::STATUS | abi::INFO_DIRECTIVES | abi::PROC_RANK => Some(4),
        abi::SIZE | abi::INT64 | abi::UINT64 | abi::DOUBLE | abi::TIME | abi::DEVTYPE => Some(8),
        abi::TIMEVAL => Some(16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_made() {
        let process = Process { namespace: "job@1".into(), rank: 7 };
        assert_eq!(Value::process(&process).as_process(), Some(process.clone()));
        assert_eq!(Value::text("é").as_text(), Some("é"));
        for (value, number) in [
            (Value::boolean(true), 1),
            (Value::uint16(0x1234), 0x1234),
            (Value::uint32(u32::MAX), u64::from(u32::MAX)),
            (Value::rank(9), 9),
            (Value { kind: abi::INT, bytes: 5_i32.to_le_bytes().to_vec() }, 5),
            (Value { kind: abi::SIZE, bytes: u64::MAX.to_le_bytes().to_vec() }, u64::MAX),
        ] {
            assert_eq!(value.as_number(), Some(number), "{value:?}");
        }
        let info = |key: &str, value| Info::new(key, value);
        let inner = Items::Infos(vec![info("a", Value::rank(1)), info("b", Value::text("x"))]);
        let outer = Items::Infos(vec![info("c", Value::array(&inner))]);
        assert_eq!(Value::array(&outer).as_items(), Some(outer));
        let ranks = Items::Others(abi::PROC_RANK, vec![vec![1, 0, 0, 0], vec![2, 0, 0, 0]]);
        assert_eq!(Value::array(&ranks).as_items(), Some(ranks));
    }

    #[test]
    fn a_value_of_another_type_is_not_read() {
        let text = Value::text("5");
        assert_eq!((text.as_number(), text.as_process(), text.as_items()), (None, None, None));
        assert_eq!(Value::uint32(5).as_text(), None);
        assert_eq!(Value { kind: abi::STRING, bytes: vec![0xff] }.as_text(), None);
        assert_eq!(Value { kind: abi::PROC, bytes: vec![1, 2, 3] }.as_process(), None);
        for kind in [abi::INT8, abi::INT, abi::INT64, abi::STATUS, abi::PID] {
            let bytes = vec![0xff; width(kind).unwrap()];
            assert_eq!(Value { kind, bytes }.as_number(), None, "-1 of type {kind}");
        }
        for bytes in [vec![], vec![0; 9]] {
            assert_eq!(Value { kind: abi::UINT64, bytes }.as_number(), None);
        }
        assert_eq!(Value { kind: 31, bytes: vec![1; 8] }.as_number(), None);
        let mut array = Value::array(&Items::Infos(Vec::new()));
        array.bytes.push(0);
        assert_eq!(array.as_items(), None);
    }
}

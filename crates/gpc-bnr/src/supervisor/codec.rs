//! Encoding of orders and events: frames of a length (u32, little-endian) and a body. No I/O.
//!
//! The supervisor sends its [`HELLO`] first, so that the node can check that both have the same version; before that
//! the node sends no order. Invalid bytes are an error in any case, and end the supervisor.

use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::orders::{BindOrder, BindTo, Binding, Recipients, SupervisorEvent, SupervisorOrder};
use crate::exit::Exit;
use crate::names::{GroupId, Member};
use crate::start_error::StartError;

/// Largest body of a frame, in bytes. The system allows at most 6 MiB of arguments and environment.
pub(super) const FRAME_MAX: usize = 8 << 20;

/// The first message of a supervisor: its version. The last number changes with the format of the frames.
pub(super) const HELLO: &str = concat!("bnr-keeper ", env!("CARGO_PKG_VERSION"), " 5");

/// Appends the first frame: the [`HELLO`], or the reason why the supervisor cannot work.
pub(super) fn put_hello(out: &mut BytesMut, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Checks the body of a supervisor's first frame. The error may quote the body unescaped.
pub(super) fn get_hello(body: &[u8]) -> Result<(), String> {
    match std::str::from_utf8(body) {
        Ok(HELLO) => Ok(()),
        Ok(other) if other.starts_with("bnr-keeper ") => Err(format!(
            "the keeper is `{}`, this node needs `{HELLO}`: both must be of one version; restart the node",
            other
        )),
        Ok(failure) if failure.starts_with(FAILED) => Err(failure.into()),
        _ => Err(format!("the keeper is another program, or an older one: it has not said `{HELLO}`")),
    }
}

/// Prefix of the reason why a supervisor cannot work.
pub(super) const FAILED: &str = "the keeper cannot work: ";

/// A message to the supervisor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SupervisorMessage {
    /// An order, and the number of its descriptors.
    Order(SupervisorOrder, u8),
    /// A start that the node could not order. The supervisor returns it in sequence with its other answers.
    Refused(Member, i32),
}

/// Error: the bytes are not a valid frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}; the node and its keeper must be of one build")]
pub(super) struct CodecError(&'static str);

const SHORT: CodecError = CodecError("a frame that is shorter than what it has");
const LONG: CodecError = CodecError("a frame that is longer than what it has");

/// Splits received bytes into bodies.
#[derive(Default)]
pub(super) struct Frames {
    bytes: BytesMut,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete body.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, CodecError> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > FRAME_MAX {
            return Err(CodecError("a frame that is longer than any"));
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        self.bytes.advance(4);
        Ok(Some(self.bytes.split_to(length).freeze()))
    }
}

/// Appends a frame. Returns `false`, and appends nothing, if the frame would be too long.
pub(super) fn put_message(out: &mut BytesMut, message: &SupervisorMessage) -> bool {
    let begin = out.len();
    out.put_u32_le(0);
    let put = match message {
        SupervisorMessage::Order(order, descriptors) => put_order(out, order, *descriptors),
        SupervisorMessage::Refused(member, errno) => {
            out.put_u8(4);
            put_member(out, *member);
            out.put_i32_le(*errno);
            true
        }
    };
    let length = out.len() - begin - 4;
    if !put || length > FRAME_MAX {
        out.truncate(begin);
        return false;
    }
    set_length(out, begin, length)
}

fn set_length(out: &mut BytesMut, begin: usize, length: usize) -> bool {
    match (u32::try_from(length), out.get_mut(begin..begin + 4)) {
        (Ok(length), Some(head)) => {
            head.copy_from_slice(&length.to_le_bytes());
            true
        }
        _ => false,
    }
}

fn put_order(out: &mut BytesMut, order: &SupervisorOrder, descriptors: u8) -> bool {
    match order {
        SupervisorOrder::Start { member, program, args, env, wdir, bind, image } => {
            // Avoids copying an order that is too long.
            let size =
                args.iter().map(Vec::len).chain(env.iter().map(|(name, value)| name.len() + value.len()));
            if size.sum::<usize>().saturating_add(program.len()) > FRAME_MAX {
                return false;
            }
            out.put_u8(1);
            out.put_u8(descriptors);
            put_member(out, *member);
            put_bytes(out, program);
            out.put_u32_le(count(args.len()));
            args.iter().for_each(|arg| put_bytes(out, arg));
            out.put_u32_le(count(env.len()));
            for (name, value) in env {
                put_bytes(out, name);
                put_bytes(out, value);
            }
            put_optional(out, wdir.as_deref());
            put_binding(out, bind.as_ref());
            put_optional(out, image.as_deref());
        }
        SupervisorOrder::Signal { group, signal, to } => {
            out.put_u8(2);
            out.put_u32_le(group.0);
            out.put_u8(*signal);
            out.put_u8(u8::from(*to == Recipients::NotJoined));
        }
        SupervisorOrder::Join { member, process_group } => {
            out.put_u8(5);
            put_member(out, *member);
            out.put_u32_le(*process_group);
        }
        SupervisorOrder::Kill { group, grace } => {
            out.put_u8(3);
            out.put_u32_le(group.0);
            out.put_u8(u8::from(grace.is_some()));
            let millis = u64::try_from(grace.unwrap_or_default().as_millis());
            out.put_u64_le(millis.unwrap_or(u64::MAX));
        }
    }
    true
}

/// A count that does not fit belongs to a frame that is refused as too long.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32_le(count(bytes.len()));
    out.put_slice(bytes);
}

fn put_optional(out: &mut BytesMut, bytes: Option<&[u8]>) {
    out.put_u8(u8::from(bytes.is_some()));
    put_bytes(out, bytes.unwrap_or_default());
}

fn put_member(out: &mut BytesMut, member: Member) {
    out.put_u32_le(member.group.0);
    out.put_u32_le(member.rank);
}

/// Decodes the body of a message to the supervisor.
pub(super) fn get_message(mut body: Bytes) -> Result<SupervisorMessage, CodecError> {
    let body = &mut body;
    let message = match get_u8(body)? {
        1 => {
            let descriptors = get_u8(body)?;
            SupervisorMessage::Order(get_start(body)?, descriptors)
        }
        2 => {
            let group = GroupId(get_u32(body)?);
            let signal = get_u8(body)?;
            let to = if get_u8(body)? == 1 { Recipients::NotJoined } else { Recipients::All };
            SupervisorMessage::Order(SupervisorOrder::Signal { group, signal, to }, 0)
        }
        3 => {
            let group = GroupId(get_u32(body)?);
            let is_given = get_u8(body)? == 1;
            let grace = Duration::from_millis(get_u64(body)?);
            SupervisorMessage::Order(SupervisorOrder::Kill { group, grace: is_given.then_some(grace) }, 0)
        }
        4 => SupervisorMessage::Refused(get_member(body)?, get_i32(body)?),
        5 => {
            let member = get_member(body)?;
            let process_group = get_u32(body)?;
            SupervisorMessage::Order(SupervisorOrder::Join { member, process_group }, 0)
        }
        _ => return Err(CodecError("an order that there is not")),
    };
    if body.is_empty() { Ok(message) } else { Err(LONG) }
}

fn get_start(body: &mut Bytes) -> Result<SupervisorOrder, CodecError> {
    let member = get_member(body)?;
    let program = get_bytes(body)?;
    // An announced count reserves no memory.
    let mut args = Vec::new();
    for _ in 0..get_u32(body)? {
        args.push(get_bytes(body)?);
    }
    let mut env = Vec::new();
    for _ in 0..get_u32(body)? {
        env.push((get_bytes(body)?, get_bytes(body)?));
    }
    let wdir = get_optional(body)?;
    let bind = get_binding(body)?;
    let image = get_optional(body)?;
    Ok(SupervisorOrder::Start { member, program, args, env, wdir, bind, image })
}

/// Appends a frame.
pub(super) fn put_event(out: &mut BytesMut, event: &SupervisorEvent) {
    let begin = out.len();
    out.put_u32_le(0);
    match event {
        SupervisorEvent::Started(member, pid) => {
            out.put_u8(1);
            put_member(out, *member);
            out.put_u32_le(*pid);
        }
        SupervisorEvent::NotStarted(member, StartError { errno, status, host, why }) => {
            out.put_u8(2);
            put_member(out, *member);
            out.put_i32_le(*errno);
            out.put_u8(*status);
            put_bytes(out, host.as_bytes());
            put_bytes(out, why.as_bytes());
        }
        SupervisorEvent::Ended(member, exit) => {
            let (kind, number) = match *exit {
                Exit::Code(code) => (0, u32::from(code)),
                Exit::Signal(signal) => (1, u32::from(signal)),
                Exit::Node(id) => (2, id),
                Exit::Never => (3, 0),
                Exit::OutOfMemory => (4, 0),
            };
            out.put_u8(3);
            put_member(out, *member);
            out.put_u8(kind);
            out.put_u32_le(number);
        }
        SupervisorEvent::Emptied(group) => {
            out.put_u8(4);
            out.put_u32_le(group.0);
        }
    }
    let length = out.len() - begin - 4;
    set_length(out, begin, length);
}

/// Decodes the body of an event.
pub(super) fn get_event(mut body: Bytes) -> Result<SupervisorEvent, CodecError> {
    let body = &mut body;
    let event = match get_u8(body)? {
        1 => SupervisorEvent::Started(get_member(body)?, get_u32(body)?),
        2 => {
            let member = get_member(body)?;
            let (errno, status) = (get_i32(body)?, get_u8(body)?);
            let (host, why) = (get_text(body)?, get_text(body)?);
            SupervisorEvent::NotStarted(member, StartError { errno, status, host, why })
        }
        3 => {
            let member = get_member(body)?;
            let (kind, number) = (get_u8(body)?, get_u32(body)?);
            let small = u8::try_from(number).map_err(|_| CodecError("an exit status above 255"));
            let exit = match kind {
                0 => Exit::Code(small?),
                1 => Exit::Signal(small?),
                2 => Exit::Node(number),
                3 => Exit::Never,
                4 => Exit::OutOfMemory,
                _ => return Err(CodecError("an exit that there is not")),
            };
            SupervisorEvent::Ended(member, exit)
        }
        4 => SupervisorEvent::Emptied(GroupId(get_u32(body)?)),
        _ => return Err(CodecError("an event that there is not")),
    };
    if body.is_empty() { Ok(event) } else { Err(LONG) }
}

fn put_binding(out: &mut BytesMut, binding: Option<&Binding>) {
    let Some(Binding { to, order, index, report }) = binding else { return out.put_u8(0) };
    let (kind, cpus) = match to {
        BindTo::Nothing => (1, ""),
        BindTo::Core => (2, ""),
        BindTo::Socket => (3, ""),
        BindTo::Numa => (4, ""),
        BindTo::Cpus(cpus) => (5, cpus.as_str()),
    };
    out.put_u8(kind);
    put_bytes(out, cpus.as_bytes());
    out.put_u8(match order {
        BindOrder::Object => 0,
        BindOrder::Core => 1,
        BindOrder::Socket => 2,
    });
    out.put_u64_le(*index as u64);
    out.put_u8(u8::from(*report));
}

fn get_binding(body: &mut Bytes) -> Result<Option<Binding>, CodecError> {
    let kind = get_u8(body)?;
    if kind == 0 {
        return Ok(None);
    }
    let cpus = get_text(body)?;
    let to = match kind {
        1 => BindTo::Nothing,
        2 => BindTo::Core,
        3 => BindTo::Socket,
        4 => BindTo::Numa,
        5 => BindTo::Cpus(cpus),
        _ => return Err(CodecError("a binding that there is not")),
    };
    let order = match get_u8(body)? {
        0 => BindOrder::Object,
        1 => BindOrder::Core,
        2 => BindOrder::Socket,
        _ => return Err(CodecError("an order of bindings that there is not")),
    };
    // Both sides have words of the same size.
    let index = usize::try_from(get_u64(body)?).unwrap_or(usize::MAX);
    Ok(Some(Binding { to, order, index, report: get_u8(body)? == 1 }))
}

fn get_u8(body: &mut Bytes) -> Result<u8, CodecError> {
    body.try_get_u8().map_err(|_| SHORT)
}

fn get_u32(body: &mut Bytes) -> Result<u32, CodecError> {
    body.try_get_u32_le().map_err(|_| SHORT)
}

fn get_i32(body: &mut Bytes) -> Result<i32, CodecError> {
    body.try_get_i32_le().map_err(|_| SHORT)
}

fn get_u64(body: &mut Bytes) -> Result<u64, CodecError> {
    body.try_get_u64_le().map_err(|_| SHORT)
}

fn get_bytes(body: &mut Bytes) -> Result<Vec<u8>, CodecError> {
    let length = get_u32(body)? as usize;
    if length > body.len() {
        return Err(SHORT);
    }
    Ok(body.split_to(length).to_vec())
}

fn get_optional(body: &mut Bytes) -> Result<Option<Vec<u8>>, CodecError> {
    let is_given = get_u8(body)? == 1;
    let bytes = get_bytes(body)?;
    Ok(is_given.then_some(bytes))
}

fn get_text(body: &mut Bytes) -> Result<String, CodecError> {
    String::from_utf8(get_bytes(body)?).map_err(|_| CodecError("a text that is not UTF-8"))
}

fn get_member(body: &mut Bytes) -> Result<Member, CodecError> {
    Ok(Member { group: GroupId(get_u32(body)?), rank: get_u32(body)? })
}

#[cfg(test)]
mod tests;

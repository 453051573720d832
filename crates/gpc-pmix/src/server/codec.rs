//! Encoding of orders and events: frames of a length (u32, little-endian) and a body. No I/O.
//!
//! The helper sends its hello first, so that the node can check that both are of one version. Invalid bytes are an
//! error, after which the connection is unusable.

mod fields;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

pub(super) use self::fields::Field;
use super::orders::{Event, Order};
use super::protocol_error::ProtocolError;

/// Largest body of a frame, in bytes. The longest bodies are the data of a fence: 64 KiB for each of 1,024 processes.
pub const FRAME_MAX: usize = 64 << 20;

/// The first frame of a helper. The last number changes with the format of the frames.
const HELLO: &str = concat!("gpc-pmix-server ", env!("CARGO_PKG_VERSION"), " 3");

/// The beginning of the hello of any version.
const HELLO_PREFIX: &str = "gpc-pmix-server ";

/// Error: a message is longer than a frame may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of {0} bytes for the PMIx helper is too long: {FRAME_MAX} bytes are allowed")]
pub struct TooLong(usize);

/// Appends the frame of an order.
///
/// # Errors
/// The order is too long; nothing is appended. An [`Order::Answer`] may then be sent as an error instead.
pub fn encode_order(order: &Order, out: &mut BytesMut) -> Result<(), TooLong> {
    put_frame(out, |body| order.put(body))
}

/// Appends the frame of an event.
///
/// # Errors
/// The event is too long; nothing is appended.
pub(super) fn encode_event(event: &Event, out: &mut BytesMut) -> Result<(), TooLong> {
    put_frame(out, |body| event.put(body))
}

/// Appends the hello, the first frame of a helper.
pub(super) fn encode_hello(out: &mut BytesMut) {
    let length = put_frame(out, |body| body.put_slice(HELLO.as_bytes()));
    debug_assert!(length.is_ok(), "the hello is short");
}

fn put_frame(out: &mut BytesMut, put: impl FnOnce(&mut BytesMut)) -> Result<(), TooLong> {
    let begin = out.len();
    out.put_u32_le(0);
    put(out);
    let length = out.len() - begin - 4;
    match (u32::try_from(length), out.get_mut(begin..begin + 4)) {
        (Ok(head), Some(place)) if length <= FRAME_MAX => {
            place.copy_from_slice(&head.to_le_bytes());
            Ok(())
        }
        _ => {
            out.truncate(begin);
            Err(TooLong(length))
        }
    }
}

/// Decodes the bytes that a node receives from its helper.
#[derive(Debug, Default)]
pub struct Events {
    frames: Frames,
    is_greeted: bool,
}

impl Events {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// The next event; `None` until its last byte has arrived.
    ///
    /// # Errors
    /// The bytes are invalid, or the helper is of another version.
    pub fn next_event(&mut self) -> Result<Option<Event>, ProtocolError> {
        if !self.is_greeted {
            let Some(hello) = self.frames.next()? else { return Ok(None) };
            check_hello(&hello)?;
            self.is_greeted = true;
        }
        self.frames.next()?.map(decode).transpose()
    }
}

/// Decodes the bytes that a helper receives from its node.
#[derive(Debug, Default)]
pub(super) struct Orders {
    frames: Frames,
}

impl Orders {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// The next order; `None` until its last byte has arrived.
    pub(super) fn next_order(&mut self) -> Result<Option<Order>, ProtocolError> {
        self.frames.next()?.map(decode).transpose()
    }
}

fn check_hello(body: &[u8]) -> Result<(), ProtocolError> {
    match std::str::from_utf8(body) {
        Ok(HELLO) => Ok(()),
        Ok(other) if other.starts_with(HELLO_PREFIX) && other.len() < 100 => Err(ProtocolError(format!(
            "the PMIx helper is `{}`, and this node needs `{HELLO}`",
            other.escape_debug()
        ))),
        _ => Err(ProtocolError::new("the PMIx helper is another program: its first frame is no hello")),
    }
}

fn decode<T: Field>(mut body: Bytes) -> Result<T, ProtocolError> {
    let message = T::get(&mut body)?;
    if body.is_empty() { Ok(message) } else { Err(ProtocolError::new("a frame is longer than its message")) }
}

/// Splits received bytes into bodies.
#[derive(Debug, Default)]
struct Frames {
    bytes: BytesMut,
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete body.
    fn next(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > FRAME_MAX {
            return Err(ProtocolError(format!(
                "a frame of {length} bytes is announced, and {FRAME_MAX} are allowed"
            )));
        }
        if self.bytes.len() - 4 < length {
            return Ok(None);
        }
        self.bytes.advance(4);
        Ok(Some(self.bytes.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests;

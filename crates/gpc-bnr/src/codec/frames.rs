//! Frames between a process or a command and its node. The client sends [`MAGIC`] once. After it, both sides send
//! frames: a length of 4 bytes and a body. Requests go up, answers and notices go down.

use bytes::{Buf as _, Bytes, BytesMut};
use chained_gpc::wire::fields::Fields;

use super::bytes::{Coded, Writer};
use super::{CodecError, whole};
use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::request::{Answer, Request};

/// The first bytes of a client: protocol and version.
pub const MAGIC: [u8; 4] = *b"BNR1";

/// Largest body that a node reads, in bytes. It has room for the arguments and the environment of a spawn, or for a set
/// of a million members.
pub const UP_MAX: usize = 32 << 20;

/// Largest body that a client reads, in bytes. It has room for a whole database of the largest size, with its lengths.
/// A node queues at most that much for one client.
pub const DOWN_MAX: usize = 384 << 20;

/// Bytes of a length.
const LENGTH: usize = 4;

/// Error: a frame is too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a frame of {length} bytes; at most {max} are read")]
pub struct FrameError {
    /// Bytes of its body, as announced.
    pub length: usize,
    /// Most bytes allowed.
    pub max: usize,
}

/// The start of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// The body of a complete frame, removed from the buffer.
    Whole(Bytes),
    /// An incomplete frame, or nothing.
    Part,
}

/// A message from a node to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Down {
    /// The answer to a request.
    Answer(Serial, Result<Answer, Fault>),
    /// A process has ended.
    Notice(Death),
}

/// Removes the first frame from a buffer of received bytes.
///
/// # Errors
/// The frame announces more than `max` bytes.
pub fn take_frame(bytes: &mut BytesMut, max: usize) -> Result<Frame, FrameError> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else { return Ok(Frame::Part) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > max {
        return Err(FrameError { length, max });
    }
    if bytes.len() - LENGTH < length {
        return Ok(Frame::Part);
    }
    bytes.advance(LENGTH);
    Ok(Frame::Whole(bytes.split_to(length).freeze()))
}

/// Encodes a request as a frame.
///
/// # Errors
/// The request is larger than a node reads: [`TooLarge`](FaultKind::TooLarge).
pub fn encode_up(serial: Serial, request: &Request) -> Result<Bytes, Fault> {
    framed(UP_MAX, |out| {
        serial.put(out);
        request.put(out);
    })
}

/// The body of a request's frame, without the length.
///
/// # Errors
/// The request is larger than a node reads: [`TooLarge`](FaultKind::TooLarge).
pub fn body_of(serial: Serial, request: &Request) -> Result<Bytes, Fault> {
    encode_up(serial, request).map(|frame| frame.slice(LENGTH..))
}

/// Decodes the body of a client's frame.
///
/// # Errors
/// The body is not a valid request.
pub fn decode_up(body: &[u8]) -> Result<(Serial, Request), CodecError> {
    whole(Fields::new(body))
}

/// Encodes an answer or a notice as a frame. An answer that is larger than a client reads is replaced by a fault.
pub fn encode_down(down: &Down) -> Bytes {
    let (serial, fault) = match (framed(DOWN_MAX, |out| down.put(out)), down) {
        (Ok(frame), _) => return frame,
        (Err(fault), Down::Answer(serial, _)) => (*serial, fault),
        // A notice has a few bytes and always fits.
        (Err(_), Down::Notice(_)) => return Bytes::new(),
    };
    encode_down(&Down::Answer(serial, Err(fault)))
}

/// Decodes the body of a node's frame.
///
/// # Errors
/// The body is neither an answer nor a notice.
pub fn decode_down(body: &[u8]) -> Result<Down, CodecError> {
    whole(Fields::new(body))
}

fn framed(max: usize, write: impl FnOnce(&mut Writer)) -> Result<Bytes, Fault> {
    let mut out = Writer(vec![0; LENGTH]);
    write(&mut out);
    let length = out.0.len() - LENGTH;
    if length > max {
        let message =
            format!("{length} bytes to say at once: at most {max} are sent between a process and its node");
        return Err(Fault::new(FaultKind::TooLarge, message));
    }
    // The length is at most `max`, so it fits into u32.
    out.0[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(out.0.into())
}

impl Coded for Down {
    fn put(&self, out: &mut Writer) {
        match self {
            Down::Answer(serial, answer) => {
                0_u8.put(out);
                serial.put(out);
                answer.put(out);
            }
            Down::Notice(death) => {
                1_u8.put(out);
                death.put(out);
            }
        }
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Down, CodecError> {
        match u8::get(bytes)? {
            0 => Ok(Down::Answer(Coded::get(bytes)?, Coded::get(bytes)?)),
            1 => Death::get(bytes).map(Down::Notice),
            _ => Err(CodecError::Field("a node says no such thing")),
        }
    }
}

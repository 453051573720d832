//! The frames by which a process, or a command, and its node speak: [`MAGIC`] once, then frames, each a length of 4 bytes and a body. Up go requests, down answers and notices.

use bytes::{Buf as _, Bytes, BytesMut};
use chained_gpc::wire::fields::Fields;

use super::bytes::{Coded, Writer};
use super::{CodecError, whole};
use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::request::{Answer, Request};

/// What a client says first: that it speaks in these frames, of this version.
pub const MAGIC: [u8; 4] = *b"BNR1";

/// Bytes of the largest body that a node reads: room for the arguments and the environment of a spawn, or for a set of a million members.
pub const UP_MAX: usize = 32 << 20;

/// Bytes of the largest body that a client reads: room for all of a database of the largest size, and its lengths. A node lets no more than that wait for one client.
pub const DOWN_MAX: usize = 384 << 20;

/// Bytes of a length.
const LENGTH: usize = 4;

/// A frame that is too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a frame of {length} bytes; at most {max} are read")]
pub struct FrameError {
    /// Bytes of its body, by its own account.
    pub length: usize,
    /// Bytes that are allowed.
    pub max: usize,
}

/// What stands at the front of some bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A frame: its body, which is taken out of the bytes.
    Whole(Bytes),
    /// The begin of one at most.
    Part,
}

/// What a node says to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Down {
    /// The answer to a request.
    Answer(Serial, Result<Answer, Fault>),
    /// A process has ended.
    Notice(Death),
}

/// Takes the first frame out of what has come.
///
/// # Errors
/// When the frame says that it is longer than `max` bytes.
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

/// A request as a frame.
///
/// # Errors
/// When it is larger than a node reads: [`TooLarge`](FaultKind::TooLarge).
pub fn encode_up(serial: Serial, request: &Request) -> Result<Bytes, Fault> {
    framed(UP_MAX, |out| {
        serial.put(out);
        request.put(out);
    })
}

/// The body of a request's frame, without its length.
///
/// # Errors
/// When it is larger than a node reads: [`TooLarge`](FaultKind::TooLarge).
pub fn body_of(serial: Serial, request: &Request) -> Result<Bytes, Fault> {
    encode_up(serial, request).map(|frame| frame.slice(LENGTH..))
}

/// Reads the body of a frame of a client.
///
/// # Errors
/// When it is no request.
pub fn decode_up(body: &[u8]) -> Result<(Serial, Request), CodecError> {
    whole(Fields::new(body))
}

/// An answer or a notice as a frame. An answer that is larger than a client reads becomes a fault that says so.
pub fn encode_down(down: &Down) -> Bytes {
    let (serial, fault) = match (framed(DOWN_MAX, |out| down.put(out)), down) {
        (Ok(frame), _) => return frame,
        (Err(fault), Down::Answer(serial, _)) => (*serial, fault),
        // A few bytes: never too large.
        (Err(_), Down::Notice(_)) => return Bytes::new(),
    };
    encode_down(&Down::Answer(serial, Err(fault)))
}

/// Reads the body of a frame of a node.
///
/// # Errors
/// When it is neither an answer nor a notice.
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
    // At most `max`.
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

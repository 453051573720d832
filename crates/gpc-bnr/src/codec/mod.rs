//! Encoding of the messages between nodes, and between a process and its node. `docs/bnr-wire.md` has it byte by byte.
//!
//! Integers are little-endian and of fixed width. Texts, byte strings and lists are preceded by their length, in 4
//! bytes. Each value has exactly one encoding: decoding and encoding again gives the same bytes.
//!
//! An announced length reserves no memory: a list grows as its elements are decoded, so memory is bounded by the bytes
//! received. The types have no cycles, so the depth of nesting is fixed.

mod bytes;
#[cfg(test)]
mod documented;
mod frames;
mod types;

use ::bytes::Bytes;
use chained_gpc::wire::fields::Fields;

use self::bytes::{Coded, Writer};
use crate::order::{Order, Report};

pub use frames::{
    DOWN_MAX, Down, Frame, FrameError, MAGIC, UP_MAX, body_of, decode_down, decode_up, encode_down,
    encode_up, take_frame,
};

/// Version of orders and reports.
pub const VERSION: u8 = 3;

/// Error: the bytes are not a valid encoding.
pub use chained_gpc::wire::fields::FieldsError as CodecError;

/// Encodes an order as the data of a call.
pub fn encode_order(order: &Order) -> Bytes {
    encode(order)
}

/// Decodes an order.
///
/// # Errors
/// The bytes are not a valid order.
pub fn decode_order(bytes: &[u8]) -> Result<Order, CodecError> {
    decode(bytes)
}

/// Encodes a report as the data of a reply.
pub fn encode_report(report: &Report) -> Bytes {
    encode(report)
}

/// Decodes a report.
///
/// # Errors
/// The bytes are not a valid report.
pub fn decode_report(bytes: &[u8]) -> Result<Report, CodecError> {
    decode(bytes)
}

fn encode(value: &impl Coded) -> Bytes {
    let mut out = Writer::default();
    VERSION.put(&mut out);
    value.put(&mut out);
    out.0.into()
}

fn decode<T: Coded>(bytes: &[u8]) -> Result<T, CodecError> {
    let mut bytes = Fields::new(bytes);
    bytes.version(VERSION)?;
    whole(bytes)
}

/// Decodes a value that takes all of the bytes.
fn whole<T: Coded>(mut bytes: Fields<'_>) -> Result<T, CodecError> {
    let value = T::get(&mut bytes)?;
    bytes.end().map(|()| value)
}

#[cfg(test)]
mod tests;

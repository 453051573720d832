//! What nodes say to each other, and what a process and its node do, as bytes. `docs/bnr-wire.md` has them byte by byte.
//!
//! Integers are little-endian and of fixed width; texts, bytes and lists have their length in front, of 4 bytes. Each value has one encoding: who decodes bytes and encodes what they say has the same bytes again. No length is believed: a list grows as its elements are read, so what is held is bounded by the bytes that are there. The types have no cycles, so nothing is nested deeper than they are.

mod bytes;
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

/// The version of orders and reports.
pub const VERSION: u8 = 1;

/// Bytes that say nothing.
pub use chained_gpc::wire::fields::FieldsError as CodecError;

/// An order as the data of a call.
pub fn encode_order(order: &Order) -> Bytes {
    encode(order)
}

/// Reads an order.
///
/// # Errors
/// When the bytes are none.
pub fn decode_order(bytes: &[u8]) -> Result<Order, CodecError> {
    decode(bytes)
}

/// A report as the data of a reply.
pub fn encode_report(report: &Report) -> Bytes {
    encode(report)
}

/// Reads a report.
///
/// # Errors
/// When the bytes are none.
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

/// A value, and nothing behind it.
fn whole<T: Coded>(mut bytes: Fields<'_>) -> Result<T, CodecError> {
    let value = T::get(&mut bytes)?;
    bytes.end().map(|()| value)
}

#[cfg(test)]
mod tests;

//! Arbitrary bytes as messages between nodes of a domain, and between processes and nodes: a decoder must reject them,
//! or they must be the only encoding of the message it returns.
//!
//! Input: a byte that chooses the kind of message, and the bytes. This module is not part of the targets' library,
//! because the project's main package, which replays that library, knows nothing of domains.
//! `crates/gpc-bnr/tests/fuzz_corpus.rs` replays this one.

use gpc_bnr::codec::{
    CodecError, VERSION, decode_down, decode_order, decode_report, decode_up, encode_down, encode_order,
    encode_report, encode_up,
};
use gpc_bnr::order::Order;

use super::input::Input;
use super::memory;

/// Maximum number of bytes held for each byte of a message. A list of one short text or pair holds the most, in a
/// vector that begins with room for four. While a vector grows, its old and its new buffer exist together.
const HELD_PER_BYTE: usize = 60;

/// Decodes the bytes, and encodes the result again.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() & 3 {
        0 => {
            let bytes = [&[VERSION], input.rest()].concat();
            if let Some(order) = read(&bytes, decode_order) {
                assert_eq!(encode_order(&order), bytes, "{order:?}");
                looked_at(&order);
            }
        }
        1 => {
            let bytes = [&[VERSION], input.rest()].concat();
            if let Some(report) = read(&bytes, decode_report) {
                assert_eq!(encode_report(&report), bytes, "{report:?}");
            }
        }
        2 => {
            let bytes = input.rest();
            if let Some((serial, request)) = read(bytes, decode_up) {
                let frame = encode_up(serial, &request).expect("it is as small as it came");
                assert_eq!(frame[4..], *bytes, "{request:?}");
            }
        }
        _ => {
            let bytes = input.rest();
            if let Some(down) = read(bytes, decode_down) {
                assert_eq!(encode_down(&down)[4..], *bytes, "{down:?}");
            }
        }
    }
}

fn read<T>(bytes: &[u8], decode: fn(&[u8]) -> Result<T, CodecError>) -> Option<T> {
    let read = memory::bounded(bytes.len(), HELD_PER_BYTE, || decode(bytes));
    // A message without its last byte must be rejected as too short.
    if let (Ok(_), Some((_, less))) = (&read, bytes.split_last()) {
        assert_eq!(decode(less).err(), Some(CodecError::Short));
    }
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

/// Asks a layout everything it can be asked.
fn looked_at(order: &Order) {
    let Order::Start(layout) = order else { return };
    let (size, nodes) = (layout.size(), layout.nodes());
    assert_eq!(layout.node_of(size), None);
    for block in &layout.blocks {
        let last = block.first + (block.count - 1);
        assert_eq!((layout.node_of(block.first), layout.node_of(last)), (Some(block.node), Some(block.node)));
        assert!(nodes.contains(&block.node) && last < size);
        assert!(layout.ranks_on(block.node).any(|rank| rank == block.first));
    }
}

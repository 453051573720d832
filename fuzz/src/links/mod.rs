//! The links of two nodes, over connections whose bytes come in any pieces, or of one node with a hostile peer.
//!
//! Input: a byte of choices. For two honest nodes, operations follow: messages, writes and reads of some bytes,
//! connections that break, and time. No request arrives twice, nothing that is read is wrong, and nothing is left
//! at the end. For one node, cuts and the bytes of its peer follow; it holds no more than has come.

mod hostile;
mod node;
mod pair;

use super::input::Input;

/// Runs the target.
///
/// # Panics
/// If a property does not hold.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choices = input.byte();
    match choices & 1 == 0 {
        true => pair::run(choices >> 1, &mut input),
        false => hostile::run(choices >> 1, &mut input),
    }
}

/// Operations of two honest nodes, and bytes of a hostile peer: what the corpus begins with.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = pair::seeds();
    all.extend(hostile::seeds());
    all
}

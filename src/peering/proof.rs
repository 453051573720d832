//! What peering needs of cryptography: a handshake of three messages by which both sides prove that they have the secret and each its key, and sealed records after it.
//!
//! The real one is [`Noise`](super::Noise); worlds of the simulator use a model whose tags cannot be forged by construction.

use std::fmt;

use gpc_trees::Id;

use super::key::{KEY_LENGTH, PublicKey};

/// Bytes that prove the rest of a message, or of a record.
pub const TAG: usize = 16;

/// What the first message says beside its proof: from whom, to whom.
pub(super) const FIRST_PAYLOAD: usize = 2 * size_of::<Id>();

/// What the second one says: whose it is.
pub(super) const SECOND_PAYLOAD: usize = size_of::<Id>();

/// The first message: an ephemeral key and the ids.
pub const FIRST_LENGTH: usize = KEY_LENGTH + FIRST_PAYLOAD + TAG;

/// The second: an ephemeral key, the sealed static key, the id.
pub const SECOND_LENGTH: usize = KEY_LENGTH + KEY_LENGTH + TAG + SECOND_PAYLOAD + TAG;

/// The third: the sealed static key.
pub const THIRD_LENGTH: usize = KEY_LENGTH + TAG + TAG;

/// Longest record, with its tag: Noise has no longer messages.
pub const RECORD_MAX: usize = 65_535;

/// Who begins a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The side that has connected: it sends the first and the third message.
    First,
    /// The side that was connected to.
    Second,
}

/// A proof that is wrong, in whatever way: to say more would help who tries to forge one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the proof is wrong")]
pub struct Unproved;

/// Makes handshakes.
pub trait Crypto: fmt::Debug + Send {
    /// Begins a handshake that is bound to what was said in clear before it.
    ///
    /// # Errors
    /// When there is no randomness, or this node's own settings are wrong.
    fn begin(&mut self, turn: Turn, prologue: &[u8]) -> Result<Box<dyn Handshake>, Unproved>;
}

/// A handshake under way. After an error it is of no more use.
pub trait Handshake: fmt::Debug + Send {
    /// Appends the next message, which says this beside its proof.
    ///
    /// # Errors
    /// When it is the other side's turn.
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), Unproved>;

    /// Takes the other side's next message, and gives what it says: as many bytes as `payload` has room for.
    ///
    /// # Errors
    /// When it is not proved, or of another length.
    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<(), Unproved>;

    /// The static key that the other side has proved to have, once it has said it.
    fn remote(&self) -> Option<PublicKey>;

    /// After the third message: what seals and opens records.
    ///
    /// # Errors
    /// When the handshake is not over.
    fn into_session(self: Box<Self>) -> Result<Box<dyn Session>, Unproved>;
}

/// Seals and opens records, each in their order.
pub trait Session: fmt::Debug + Send {
    /// Seals bytes as the next record: `plain.len() + TAG` bytes of `record`, which are at most [`RECORD_MAX`].
    ///
    /// # Errors
    /// When there are too many bytes, or too little room.
    fn seal(&mut self, plain: &[u8], record: &mut [u8]) -> Result<usize, Unproved>;

    /// Opens the next record; says how many bytes it had.
    ///
    /// # Errors
    /// When it is not the next one that the other side has sealed, or `plain` has less room than `record` is long.
    fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<usize, Unproved>;
}

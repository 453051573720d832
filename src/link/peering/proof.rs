//! The cryptography that peering needs: a handshake of three messages, and sealed records after it. In the handshake
//! both sides prove that they have the secret and their own key.
//!
//! [`Noise`](super::Noise) is the real implementation. Worlds of the simulator use a model whose tags cannot be forged
//! by construction.

use std::fmt;

use gpc_trees::Id;

use super::key::{KEY_LENGTH, PublicKey};

/// Length of the tag that authenticates a message or a record, in bytes.
pub const TAG: usize = 16;

/// Payload of the first message: the ids of its sender and its receiver.
pub(super) const FIRST_PAYLOAD: usize = 2 * size_of::<Id>();

/// Payload of the second message: the id of its sender.
pub(super) const SECOND_PAYLOAD: usize = size_of::<Id>();

/// Length of the first message: an ephemeral key and the ids.
pub const FIRST_LENGTH: usize = KEY_LENGTH + FIRST_PAYLOAD + TAG;

/// Length of the second message: an ephemeral key, the sealed static key, the id.
pub const SECOND_LENGTH: usize = KEY_LENGTH + KEY_LENGTH + TAG + SECOND_PAYLOAD + TAG;

/// Length of the third message: the sealed static key.
pub const THIRD_LENGTH: usize = KEY_LENGTH + TAG + TAG;

/// Maximum length of a record with its tag, in bytes: the limit of Noise messages.
pub const RECORD_MAX: usize = 65_535;

/// Role of a side in a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The side that connected: it sends the first and the third message.
    First,
    /// The side that accepted the connection.
    Second,
}

/// The proof is wrong. The error has no detail, because detail would help to forge a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the proof is wrong")]
pub struct ProofError;

/// Factory of handshakes.
pub trait Crypto: fmt::Debug + Send {
    /// Begins a handshake that is bound to the cleartext before it.
    ///
    /// # Errors
    /// If there is no randomness, or this node's own settings are wrong.
    fn begin(&mut self, role: Role, prologue: &[u8]) -> Result<Box<dyn Handshake>, ProofError>;
}

/// A handshake in progress. After an error it is unusable.
pub trait Handshake: fmt::Debug + Send {
    /// Appends the next message, with this payload.
    ///
    /// # Errors
    /// If it is the other side's turn.
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), ProofError>;

    /// Reads the other side's next message, and fills `payload` with its payload.
    ///
    /// # Errors
    /// If the message is not authentic, or its payload has another length.
    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<(), ProofError>;

    /// The static key that the other side has proved, once received.
    fn remote(&self) -> Option<PublicKey>;

    /// Returns the session that seals and opens records; call it after the third message.
    ///
    /// # Errors
    /// If the handshake is not complete.
    fn into_session(self: Box<Self>) -> Result<Box<dyn Session>, ProofError>;
}

/// Seals and opens records, each direction in order.
pub trait Session: fmt::Debug + Send {
    /// Seals `plain` as the next record. Writes `plain.len() + TAG` bytes, at most [`RECORD_MAX`], to `record`, and
    /// returns their number.
    ///
    /// # Errors
    /// If `plain` is too long, or `record` too short.
    fn seal(&mut self, plain: &[u8], record: &mut [u8]) -> Result<usize, ProofError>;

    /// Opens the next record; returns the number of bytes in it.
    ///
    /// # Errors
    /// If it is not the next record that the other side sealed, or `plain` is shorter than `record`.
    fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<usize, ProofError>;
}

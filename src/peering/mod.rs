//! Who is at the other end of a connection: hello, proof, incarnation, which of two connections stands, and who is a member.
//!
//! Source: docs/wire.md, "Proof", "HELLO" and "One link per pair".
//!
//! No socket, no thread, no clock, no randomness of its own, and the cryptography is a parameter: bytes and the time come in, bytes and events come out. The runtime drives it with sockets, the simulator with virtual time.
//!
//! Public for drivers and tools of their own, and outside the promise of semantic versioning: any release may change it, but for what stands at the root of the crate.

mod key;
#[cfg(feature = "noise")]
mod noise;
mod proof;
mod secret;

pub use key::{KEY_LENGTH, KeyError, PrivateKey, PublicKey};
#[cfg(feature = "noise")]
pub use noise::{Fill, Noise};
pub use proof::{
    Crypto, FIRST_LENGTH, Handshake, RECORD_MAX, SECOND_LENGTH, Session, TAG, THIRD_LENGTH, Turn, Unproved,
};
pub use secret::{SECRET_MAX, SECRET_MIN, Secret, SecretError};

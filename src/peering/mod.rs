//! Who is at the other end of a connection: hello, proof, incarnation, which of two connections stands, and who is a member.
//!
//! Source: docs/wire.md, "Proof", "HELLO" and "One link per pair".
//!
//! No socket, no thread, no clock, no randomness of its own, and the cryptography is a parameter: bytes and the time come in, bytes and events come out. The runtime drives it with sockets, the simulator with virtual time.
//!
//! Public for drivers and tools of their own, and outside the promise of semantic versioning: any release may change it, but for what stands at the root of the crate.

mod greeting;
mod half_open;
mod held;
mod hellos;
mod key;
mod machine;
#[cfg(feature = "noise")]
mod noise;
mod output;
mod peer;
mod piece;
mod preamble;
mod proof;
mod proving;
mod secret;

pub use greeting::{Proof, Source, Way};
pub use half_open::{HALF_OPEN_MAX, HALF_OPEN_PER_SOURCE};
pub use held::ANSWER_LIMIT;
pub use key::{KEY_LENGTH, KeyError, PrivateKey, PublicKey};
pub use machine::{Book, GREETING_LIMIT, Here, Identity, Peering, Strictness, Wanted};
#[cfg(feature = "noise")]
pub use noise::{Fill, Noise};
pub use output::{Output, Standing};
pub use peer::{LinkKey, State};
pub use piece::LENGTH as LENGTH_BYTES;
pub use proof::{
    Crypto, FIRST_LENGTH, Handshake, RECORD_MAX, SECOND_LENGTH, Session, TAG, THIRD_LENGTH, Turn, Unproved,
};
pub use secret::{SECRET_MAX, SECRET_MIN, Secret, SecretError};

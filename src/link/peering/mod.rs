//! Peering: decides which connections become links. It checks hello, proof and incarnation, chooses between two
//! connections of a pair, and checks membership.
//!
//! Source: docs/wire.md, "Proof", "HELLO" and "One link per pair".
//!
//! The module has no socket, no thread, no clock and no randomness of its own, and the cryptography is a parameter.
//! Bytes and the time come in; bytes and events come out. The runtime drives it with sockets, the simulator with
//! virtual time.
//!
//! The module is public for custom drivers and tools. It is exempt from semantic versioning: any release may change it,
//! except for the items that the crate root re-exports.

mod greeting;
mod half_open;
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
mod run_conflicts;
mod secret;
mod waiting_runs;

pub use greeting::{Proof, Source, Transport};
pub use half_open::{HALF_OPEN_MAX, HALF_OPEN_PER_SOURCE};
pub use key::{KEY_LENGTH, KeyError, PrivateKey, PublicKey};
pub use machine::{Book, FeedContext, GREETING_LIMIT, Identity, LinkStatus, Peering, Strictness};
#[cfg(feature = "noise")]
pub use noise::{Fill, Noise};
pub use output::{NewLink, Output};
pub use peer::{LinkKey, State};
pub use piece::LENGTH as LENGTH_BYTES;
pub use proof::{
    Crypto, FIRST_LENGTH, Handshake, ProofError, RECORD_MAX, Role, SECOND_LENGTH, Session, TAG, THIRD_LENGTH,
};
pub use run_conflicts::ANSWER_LIMIT;
pub use secret::{SECRET_MAX, SECRET_MIN, Secret, SecretError};

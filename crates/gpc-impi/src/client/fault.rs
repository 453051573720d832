//! Failure of a client: the stage, and the cause.

use std::time::Duration;

use super::{ClientStage, LearnError};
use crate::server::Rank;
use crate::wire::{CLIENTS_MAX, Command, FrameError, Label};

/// Why a client has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFault {
    /// The connection has ended.
    #[error("the server was lost while {stage}: {why}{}", hint(.stage))]
    Lost {
        /// Stage of the client.
        stage: ClientStage,
        /// Why the connection ended.
        why: String,
    },
    /// Some clients were not done within the time limit.
    #[error("not all clients were done within {limit:?}: still {stage}{}", late(.stage))]
    Late {
        /// Stage of the client.
        stage: ClientStage,
        /// The time limit.
        limit: Duration,
    },
    /// The client's rank is too high for the session.
    #[error("this client has rank {rank}, and the session has {size} {}: the ranks are 0 to {}", if *.size == 1 { "client" } else { "clients" }, .size - 1)]
    Rank {
        /// Rank of the client.
        rank: Rank,
        /// Number of clients.
        size: u32,
    },
    /// The server has violated the protocol.
    #[error("the server broke the protocol while this client was {stage}: {wrong}")]
    Violation {
        /// Stage of the client.
        stage: ClientStage,
        /// The violation.
        wrong: Violation,
    },
    /// The clients' values are inconsistent.
    #[error("what the clients have said does not go together: {0}")]
    Learn(#[from] LearnError),
}

/// A violation of the protocol by the server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A method that the client did not offer.
    #[error("it chose method {which} of AUTH, and this client offers mask {mask:#x}{}", stranger(*.which))]
    Method {
        /// Number of the method.
        which: u32,
        /// Mask of the offered methods.
        mask: u32,
    },
    /// A length that is invalid, or over the client's limit.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// More bytes in all than the client accepts, heads of commands included.
    #[error("it has sent more than {0} bytes in all")]
    Bytes(usize),
    /// More unknown or repeated input than any honest server sends.
    #[error("it has sent more than {0} commands and labels that are not known here, or were known before")]
    Needless(u32),
    /// The payload of a command has the wrong length.
    #[error("{command} with {found} bytes, and it has {expected}")]
    Length {
        /// The command.
        command: Command,
        /// The expected length.
        expected: usize,
        /// The actual length.
        found: usize,
    },
    /// A COLL without a label or a mask.
    #[error("COLL with {0} bytes, and its label and mask have 8")]
    Coll(usize),
    /// An invalid number of clients.
    #[error("IMPI says {0} clients; a session has 1 to {CLIENTS_MAX}")]
    Size(i32),
    /// The number of clients has changed.
    #[error("IMPI says {now} clients, and has said {before}")]
    Resized {
        /// The first number.
        before: u32,
        /// The new number.
        now: u32,
    },
    /// A command that is invalid at this stage.
    #[error("{0}, which has no place there")]
    Early(Command),
    /// The mask has clients that do not exist.
    #[error("COLL {label} has mask {mask:#x}, and there are {size} clients")]
    Mask {
        /// The label.
        label: Label,
        /// The mask.
        mask: u32,
        /// Number of clients.
        size: u32,
    },
    /// Values that the client has sent are missing.
    #[error("COLL {label} has mask {mask:#x} without client {rank}, which has sent values")]
    Dropped {
        /// The label.
        label: Label,
        /// The mask.
        mask: u32,
        /// Rank of this client.
        rank: Rank,
    },
    /// There are values of this client, although it has sent none.
    #[error("COLL {label} has mask {mask:#x} with client {rank}, which has left it out")]
    Invented {
        /// The label.
        label: Label,
        /// The mask.
        mask: u32,
        /// Rank of this client.
        rank: Rank,
    },
    /// A label was broadcast again, and its mask does not have the clients of the broadcast before and more.
    #[error("COLL {0} again, without the values of more clients")]
    Twice(Label),
    /// A label was broadcast before this client has sent it or is done.
    #[error("COLL {0} before this client has sent it")]
    Unsent(Label),
    /// Values without a client.
    #[error("COLL {label} has mask 0, and {len} bytes of values")]
    Nobodys {
        /// The label.
        label: Label,
        /// Length of the values, bytes.
        len: usize,
    },
    /// DONE arrived before the broadcast of this label.
    #[error("DONE without COLL {0}, which this client has sent; others of its kind were broadcast")]
    Unanswered(Label),
}

/// A hint for a choice that is not the number of a method: methods are bits of a 32-bit mask.
fn stranger(which: u32) -> &'static str {
    if which >= u32::BITS { "; is it an IMPI server?" } else { "" }
}

/// A hint at the cause of a closed connection.
fn hint(stage: &ClientStage) -> &'static str {
    match stage {
        ClientStage::Auth => {
            "; a server closes when it has no method of proof in common with the client (IMPI_AUTH_NONE, IMPI_AUTH_KEY), or when all clients have joined; it says which on its standard error"
        }
        ClientStage::Impi => {
            "; a server closes when the key (IMPI_AUTH_KEY) is another one, or the rank is taken or too high; it says which on its standard error"
        }
        _ => "",
    }
}

/// A hint at what a silent server waits for.
fn late(stage: &ClientStage) -> &'static str {
    match stage {
        ClientStage::Auth => "; is it an IMPI server?",
        ClientStage::Impi => "; have all clients been started?",
        ClientStage::At(_) | ClientStage::Done => "; a client that does not go on keeps all others waiting",
        ClientStage::Between | ClientStage::Over => "",
    }
}

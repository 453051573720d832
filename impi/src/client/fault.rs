//! Why a client has failed: the stage and the label, and what was wrong.

use std::time::Duration;

use super::{ClientStage, LearnError};
use crate::server::Rank;
use crate::wire::{CLIENTS_MAX, Command, FrameError, Label, RelayError};

/// Why a client has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFault {
    /// The connection has ended.
    #[error("the server was lost while {stage}: {why}{}", hint(.stage))]
    Lost {
        /// Where the client stood.
        stage: ClientStage,
        /// What the connection ended with.
        why: String,
    },
    /// Not all clients were done in time.
    #[error("not all clients were done within {limit:?}: still {stage}{}", late(.stage))]
    Late {
        /// Where the client stood.
        stage: ClientStage,
        /// How long it might take.
        limit: Duration,
    },
    /// The client is one too many.
    #[error("this client has rank {rank}, and the session has {size} {}: the ranks are 0 to {}", if *.size == 1 { "client" } else { "clients" }, .size - 1)]
    Rank {
        /// The client's rank.
        rank: Rank,
        /// The number of clients.
        size: u32,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol while this client was {stage}: {wrong}")]
    Wrong {
        /// Where the client stood.
        stage: ClientStage,
        /// What the server said.
        wrong: Wrong,
    },
    /// What the clients have said does not go together.
    #[error("what the clients have said does not go together: {0}")]
    Learn(#[from] LearnError),
}

/// What a server must not say.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// A method that the client did not offer.
    #[error("it chose method {which} of AUTH, and this client offers mask {mask:#x}{}", stranger(*.which))]
    Method {
        /// The method's number.
        which: u32,
        /// The mask of the methods that were offered.
        mask: u32,
    },
    /// A length that cannot be, or would be more than the client takes.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// More bytes in all, the heads of commands among them, than the client takes.
    #[error("it has sent more than {0} bytes in all")]
    Bytes(usize),
    /// More that a client does not know, or knows already, than any honest server sends.
    #[error("it has sent more than {0} commands and labels that are not known here, or were known before")]
    Needless(u32),
    /// A payload that is not as long as its command's.
    #[error("{command} with {found} bytes, and it has {expected}")]
    Length {
        /// The command.
        command: Command,
        /// The length that it has.
        expected: usize,
        /// The length that came.
        found: usize,
    },
    /// A COLL without a label or a mask.
    #[error("COLL with {0} bytes, and its label and mask have 8")]
    Coll(usize),
    /// A number of clients that cannot be.
    #[error("IMPI says {0} clients; a session has 1 to {CLIENTS_MAX}")]
    Size(i32),
    /// A number of clients that changes.
    #[error("IMPI says {now} clients, and has said {before}")]
    Resized {
        /// What it said first.
        before: u32,
        /// What it says now.
        now: u32,
    },
    /// A command that has no place there.
    #[error("{0}, which has no place there")]
    Early(Command),
    /// Clients that there are not.
    #[error("COLL {label} has mask {mask:#x}, and there are {size} clients")]
    Mask {
        /// The label.
        label: Label,
        /// The mask.
        mask: u32,
        /// The number of clients.
        size: u32,
    },
    /// Values are missing that the client has sent.
    #[error("COLL {label} has mask {mask:#x} without client {rank}, which has sent values")]
    Dropped {
        /// The label.
        label: Label,
        /// The mask.
        mask: u32,
        /// The client itself.
        rank: Rank,
    },
    /// Values are there that the client has not sent.
    #[error("COLL {label} has mask {mask:#x} with client {rank}, which has left it out")]
    Invented {
        /// The label.
        label: Label,
        /// The mask.
        mask: u32,
        /// The client itself.
        rank: Rank,
    },
    /// A label is broadcast again only with the values of more clients.
    #[error("COLL {0} a second time")]
    Twice(Label),
    /// A label is broadcast when all have sent it, or have moved past it.
    #[error("COLL {0} before this client has sent it")]
    Unsent(Label),
    /// Values without a client.
    #[error("COLL {label} has mask 0, and {len} bytes of values")]
    Nobodys {
        /// The label.
        label: Label,
        /// How many bytes of values.
        len: usize,
    },
    /// A command of this project whose payload is none.
    #[error("{0}")]
    Relay(#[from] RelayError),
    /// A list of nodes that does not fit the clients.
    #[error(
        "NODES has {entries} entries, with a node for this client: {own}; there are {size} clients, and this one has said where its node is, or that it has none"
    )]
    Nodes {
        /// How many entries it has.
        entries: usize,
        /// The number of clients.
        size: u32,
        /// Whether there is a node for this client.
        own: bool,
    },
    /// DONE comes after everything.
    #[error("DONE without COLL {0}, which this client has sent; others of its kind were broadcast")]
    Unanswered(Label),
}

/// What says something else in the place of a method: those are bits of a mask.
fn stranger(which: u32) -> &'static str {
    if which >= u32::BITS { "; is it an IMPI server?" } else { "" }
}

/// What may be the cause of a connection that was closed.
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

/// What a server that is silent waits for.
fn late(stage: &ClientStage) -> &'static str {
    match stage {
        ClientStage::Auth => "; is it an IMPI server?",
        ClientStage::Impi => "; have all clients been started?",
        ClientStage::At(_) | ClientStage::Done => "; a client that does not go on keeps all others waiting",
        ClientStage::Over => "",
    }
}

//! The PMIx server of a node's processes, in a helper process.
//!
//! libpmix keeps one state for each process, is client or server, and ends its process on some errors. A node may be a
//! client of a launcher's server already. So the server runs in a process of its own.

#[cfg_attr(not(test), expect(dead_code, reason = "the helper process is added next"))]
mod codec;
mod orders;
mod protocol_error;

pub use codec::{Events, FRAME_MAX, TooLong, encode_order};
pub use orders::{
    ALL, Answer, Application, Event, Info, Job, NodeRanks, Order, Process, Upcall, Value, Variables,
};
pub use protocol_error::ProtocolError;

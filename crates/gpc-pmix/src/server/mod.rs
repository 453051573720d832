//! The PMIx server of a node's processes, in a helper process.
//!
//! libpmix keeps one state for each process, is client or server, and ends its process on some errors. A node may be a
//! client of a launcher's server already. So the server runs in a process of its own, whose standard input is a socket
//! of the node. The node sends [`Order`]s ([`encode_order`]) and receives [`Event`]s ([`Events`]); the helper calls
//! [`run`].
//!
//! If the node closes the socket, the helper ends the server, removes its files and exits. If the helper was killed,
//! the node calls [`remove_leftovers`].

mod codec;
mod collective;
mod folder;
mod helper;
mod job_data;
mod native;
mod open_mpi;
mod orders;
mod outbox;
mod pending;
mod protocol_error;
mod requests;
mod values;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

pub use codec::{Events, FRAME_MAX, TooLong, encode_order};
pub use folder::remove_leftovers;
pub use orders::{
    ALL, Answer, Application, Event, Info, Job, LOCAL_ONLY, LOCAL_STATUS, NodeRanks, Order, Process, Upcall,
    Value, Variables,
};
pub use protocol_error::ProtocolError;
pub use values::Items;

/// Runs a PMIx server in this process, until the node closes the socket. `host` is the name of this node in all jobs.
/// `own` is the libpmix that the programs bring, which is used instead of the system's if it has a known version.
///
/// # Errors
/// This process has more than one thread, the socket fails, or its bytes are invalid. If libpmix cannot be used, the
/// node receives [`Event::Failed`].
pub fn run(socket: OwnedFd, host: &str, own: Option<&Path>) -> io::Result<()> {
    native::libpmix::set_variables()?;
    helper::serve(socket, host, own)
}

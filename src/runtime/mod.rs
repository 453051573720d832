//! The runtime: drives the [chain](crate::chain) with sockets and threads.

mod address;
mod functions;
pub mod link;
mod request;

pub use address::{Address, AddressError, Peers, PeersError};
pub use functions::{
    CallbackHandle, FuncHandle, FunctionError, FunctionResult, Functions, FunctionsError, Phase,
};
pub use request::{ChildReply, Deferred, Request};

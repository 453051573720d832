//! The server side of libpmix: its calls, its upcalls, and their arguments.

mod copied;
mod info_array;
mod lent;
pub(super) mod libpmix;
mod replies;
pub(super) mod upcalls;

//! Links: from a connection of two nodes to the messages on it.
//!
//! [`Links`] are all links of a node: what goes on which, what waits for one, what a loss takes along. [`peering`]
//! decides who may link: hello, proof, incarnation, and which of two connections stands. A [`Link`] is the protocol on
//! one connection: credit, segments and their order, windows, signs of life. [`Inbox`] turns bytes into events, and
//! [`Outbox`] turns messages into bytes.
//!
//! Source: docs/wire.md. The module has no socket, no thread and no clock: bytes and the time come in; bytes and events
//! come out.
//!
//! The module is public for custom drivers and tools. It is exempt from semantic versioning: any release may change it,
//! except for the items that the crate root re-exports.

mod answers;
mod arriving;
mod closing;
mod coming_up;
mod deadline_queue;
mod deadlines;
mod event;

mod handing;
mod heeding;
mod holding;
mod inbox;
mod leave;
mod leaving;
mod links;
mod loss;
mod outbox;
mod output;
mod pace;
pub mod peering;
mod pending;
mod question;
mod refusing;
mod replies;
mod state;
mod table;

pub use closing::CLOSING_LIMIT;
pub use deadline_queue::{DeadlineOwner, DeadlineQueue};
pub use event::{Context, Event, Refused};
pub use handing::{Handover, Room};
pub use heeding::Heeded;
pub use inbox::{BODIES_MAX, Inbox};
pub use links::Links;
pub use loss::Loss;
pub use outbox::{Outbox, PARTS_MAX, UnsentRequests};
pub use output::{Arrival, LinksOutput, Lost};
pub use pending::{ForPeer, Pending};
pub use state::{HIWATER, Link, Phase};
pub use table::{FIRST, HasLink, Table};

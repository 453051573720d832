//! A link: a connection between two nodes.

mod inbox;
mod outbox;

pub use inbox::{Context, Event, Inbox};
pub use outbox::{Outbox, PARTS_MAX};

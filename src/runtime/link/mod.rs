//! A link: a connection between two nodes.

mod inbox;
mod outbox;

pub use inbox::{BODIES_MAX, Context, Event, Inbox};
pub use outbox::{Outbox, PARTS_MAX};

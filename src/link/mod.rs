//! Links: the connections between nodes, and the messages on them.
//!
//! [`Links`] manages all links of a node: which message goes on which link, what waits for a link, what a loss cancels.
//! [`peering`] decides which nodes may link: hello, proof, incarnation, and the choice between two connections. A
//! [`Link`] is the protocol on one connection: credit, segments, windows, heartbeats. [`Inbox`] parses bytes into
//! events, and [`Outbox`] serializes messages into bytes.
//!
//! Source: docs/wire.md. The module has no socket, no thread and no clock: bytes and the time come in; bytes and events
//! come out.
//!
//! The module is public for custom drivers and tools. It is exempt from semantic versioning: any release may change it,
//! except for the items that the crate root re-exports.

mod closing;
mod deadline_queue;
mod deadlines;
mod descriptor_passing;
mod event;
mod event_handling;
mod inbox;
mod link_setup;
mod links;
mod loss;
mod outbox;
mod output;
mod pace;
pub mod peering;
mod pending;
mod ping_state;
mod queue_limits;
mod receiving;
mod request_rejection;
mod response_parsing;
mod send_window;
mod sending;
mod state;
mod table;

pub use closing::CLOSING_LIMIT;
pub use deadline_queue::{DeadlineOwner, DeadlineQueue};
pub use descriptor_passing::{DescriptorRoom, DescriptorSender};
pub use event::{Context, Event, RefusedRequest};
pub use event_handling::EventEffects;
pub use inbox::{BODIES_MAX, Inbox};
pub use links::Links;
pub use loss::Loss;
pub use outbox::unsent::UnsentRequests;
pub use outbox::{Outbox, PARTS_MAX};
pub use output::{Arrival, LinksOutput, LostLink};
pub use pending::{Pending, PendingForPeer};
pub use state::{HIWATER, Link, Phase};
pub use table::{FIRST, HasLink, Table};

//! The connections of a node: of processes and commands, and those whose process is not yet identified.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::clients::Link;
use super::listeners::Listeners;
use super::sources::Source;
use super::unread::NodeUnread;
use crate::protocol::Attributes;
use crate::request::Client;

/// The connections, and the listeners that accept them.
pub(super) struct Links {
    pub(super) listeners: Listeners,
    pub(super) clients: BTreeMap<Client, Link>,
    /// Clients with requests or answers in this iteration.
    pub(super) touched: BTreeSet<Client>,
    /// PMI-2 node attributes.
    pub(super) attributes: Attributes,
    /// By number, in ascending order: the first one has waited longest.
    pub(super) unidentified: BTreeMap<u64, UnidentifiedConnection>,
    /// Size of the unread answers.
    pub(super) unread: Arc<NodeUnread>,
    /// Connections whose next request waits until the answers of other connections are read.
    pub(super) put_off: BTreeSet<Client>,
}

/// A connection at the port whose process is not yet identified, and the deadline for that.
pub(super) struct UnidentifiedConnection {
    pub(super) link: Link,
    pub(super) until: Duration,
}

impl Links {
    pub(super) fn new(listeners: Listeners) -> Links {
        Links {
            listeners,
            clients: BTreeMap::new(),
            touched: BTreeSet::new(),
            attributes: Attributes::new(),
            unidentified: BTreeMap::new(),
            unread: Arc::default(),
            put_off: BTreeSet::new(),
        }
    }

    /// The connection that a source belongs to; `None` for other kinds of sources.
    pub(super) fn of_source(&mut self, source: Source) -> Option<&mut Link> {
        match source {
            Source::Client(client) => self.clients.get_mut(&client),
            Source::Unidentified(number) => {
                self.unidentified.get_mut(&number).map(|unidentified| &mut unidentified.link)
            }
            _ => None,
        }
    }
}

//! The connections of a node: of processes and commands, and those whose process is not yet identified.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::clients::Link;
use super::doors::Doors;
use super::sources::Source;
use super::unread::Node as Unread;
use crate::request::Client;
use crate::speak::Attributes;

/// The connections, and the listeners that accept them.
pub(super) struct Links {
    pub(super) doors: Doors,
    pub(super) clients: BTreeMap<Client, Link>,
    /// Clients with requests or answers in this iteration.
    pub(super) touched: BTreeSet<Client>,
    /// PMI-2 node attributes.
    pub(super) attributes: Attributes,
    /// By number, in ascending order: the first one has waited longest.
    pub(super) unknown: BTreeMap<u64, Unknown>,
    /// Size of the unread answers.
    pub(super) unread: Arc<Unread>,
    /// Connections whose next request waits until the answers of other connections are read.
    pub(super) put_off: BTreeSet<Client>,
}

/// A connection at the port whose process is not yet identified, and the deadline for that.
pub(super) struct Unknown {
    pub(super) link: Link,
    pub(super) until: Duration,
}

impl Links {
    pub(super) fn new(doors: Doors) -> Links {
        Links {
            doors,
            clients: BTreeMap::new(),
            touched: BTreeSet::new(),
            attributes: Attributes::new(),
            unknown: BTreeMap::new(),
            unread: Arc::default(),
            put_off: BTreeSet::new(),
        }
    }

    /// The connection of a descriptor, if it is one of a connection.
    pub(super) fn of_source(&mut self, source: Source) -> Option<&mut Link> {
        match source {
            Source::Client(client) => self.clients.get_mut(&client),
            Source::Unknown(number) => self.unknown.get_mut(&number).map(|unknown| &mut unknown.link),
            _ => None,
        }
    }
}

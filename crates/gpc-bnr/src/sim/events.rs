//! Events of a world, in the order of their times.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;
use chained_gpc::wire::Message;

use super::faults::Fault;
use super::node::{ChainMessage, DomainMessage};
use crate::exit::Exit;
use crate::names::{GroupId, Member, Rank};
use crate::request::Client;
use crate::start_error::StartError;

/// A message in transit.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) epoch: u32,
    /// Start time of the sender, which identifies its run.
    pub(super) begun: u64,
    pub(super) message: Message,
}

/// An event. Events of a node carry its run, since the node may have been restarted.
#[derive(Debug)]
pub(super) enum Event {
    Arrive(Box<Parcel>),
    /// A node learns that the link to a peer is lost.
    Lost(Id, u32, Id, u32),
    DomainMessage(Id, u32, DomainMessage),
    ChainMessage(Id, u32, ChainMessage),
    /// A deadline of the chain or of the domain.
    Wakes(Id, u32, usize),
    /// The processes of a group are killed.
    Killed(Id, u32, GroupId, u8),
    /// The check of a group's processes has ended.
    Checked(Id, u32, GroupId, Vec<(Vec<Rank>, StartError)>),
    /// All processes of a group have been started, or could not be.
    Started(Id, u32, GroupId),
    Gone(Id, u32, Client),
    Runs(Member, Result<u32, StartError>),
    Dies(Member, Exit),
    Acts(Client),
    Fault(Fault),
    Begins(Id),
    Calm,
    Probe,
    Ends,
}

/// Pending events, by time. Events of the same time keep the order in which they were added.
#[derive(Default)]
pub(super) struct Queue {
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// The next event, and its time.
    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}

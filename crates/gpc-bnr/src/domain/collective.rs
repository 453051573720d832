//! State of collective requests: at the nodes of their members, and at the coordinator.

use std::collections::BTreeMap;

use chained_gpc::trees::Id;

use super::epochs::Epochs;
use super::events::{CallNumber, Serial, Token};
use super::timers::TimerKey;
use crate::fault::{Fault, FaultKind};
use crate::names::Member;
use crate::order::{Brought, Choice, Meeting, Purpose};
use crate::request::Answer;

/// All collective requests at this node.
#[derive(Default, Debug)]
pub(super) struct Collective {
    /// Counters of collective requests.
    pub(super) epochs: Epochs,
    /// Collective requests that members here have entered, or that a coordinator collects for.
    pub(super) meetings: BTreeMap<Meeting, Gathering>,
    /// Collective requests that have succeeded here and wait for the release of an earlier one, which delivers puts
    /// that they omit.
    pub(super) early: BTreeMap<Meeting, (Brought, Answer)>,
    /// Collective requests that this node coordinates.
    pub(super) collections: BTreeMap<Meeting, Collection>,
}

/// State of a collective request at one node.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) purpose: Purpose,
    /// The members here that have arrived and wait.
    pub(super) entered: BTreeMap<Member, Waiter>,
    /// The coordinator's order that waits for the members here.
    pub(super) collect: Option<Token>,
    /// Number of members here, once known.
    pub(super) expected: Option<usize>,
    /// A member here has another purpose, too many data or no time: the request can never complete.
    pub(super) wrong: bool,
    /// The coordinator, which may be unaware of the request, has been informed.
    pub(super) announced: bool,
    /// The coordinator has been informed that the request fails.
    pub(super) failed: bool,
}

/// A member that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) serial: Serial,
    /// Puts before this number belong to the request.
    pub(super) mark: u64,
    pub(super) limit: TimerKey,
    /// The data that it carries; it gets those of all members.
    pub(super) data: Option<Vec<u8>>,
    /// Its part in a split.
    pub(super) choice: Option<Choice>,
}

/// State of a collective request at its coordinator.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) purpose: Purpose,
    /// The nodes of the members, ordered by their first members.
    pub(super) nodes: Vec<Id>,
    /// The call that waits for the members at other nodes.
    pub(super) call: Option<CallNumber>,
    /// The reports of the other nodes, which arrive together.
    pub(super) replies: Option<BTreeMap<Id, (Brought, Vec<Choice>)>>,
    /// The collected puts, once all members have arrived and the purpose is being carried out.
    pub(super) acting: Option<Brought>,
    /// The collected choices of a split, until it is carried out.
    pub(super) choices: Vec<Choice>,
    /// The fault after a passed time limit; the request fails once the missing members are known.
    pub(super) late: Option<Fault>,
}

impl Collective {
    /// Whether no request is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.meetings.is_empty() && self.collections.is_empty()
    }

    /// Drops all requests, but not their counters.
    pub(super) fn drop_all(&mut self) {
        self.meetings.clear();
        self.early.clear();
        self.collections.clear();
    }
}

impl Gathering {
    pub(super) fn new(purpose: Purpose) -> Gathering {
        Gathering {
            purpose,
            entered: BTreeMap::new(),
            collect: None,
            expected: None,
            wrong: false,
            announced: false,
            failed: false,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        !self.wrong && self.expected == Some(self.entered.len())
    }
}

impl Collection {
    /// Whether the outcome is settled: the purpose is being carried out, or a time limit has passed.
    pub(super) fn is_decided(&self) -> bool {
        self.acting.is_some() || self.late.is_some()
    }
}

/// A purpose as text.
fn name_of(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Fence => "fence".into(),
        Purpose::Open => "open a group".into(),
        Purpose::Close(group) => format!("close {group}"),
        Purpose::Merge(first, second) => format!("merge {first} and {second}"),
        Purpose::Split => "split the group".into(),
    }
}

pub(super) fn mismatch(member: Member, here: &Purpose, there: &Purpose) -> Fault {
    let message = format!("{member} wants to {}, others of the set to {}", name_of(here), name_of(there));
    Fault::new(FaultKind::Mismatch, message)
}

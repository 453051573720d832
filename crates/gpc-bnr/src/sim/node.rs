//! A node of a world: a chain, and the state machine of a domain above it, as real nodes have them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use chained_gpc::chain::{self, Config as ChainConfig, Heartbeat, Start, Time};
use chained_gpc::trees::Id;
use chained_gpc::wire::{CallId, Reason};

use crate::domain::{CallNumber, Domain, Input, Token};
use crate::fault::Fault;
use crate::names::{GroupId, Rank};
use crate::order::{Order, Report};
use crate::start_error::StartError;

/// The name of the domain.
pub(super) const NAME: &str = "0123456789abcdef";

/// Most time that a request may be in transit: an adopter does not ask a node that began later.
const RESTART_MARGIN: Duration = Duration::from_secs(40);

/// A node process.
pub(super) struct Node {
    pub(super) up: bool,
    pub(super) run: u32,
    /// Start time in nanoseconds, unique among the runs of the id.
    pub(super) begun: u64,
    pub(super) chain: Box<chain::Node>,
    pub(super) part: Option<Part>,
    /// End time of its pause.
    pub(super) paused: u64,
    /// Its unanswered orders, by their calls.
    pub(super) orders: BTreeMap<CallId, Token>,
    /// Its own calls, by ticket.
    pub(super) calls: BTreeMap<u64, (CallNumber, Vec<Id>)>,
    pub(super) next_ticket: u64,
    pub(super) next_token: Token,
    /// Time of the last message in each queue: to the domain, to the chain.
    pub(super) last: [u64; 2],
    /// Next wake-up times: of the chain, of the domain.
    pub(super) wakes: [u64; 2],
}

/// The node's part in the domain.
pub(super) struct Part {
    pub(super) domain: Domain,
    /// Orders at the machine, and the receiver of each report.
    pub(super) reply_targets: BTreeMap<Token, ReplyTarget>,
    pub(super) inputs: VecDeque<Input>,
    /// Groups being started, with the results so far.
    pub(super) starting: BTreeMap<GroupId, Starting>,
}

/// Number of processes started together, and their results: process ids or errors.
type Starting = (usize, Vec<(Rank, Result<u32, StartError>)>);

pub(super) enum ReplyTarget {
    Deferred(CallId),
    Own(CallNumber),
}

/// A message from the domain's thread to the chain.
#[derive(Debug)]
pub(super) enum ChainMessage {
    Start(u64, Box<Start>),
    GiveUp(u64),
    Answered(CallId, Result<chain::Reply, Box<Reason>>),
}

/// A message from the chain to the domain's thread.
#[derive(Debug)]
pub(super) enum DomainMessage {
    Order(Token, Id, Box<Order>, CallId),
    Cancelled(Token),
    Called(u64, Vec<(Id, Result<Report, Fault>)>),
}

impl Node {
    /// A node process without a part in a domain, which begins at `now`.
    pub(super) fn new(id: Id, run: u32, now: u64, dead_after_us: u64) -> Node {
        // Unique, since it identifies the run.
        let begun = now * 1_000 + u64::from(run);
        let chain = chain::Node::new(ChainConfig {
            started: Time::from_nanos(now * 1_000),
            first_run: run == 0,
            restart_margin: RESTART_MARGIN,
            heartbeat: Some(Heartbeat::dead_after(Duration::from_micros(dead_after_us))),
            seed: 7,
            ..ChainConfig::new(id, begun)
        });
        Node {
            up: true,
            run,
            begun,
            chain: Box::new(chain),
            part: None,
            paused: 0,
            orders: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_ticket: 0,
            next_token: 0,
            last: [0; 2],
            wakes: [u64::MAX; 2],
        }
    }
}

impl Part {
    pub(super) fn new(domain: Domain) -> Part {
        Part { domain, reply_targets: BTreeMap::new(), inputs: VecDeque::new(), starting: BTreeMap::new() }
    }
}

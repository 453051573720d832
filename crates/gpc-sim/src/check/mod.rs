//! Checkers of worlds of calls, apart from the world that runs and from the code under test.
//!
//! A world reports [`Observation`]s: executions, messages, outcomes of calls, injected faults. Each checker judges from
//! those alone, so a test can feed it a doctored history. The checkers take trees from [`gpc_trees::edges`], once for
//! each call; another checker compares a tree with the definition of its name.

mod answers;
mod book;
mod bounds;
pub(crate) mod by_id;
mod causes;
mod content;
mod credit;
mod doubt;
mod execution;
mod faithful;
mod farewell;
mod jobs;
mod kept;
mod levels;
mod life;
mod limits;
mod memory;
mod merging;
mod parents;
mod progress;
mod refusals;
mod requests;
mod route;
mod shape;
mod statuses;
mod takes;
mod tokens;
mod turns;

pub(crate) use causes::{no_function, reason};
pub(crate) use content::{data, header, merged, part, reply_header};
pub use takes::Limits;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use gpc_trees::{Id, IdList, Tree};

use super::faults::Fault;
use book::Book;
use chained_gpc::chain::Job;
use chained_gpc::wire::message::{Answer, Merging, Response, SubtreeReply};
use chained_gpc::wire::{CallId, CauseKind, Failure, Message, Report, Stage};

/// A call as its caller plans it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All ids, the root first.
    pub ids: IdList,
    /// The tree over the list.
    pub tree: Tree,
    /// Whether the call continues without lost ids.
    pub partial: bool,
    /// Whether the root neither executes nor contributes.
    pub watch: bool,
    /// Whether replies are collected.
    pub reply_wanted: bool,
    /// Whether a callback that appends merges the replies, instead of aggregation.
    pub callback: bool,
    /// Whether ids forward before they execute.
    pub forward_first: bool,
    /// Bytes of the request's data.
    pub data_bytes: u32,
    /// Time limit, nanoseconds.
    pub limit_ns: u64,
    /// Bytes of each id's reply; it begins with the id, little-endian, as far as it fits.
    pub reply_bytes: u32,
    /// Further contents that distinguish this call from others.
    pub carries: Carries,
}

/// Contents of a call beside its data and replies, so that those of another call are detected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carries {
    /// Handle of func.
    pub func: u64,
    /// Handle of callback, in a call that has one.
    pub callback: u64,
    /// Bytes of the request's header.
    pub header_bytes: u32,
    /// Bytes of the header of each id's reply.
    pub reply_header_bytes: u32,
    /// Order in which callback merges.
    pub merging: Merging,
    /// Whether func takes the data as they arrive.
    pub as_they_come: bool,
}

impl Default for Carries {
    /// The usual handles, and no headers.
    fn default() -> Carries {
        Carries {
            func: 1,
            callback: 2,
            header_bytes: 0,
            reply_header_bytes: 0,
            merging: Merging::InListOrder,
            as_they_come: false,
        }
    }
}

/// Outcome of a call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The reply, or the failure.
    pub result: Result<Option<SubtreeReply>, Failure>,
    /// Status of each id, of a partial call that ended well.
    pub report: Option<Report>,
}

/// State that a node holds at some time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// Calls in flight.
    pub calls: usize,
    /// Answers retained for adopters.
    pub answers_kept: usize,
    /// Running jobs.
    pub jobs: usize,
    /// Whether a timer is set.
    pub deadline: bool,
    /// Whether the node has more to do at this time: its duties are judged after that.
    pub goes_on: bool,
    /// Bytes of memory, where they are counted.
    pub memory: u64,
    /// Bytes of these for retained answers.
    pub kept_bytes: u64,
    /// Leaked entries of its tables.
    pub strays: usize,
    /// Number of peers that it counts as linked, at most the true number.
    pub links: usize,
}

/// How a function ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionEnd {
    /// With its reply.
    Through,
    /// With a failure.
    Failed,
    /// It replies later.
    Deferred,
    /// A func that has taken the data so far, and continues when more arrive.
    Unfinished,
}

/// An observation of a world.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A call starts at its root.
    Started {
        /// Name of the call.
        call: CallId,
        /// Its plan.
        plan: Arc<Plan>,
    },
    /// func begins.
    Executed {
        /// The executing id.
        id: Id,
        /// The run of the id.
        run: u32,
        /// Name of the call.
        call: CallId,
    },
    /// A function begins, func or callback.
    Began {
        /// The executing id.
        id: Id,
        /// Name of the call.
        call: CallId,
        /// Limit of the call at this id, nanoseconds, if it is given.
        until: Option<u64>,
    },
    /// A function ends.
    Ran {
        /// The executing id.
        id: Id,
        /// Name of the call.
        call: CallId,
        /// How it ends.
        end: FunctionEnd,
    },
    /// A function that deferred its reply gives the reply or a failure, perhaps before it has ended.
    TokenUsed {
        /// The executing id.
        id: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A node sends a message.
    Sent {
        /// Sender.
        from: Id,
        /// Receiver.
        to: Id,
        /// The message.
        message: &'a Message,
    },
    /// The world itself sends a copy of a request.
    Forged {
        /// Claimed sender.
        from: Id,
        /// Receiver.
        to: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A job is given out.
    Job {
        /// The executing id.
        id: Id,
        /// The job.
        job: &'a Job,
    },
    /// An invalid request arrives from an id that has no part in the call.
    Misdirected {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A malformed answer leaves in place of a node's own.
    Malformed {
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
        /// Whether only the bytes of the reply are changed.
        garbled: bool,
    },
    /// A node receives a message.
    Received {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// The message.
        message: &'a Message,
    },
    /// A node learns that a peer is alive: a message without effect arrived, or the socket has taken bytes.
    Heard {
        /// The node.
        at: Id,
        /// The peer.
        from: Id,
    },
    /// A node informs the running functions of a call that the call has ended.
    Stopped {
        /// The node.
        id: Id,
        /// Name of the call.
        call: CallId,
    },
    /// All data of a request that was sent in pieces have arrived.
    DataCame {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// The head of a long reply is dropped because its receiver does not await one. Or the receiver asks for the head
    /// of a partial call, whose data it needs whole.
    HeadDropped {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A link of a node comes up.
    LinkUp {
        /// The node.
        at: Id,
        /// The peer.
        peer: Id,
    },
    /// The next data of a request were at their sender, and are dropped.
    DataGone {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
        /// Name of the call.
        call: CallId,
    },
    /// A request arrived.
    Requested {
        /// Receiver.
        at: Id,
        /// Sender.
        from: Id,
    },
    /// A node reports a request as consumed.
    Consumed {
        /// The node.
        at: Id,
        /// Sender of the request.
        from: Id,
    },
    /// Settings of heartbeats; without this observation they are off.
    Heartbeat {
        /// Interval, nanoseconds.
        every_ns: u64,
        /// Time of silence until death, nanoseconds.
        dead_after_ns: u64,
    },
    /// Limits of the nodes; without this observation there are none.
    Limits(Limits),
    /// Largest number of ids below silent ones that a node asks at a time; without this observation the default.
    Descendants(usize),
    /// A heartbeat request has left.
    PingLeft {
        /// Sender.
        at: Id,
        /// Receiver.
        peer: Id,
        /// Time at which it was sent, nanoseconds.
        asked_ns: u64,
    },
    /// A node gives up a silent peer.
    Abandoned {
        /// The node.
        at: Id,
        /// The peer.
        peer: Id,
    },
    /// The caller gives up a call.
    GivenUp {
        /// Name of the call.
        call: CallId,
    },
    /// An end of a link learned that it is lost.
    LinkEnded {
        /// The end.
        at: Id,
        /// The other end.
        peer: Id,
        /// Whether the link never came up.
        unreached: bool,
    },
    /// A fault takes effect.
    Injected {
        /// The fault.
        fault: Fault,
        /// Ids that it touches; all ids if empty.
        ids: &'a [Id],
    },
    /// A process ends.
    Ended {
        /// Its id.
        id: Id,
    },
    /// A paused process continues.
    Resumed {
        /// Its id.
        id: Id,
    },
    /// State that a node holds after an input, and its workers.
    Held {
        /// The node.
        id: Id,
        /// Its state.
        held: Held,
        /// Number of default workers, and of workers of the named executor.
        workers: [usize; 2],
    },
    /// Ids that a node reports as involved in its calls in flight.
    Involved {
        /// The node.
        id: Id,
        /// The involved ids.
        with: &'a BTreeSet<Id>,
    },
    /// Workers that a root reports as still needed by its call in flight.
    Needs {
        /// Name of the call.
        call: CallId,
        /// A bit for each class of workers.
        classes: u64,
    },
    /// A call ends at its root.
    Finished {
        /// Name of the call.
        call: CallId,
        /// Its outcome.
        outcome: &'a Outcome,
    },
    /// All faults and calls are over, and no event has woken a node for long; or no event is left.
    Quiet {
        /// State that each live process holds, with its id.
        held: &'a [(Id, Held)],
    },
}

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Name of the checker.
    pub checker: &'static str,
    /// Virtual time, nanoseconds.
    pub at_ns: u64,
    /// Description.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {}.{:03} us)", self.checker, self.what, self.at_ns / 1000, self.at_ns % 1000)
    }
}

/// Largest number of violations reported for a run: the first one matters, the rest may help.
const VIOLATIONS_MAX: usize = 32;

/// Collects violations.
struct Findings {
    at: u64,
    found: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, checker: &'static str, what: String) {
        if self.found.len() < VIOLATIONS_MAX {
            self.found.push(Violation { checker, at_ns: self.at, what });
        }
    }
}

/// Whether an id refuses any part in a request; if it knows the call from another parent, it continues for that one.
fn is_refusal(from: Id, response: &Response) -> bool {
    match &response.answer {
        Answer::Failed(failure) if failure.cause.id == from => matches!(
            (failure.cause.stage, failure.cause.kind),
            (Stage::Setup, CauseKind::SecondParent | CauseKind::AlreadyEnded | CauseKind::LostIncarnation)
        ),
        _ => false,
    }
}

/// Whether an id refuses a request because of a limit.
fn takes_no_more(from: Id, response: &Response) -> bool {
    use CauseKind::{Busy, NoMemory, OverLimit, ShuttingDown};
    match &response.answer {
        Answer::Failed(failure) if (failure.cause.id, failure.cause.stage) == (from, Stage::Setup) => {
            matches!(failure.cause.kind, Busy | NoMemory | OverLimit | ShuttingDown)
        }
        _ => false,
    }
}

/// Removes a range of keys from a map, without visiting the others.
pub(crate) fn forget<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, keys: RangeInclusive<K>) {
    while let Some((&key, _)) = map.range(keys.clone()).next() {
        map.remove(&key);
    }
}

/// Removes a range of keys from a set.
pub(crate) fn forget_keys<K: Ord + Copy>(set: &mut BTreeSet<K>, keys: RangeInclusive<K>) {
    while let Some(&key) = set.range(keys.clone()).next() {
        set.remove(&key);
    }
}

/// The lowest and the highest possible name of a call.
pub(crate) const NAMES: [CallId; 2] =
    [CallId { root: 0, sequence: 0 }, CallId { root: Id::MAX, sequence: u64::MAX }];

/// All checkers of one run.
pub struct Checkers {
    book: Book,
    route: route::Route,
    faithful: faithful::Faithful,
    bounds: bounds::Bounds,
    credit: credit::Credit,
    doubt: doubt::Doubt,
    farewell: farewell::Farewell,
    jobs: jobs::Jobs,
    kept: kept::Kept,
    life: life::Life,
    limits: limits::Limits,
    memory: memory::Memory,
    merging: merging::Merging,
    parents: parents::Parents,
    progress: progress::Progress,
    refusals: refusals::Refusals,
    requests: requests::Requests,
    statuses: statuses::Statuses,
    tokens: tokens::Tokens,
    turns: turns::Turns,
    findings: Findings,
}

impl Default for Checkers {
    fn default() -> Checkers {
        Checkers::new()
    }
}

impl Checkers {
    /// Checkers without observations.
    pub fn new() -> Checkers {
        let findings = Findings { at: 0, found: Vec::new() };
        Checkers {
            book: Book::default(),
            route: route::Route::default(),
            faithful: faithful::Faithful::default(),
            bounds: bounds::Bounds::default(),
            credit: credit::Credit::default(),
            doubt: doubt::Doubt::default(),
            farewell: farewell::Farewell::default(),
            jobs: jobs::Jobs::default(),
            kept: kept::Kept::default(),
            life: life::Life::default(),
            limits: limits::Limits::default(),
            memory: memory::Memory::default(),
            merging: merging::Merging::default(),
            parents: parents::Parents::default(),
            progress: progress::Progress::default(),
            refusals: refusals::Refusals::default(),
            requests: requests::Requests::default(),
            statuses: statuses::Statuses::default(),
            tokens: tokens::Tokens::default(),
            turns: turns::Turns::default(),
            findings,
        }
    }

    /// Handles an observation made at `at` nanoseconds. Each frequent kind gets specialized code, without the checkers
    /// that ignore it.
    pub fn observe(&mut self, at: u64, seen: &Observation<'_>) {
        use Observation::{Began, Consumed, Executed, Heard, Held, Ran, Received, Requested, Sent};
        match *seen {
            Held { id, held, workers } => self.judge(at, || Held { id, held, workers }),
            Sent { from, to, message } => self.judge(at, || Sent { from, to, message }),
            Received { at: id, from, message } => self.judge(at, || Received { at: id, from, message }),
            Requested { at: id, from } => self.judge(at, || Requested { at: id, from }),
            Consumed { at: id, from } => self.judge(at, || Consumed { at: id, from }),
            Executed { id, run, call } => self.judge(at, || Executed { id, run, call }),
            Began { id, call, until } => self.judge(at, || Began { id, call, until }),
            Ran { id, call, end } => self.judge(at, || Ran { id, call, end }),
            Heard { at: id, from } => self.judge(at, || Heard { at: id, from }),
            _ => self.judge(at, || seen),
        }
    }

    /// Builds the observation anew for every checker: passed by reference, the compiler would lose its kind.
    #[inline(always)]
    fn judge<'a, S: Borrow<Observation<'a>>>(&mut self, at: u64, seen: impl Fn() -> S) {
        let Checkers {
            book,
            route,
            faithful,
            bounds,
            credit,
            doubt,
            farewell,
            jobs,
            kept,
            life,
            limits,
            memory,
            merging,
            parents,
            progress,
            refusals,
            requests,
            statuses,
            tokens,
            turns,
            findings,
        } = self;
        findings.at = at;
        if requests.observe(seen().borrow(), findings) {
            // The message only shows that the peer is alive.
            if let Observation::Received { at: id, from, .. } = *seen().borrow() {
                life.observe(book, &Observation::Heard { at: id, from }, findings);
            }
            return;
        }
        book.note(at, seen().borrow(), findings);
        refusals.observe(book, seen().borrow(), findings);
        route.observe(book, seen().borrow(), findings);
        faithful.observe(book, seen().borrow(), findings);
        bounds.observe(book, seen().borrow(), findings);
        credit.observe(book, seen().borrow(), findings);
        doubt.observe(book, seen().borrow(), findings);
        farewell.observe(book, seen().borrow(), findings);
        jobs.observe(book, seen().borrow(), findings);
        kept.observe(book, seen().borrow(), findings);
        life.observe(book, seen().borrow(), findings);
        limits.observe(book, seen().borrow(), findings);
        memory.observe(book, seen().borrow(), findings);
        parents.observe(book, seen().borrow(), findings);
        progress.observe(book, seen().borrow(), findings);
        statuses.observe(book, seen().borrow(), findings);
        tokens.observe(book, seen().borrow(), findings);
        turns.observe(book, seen().borrow(), findings);
        levels::observe(book, seen().borrow(), findings);
        merging.observe(book, seen().borrow(), findings);
        execution::observe(book, seen().borrow(), findings);
        if let Observation::Finished { call, outcome } = seen().borrow() {
            answers::check(book, *call, outcome, findings);
            causes::check(book, *call, outcome, findings);
        }
    }

    /// Violations found so far.
    pub fn violations(&self) -> &[Violation] {
        &self.findings.found
    }

    /// Whether an id has no part in a call at another one: it is neither parent nor child, and cannot become one in a
    /// partial call.
    pub(crate) fn is_stranger(&self, call: CallId, at: Id, other: Id) -> bool {
        self.book.calls.get(&call).is_some_and(|record| record.is_stranger(at, other))
    }

    /// Whether these are the data of a call.
    pub(crate) fn is_data(&self, call: CallId, bytes: &bytes::Bytes) -> bool {
        self.book.calls.get(&call).is_some_and(|record| content::same(&record.data, bytes))
    }

    /// The data of a call.
    pub(crate) fn data_of(&self, call: CallId) -> Option<bytes::Bytes> {
        self.book.calls.get(&call).map(|record| record.data.clone())
    }

    /// How often each fault took effect.
    pub fn injected(&self) -> Vec<(Fault, u64)> {
        Fault::ALL
            .into_iter()
            .map(|fault| (fault, self.book.times(fault)))
            .filter(|(_, times)| *times > 0)
            .collect()
    }
}

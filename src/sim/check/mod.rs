//! What must hold of every run, checked apart from the world that runs it and from the code under test.
//!
//! A world tells what it sees as [`Observation`]s: who executed, what was sent, how a call ended, which fault was injected. From those alone each checker judges; a test may feed it a doctored history.
//! What a tree is, the checkers take from [`gpc_trees::edges`], once for a call; that it is the tree which its name promises is a checker's, too.

mod answers;
mod book;
mod bounds;
pub(in crate::sim) mod by_id;
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

pub(in crate::sim) use causes::{no_function, reason};
pub(in crate::sim) use content::{data, header, merged, part, reply_header};
pub use takes::Limits;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use gpc_trees::{Id, IdList, Tree};

use super::ahead::each;
use super::faults::Fault;
use crate::chain::Job;
use crate::wire::message::{Answer, Merging, Response, SubtreeReply};
use crate::wire::{CallId, CauseKind, Failure, Message, Report, Stage};
use book::Book;

/// A call as its caller means it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// All ids, the root first.
    pub ids: IdList,
    /// How the list is split.
    pub tree: Tree,
    /// It goes on without those that are lost.
    pub partial: bool,
    /// The root neither executes nor contributes.
    pub watch: bool,
    /// Replies are collected.
    pub reply_wanted: bool,
    /// Replies are merged by a callback that appends, instead of aggregated.
    pub callback: bool,
    /// Ids forward before they execute.
    pub forward_first: bool,
    /// Bytes of the request's data.
    pub data_bytes: u32,
    /// Time limit, nanoseconds.
    pub limit_ns: u64,
    /// Bytes of each id's reply: its id, little-endian, comes first as far as there is room.
    pub reply_bytes: u32,
    /// What else tells this call from others.
    pub carries: Carries,
}

/// What a call carries beside its data and its replies, so that nothing of one call can stand for that of another.
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
    /// In which order callback merges.
    pub merging: Merging,
    /// func takes the data as they come.
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

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The reply, or why there is none.
    pub result: Result<Option<SubtreeReply>, Failure>,
    /// Of a partial call that ended well: what became of each id.
    pub report: Option<Report>,
}

/// What a node holds at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// Calls in flight.
    pub calls: usize,
    /// Answers kept for an adopter.
    pub answers_kept: usize,
    /// Jobs running.
    pub jobs: usize,
    /// Whether a timer is set.
    pub deadline: bool,
    /// Whether it has more to do at this moment: what it owes is judged when it has done that.
    pub goes_on: bool,
    /// Bytes of its memory, where that is counted.
    pub memory: u64,
    /// Of these, what answers have taken that it keeps.
    pub kept_bytes: u64,
    /// Entries of its tables that belong to nothing.
    pub strays: usize,
    /// With how many peers it takes itself to be linked, at most as many as it is.
    pub links: usize,
}

/// How a function ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionEnd {
    /// With its reply.
    Through,
    /// With a failure.
    Failed,
    /// It answers later.
    Deferred,
    /// It is func, has taken what there was of its data, and goes on when more has come.
    Unfinished,
}

/// Something that a world saw.
#[derive(Clone, Debug)]
pub enum Observation<'a> {
    /// A call starts at its root.
    Started {
        /// Its name.
        call: CallId,
        /// What it is.
        plan: Arc<Plan>,
    },
    /// func begins.
    Executed {
        /// Where.
        id: Id,
        /// In which run of the id.
        run: u32,
        /// Of which call.
        call: CallId,
    },
    /// A function begins, func or callback.
    Began {
        /// Where.
        id: Id,
        /// Of which call.
        call: CallId,
        /// When the limit of its call passes there, nanoseconds, if it was told.
        until: Option<u64>,
    },
    /// A function ends.
    Ran {
        /// Where.
        id: Id,
        /// Of which call.
        call: CallId,
        /// How.
        end: FunctionEnd,
    },
    /// A function that has deferred its reply gives it, or says why there is none, perhaps before it has ended.
    TokenUsed {
        /// Where.
        id: Id,
        /// Of which call.
        call: CallId,
    },
    /// A node sends a message.
    Sent {
        /// Who.
        from: Id,
        /// To whom.
        to: Id,
        /// What.
        message: &'a Message,
    },
    /// The world itself sends a copy of a request.
    Forged {
        /// In whose name.
        from: Id,
        /// To whom.
        to: Id,
        /// Of which call.
        call: CallId,
    },
    /// A job is given out.
    Job {
        /// Where.
        id: Id,
        /// What.
        job: &'a Job,
    },
    /// What looks like a request and is none comes in, from one who has no part in the call.
    Misdirected {
        /// Where.
        at: Id,
        /// From whom.
        from: Id,
        /// Of which call.
        call: CallId,
    },
    /// A malformed answer leaves in place of what a node has said.
    Malformed {
        /// Whose.
        from: Id,
        /// Of which call.
        call: CallId,
        /// Whether it is as it was but for the bytes of its reply.
        garbled: bool,
    },
    /// A node is given a message.
    Received {
        /// Which.
        at: Id,
        /// From whom.
        from: Id,
        /// What.
        message: &'a Message,
    },
    /// A node hears of a peer, and nothing else: what came says nothing that counts, or its socket has taken bytes that had to wait.
    Heard {
        /// Which.
        at: Id,
        /// The peer.
        from: Id,
    },
    /// A node tells whoever still works for a call that it has ended.
    Stopped {
        /// Which.
        id: Id,
        /// Which call.
        call: CallId,
    },
    /// Data of a request that came in pieces have all come.
    DataCame {
        /// Where.
        at: Id,
        /// From whom.
        from: Id,
        /// Of which call.
        call: CallId,
    },
    /// A node is not given the head of a long reply, since it says that it does not await one; or it asks for that of a partial call, whose data it needs whole.
    HeadDropped {
        /// Which.
        at: Id,
        /// Whose.
        from: Id,
        /// Of which call.
        call: CallId,
    },
    /// A link of a node comes up.
    LinkUp {
        /// Which.
        at: Id,
        /// With whom.
        peer: Id,
    },
    /// What is to come next of the data of a request has been with its sender, and is not there any more.
    DataGone {
        /// Where it is awaited.
        at: Id,
        /// From whom.
        from: Id,
        /// Of which call.
        call: CallId,
    },
    /// A request came in.
    Requested {
        /// Where.
        at: Id,
        /// From whom.
        from: Id,
    },
    /// A node says that a request is consumed.
    Consumed {
        /// Where.
        at: Id,
        /// Whose request.
        from: Id,
    },
    /// How heartbeats are asked for; without this they are not.
    Heartbeat {
        /// How often, nanoseconds.
        every_ns: u64,
        /// How long a peer may be silent, nanoseconds.
        dead_after_ns: u64,
    },
    /// What nodes take at most; without this there is nothing that they refuse.
    Limits(Limits),
    /// How many ids below silent ones a node asks at a time at most; without this as many as one of the usual sizes.
    Descendants(usize),
    /// A heartbeat request has left.
    PingLeft {
        /// Whose.
        at: Id,
        /// For whom.
        peer: Id,
        /// When it was sent, nanoseconds.
        asked_ns: u64,
    },
    /// A node gives up a peer that sends no heartbeat.
    Abandoned {
        /// Which node.
        at: Id,
        /// The peer.
        peer: Id,
    },
    /// The caller gives up.
    GivenUp {
        /// Which call.
        call: CallId,
    },
    /// An end of a link learnt that it is lost.
    LinkEnded {
        /// The end.
        at: Id,
        /// The other one.
        peer: Id,
        /// Whether it never was up.
        unreached: bool,
    },
    /// A fault takes effect.
    Injected {
        /// Which.
        fault: Fault,
        /// On whom; on everybody if this is empty.
        ids: &'a [Id],
    },
    /// A process ends.
    Ended {
        /// Which.
        id: Id,
    },
    /// A process goes on after it stood still.
    Resumed {
        /// Which.
        id: Id,
    },
    /// What a node holds after an input, and how many jobs it may run.
    Held {
        /// Which.
        id: Id,
        /// What.
        held: Held,
        /// Jobs that may run: on the default workers, and on the executor with a name.
        workers: [usize; 2],
    },
    /// Whom a node counts as having part in the calls that are in flight there.
    Involved {
        /// Which node.
        id: Id,
        /// Whom.
        with: &'a BTreeSet<Id>,
    },
    /// Which workers a root says that its call in flight still needs.
    Needs {
        /// Which.
        call: CallId,
        /// A bit for each class of workers.
        classes: u64,
    },
    /// A call ends at its root.
    Finished {
        /// Which.
        call: CallId,
        /// How.
        outcome: &'a Outcome,
    },
    /// All faults and calls are over, and no timer and no message has come for long that could make a node look; or nothing is left to happen.
    Quiet {
        /// What each process that lives holds: its id and what it holds.
        held: &'a [(Id, Held)],
    },
}

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which checker says so.
    pub checker: &'static str,
    /// When, nanoseconds of virtual time.
    pub at_ns: u64,
    /// What, in words.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {}.{:03} us)", self.checker, self.what, self.at_ns / 1000, self.at_ns % 1000)
    }
}

/// Violations that one run reports: the first one matters, the rest may help.
const VIOLATIONS_MAX: usize = 32;

/// Where a checker puts what it finds.
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

/// Whether an id refuses to have anything to do with a request: a call that it knows from another parent goes on.
fn is_refusal(from: Id, response: &Response) -> bool {
    match &response.answer {
        Answer::Failed(failure) if failure.cause.id == from => matches!(
            (failure.cause.stage, failure.cause.kind),
            (Stage::Setup, CauseKind::SecondParent | CauseKind::AlreadyEnded | CauseKind::LostIncarnation)
        ),
        _ => false,
    }
}

/// Whether an id refuses a request since it takes no more of its kind.
fn takes_no_more(from: Id, response: &Response) -> bool {
    use CauseKind::{Busy, NoMemory, OverLimit, ShuttingDown};
    match &response.answer {
        Answer::Failed(failure) if (failure.cause.id, failure.cause.stage) == (from, Stage::Setup) => {
            matches!(failure.cause.kind, Busy | NoMemory | OverLimit | ShuttingDown)
        }
        _ => false,
    }
}

/// Drops what a map has under these keys, without a look at the others.
pub(in crate::sim) fn forget<K: Ord + Copy, V>(map: &mut BTreeMap<K, V>, keys: RangeInclusive<K>) {
    while let Some((&key, _)) = map.range(keys.clone()).next() {
        map.remove(&key);
    }
}

/// The same of a set.
pub(in crate::sim) fn forget_keys<K: Ord + Copy>(set: &mut BTreeSet<K>, keys: RangeInclusive<K>) {
    while let Some(&key) = set.range(keys.clone()).next() {
        set.remove(&key);
    }
}

/// The names that a call can have.
pub(in crate::sim) const NAMES: [CallId; 2] =
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
    /// Checkers that have seen nothing yet.
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

    /// Looks at one thing that happened at `at` nanoseconds. Each of the kinds that come often has code of its own, made for it alone, in which nothing is left of the checkers that do not look at it.
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

    /// Every checker is given the observation anew: of one that has been passed on by reference the compiler does not know any more which kind it is.
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
            // It changes nothing, but that somebody was heard.
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

    /// Something is to happen soon in a call at these ids: asks memory for what is known of them.
    pub(in crate::sim) fn expect(&self, call: CallId, ids: [Option<Id>; 2]) {
        let Some(record) = self.book.calls.get(&call) else { return };
        each(ids, |id| {
            let Some(place) = record.position(id) else { return };
            self.credit.expect(id);
            self.life.expect(id);
            let place = place as usize;
            record.expect(place);
            self.route.expect(call, place);
            self.faithful.expect(call, place);
            self.farewell.expect(call, place);
        });
    }

    /// The same of an id, whatever the call is.
    pub(in crate::sim) fn expect_of(&self, id: Id) {
        self.credit.expect(id);
        self.life.expect(id);
    }

    /// And sooner: what that names is needed, too.
    pub(in crate::sim) fn expect_parts(&self, id: Id) {
        self.life.expect_parts(id);
    }

    /// What must not be and was.
    pub fn violations(&self) -> &[Violation] {
        &self.findings.found
    }

    /// Whether an id has no part in what becomes of a call at another one: it is no parent or child of it, and in a partial call cannot become one.
    pub(in crate::sim) fn is_stranger(&self, call: CallId, at: Id, other: Id) -> bool {
        self.book.calls.get(&call).is_some_and(|record| record.is_stranger(at, other))
    }

    /// Whether these are the data of a call.
    pub(in crate::sim) fn is_data(&self, call: CallId, bytes: &bytes::Bytes) -> bool {
        self.book.calls.get(&call).is_some_and(|record| content::same(&record.data, bytes))
    }

    /// The data of a call.
    pub(in crate::sim) fn data_of(&self, call: CallId) -> Option<bytes::Bytes> {
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

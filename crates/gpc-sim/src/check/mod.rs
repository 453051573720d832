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
mod child_replies;
mod content;
mod credit;
mod doubt;
mod execution;
mod faithful;
mod farewell;
mod findings;
mod jobs;
mod lengths;
mod levels;
mod life;
mod limits;
mod memory;
mod merging;
mod node_limits;
mod observation;
mod parents;
mod plan;
mod progress;
mod record;
mod refusals;
mod refusing;
mod requests;
mod retained;
mod route;
mod run_queue;
mod shape;
mod statuses;
mod tokens;
mod traces;

pub(crate) use causes::{no_function, reason};
pub(crate) use content::{data, header, merged, part, reply_header};
pub use findings::Violation;
pub use node_limits::Limits;
pub use observation::{FunctionEnd, Held, Observation, Outcome};
pub use plan::{Carries, Plan};
pub(crate) use plan::{STREAMING, takes_as_they_come};

use std::borrow::Borrow;

use gpc_trees::Id;

use super::faults::Fault;
use book::Book;
use chained_gpc::wire::CallId;
use findings::Findings;

/// All checkers of one run.
pub struct Checkers {
    book: Book,
    rules: Rules,
    findings: Findings,
}

/// The rules that have a state of their own.
#[derive(Default)]
struct Rules {
    route: route::Route,
    faithful: faithful::Faithful,
    bounds: bounds::Bounds,
    besides: Besides,
    credit: credit::Credit,
    doubt: doubt::Doubt,
    farewell: farewell::Farewell,
    jobs: jobs::Jobs,
    retained: retained::RetainedAnswers,
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
    run_queue: run_queue::RunQueues,
}

/// The rules of what callers get besides the outcome.
#[derive(Default)]
struct Besides {
    child_replies: child_replies::ChildReplies,
    traces: traces::Traces,
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
        Checkers { book: Book::default(), rules: Rules::default(), findings }
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
        let Checkers { book, rules, findings } = self;
        let Rules {
            route,
            faithful,
            bounds,
            besides,
            credit,
            doubt,
            farewell,
            jobs,
            retained,
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
            run_queue,
        } = rules;
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
        besides.child_replies.observe(book, seen().borrow(), findings);
        besides.traces.observe(book, seen().borrow(), findings);
        credit.observe(book, seen().borrow(), findings);
        doubt.observe(book, seen().borrow(), findings);
        farewell.observe(book, seen().borrow(), findings);
        jobs.observe(book, seen().borrow(), findings);
        retained.observe(book, seen().borrow(), findings);
        life.observe(book, seen().borrow(), findings);
        limits.observe(book, seen().borrow(), findings);
        memory.observe(book, seen().borrow(), findings);
        parents.observe(book, seen().borrow(), findings);
        progress.observe(book, seen().borrow(), findings);
        statuses.observe(book, seen().borrow(), findings);
        tokens.observe(book, seen().borrow(), findings);
        run_queue.observe(book, seen().borrow(), findings);
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

    /// Whether these are the data of a call for an id.
    pub(crate) fn is_data(&self, call: CallId, id: Id, bytes: &bytes::Bytes) -> bool {
        self.data_of(call, id).is_some_and(|data| content::same(&data, bytes))
    }

    /// The data of a call for an id.
    pub(crate) fn data_of(&self, call: CallId, id: Id) -> Option<bytes::Bytes> {
        let record = self.book.calls.get(&call)?;
        Some(record.data_of(record.position(id)?))
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

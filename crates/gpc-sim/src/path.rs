//! Critical path of a call: the chain of waits that determines its duration.
//!
//! A call ends with the last answer that its root waits for. The sender of that answer had waited for its own last
//! answer, and so on, down to an id that waited for no child. From there the path is the route of its request.

use std::fmt;

use gpc_trees::Id;

/// One message of a critical path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Sender.
    pub from: Id,
    /// Receiver.
    pub to: Id,
    /// Whether it is a request, which travels down the tree.
    pub down: bool,
    /// Time at which the sender had it ready, nanoseconds since the start of the call.
    pub sent_ns: u64,
    /// Time at which the receiver had read it, nanoseconds since the start of the call.
    pub received_ns: u64,
    /// Part of that time spent waiting for busy processors and gaps, nanoseconds.
    pub queued_ns: u64,
    /// Time that the sender spent on functions before it, nanoseconds.
    pub worked_ns: u64,
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hop { from, to, sent_ns, received_ns, queued_ns, worked_ns, .. } = self;
        let kind = if self.down { "request" } else { "answer" };
        let wire = received_ns.saturating_sub(*sent_ns).saturating_sub(*queued_ns);
        write!(
            f,
            "{from} -> {to}  {kind}, received at {received_ns} ns: {worked_ns} ns of functions, {queued_ns} ns in queues, {wire} ns on the link"
        )
    }
}

/// For each id, its request and its last answer in the current call.
#[derive(Debug)]
pub(super) struct Paths {
    begun: u64,
    request: Vec<Mark>,
    last_answer: Vec<Mark>,
    /// Critical path of the slowest call.
    pub(super) slowest: Vec<Hop>,
}

/// One message. Two are kept for each of a million ids.
#[derive(Clone, Copy, Debug)]
struct Mark {
    peer: Id,
    /// Nanoseconds, at most four seconds.
    queued: u32,
    sent: u64,
    /// 0 if there was none: no world begins that early.
    received: u64,
}

const NONE: Mark = Mark { peer: 0, queued: 0, sent: 0, received: 0 };

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedMessage {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) down: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Time that it would have taken with idle processors.
    pub(super) alone: u64,
}

impl Paths {
    pub(super) fn new(n: u32) -> Paths {
        let none = || vec![NONE; n as usize];
        Paths { begun: 0, request: none(), last_answer: none(), slowest: Vec::new() }
    }

    /// Begins a call at its root; drops the data of the call before.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun = now;
        self.request.fill(NONE);
        self.last_answer.fill(NONE);
    }

    pub(super) fn record(&mut self, message: ReceivedMessage) {
        let ReceivedMessage { from, to, down, sent, received, alone } = message;
        let queued = u32::try_from((received - sent).saturating_sub(alone)).unwrap_or(u32::MAX);
        let marks = if down { &mut self.request } else { &mut self.last_answer };
        marks[to as usize] = Mark { peer: from, queued, sent, received };
    }

    /// Critical path of the call that has just ended at `root`.
    pub(super) fn critical(&self, root: Id) -> Vec<Hop> {
        let mut up = Vec::new();
        let mut id = root;
        // Each step goes one level down the tree, so the loop ends; the bound protects against a fault in the data.
        while let Some(mark) = known(&self.last_answer, id).filter(|_| up.len() <= self.request.len()) {
            up.push(self.hop(mark.peer, id, mark, false));
            id = mark.peer;
        }
        let mut path = Vec::new();
        while let Some(mark) = known(&self.request, id).filter(|_| path.len() <= self.request.len()) {
            path.push(self.hop(mark.peer, id, mark, true));
            id = mark.peer;
        }
        path.reverse();
        up.reverse();
        path.extend(up);
        let mut before = 0;
        for hop in &mut path {
            hop.worked_ns = hop.sent_ns.saturating_sub(before);
            before = hop.received_ns;
        }
        path
    }

    fn hop(&self, from: Id, to: Id, mark: Mark, down: bool) -> Hop {
        let since = |at: u64| at.saturating_sub(self.begun);
        let (sent_ns, received_ns) = (since(mark.sent), since(mark.received));
        Hop { from, to, down, sent_ns, received_ns, queued_ns: mark.queued.into(), worked_ns: 0 }
    }
}

fn known(marks: &[Mark], id: Id) -> Option<Mark> {
    marks.get(id as usize).copied().filter(|mark| mark.received > 0)
}

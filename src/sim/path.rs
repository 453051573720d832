//! The critical path of a call: the chain of waits that its time is made of.
//!
//! A call ends with the last answer that its root waits for; who sent that one had waited for its own last answer, and so on down to an id that waited for nobody; from there the path is the way on which its request came.

use std::fmt;

use gpc_trees::Id;

use super::ahead::soon;

/// One message of a critical path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Who sent it.
    pub from: Id,
    /// Who received it.
    pub to: Id,
    /// Whether it went down, as a request.
    pub down: bool,
    /// When the sender had it to send, nanoseconds since the call began.
    pub sent_ns: u64,
    /// When the receiver had taken it in.
    pub received_ns: u64,
    /// How much of that it waited for processors and gaps that others had taken.
    pub queued_ns: u64,
    /// How long the sender had taken before it, for functions.
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

/// The messages of the current call that count, by id.
#[derive(Debug)]
pub(super) struct Paths {
    begun: u64,
    request: Vec<Mark>,
    last_answer: Vec<Mark>,
}

/// One message; a million times two of them are kept.
#[derive(Clone, Copy, Debug)]
struct Mark {
    peer: Id,
    /// Nanoseconds, at most four seconds of them.
    queued: u32,
    sent: u64,
    /// 0 if there was none: no world begins that early.
    received: u64,
}

const NONE: Mark = Mark { peer: 0, queued: 0, sent: 0, received: 0 };

/// What a world says of a message that has come in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) down: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// What it would have taken with nobody in its way.
    pub(super) alone: u64,
}

impl Paths {
    pub(super) fn new(n: u32) -> Paths {
        let none = || vec![NONE; n as usize];
        Paths { begun: 0, request: none(), last_answer: none() }
    }

    /// Something is to come at an id soon.
    pub(super) fn expect(&self, id: Id) {
        soon(&self.request[id as usize]);
        soon(&self.last_answer[id as usize]);
    }

    /// A call begins at its root; what is known of the one before does not count.
    pub(super) fn begin(&mut self, now: u64) {
        self.begun = now;
        self.request.fill(NONE);
        self.last_answer.fill(NONE);
    }

    pub(super) fn came(&mut self, came: Came) {
        let Came { from, to, down, sent, received, alone } = came;
        let queued = u32::try_from((received - sent).saturating_sub(alone)).unwrap_or(u32::MAX);
        let marks = if down { &mut self.request } else { &mut self.last_answer };
        marks[to as usize] = Mark { peer: from, queued, sent, received };
    }

    /// The path of the call that has just ended at `root`.
    pub(super) fn critical(&self, root: Id) -> Vec<Hop> {
        let mut up = Vec::new();
        let mut id = root;
        // Each step goes one level down the tree, so no id comes twice; the bound is for the case that it does.
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

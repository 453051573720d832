//! Messages that arrive again after their link broke.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use crate::random::Random;
use chained_gpc::wire::{CallId, Message};

/// Largest number of messages of a link, for each direction, that may be repeated after it broke.
const REPEATABLE_MAX: usize = 4;

/// A message, and the runs of its sender and receiver.
#[derive(Debug)]
struct Repeatable {
    runs: [u32; 2],
    message: Message,
}

/// A repeated message.
#[derive(Debug)]
pub(crate) struct Repeat {
    pub(crate) from: Id,
    pub(crate) to: Id,
    pub(crate) runs: [u32; 2],
    pub(crate) message: Message,
}

/// Messages that may be repeated.
#[derive(Debug)]
pub(crate) struct Repeats {
    /// By sender and receiver, oldest first: at most [`REPEATABLE_MAX`] for each pair in use.
    sent: BTreeMap<(Id, Id), Vec<Repeatable>>,
    /// Requests of which no byte left before their link was lost, by sender, receiver and call.
    unsent: BTreeSet<(Id, Id, CallId)>,
    /// Time after which no link breaks by itself.
    until: u64,
}

impl Repeats {
    pub(super) fn new(until: u64) -> Repeats {
        Repeats { sent: BTreeMap::new(), unsent: BTreeSet::new(), until }
    }

    /// Stores a message that may be repeated, in a run that repeats some.
    pub(crate) fn remember(&mut self, now: u64, from: Id, to: Id, runs: [u32; 2], message: Message) {
        if now > self.until {
            self.sent = BTreeMap::new();
            return;
        }
        let sent = self.sent.entry((from, to)).or_default();
        if sent.len() == REPEATABLE_MAX {
            sent.remove(0);
        }
        // Most pairs of a large world have one or two.
        sent.reserve_exact(1);
        sent.push(Repeatable { runs, message });
    }

    /// Records requests that were queued when their link was lost, and of which no byte has left.
    pub(crate) fn never_left(&mut self, from: Id, to: Id, calls: &BTreeSet<CallId>) {
        self.unsent.extend(calls.iter().map(|call| (from, to, *call)));
    }

    /// Whether a message has been on a link, so that it may arrive again.
    pub(crate) fn has_left(&self, from: Id, to: Id, message: &Message) -> bool {
        let Message::Request(request) = message else { return true };
        !self.unsent.contains(&(from, to, request.call))
    }

    /// Draws the messages to repeat after a link broke, in any order.
    pub(crate) fn again(&mut self, random: &mut Random, a: Id, b: Id) -> Vec<Repeat> {
        let mut again = Vec::new();
        for (from, to) in [(a, b), (b, a)] {
            let sent = self.sent.remove(&(from, to)).unwrap_or_default();
            again.extend(sent.into_iter().map(|Repeatable { runs, message }| Repeat {
                from,
                to,
                runs,
                message,
            }));
        }
        random.shuffle(&mut again);
        again.truncate(random.below(again.len() as u64 + 1) as usize);
        again
    }
}

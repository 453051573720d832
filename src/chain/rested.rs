//! A node that waits, in little room: what it must not forget, without what it works with. A world of a million ids has one for each id that has nothing to do at the moment, and a few nodes that take turns at being one of them.

use gpc_trees::Id;

use super::kept::{Kept, KeptAnswers};
use super::liveness::{Liveness, Times};
use super::recent::Recent;
use super::time::sooner;
use super::waiting::{Waiting, bytes_of};
use super::{Config, Node, Time};
use crate::wire::CallId;
use crate::wire::budget::Budget;

/// What a [`Node`] goes on with that [can rest](Node::can_rest).
#[derive(Debug)]
pub struct Rested {
    next_sequence: u64,
    memory: Budget,
    /// The one call in flight, and the workers that run a job of it.
    call: Option<Waiting>,
    class: Option<u8>,
    /// Of most ids there is nothing else.
    remembered: Option<Box<Remembered>>,
    closed: bool,
}

/// What a node has beside a call in flight.
#[derive(Default, Debug)]
struct Remembered {
    /// Perhaps one that remembers nothing: its room is another node's then.
    recent: Option<Recent>,
    /// When heartbeats go out.
    heartbeats: Option<Times>,
    /// In place of that, where somebody is watched or pauses.
    liveness: Option<Box<Liveness>>,
    /// The one answer that is kept.
    only: Option<(CallId, Box<Kept>)>,
    /// In place of that, where several are, or their bytes are counted.
    kept: Option<Box<KeptAnswers>>,
    /// A job that runs for a call that has ended.
    left_behind: Option<Box<(u8, CallId)>>,
}

/// The boxes that a node has come out of with which it [has gone on](Node::go_on), for when it rests: each of a million nodes does so several times for a call.
#[derive(Default, Debug)]
pub(super) struct Boxes {
    remembered: Option<Box<Remembered>>,
    liveness: Option<Box<Liveness>>,
    kept: Option<Box<KeptAnswers>>,
}

/// Puts something into the box that is left, or a new one. What stands there, which is nothing, changes places with it: nothing is made and dropped for that.
fn boxed<T: Default>(left: &mut Option<Box<T>>, what: &mut T) -> Box<T> {
    let mut room = left.take().unwrap_or_default();
    std::mem::swap(&mut *room, what);
    room
}

/// Takes something out of its box, which is left; says whether there was anything.
fn unboxed<T>(left: &mut Option<Box<T>>, room: Option<Box<T>>, what: &mut T) -> bool {
    let Some(mut room) = room else { return false };
    std::mem::swap(&mut *room, what);
    *left = Some(room);
    true
}

/// Whose node one that takes turns is to be.
#[derive(Debug)]
pub struct Turn<M: FnOnce() -> Budget> {
    /// As [`Config::me`](super::Config::me), and so on.
    pub me: Id,
    /// The number of this run of it.
    pub incarnation: u64,
    /// When the run began.
    pub started: Time,
    /// Whether no run was before it.
    pub first_run: bool,
    /// What memory it has: asked of who has had no turn yet.
    pub memory: M,
}

impl Rested {
    fn remembered<'a, T>(&'a self, what: impl FnOnce(&'a Remembered) -> Option<T>) -> Option<T> {
        self.remembered.as_deref().and_then(what)
    }

    /// Where the parts lie that this names, and how many bytes each has: for a driver of many nodes that asks memory for them before [this goes on](Node::go_on).
    #[inline]
    pub fn parts(&self) -> [Option<(*const u8, usize)>; 3] {
        let [request, children] = self.call.as_ref().map_or([None, None], Waiting::parts);
        [request, children, self.remembered.as_deref().map(bytes_of)]
    }

    /// As [`Node::calls`].
    pub fn calls(&self) -> usize {
        usize::from(self.call.is_some())
    }

    /// As [`Node::jobs_running`].
    pub fn jobs_running(&self) -> usize {
        usize::from(self.class.is_some() || self.remembered(|it| it.left_behind.as_ref()).is_some())
    }

    /// As [`Node::next_deadline`].
    pub fn next_deadline(&self) -> Option<Time> {
        let forgets = self.remembered(|it| it.recent.as_ref()?.partial.next());
        if self.calls() == 0 && self.answers_kept() == 0 {
            return forgets;
        }
        let call = self.call.as_ref().map(Waiting::deadline);
        let kept = self.remembered(|it| it.kept.as_ref()?.next());
        let only = self.remembered(|it| it.only.as_ref()).map(|(_, kept)| kept.until);
        let asks = self.remembered(|it| it.liveness.as_ref()?.next());
        let next = self.remembered(|it| it.heartbeats.as_ref()).map(|times| times.next);
        sooner(sooner(call, sooner(asks, next)), sooner(forgets, sooner(kept, only)))
    }

    /// Answers that are kept for an adopter.
    pub fn answers_kept(&self) -> usize {
        let only = usize::from(self.remembered(|it| it.only.as_ref()).is_some());
        only + self.remembered(|it| it.kept.as_ref()).map_or(0, |kept| kept.len())
    }
}

impl Node {
    /// Whether little is in flight here: one call at most that was not started here, and the job that it has.
    pub fn can_rest(&self) -> bool {
        let spots = self.spots.as_ref().map_or(0, |spots| spots.len());
        let few = spots == 0 && self.tickets.is_empty() && self.calls.are_few();
        let due = self.calls.first().map(|call| (call.due(), call.request.call));
        few && self.load.is_empty() && self.runs.only().is_ok() && self.deadlines.only() == Ok(due)
    }

    /// Takes out what a node that [can rest](Self::can_rest) goes on with; of others the calls in flight are lost. When [something is due](Self::next_deadline), its driver is to have it go on then.
    pub fn rest(&mut self) -> Rested {
        let running = self.runs.only().unwrap_or_default();
        running.into_iter().for_each(|(_, call)| self.runs.done(call));
        let due = self.deadlines.only().unwrap_or_default();
        due.into_iter().for_each(|(at, call)| self.deadlines.forget(at, call));
        let own = |job: &(u8, CallId)| due.is_some_and(|(_, call)| call == job.1);
        let class = running.filter(own).map(|(class, _)| class);
        let left_behind = running.filter(|job| !own(job)).map(Box::new);
        self.spots = None;
        Rested {
            next_sequence: self.next_sequence,
            memory: std::mem::take(&mut self.config.memory),
            call: self.calls.take_first(),
            class,
            remembered: self.remember(left_behind),
            closed: self.closed,
        }
    }

    /// Takes out what there is beside a call in flight.
    fn remember(&mut self, left_behind: Option<Box<(u8, CallId)>>) -> Option<Box<Remembered>> {
        let (recent, watches, keeps) =
            (!self.recent.is_new(), !self.liveness.is_blank(), !self.kept.is_new());
        if !recent && !watches && !keeps && left_behind.is_none() {
            return None;
        }
        let mut remembered = self.boxes.remembered.take().unwrap_or_default();
        remembered.left_behind = left_behind;
        if recent {
            self.recent.release_room();
            let Config { seed, sizes, .. } = &self.config;
            let new = remembered.recent.get_or_insert_with(|| Recent::new(*seed, sizes));
            std::mem::swap(new, &mut self.recent);
        }
        if watches {
            remembered.heartbeats = self.liveness.take_times();
            let more = remembered.heartbeats.is_none();
            remembered.liveness = more.then(|| boxed(&mut self.boxes.liveness, &mut self.liveness));
        }
        if keeps {
            remembered.only = self.kept.take_only();
            let more = remembered.only.is_none();
            remembered.kept = more.then(|| boxed(&mut self.boxes.kept, &mut self.kept));
            self.kept.belong_to(Budget::default(), self.config.me);
        }
        Some(remembered)
    }

    /// Drops what a node that [can rest](Self::can_rest) remembers, and has no call in flight: nobody is to hear of it any more.
    pub fn rest_for_good(&mut self) {
        if !self.recent.is_new() {
            self.recent = Recent::new(self.config.seed, &self.config.sizes);
        }
        (self.liveness, self.spots) = (Liveness::default(), None);
        self.kept = KeptAnswers::of(Budget::default(), self.config.me);
        let left_behind = self.runs.only().unwrap_or_default();
        left_behind.into_iter().for_each(|(_, call)| self.runs.done(call));
    }

    /// Has a node that rests be another one: the one that `rested`, or a new one. All that take turns are configured alike but for what a turn says, and have one clock.
    pub fn go_on<M: FnOnce() -> Budget>(&mut self, turn: Turn<M>, rested: Option<Rested>) {
        let Turn { me, incarnation, started, first_run, memory } = turn;
        (self.config.me, self.config.incarnation) = (me, incarnation);
        (self.config.started, self.config.first_run) = (started, first_run);
        self.load.renew();
        let Some(rested) = rested else {
            (self.next_sequence, self.closed) = (incarnation, false);
            self.config.memory = memory();
            return self.kept.belong_to(self.config.memory.clone(), me);
        };
        let Rested { next_sequence, memory, call, class, remembered, closed } = rested;
        (self.next_sequence, self.closed, self.config.memory) = (next_sequence, closed, memory);
        let left_behind = self.remember_again(remembered);
        call.into_iter().for_each(|call| self.calls.put_first(call));
        let due = self.calls.first().map(|call| (call.due(), call.request.call));
        let own = class.zip(due).map(|(class, (_, call))| (class, call));
        let running = own.or(left_behind.map(|job| *job));
        running.into_iter().for_each(|(class, call)| self.runs.begin(class, call));
        match self.calls.first().is_some_and(|call| call.late) {
            true => due.into_iter().for_each(|(at, call)| self.deadlines.add_late(at, call)),
            false => due.into_iter().for_each(|(at, call)| self.deadlines.add(at, call)),
        }
    }

    /// Puts back what there is beside a call in flight, in place of what a node has that has done nothing; the job that was left behind is returned.
    fn remember_again(&mut self, remembered: Option<Box<Remembered>>) -> Option<Box<(u8, CallId)>> {
        let (mut left_behind, mut kept, mut only) = (None, None, None);
        if let Some(mut remembered) = remembered {
            if let Some(recent) = &mut remembered.recent {
                std::mem::swap(recent, &mut self.recent);
            }
            unboxed(&mut self.boxes.liveness, remembered.liveness.take(), &mut self.liveness);
            remembered.heartbeats.take().into_iter().for_each(|times| self.liveness.go_on(times));
            only = remembered.only.take();
            (kept, left_behind) = (remembered.kept.take(), remembered.left_behind.take());
            self.boxes.remembered = Some(remembered);
        }
        if !unboxed(&mut self.boxes.kept, kept, &mut self.kept) {
            self.kept.belong_to(self.config.memory.clone(), self.config.me);
        }
        only.into_iter().for_each(|only| self.kept.put_only(only));
        left_behind
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use gpc_trees::IdList;

    use super::*;
    use crate::chain::{Config, Input, JobResult, Output, Outputs, Reply};
    use crate::wire::{CallId, Message, Request};

    fn config() -> Config {
        Config::new(7, 100)
    }

    /// When the call of these tests must have ended.
    const DUE: Time = Time::from_nanos(1_000_000_005);

    fn turn(me: Id, incarnation: u64) -> Turn<fn() -> Budget> {
        Turn { me, incarnation, started: Time::default(), first_run: true, memory: Budget::unbounded }
    }

    fn rest(node: &mut Node) -> Rested {
        assert!(node.can_rest());
        node.rest()
    }

    /// What a node does about a request of this call.
    fn asked(node: &mut Node, call: CallId, partial: bool) -> Vec<Output> {
        let second = Duration::from_secs(1);
        let ids = IdList::range(7..8);
        let request = Request { partial, limit: second, left: second, ..Request::new(call, ids) };
        let mut outputs = Outputs::new();
        let message = Message::Request(Arc::new(request));
        node.input(Time::from_nanos(5), Input::Message { from: 3, message }, &mut outputs);
        outputs.drain().collect()
    }

    #[test]
    fn what_has_ended_here_is_known_after_a_rest() {
        for partial in [false, true] {
            let call = CallId { root: 0, sequence: 9 };
            let mut node = Node::new(config());
            assert!(asked(&mut node, call, partial).iter().any(|output| matches!(output, Output::Run(_))));
            assert_eq!((node.calls(), node.jobs_running()), (1, 1), "a function runs");
            let rested = rest(&mut node);
            assert_eq!((rested.calls(), rested.jobs_running(), rested.next_deadline()), (1, 1, Some(DUE)));
            assert_eq!((node.calls(), node.jobs_running(), node.next_deadline()), (0, 0, None));
            // Another id of the same world has its turn.
            node.go_on(turn(8, 200), None);
            assert_eq!(rest(&mut node).calls(), 0);
            node.go_on(turn(7, 100), Some(rested));
            assert_eq!((node.calls(), node.jobs_running(), node.next_deadline()), (1, 1, Some(DUE)));
            let mut outputs = Outputs::new();
            let result = JobResult::Replied(Reply::default());
            node.input(Time::from_nanos(6), Input::Ran { call, result }, &mut outputs);
            assert_eq!(node.calls(), 0);
            let (due, rested) = (node.next_deadline(), rest(&mut node));
            assert_eq!((rested.answers_kept(), rested.next_deadline()), (usize::from(partial), due));
            node.go_on(turn(7, 100), Some(rested));
            assert_eq!((node.next_deadline(), due.is_some()), (due, partial));
            if partial {
                let message = Message::Release(call);
                outputs.clear();
                node.input(Time::from_nanos(7), Input::Message { from: 3, message }, &mut outputs);
                assert_eq!((node.answers_kept(), node.next_deadline()), (0, None));
                let rested = rest(&mut node);
                node.go_on(turn(7, 100), Some(rested));
            }
            let again = asked(&mut node, call, partial);
            assert!(!again.iter().any(|output| matches!(output, Output::Run(_))), "{again:?}");
            let next = CallId { root: 0, sequence: 10 };
            assert!(asked(&mut node, next, partial).iter().any(|output| matches!(output, Output::Run(_))));
        }
    }
}

//! The run queue: functions and callbacks that are ready, and how many may run at once.
//!
//! Source: the ARMCI design of chained GPC (2007), "Internal implementation details" 4: only setup interrupts func and
//! callback, so one of them runs at a time at a node. Beyond the source, a node may have more workers, and named
//! classes of workers, so that functions of one class never wait for those of another. A call has at most one entry, so
//! the calls in flight bound the queue.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::slot::Slot;
use crate::wire::CallId;

/// Words for a function that waits, and for one that did.
const WAITS: &str = " waits for ";
const WAITED: &str = " waited for ";

/// A position in the queue of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct QueuePosition {
    class: u8,
    number: u64,
}

/// A running function.
#[derive(Debug)]
struct Running {
    call: CallId,
    class: u8,
    /// What it waits for, or last waited for, as text. The last wait counts because a call that inherits the remaining
    /// time ends a moment before the call that made it.
    waits: Option<Box<str>>,
}

/// The calls whose next job is ready, first come, first served in each class of workers. Class 0 is the default
/// workers; named executors follow.
#[derive(Debug)]
pub(super) struct RunQueue {
    classes: SmallVec<[Queue; 1]>,
    next: u64,
    /// At most as many as there are workers.
    running: Vec<Running>,
}

/// One class of workers and its queue.
#[derive(Debug)]
struct Queue {
    /// The next call: mostly the only one, which needs no allocation.
    first: Option<(u64, Slot)>,
    /// Further calls, in order.
    rest: VecDeque<(u64, Slot)>,
    running: usize,
    workers: usize,
}

impl Queue {
    fn new(workers: usize) -> Queue {
        Queue { first: None, rest: VecDeque::new(), running: 0, workers: workers.max(1) }
    }
}

impl RunQueue {
    /// Returns a queue with this number of workers for each class; the default class comes first.
    pub(super) fn new(workers: impl Iterator<Item = usize>) -> RunQueue {
        RunQueue { classes: workers.map(Queue::new).collect(), next: 0, running: Vec::new() }
    }

    /// Returns the class, or the default class if this node does not have it.
    fn class(&self, class: u8) -> u8 {
        if usize::from(class) < self.classes.len() { class } else { 0 }
    }

    /// Queues a call for a class; the position is for [`leave`](Self::leave).
    pub(super) fn enter(&mut self, class: u8, call: Slot) -> QueuePosition {
        let (class, number) = (self.class(class), self.next);
        self.next += 1;
        let queue = &mut self.classes[usize::from(class)];
        match queue.first {
            None => queue.first = Some((number, call)),
            Some(_) => queue.rest.push_back((number, call)),
        }
        QueuePosition { class, number }
    }

    /// Removes a call from the queue.
    pub(super) fn leave(&mut self, position: QueuePosition) {
        let queue = &mut self.classes[usize::from(position.class)];
        if queue.first.is_some_and(|(first, _)| first == position.number) {
            queue.first = queue.rest.pop_front();
        } else if let Ok(place) = queue.rest.binary_search_by_key(&position.number, |(number, _)| *number) {
            queue.rest.remove(place);
        }
    }

    /// Returns the next call to run, and its class, if a worker of that class is free. The caller [begins](Self::begin)
    /// it, or leaves the worker free.
    pub(super) fn take(&mut self) -> Option<(u8, Slot)> {
        let free = |queue: &Queue| queue.running < queue.workers && queue.first.is_some();
        let class = self.classes.iter().position(free)?;
        let queue = &mut self.classes[class];
        let (_, call) = queue.first.take()?;
        queue.first = queue.rest.pop_front();
        Some((class as u8, call))
    }

    /// Records that a job of a call runs, until [`done`](Self::done).
    pub(super) fn begin(&mut self, class: u8, call: CallId) {
        self.classes[usize::from(class)].running += 1;
        self.running.push(Running { call, class, waits: None });
    }

    /// Records that the job of a call has ended.
    pub(super) fn done(&mut self, call: CallId) {
        if let Some(place) = self.running.iter().position(|running| running.call == call) {
            let Running { class, .. } = self.running.swap_remove(place);
            let queue = &mut self.classes[usize::from(class)];
            queue.running = queue.running.saturating_sub(1);
        }
    }

    /// Records what the function of a call waits for, or that it stopped waiting.
    pub(super) fn waits(&mut self, call: CallId, what: Option<Box<str>>) {
        if let Some(running) = self.running.iter_mut().find(|running| running.call == call) {
            running.waits = match (what, running.waits.take()) {
                (None, Some(before)) => Some(before.replace(WAITS, WAITED).into()),
                (what, _) => what,
            };
        }
    }

    /// Returns what the function of a call waits for.
    pub(super) fn awaited_by(&self, call: CallId) -> Option<&str> {
        self.running.iter().find(|running| running.call == call)?.waits.as_deref()
    }

    /// Returns what a running function of the position's class waits for, if any: that function blocks the worker.
    pub(super) fn awaited_before(&self, position: QueuePosition) -> Option<&str> {
        let mut waits = self.running.iter().filter(|running| running.class == position.class);
        waits.find_map(|running| running.waits.as_deref())
    }

    /// Frees the memory of past entries.
    pub(super) fn release_spare_memory(&mut self) {
        self.classes.iter_mut().for_each(|queue| queue.rest.shrink_to_fit());
        self.running.shrink_to_fit();
    }

    /// Whether no job of the default workers runs or waits.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        self.classes.first().is_some_and(|queue| queue.running == 0 && queue.first.is_none())
    }

    /// Number of calls in the queues.
    pub(super) fn waiting(&self) -> usize {
        self.classes.iter().map(|queue| usize::from(queue.first.is_some()) + queue.rest.len()).sum()
    }

    /// Number of jobs that have started and not ended.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(sequence: u64) -> CallId {
        CallId { root: 0, sequence }
    }

    proptest! {
        /// In each class, first come, first served, for any removals; and at most as many run as there are workers.
        #[test]
        fn they_are_queues_with_workers(
            workers in proptest::collection::vec(1usize..4, 1..4),
            deeds in proptest::collection::vec((0u8..5, 0u8..4, 0usize..6), 0..200),
        ) {
            let mut run_queue = RunQueue::new(workers.iter().copied());
            let mut queues = vec![Vec::new(); workers.len()];
            let mut running: Vec<(u8, CallId)> = Vec::new();
            for (place, (deed, class, which)) in (0u32..).zip(deeds) {
                let known = if usize::from(class) < workers.len() { class } else { 0 };
                let queue: &mut Vec<(QueuePosition, Slot)> = &mut queues[usize::from(known)];
                match deed {
                    0 | 1 => queue.push((run_queue.enter(class, Slot(place)), Slot(place))),
                    2 if which < queue.len() => run_queue.leave(queue.remove(which).0),
                    2 => {}
                    3 if which < running.len() => run_queue.done(running.remove(which).1),
                    3 => {}
                    _ => {
                        let busy = |class: usize| running.iter().filter(|(of, _)| usize::from(*of) == class).count();
                        let free = |class: &usize| busy(*class) < workers[*class] && !queues[*class].is_empty();
                        let next = (0..workers.len()).find(free).map(|class| (class as u8, queues[class].remove(0).1));
                        prop_assert_eq!(run_queue.take(), next);
                        if let Some((class, slot)) = next {
                            run_queue.begin(class, call(slot.0.into()));
                            running.push((class, call(slot.0.into())));
                        }
                    }
                }
                prop_assert_eq!(run_queue.running(), running.len());
                let default = running.iter().any(|(class, _)| *class == 0) || !queues[0].is_empty();
                prop_assert_eq!(run_queue.is_idle(), !default);
            }
        }
    }

    #[test]
    fn a_waiting_function_is_known_to_the_calls_behind_it() {
        let mut run_queue = RunQueue::new([1, 1].into_iter());
        let positions =
            [run_queue.enter(0, Slot(1)), run_queue.enter(0, Slot(2)), run_queue.enter(1, Slot(3))];
        let (class, _) = run_queue.take().unwrap();
        run_queue.begin(class, call(1));
        run_queue.waits(call(1), Some("`a` waits".into()));
        assert_eq!((run_queue.awaited_by(call(1)), run_queue.awaited_by(call(2))), (Some("`a` waits"), None));
        assert_eq!(
            (run_queue.awaited_before(positions[1]), run_queue.awaited_before(positions[2])),
            (Some("`a` waits"), None)
        );
        run_queue.waits(call(1), Some("`a` waits for `b`".into()));
        run_queue.waits(call(1), None);
        assert_eq!(run_queue.awaited_before(positions[1]), Some("`a` waited for `b`"));
    }
}

//! Functions that the driving thread runs outside the event loop: which one is next, and what follows its end.
//!
//! Source: the leader/followers pattern (Schmidt and others, 2000); [`lead`](super::lead) has the threads.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use gpc_trees::Id;

use super::event_loop::{EventLoop, SLEEP_MAX};
use super::executor::WorkerJob;
use super::functions::Entry;
use super::loop_state::UNBOUNDED;
use super::short_jobs::{ShortJob, ShortRan, ShortSource, WAITING_MAX};
use super::waiting;
use crate::chain::{Asker, Begun, Input, Reply};
use crate::link::Phase;
use crate::link::peering::LinkKey;
use crate::wire::CallId;

/// What the driving thread is to run outside the loop.
pub(super) enum Outside {
    /// A job of the chain.
    Job(WorkerJob),
    /// The function of a short request, with room for its reply.
    Short(Arc<ShortJob>, Reply),
}

/// What has come of it.
pub(super) enum Ran {
    Job(Input),
    Short(ShortRan),
}

impl Ran {
    /// The same as an input of the chain, where another thread has taken the loop.
    pub(super) fn into_input(self) -> Input {
        match self {
            Ran::Job(input) => input,
            Ran::Short(ran) => ran.into_input(),
        }
    }
}

impl EventLoop {
    /// Turns until a default function is to run outside the loop; `None` when the node has ended.
    #[inline(never)]
    pub(super) fn run_until_function(&mut self) -> io::Result<Option<Outside>> {
        self.mailbox.waiters.drive();
        waiting::driving(|| {
            while !self.has_ended() {
                // After a function, what has come meanwhile has its turn before the next one.
                if !std::mem::take(&mut self.short.has_run)
                    && let Some(next) = self.next_outside()
                {
                    return Ok(Some(next));
                }
                self.turn(SLEEP_MAX, UNBOUNDED)?;
            }
            Ok(None)
        })
    }

    /// What is to run outside the loop, if anything is.
    #[inline]
    fn next_outside(&mut self) -> Option<Outside> {
        if let Some(job) = self.executor.take_due() {
            return Some(Outside::Job(job));
        }
        // Ends: each round takes one out.
        while let Some(mut source) = self.short.waiting.pop_front() {
            source.waited_until(self.clock.now());
            match self.begin_short(source) {
                Ok((job, own)) => {
                    self.short.running = Some(job.clone());
                    return Some(Outside::Short(job, own));
                }
                Err(source) => {
                    self.take_in_general(source);
                    self.write();
                }
            }
        }
        self.executor.take_due().map(Outside::Job)
    }

    /// It is still to run.
    pub(super) fn put_back(&mut self, next: Outside) {
        match next {
            Outside::Job(job) => self.executor.put_back(job),
            Outside::Short(job, _) => {
                self.short.running = None;
                let source = Arc::into_inner(job).map(|job| job.source);
                source.into_iter().for_each(|source| self.short.waiting.push_front(source));
            }
        }
    }

    /// It runs on a worker, as all default functions do from now on.
    pub(super) fn hand_to_worker(&mut self, next: Outside) {
        self.executor.leads_no_more();
        self.put_back(next);
        if let Some(job) = self.executor.take_due() {
            self.executor.hand_to_worker(job);
        }
        waiting::driving(|| {
            self.take_in_waiting(|_| true);
            self.write();
        });
    }

    /// Writes what has been queued on the links outside a turn.
    fn write(&mut self) {
        self.take_in();
        self.connections.flush(&self.clock);
        self.take_in();
    }

    /// The thread that drives the node leaves it for a while.
    pub(super) fn leave(&mut self) {
        self.mailbox.waiters.leave();
    }

    /// The thread that drives the node is back, with the result of a function; what follows from that is written.
    pub(super) fn come_back(&mut self, ran: Ran) {
        self.mailbox.waiters.drive();
        waiting::driving(|| {
            self.clock.go_on();
            self.short.has_run = true;
            self.executor.last_was_short();
            match ran {
                // What the function has sent, such as the reply of its token, comes before its result.
                Ran::Job(ran) if self.has_mail() => return self.mailbox.result(ran),
                Ran::Job(ran) => {
                    self.executor.heed(&ran);
                    self.apply(ran);
                }
                Ran::Short(ran) => {
                    self.short.running = None;
                    self.short_has_run(ran);
                }
            }
            self.write();
        });
    }

    /// Another thread drives the node from now on, since its function is long.
    pub(super) fn was_taken(&mut self) {
        self.clock.go_on();
        self.executor.last_was_long();
        let Some(job) = self.short.running.take() else { return };
        let Some(request) = job.request() else { return };
        self.executor.overran(job.call, job.run.clone());
        if let ShortSource::Frame { key, .. } = &job.source
            && let Some(link) = self.connections.links.table.link_mut(*key)
        {
            // It counts as consumed when the function has run.
            link.unacknowledged += 1;
        }
        waiting::driving(|| {
            self.node.spot_overran(job.source.asker(), request, job.begun, &mut self.outputs);
            self.settle();
            // They wait for a worker now.
            self.take_in_waiting(|_| true);
            self.write();
        });
    }

    /// Begins a short request whose turn has come.
    ///
    /// # Errors
    /// The request, if it takes the general path.
    fn begin_short(&mut self, source: ShortSource) -> Result<(Arc<ShortJob>, Reply), ShortSource> {
        let mut room = std::mem::take(&mut self.calls.ids_room);
        let begun = self.begins(&source, &mut room);
        self.calls.ids_room = room;
        let Some((call, alone, entry)) = begun else { return Err(source) };
        let lent = if alone { self.node.spot_alone() } else { self.node.spot_room() };
        let Some((ids, own)) = lent else { return Err(source) };
        let (ids, own) = (ids.clone(), std::mem::take(own));
        self.executor.runs_outside();
        let begun = self.clock.time();
        Ok((Arc::new(ShortJob { source, call, ids, entry, run: Arc::default(), begun }), own))
    }

    /// Whether a short request begins on the fast path: its call, whether nobody is below, and the function.
    fn begins(&mut self, source: &ShortSource, room: &mut Vec<u8>) -> Option<(CallId, bool, Entry)> {
        if let ShortSource::Frame { key, parent, .. } = source
            && !self.is_up(*key, *parent)
        {
            return None;
        }
        let EventLoop { node, executor, clock, .. } = self;
        match source {
            ShortSource::Frame { parent, .. } => {
                // A frame has the name of its call.
                let short = source.short(CallId { root: 0, sequence: 0 }, room)?;
                let entry = executor.entry_outside(short.plan.func())?;
                let begun = node.spot_begins(|| clock.time(), *parent, &short);
                (begun != Begun::Unusual).then(|| (short.particulars.call, begun == Begun::Alone, entry))
            }
            ShortSource::Start { start, data, .. } => {
                let entry = executor.entry_outside(start.func)?;
                let short = node.spot_starts(clock.time(), start, data, room)?;
                Some((short.particulars.call, false, entry))
            }
        }
    }

    /// The function of a short request has run.
    fn short_has_run(&mut self, ShortRan { job, own, result }: ShortRan) {
        let mut room = std::mem::take(&mut self.calls.ids_room);
        if let Some(short) = job.source.short(job.call, &mut room) {
            let of = &short.particulars;
            match job.source {
                ShortSource::Frame { key, .. } if job.ids.len() == 1 => {
                    if let Some((_, lent)) = self.node.spot_alone() {
                        *lent = own;
                    }
                    self.answer_alone(key, job.call, result);
                }
                ShortSource::Frame { key, parent, .. } => {
                    if let Some((_, lent)) = self.node.spot_room() {
                        *lent = own;
                    }
                    self.ran_with_children((key, parent), of, result);
                }
                ShortSource::Start { ticket, .. } => {
                    if let Some((_, lent)) = self.node.spot_room() {
                        *lent = own;
                    }
                    self.ran_at_root(Asker::Here { ticket, watch: false }, of, result);
                }
            }
        }
        self.calls.ids_room = room;
    }

    fn is_up(&self, key: LinkKey, parent: Id) -> bool {
        let link = self.connections.links.table.link(key);
        link.is_some_and(|link| link.phase == Phase::Up(parent))
    }

    /// Whether the function of a short request is to run outside the loop, at the end of the turn.
    pub(super) fn runs_outside(&mut self, func: u64) -> bool {
        let waiting = self.short.waiting.len();
        waiting < WAITING_MAX
            && self.node.default_workers_are_idle()
            && self.executor.outside(func, waiting).is_some()
    }

    /// What waits of this link takes the general path, before what has come behind it.
    #[inline]
    pub(super) fn take_in_frames(&mut self, of: LinkKey) {
        if !self.short.waiting.is_empty() {
            self.take_in_waiting(|source| matches!(source, ShortSource::Frame { key, .. } if *key == of));
        }
    }

    /// The calls that wait to be started take the general path.
    #[inline]
    pub(super) fn take_in_starts(&mut self) {
        if !self.short.waiting.is_empty() {
            self.take_in_waiting(|source| matches!(source, ShortSource::Start { .. }));
        }
    }

    #[cold]
    fn take_in_waiting(&mut self, which: impl Fn(&ShortSource) -> bool) {
        let (taken, left) = std::mem::take(&mut self.short.waiting).into_iter().partition(|it| which(it));
        self.short.waiting = left;
        let taken: VecDeque<ShortSource> = taken;
        let now = self.clock.now();
        for mut source in taken {
            source.waited_until(now);
            self.take_in_general(source);
        }
    }

    /// A short request takes the general path.
    fn take_in_general(&mut self, source: ShortSource) {
        match source {
            // With its link it is lost.
            ShortSource::Frame { key, parent, .. } if !self.is_up(key, parent) => {}
            // It was read before, so it is right.
            ShortSource::Frame { key, bytes, .. } => {
                if let Err(error) = self.feed(key, &bytes, true) {
                    self.connections.close(self.clock.time(), key, &error.to_string());
                }
            }
            ShortSource::Start { ticket, start, .. } => self.apply(Input::Start { ticket, start }),
        }
    }
}

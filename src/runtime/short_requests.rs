//! Short requests of default functions in the event loop: which request waits for the end of the turn, how one begins,
//! and what follows its function. [`short_jobs`](super::short_jobs) has their state.

use std::collections::VecDeque;
use std::sync::Arc;

use gpc_trees::{Id, IdList};

use super::event_loop::EventLoop;
use super::functions::Entry;
use super::short_jobs::{ShortJob, ShortRan, ShortSource, WAITING_MAX};
use crate::branch_hint::unlikely;
use crate::chain::{FastStart, Input, Reply};
use crate::link::Phase;
use crate::link::peering::LinkKey;
use crate::wire::CallId;
use crate::wire::short::KeyBuffer;

impl EventLoop {
    /// Begins the next short request.
    ///
    /// # Errors
    /// The request, if it must use the general path.
    pub(super) fn begin_short(&mut self, source: ShortSource) -> Result<(Arc<ShortJob>, Reply), ShortSource> {
        let mut room = self.calls.key_buffer.take().unwrap_or_default();
        let begun = self.try_begin(&source, &mut room);
        self.calls.key_buffer = Some(room);
        let Some((call, alone, entry)) = begun else { return Err(source) };
        let Some((ids, own)) = self.reply_memory(alone) else { return Err(source) };
        let (ids, own) = (ids.clone(), std::mem::take(own));
        let (run, begun) = (Arc::default(), self.clock.time());
        Ok((Arc::new(ShortJob { source, call, ids, alone, entry, run, begun }), own))
    }

    /// The ids and the empty reply for the function of the call that has just begun.
    fn reply_memory(&mut self, alone: bool) -> Option<(&IdList, &mut Reply)> {
        if alone { self.node.leaf_room() } else { self.node.reply_room() }
    }

    /// Begins a short request on the fast path, if it qualifies. Returns its call, whether this id is a leaf, and the
    /// function.
    fn try_begin(&mut self, source: &ShortSource, room: &mut KeyBuffer) -> Option<(CallId, bool, Entry)> {
        if let ShortSource::Frame { key, parent, .. } = source
            && !self.is_up(*key, *parent)
        {
            return None;
        }
        let EventLoop { node, executor, clock, .. } = self;
        match source {
            ShortSource::Frame { parent, .. } => {
                // A frame contains the name of its call.
                let short = source.short(CallId { root: 0, sequence: 0 }, room)?;
                let entry = executor.take_leader_function(short.plan.func())?;
                let begun = node.begin_fast(|| clock.time(), *parent, &short);
                (begun != FastStart::General)
                    .then(|| (short.particulars.call, begun == FastStart::Leaf, entry))
            }
            ShortSource::Start { start, data, .. } => {
                let entry = executor.take_leader_function(start.func)?;
                let short = start.short(node.next_name(), data, room)?;
                node.start_fast(clock.time(), &short, false).then_some((short.particulars.call, false, entry))
            }
        }
    }

    /// Continues a short request after its function.
    pub(super) fn short_has_run(&mut self, ShortRan { job, own, result }: ShortRan) {
        if let Some((_, room)) = self.reply_memory(job.alone) {
            *room = own;
        }
        let mut room = self.calls.key_buffer.take().unwrap_or_default();
        // Parsed before, so it is valid.
        if let Some(short) = job.source.short(job.call, &mut room) {
            let of = &short.particulars;
            match job.source {
                ShortSource::Frame { key, .. } if job.alone => drop(self.answer_alone(key, job.call, result)),
                ShortSource::Frame { key, parent, .. } => {
                    self.ran_with_children((key, parent), of, result);
                }
                ShortSource::Start { .. } => self.ran_at_root(job.source.origin(), of, result),
            }
        }
        self.calls.key_buffer = Some(room);
        if unlikely(!self.calls.to_follow.is_empty()) {
            self.follow_started();
        }
    }

    /// Moves a short request whose function is still running to the general path.
    pub(super) fn short_overran(&mut self, job: &ShortJob) {
        // Parsed before, so it is valid.
        let Some(request) = job.request() else { return };
        self.executor.keep_running(job.call, job.run.clone());
        if let ShortSource::Frame { key, .. } = job.source
            && let Some(link) = self.connections.links.table.link_mut(key)
        {
            // The request counts as consumed when the function has run.
            link.unacknowledged += 1;
        }
        self.node.func_overran(job.source.origin(), request, job.begun, &mut self.outputs);
        self.settle();
        if unlikely(!self.calls.to_follow.is_empty()) {
            self.follow_started();
        }
    }

    fn is_up(&self, key: LinkKey, parent: Id) -> bool {
        let link = self.connections.links.table.link(key);
        link.is_some_and(|link| link.phase == Phase::Up(parent))
    }

    /// Whether the function of a short request must run outside the loop, at the end of the turn.
    pub(super) fn runs_outside_loop(&mut self, func: u64) -> bool {
        let waiting = self.short.waiting.len();
        waiting < WAITING_MAX
            && self.node.default_workers_are_idle()
            && self.executor.runs_outside_loop(func, waiting)
    }

    /// Moves the waiting requests of a link to the general path, before later frames of the link.
    #[inline]
    pub(super) fn process_waiting_frames(&mut self, of: LinkKey) {
        if !self.short.waiting.is_empty() {
            self.process_waiting(|source| matches!(source, ShortSource::Frame { key, .. } if *key == of));
        }
    }

    /// Moves the calls that wait to start to the general path.
    #[inline]
    pub(super) fn process_waiting_starts(&mut self) {
        if !self.short.waiting.is_empty() {
            self.process_waiting(|source| matches!(source, ShortSource::Start { .. }));
        }
    }

    /// Cancels a call of the application. The chain does not know a call that waits here.
    #[cold]
    pub(super) fn give_up(&mut self, ticket: u64) {
        let is_it =
            |source: &ShortSource| matches!(source, ShortSource::Start { ticket: of, .. } if *of == ticket);
        let place = self.short.waiting.iter().position(is_it);
        match place.and_then(|place| self.short.waiting.remove(place)) {
            Some(ShortSource::Start { start, .. }) => {
                if let Some(completion) = self.calls.completions.remove(ticket) {
                    completion.complete(Some(Err(self.node.given_up(&start))));
                }
            }
            _ => self.apply(Input::GiveUp { ticket }),
        }
    }

    #[cold]
    pub(super) fn process_waiting(&mut self, which: impl Fn(&ShortSource) -> bool) {
        let (taken, left) = std::mem::take(&mut self.short.waiting).into_iter().partition(|it| which(it));
        self.short.waiting = left;
        let taken: VecDeque<ShortSource> = taken;
        let now = self.clock.now();
        for mut source in taken {
            source.waited_until(now);
            self.process_on_general_path(source);
        }
    }

    /// Moves a short request to the general path.
    pub(super) fn process_on_general_path(&mut self, source: ShortSource) {
        match source {
            // The request is lost with its link.
            ShortSource::Frame { key, parent, .. } if !self.is_up(key, parent) => {}
            // Parsed before, so it is valid.
            ShortSource::Frame { key, bytes, .. } => {
                if let Err(error) = self.feed(key, &bytes, true) {
                    self.connections.close(self.clock.time(), key, &error.to_string());
                }
            }
            ShortSource::Start { ticket, start, .. } => self.apply(Input::Start { ticket, start }),
        }
    }
}

//! Short requests of default functions in the event loop: which wait for the end of the turn, how one begins, and what
//! follows its function. [`short_jobs`](super::short_jobs) has what is kept of them.

use std::collections::VecDeque;
use std::sync::Arc;

use gpc_trees::{Id, IdList};

use super::event_loop::EventLoop;
use super::functions::Entry;
use super::short_jobs::{ShortJob, ShortRan, ShortSource, WAITING_MAX};
use crate::chain::{Begun, Input, Reply};
use crate::hint::unlikely;
use crate::link::Phase;
use crate::link::peering::LinkKey;
use crate::wire::CallId;

impl EventLoop {
    /// Begins a short request whose turn has come.
    ///
    /// # Errors
    /// The request, if it takes the general path.
    pub(super) fn begin_short(&mut self, source: ShortSource) -> Result<(Arc<ShortJob>, Reply), ShortSource> {
        let mut room = std::mem::take(&mut self.calls.ids_room);
        let begun = self.begins(&source, &mut room);
        self.calls.ids_room = room;
        let Some((call, alone, entry)) = begun else { return Err(source) };
        let Some((ids, own)) = self.lent(alone) else { return Err(source) };
        let (ids, own) = (ids.clone(), std::mem::take(own));
        let (run, begun) = (Arc::default(), self.clock.time());
        Ok((Arc::new(ShortJob { source, call, ids, alone, entry, run, begun }), own))
    }

    /// What the chain lends to the function of the call that has just begun: its ids, and room for its reply.
    fn lent(&mut self, alone: bool) -> Option<(&IdList, &mut Reply)> {
        if alone { self.node.spot_alone() } else { self.node.spot_room() }
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
                let entry = executor.begin_outside(short.plan.func())?;
                let begun = node.spot_begins(|| clock.time(), *parent, &short);
                (begun != Begun::Unusual).then(|| (short.particulars.call, begun == Begun::Alone, entry))
            }
            ShortSource::Start { start, data, .. } => {
                let entry = executor.begin_outside(start.func)?;
                let short = node.spot_starts(clock.time(), start, data, room)?;
                Some((short.particulars.call, false, entry))
            }
        }
    }

    /// The function of a short request has run.
    pub(super) fn short_has_run(&mut self, ShortRan { job, own, result }: ShortRan) {
        if let Some((_, room)) = self.lent(job.alone) {
            *room = own;
        }
        let mut room = std::mem::take(&mut self.calls.ids_room);
        // It was read before.
        if let Some(short) = job.source.short(job.call, &mut room) {
            let of = &short.particulars;
            match job.source {
                ShortSource::Frame { key, .. } if job.alone => drop(self.answer_alone(key, job.call, result)),
                ShortSource::Frame { key, parent, .. } => {
                    self.ran_with_children((key, parent), of, result);
                }
                ShortSource::Start { .. } => self.ran_at_root(job.source.asker(), of, result),
            }
        }
        self.calls.ids_room = room;
        if unlikely(!self.calls.to_follow.is_empty()) {
            self.follow_started();
        }
    }

    /// The function of a short request runs on while the node does: the call takes the general path.
    pub(super) fn short_overran(&mut self, job: &ShortJob) {
        // It was read before.
        let Some(request) = job.request() else { return };
        self.executor.overran(job.call, job.run.clone());
        if let ShortSource::Frame { key, .. } = job.source
            && let Some(link) = self.connections.links.table.link_mut(key)
        {
            // It counts as consumed when the function has run.
            link.unacknowledged += 1;
        }
        self.node.spot_overran(job.source.asker(), request, job.begun, &mut self.outputs);
        self.settle();
        if unlikely(!self.calls.to_follow.is_empty()) {
            self.follow_started();
        }
    }

    fn is_up(&self, key: LinkKey, parent: Id) -> bool {
        let link = self.connections.links.table.link(key);
        link.is_some_and(|link| link.phase == Phase::Up(parent))
    }

    /// Whether the function of a short request is to run outside the loop, at the end of the turn.
    pub(super) fn goes_outside(&mut self, func: u64) -> bool {
        let waiting = self.short.waiting.len();
        waiting < WAITING_MAX
            && self.node.default_workers_are_idle()
            && self.executor.goes_outside(func, waiting)
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
    pub(super) fn take_in_waiting(&mut self, which: impl Fn(&ShortSource) -> bool) {
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
    pub(super) fn take_in_general(&mut self, source: ShortSource) {
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

//! Default functions that the leading thread runs outside the event loop: choice of the next one, and its result.
//!
//! Source: the leader/followers pattern (Schmidt and others, 2000). [`leader_followers`](super::leader_followers) has
//! the threads.

use std::io;
use std::sync::Arc;

use super::deadlock_check;
use super::event_loop::{EventLoop, SLEEP_MAX};
use super::executor::WorkerJob;
use super::loop_state::UNBOUNDED;
use super::short_jobs::{ShortJob, ShortRan};
use crate::chain::{Input, Reply};

/// A function to run outside the loop.
pub(super) enum LeaderJob {
    /// A job of the chain.
    Job(WorkerJob),
    /// The function of a short request, and its empty reply.
    Short(Arc<ShortJob>, Reply),
}

/// The result of a [`LeaderJob`].
pub(super) enum LeaderResult {
    Job(Input),
    Short(ShortRan),
}

impl LeaderResult {
    /// Converts the result to an input of the chain, for the mailbox of a loop that was taken over.
    pub(super) fn into_input(self) -> Input {
        match self {
            LeaderResult::Job(input) => input,
            LeaderResult::Short(ran) => ran.into_input(),
        }
    }
}

impl EventLoop {
    /// Takes turns until a function is to run outside the loop; `None` when the node has ended.
    #[inline(never)]
    pub(super) fn run_until_function(&mut self) -> io::Result<Option<LeaderJob>> {
        self.mailbox.waiters.drive();
        deadlock_check::as_driver(|| {
            while !self.has_ended() {
                // Between two functions the loop takes one turn.
                if !std::mem::take(&mut self.short.has_run)
                    && let Some(next) = self.next_leader_job()
                {
                    return Ok(Some(next));
                }
                self.turn(SLEEP_MAX, UNBOUNDED)?;
            }
            Ok(None)
        })
    }

    /// The next function to run outside the loop.
    #[inline]
    fn next_leader_job(&mut self) -> Option<LeaderJob> {
        if let Some(job) = self.executor.take_leader_job() {
            return Some(LeaderJob::Job(job));
        }
        // Terminates: each iteration removes one request.
        while let Some(mut source) = self.short.waiting.pop_front() {
            source.waited_until(self.clock.now());
            match self.begin_short(source) {
                Ok((job, own)) => {
                    self.short.running = Some(job.clone());
                    return Some(LeaderJob::Short(job, own));
                }
                Err(source) => {
                    self.process_on_general_path(source);
                    self.settle_and_write();
                }
            }
        }
        self.executor.take_leader_job().map(LeaderJob::Job)
    }

    /// Returns a job that has not run.
    pub(super) fn put_back(&mut self, next: LeaderJob) {
        match next {
            LeaderJob::Job(job) => self.executor.put_back(job),
            LeaderJob::Short(job, _) => {
                self.short.running = None;
                let source = Arc::into_inner(job).map(|job| job.source);
                source.into_iter().for_each(|source| self.short.waiting.push_front(source));
            }
        }
    }

    /// Passes a job to a worker. From now on all default functions run on workers.
    pub(super) fn hand_to_worker(&mut self, next: LeaderJob) {
        self.executor.stop_leading();
        match next {
            LeaderJob::Job(job) => self.executor.hand_to_worker(job),
            short => self.put_back(short),
        }
        deadlock_check::as_driver(|| {
            self.process_waiting(|_| true);
            self.settle_and_write();
        });
    }

    /// Delivers arrivals and writes, outside a turn.
    fn settle_and_write(&mut self) {
        self.deliver_arrivals();
        self.write();
    }

    /// Records that the driving thread has left the loop.
    pub(super) fn release(&mut self) {
        self.mailbox.waiters.leave();
    }

    /// Continues after a function returned in time: processes its result, and writes.
    pub(super) fn resume(&mut self, ran: LeaderResult) {
        self.mailbox.waiters.drive();
        deadlock_check::as_driver(|| {
            self.clock.invalidate();
            self.short.has_run = true;
            self.executor.note_short_run();
            match ran {
                // Messages that the function has queued, such as the reply of its token, precede its result.
                LeaderResult::Job(ran) if self.has_mail() => return self.mailbox.result(ran),
                LeaderResult::Job(ran) => {
                    self.executor.handle_result(&ran);
                    self.apply(ran);
                }
                LeaderResult::Short(ran) => {
                    self.short.running = None;
                    self.short_has_run(ran);
                }
            }
            self.settle_and_write();
        });
    }

    /// Continues on another thread, since the function takes long.
    pub(super) fn note_takeover(&mut self) {
        self.clock.invalidate();
        self.executor.note_long_run();
        if let Some(job) = self.short.running.take() {
            deadlock_check::as_driver(|| {
                self.short_overran(&job);
                // On the general path, the waiting requests wait for a worker.
                self.process_waiting(|_| true);
                self.settle_and_write();
            });
        }
    }
}

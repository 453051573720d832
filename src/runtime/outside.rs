//! Functions that the driving thread runs outside the event loop: which one is next, and what follows its end.
//!
//! Source: the leader/followers pattern (Schmidt and others, 2000); [`lead`](super::lead) has the threads.

use std::io;
use std::sync::Arc;

use super::event_loop::{EventLoop, SLEEP_MAX};
use super::executor::WorkerJob;
use super::loop_state::UNBOUNDED;
use super::short_jobs::{ShortJob, ShortRan};
use super::waiting;
use crate::chain::{Input, Reply};

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
        match next {
            Outside::Job(job) => self.executor.hand_to_worker(job),
            short => self.put_back(short),
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
        if let Some(job) = self.short.running.take() {
            waiting::driving(|| {
                self.short_overran(&job);
                // They wait for a worker now.
                self.take_in_waiting(|_| true);
                self.write();
            });
        }
    }
}

//! Jobs are drawn, and nodes of other jobs are refused, before anything that they say has any effect.
//!
//! Source: docs/wire.md, "Jobs".

use std::hash::{BuildHasher as _, RandomState};

use gpc_trees::Id;
use tracing::warn;

use super::links::Links;
use super::peer::LinkKey;
use crate::chain::Time;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{Hello, Job};

impl Job {
    /// Draws a job that nobody else has: 128 bits of the system's randomness. It is never the default.
    pub fn random() -> Job {
        // Keyed with 128 bits that the system gives each thread: enough for a name, which is no secret.
        let keys = RandomState::new();
        let halves = [keys.hash_one(0u64), keys.hash_one(1u64)].map(u64::to_le_bytes);
        let mut job = Job::default();
        job.0.iter_mut().zip(halves.iter().flatten()).for_each(|(to, from)| *to = *from);
        // One draw of 2^128, which would mean no job.
        job.0[0] |= u8::from(job.is_none());
        job
    }
}

/// What both sides are told of two nodes of different jobs.
fn differs(me: Id, mine: Job, peer: Id, theirs: Job) -> String {
    format!(
        "id {me} is of {}, id {peer} of {}: only nodes of one job link with each other. See that both have addresses of the same job, as from one peers file, and name the same job",
        mine.short(),
        theirs.short()
    )
}

impl Links {
    /// Whether a hello is of another job; then it is refused, and whoever said it is told why.
    pub(super) fn refuses_job(&mut self, now: Time, key: LinkKey, hello: &Hello) -> bool {
        if hello.job == self.job {
            return false;
        }
        let text = differs(self.me, self.job, hello.from, hello.job);
        warn!(id = self.me, %text, "a node of another job has connected, and is refused");
        self.refuse(now, key, GoodbyeReason::OtherJob, text);
        true
    }

    /// Checks the job of a node that has answered our hello.
    ///
    /// # Errors
    /// When it is another one; the node is told so.
    pub(super) fn check_job(&mut self, key: LinkKey, hello: &Hello) -> Result<(), String> {
        if hello.job == self.job {
            return Ok(());
        }
        let text = differs(self.me, self.job, hello.from, hello.job);
        warn!(id = self.me, %text, "a node of another job has answered, and is left");
        if let Some(link) = self.links.get_mut(key) {
            link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::OtherJob, text: text.clone() });
            // What does not go out at once is of no use any more.
            let _ = link.flush(Time::default);
        }
        Err(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_drawn_apart() {
        let jobs: std::collections::BTreeSet<Job> = (0..1000).map(|_| Job::random()).collect();
        assert!(jobs.len() == 1000 && jobs.iter().all(|job| !job.is_none()));
        let elsewhere = std::thread::spawn(Job::random).join().unwrap();
        assert!(!jobs.contains(&elsewhere));
    }

    #[test]
    fn what_is_said_of_two_jobs_fits_a_goodbye() {
        let text = differs(Id::MAX, Job([0xff; 16]), Id::MAX - 1, Job([1; 16]));
        assert!(text.len() <= Goodbye::TEXT_MAX, "{}", text.len());
        assert!(text.starts_with("id 4294967295 is of job ffffffff, id 4294967294 of job 01010101: "));
        assert!(
            differs(1, Job::default(), 2, Job([1; 16])).contains("id 1 is of no job, id 2 of job 01010101")
        );
    }
}

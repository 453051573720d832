//! Random jobs.

use std::hash::{BuildHasher as _, RandomState};

use crate::wire::Job;

impl Job {
    /// Draws a unique job: 128 bits of the system's randomness. It is never the default.
    pub fn random() -> Job {
        // Keyed with 128 bits that the system gives each thread: enough for a name, which is not a secret.
        let keys = RandomState::new();
        let halves = [keys.hash_one(0u64), keys.hash_one(1u64)].map(u64::to_le_bytes);
        let mut job = Job::default();
        job.0.iter_mut().zip(halves.iter().flatten()).for_each(|(to, from)| *to = *from);
        // One draw of 2^128 would mean no job.
        job.0[0] |= u8::from(job.is_none());
        job
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
}

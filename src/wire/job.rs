//! The job of a node: 16 bytes that all nodes of one job have in common, so that nodes of different jobs do not link with each other.
//!
//! Pure: a job is drawn in the runtime, and read from text or from a hello here (docs/wire.md, "HELLO").

use std::fmt;
use std::str::FromStr;

/// Bytes of a job.
pub const JOB_LENGTH: usize = 16;

/// Characters of the short form.
const SHORT: usize = 8;

/// Longest text that is quoted in an error, characters.
const QUOTED_MAX: usize = 40;

/// Which job a node belongs to. Two nodes link with each other only where their jobs are equal, byte for byte.
///
/// A node that is told nothing has the default, 16 zeros, which means *no job*: it links with others that have no job either, and with nobody else. So a program whose nodes never name a job works as if there were none,
/// and is not kept apart from another such program. Name one where addresses may be used again by other processes, as in a peers file that outlives its nodes: [`Job::random`] draws one, and everybody else is told
/// it along with the addresses. A job is no secret and no authentication: it prevents mistakes, not attacks.
///
/// As text: 32 hexadecimal digits. The short form in messages is the first 8 of them.
///
/// ```
/// use chained_gpc::Job;
///
/// let job: Job = "00112233445566778899aabbccddeeff".parse()?;
/// assert_eq!(job.to_string(), "00112233445566778899aabbccddeeff");
/// assert_eq!(job.short().to_string(), "job 00112233");
/// assert_eq!(Job::default().short().to_string(), "no job");
/// assert_ne!(Job::random(), Job::random());
/// # Ok::<(), chained_gpc::JobError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Job(pub [u8; JOB_LENGTH]);

/// Text that is no job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no job: write 32 hexadecimal digits")]
pub struct JobError(String);

impl Job {
    /// Whether it is the default, which names no job.
    pub fn is_none(self) -> bool {
        self == Job::default()
    }

    /// How messages name it: `job` and 8 digits, or `no job`.
    pub fn short(self) -> impl fmt::Display {
        ShortJob(self)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({self})")
    }
}

impl FromStr for Job {
    type Err = JobError;

    fn from_str(text: &str) -> Result<Job, JobError> {
        let error = || JobError(text.chars().take(QUOTED_MAX).collect());
        let digits = text.as_bytes();
        if digits.len() != 2 * JOB_LENGTH {
            return Err(error());
        }
        let mut job = Job::default();
        for (byte, pair) in job.0.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(error);
            // Two digits make a byte.
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(job)
    }
}

struct ShortJob(Job);

impl fmt::Display for ShortJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_none() {
            true => f.write_str("no job"),
            false => write!(f, "job {}", &self.0.to_string()[..SHORT]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_job_is_quoted_and_cut() {
        let error = |text: &str| text.parse::<Job>().unwrap_err().to_string();
        assert_eq!(error("12"), "`12` is no job: write 32 hexadecimal digits");
        assert!(error(&"é".repeat(16)).contains("`éé"), "of the right length, and no digits");
        assert!(error(&"g".repeat(32)).contains("is no job"));
        assert!(error(&"0".repeat(33)).contains("is no job"));
        assert!(error(&"+1".repeat(16)).contains("is no job"));
        assert!(error(&"x".repeat(9999)).len() < 100);
    }

    proptest! {
        #[test]
        fn a_job_reads_as_it_prints(bytes in any::<[u8; JOB_LENGTH]>()) {
            let job = Job(bytes);
            let text = job.to_string();
            prop_assert_eq!(text.len(), 32);
            prop_assert_eq!(text.to_uppercase().parse::<Job>(), Ok(job));
            prop_assert_eq!(text.parse::<Job>(), Ok(job));
            prop_assert_eq!(job.is_none(), bytes == [0; JOB_LENGTH]);
        }

        #[test]
        fn any_text_is_a_job_or_refused(text in ".{0,40}") {
            if let Ok(job) = text.parse::<Job>() {
                prop_assert_eq!(job.to_string(), text.to_lowercase());
            }
        }
    }
}

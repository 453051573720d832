//! The job of a node: 16 bytes that all nodes of one job share. Nodes of different jobs do not link with each other.
//!
//! This module is pure: the runtime draws a job, and this module reads one from text or from a hello (docs/wire.md,
//! "HELLO").

use std::fmt;
use std::str::FromStr;

/// Length of a job, in bytes.
pub const JOB_LENGTH: usize = 16;

/// Digits of the short form.
const SHORT: usize = 8;

/// Maximum length of the text that an error quotes, in characters.
const QUOTED_MAX: usize = 40;

/// The job that a node belongs to. Two nodes link with each other only if their jobs are equal, byte for byte.
///
/// The default is 16 zeros and means *no job*: such a node links only with others that have no job. A program that
/// never names a job works, but nothing separates it from another such program. Name a job where other processes may
/// reuse an address, for example with a peers file that outlives its nodes: [`Job::random`] draws one, and the other
/// nodes receive it along with the addresses. A job is not a secret and does not authenticate: it prevents mistakes,
/// not attacks.
///
/// The text form is 32 hexadecimal digits. The short form in messages is the first 8 of them.
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

/// Text that is not a valid job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no job: write 32 hexadecimal digits")]
pub struct JobError(String);

impl Job {
    /// Whether this is the default, which means no job.
    pub fn is_none(self) -> bool {
        self == Job::default()
    }

    /// Short form for messages: `job` and 8 digits, or `no job`.
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
            // Two digits make one byte.
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

//! A PMIx job as a key-value space: `PMIx_Put` and `PMIx_Commit`, `PMIx_Fence`, `PMIx_Get`.
//!
//! A fence distributes all puts to every host's server (`PMIX_COLLECT_DATA`). MPI libraries request the same by
//! default, so launchers handle it well. It is one collective of small values, about 100 bytes for each process.
//! Without it, each first get would be a request between hosts while everything starts.
//!
//! So a get is answered by this host's server alone (`PMIX_IMMEDIATE`). A missing key is an error at once, where a
//! plain get would wait for it.

use std::ffi::CString;
use std::fmt;
use std::time::Duration;

use chained_gpc::bootstrap::{Space, SpaceError};
use chained_gpc::{Id, Shown, TimeLimit};

use crate::abi::{self, JOB_SIZE, LOCAL_SIZE, RANK_WILDCARD, Status};
use crate::library::{Got, Library};
use crate::limited::{Limited, NoAnswer};
use crate::process::ProcessName;

/// The launcher's name in errors.
pub(crate) const LAUNCHER: &str = "PMIx";

/// Longest value in bytes. PMIx itself has no limit; the servers of all hosts store the values of all processes.
const VALUE_MAX: usize = 16 << 10;

/// Prefix of the keys that belong to PMIx.
const RESERVED: &str = "pmix";

/// The processes that a launcher started together, accessed through libpmix.
///
/// A process has one of these, since libpmix has one state for the whole process. libpmix counts its users, so an MPI
/// library in the same process does no harm. Dropping it without [`finish`](Space::finish) looks like an abnormal end
/// to the launcher.
pub struct Pmix {
    library: Limited<Result<Library, String>>,
    process: ProcessName,
    count: u32,
    one_host: Option<bool>,
}

impl fmt::Debug for Pmix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmix")
            .field("process", &self.process)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Pmix {
    /// Loads libpmix and connects to the launcher's server, which must know this process by the values of its
    /// variables.
    pub(crate) fn connect(process: ProcessName, limit: &TimeLimit) -> Result<Pmix, SpaceError> {
        let left = || limit.left().unwrap_or_default();
        let doing = "loading libpmix";
        let library =
            Limited::new("gpc-pmix", Library::load).map_err(|error| failed(doing, error.to_string()))?;
        let mut pmix = Pmix { library, process, count: 0, one_host: None };
        pmix.ask(doing, left(), |_| Ok(()))?;
        let doing = "connecting with the launcher's server";
        let (namespace, rank) = pmix.ask(doing, left(), Library::init).map_err(|error| SpaceError {
            why: format!("{}; its variables (PMIX_NAMESPACE and others) are here: unset them if this process is not one of the launcher's", error.why),
            ..error
        })?;
        // Without a server, libpmix may make up a job of one process.
        if (namespace.as_slice(), rank) != (pmix.process.namespace.as_bytes(), pmix.process.rank) {
            let ProcessName { namespace: expected, rank: place } = &pmix.process;
            let found = String::from_utf8_lossy(&namespace);
            let why = format!(
                "it takes this process for rank {rank} of `{}`, and its variables say rank {place} of `{}`",
                Shown(&found),
                Shown(expected)
            );
            return Err(failed(doing, why));
        }
        pmix.count = pmix.size(left())?;
        // A launcher may omit this information.
        let here = pmix.got("asking who is on this host", RANK_WILDCARD, LOCAL_SIZE, left());
        pmix.one_host = here.ok().and_then(|got| is_one_host(&got, pmix.count));
        Ok(pmix)
    }

    /// Number of processes of the job.
    fn size(&self, limit: Duration) -> Result<u32, SpaceError> {
        let doing = "asking for the size of the job";
        let got = self.got(doing, RANK_WILDCARD, JOB_SIZE, limit)?;
        size_of(&got, self.process.rank).map_err(|why| failed(doing, why))
    }

    fn got(&self, doing: &str, rank: u32, key: &str, limit: Duration) -> Result<Got, SpaceError> {
        let namespace = self.process.namespace.clone().into_bytes();
        let key = zero_ended(doing, key)?;
        let seconds = seconds(limit);
        self.ask(doing, limit, move |library| library.get(&namespace, rank, &key, seconds))
    }

    /// Runs a piece of work on the thread of libpmix, within the limit.
    fn ask<A: Send + 'static>(
        &self,
        doing: &str,
        limit: Duration,
        work: impl FnOnce(&Library) -> Result<A, Status> + Send + 'static,
    ) -> Result<A, SpaceError> {
        let answer = self.library.ask(limit, move |library| match library {
            Ok(library) => work(library).map_err(|status| match status {
                abi::SUCCESS => "it has succeeded, and gives nothing".to_owned(),
                status => library.words(status),
            }),
            Err(why) => Err(why.clone()),
        });
        match answer {
            Ok(answer) => answer.map_err(|why| failed(doing, Shown(&why).to_string())),
            Err(NoAnswer::Late) => Err(failed(doing, format!("no answer within {limit:?}"))),
            Err(NoAnswer::Gone) => Err(failed(doing, "its thread has ended".to_owned())),
        }
    }
}

impl Space for Pmix {
    fn launcher(&self) -> &'static str {
        LAUNCHER
    }

    fn id(&self) -> Id {
        self.process.rank
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn name(&self) -> &str {
        &self.process.namespace
    }

    fn one_host(&self) -> Option<bool> {
        self.one_host
    }

    fn value_max(&self) -> usize {
        VALUE_MAX
    }

    fn put(&mut self, key: &str, value: &str, limit: Duration) -> Result<(), SpaceError> {
        let doing = format!("putting {}", Shown(key));
        if key.len() >= abi::KEY_BYTES || key.starts_with(RESERVED) {
            return Err(failed(&doing, "the key is too long, or PMIx's own".to_owned()));
        }
        if value.len() > VALUE_MAX {
            return Err(failed(&doing, format!("{} bytes, and {VALUE_MAX} are the most", value.len())));
        }
        let (key, value) = (zero_ended(&doing, key)?, zero_ended(&doing, value)?);
        self.ask(&doing, limit.min(PUT_LIMIT), move |library| library.put(&key, &value))
    }

    fn fence(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.ask("waiting for all processes of the job", limit, Library::fence)
    }

    fn get(&mut self, of: Id, key: &str, limit: Duration) -> Result<String, SpaceError> {
        let doing = format!("getting {} of id {of}", Shown(key));
        text_of(self.got(&doing, of, key, limit)?).map_err(|why| failed(&doing, why))
    }

    fn finish(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.ask("telling the launcher that this process ends", limit, Library::finalize)
    }
}

/// Longest time limit of a put, which sends a message to a process of this host without waiting for it.
const PUT_LIMIT: Duration = Duration::from_secs(30);

/// The limit of a get for libpmix: whole seconds, and at least one, since 0 means no limit. The caller's wait has the
/// exact limit.
fn seconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_secs()).unwrap_or(i32::MAX).max(1)
}

/// The number of processes of the job, of which this one has this rank.
fn size_of(got: &Got, rank: u32) -> Result<u32, String> {
    match got {
        Got::Number(count) if *count > rank => Ok(*count),
        Got::Number(count) => Err(format!("there are {count} processes, and this one is rank {rank}")),
        other => Err(strange(other)),
    }
}

/// Whether all processes of the job are on this host; `None` if the launcher does not say so.
fn is_one_host(here: &Got, count: u32) -> Option<bool> {
    match here {
        Got::Number(here) => Some(*here == count),
        _ => None,
    }
}

fn failed(doing: &str, why: String) -> SpaceError {
    SpaceError { launcher: LAUNCHER, doing: doing.to_owned(), why }
}

/// A value that a process has put.
fn text_of(got: Got) -> Result<String, String> {
    match got {
        Got::Text(text) if text.len() <= VALUE_MAX => {
            String::from_utf8(text).map_err(|error| error.to_string())
        }
        other => Err(strange(&other)),
    }
}

/// Describes an unexpected value.
fn strange(got: &Got) -> String {
    match got {
        Got::Number(number) => format!("the value is the number {number}"),
        Got::Text(text) => format!("the value is a text of {} bytes", text.len()),
        Got::Other(kind) => format!("the value is of type {kind}"),
    }
}

/// A text for C.
fn zero_ended(doing: &str, text: &str) -> Result<CString, SpaceError> {
    CString::new(text).map_err(|_| failed(doing, "there is a zero byte in it".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rank 2 of four processes, whose thread has this library.
    fn pmix(library: impl FnOnce() -> Result<Library, String> + Send + 'static) -> Pmix {
        let process = ProcessName { namespace: "job".to_owned(), rank: 2 };
        Pmix { library: Limited::new("test", library).unwrap(), process, count: 4, one_host: None }
    }

    #[test]
    fn a_get_of_libpmix_has_whole_seconds_and_never_none() {
        let millis = Duration::from_millis;
        let limits = [millis(0), millis(999), millis(1999), millis(120_000), Duration::MAX];
        assert_eq!(limits.map(seconds), [1, 1, 1, 120, i32::MAX]);
    }

    #[test]
    fn what_the_launcher_says_of_the_job_is_checked() {
        assert_eq!(size_of(&Got::Number(3), 2), Ok(3));
        assert_eq!(size_of(&Got::Number(2), 2), Err("there are 2 processes, and this one is rank 2".into()));
        assert_eq!(size_of(&Got::Other(7), 2), Err("the value is of type 7".into()));
        let here = |here| is_one_host(&Got::Number(here), 4);
        assert_eq!((here(4), here(3), is_one_host(&Got::Other(1), 4)), (Some(true), Some(false), None));
    }

    #[test]
    fn a_value_is_a_text_of_bounded_length() {
        assert_eq!(text_of(Got::Text(vec![b'x'; VALUE_MAX])), Ok("x".repeat(VALUE_MAX)));
        let long = text_of(Got::Text(vec![b'x'; VALUE_MAX + 1]));
        assert_eq!(long, Err(format!("the value is a text of {} bytes", VALUE_MAX + 1)));
        assert!(text_of(Got::Text(vec![0xff])).unwrap_err().contains("utf-8"));
        assert_eq!(text_of(Got::Number(5)), Err("the value is the number 5".into()));
    }

    /// What cannot be put is refused before libpmix is asked, which here does not exist.
    #[test]
    fn what_cannot_be_put_is_refused() {
        let mut pmix = pmix(|| Err("there is no libpmix".into()));
        let limit = Duration::from_secs(60);
        let mut put = |key: &str, value: &str| pmix.put(key, value, limit).unwrap_err().why;
        let longest = "k".repeat(abi::KEY_BYTES - 1);
        assert_eq!(put(&longest, &"v".repeat(VALUE_MAX)), "there is no libpmix");
        for key in [format!("{longest}k"), "pmix.rank".into()] {
            assert_eq!(put(&key, "v"), "the key is too long, or PMIx's own");
        }
        assert_eq!(put("k", &"v".repeat(VALUE_MAX + 1)), "16385 bytes, and 16384 are the most");
        assert_eq!(put("k", "a\0b"), "there is a zero byte in it");
        assert_eq!(put("a\0b", "v"), "there is a zero byte in it");
    }

    /// The thread of libpmix does not answer: each call ends at its own limit, which its error names.
    #[test]
    fn a_call_that_does_not_return_ends_at_its_limit() {
        let (release, blocked) = std::sync::mpsc::sync_channel::<()>(0);
        let mut pmix = pmix(move || {
            // The sender is dropped at the end of the test.
            let _ = blocked.recv();
            Err("released".into())
        });
        let short = Duration::from_millis(1);
        assert_eq!(pmix.fence(short).unwrap_err().why, "no answer within 1ms");
        // A put has a limit of its own, which does not lengthen the caller's.
        assert_eq!(pmix.put("k", "v", short).unwrap_err().why, "no answer within 1ms");
        drop(release);
    }

    #[test]
    fn the_time_limit_of_a_connection_is_that_of_its_caller() {
        let clock = chained_gpc::Clock::reading(|| Duration::from_secs(120));
        let process = ProcessName { namespace: "job".to_owned(), rank: 2 };
        let over = clock.limit(Duration::ZERO);
        let error = Pmix::connect(process, &over).unwrap_err();
        assert_eq!((error.doing.as_str(), error.why.as_str()), ("loading libpmix", "no answer within 0ns"));
    }
}

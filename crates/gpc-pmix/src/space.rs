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
use std::time::{Duration, Instant};

use chained_gpc::bootstrap::{Space, SpaceError};
use chained_gpc::{Id, Shown};

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
    pub(crate) fn connect(process: ProcessName, limit: Duration) -> Result<Pmix, SpaceError> {
        let deadline = Deadline::after(limit);
        let doing = "loading libpmix";
        let library =
            Limited::new("gpc-pmix", Library::load).map_err(|error| failed(doing, error.to_string()))?;
        let mut pmix = Pmix { library, process, count: 0, one_host: None };
        pmix.ask(doing, limit, |_| Ok(()))?;
        let doing = "connecting with the launcher's server";
        let (namespace, rank) = pmix.ask(doing, deadline.left(), Library::init).map_err(|error| SpaceError {
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
        pmix.count = pmix.size(deadline.left())?;
        // A launcher may omit this information.
        let here = pmix.got("asking who is on this host", RANK_WILDCARD, LOCAL_SIZE, deadline.left());
        pmix.one_host = here.ok().and_then(|got| match got {
            Got::Number(here) => Some(here == pmix.count),
            _ => None,
        });
        Ok(pmix)
    }

    /// Number of processes of the job.
    fn size(&self, limit: Duration) -> Result<u32, SpaceError> {
        let doing = "asking for the size of the job";
        match self.got(doing, RANK_WILDCARD, JOB_SIZE, limit)? {
            Got::Number(count) if count > self.process.rank => Ok(count),
            Got::Number(count) => Err(failed(
                doing,
                format!("there are {count} processes, and this one is rank {}", self.process.rank),
            )),
            other => Err(failed(doing, strange(&other))),
        }
    }

    fn got(&self, doing: &str, rank: u32, key: &str, limit: Duration) -> Result<Got, SpaceError> {
        let namespace = self.process.namespace.clone().into_bytes();
        let key = zero_ended(doing, key)?;
        // Whole seconds, and at least one, since 0 means no limit. The caller's wait has the exact limit.
        let seconds = i32::try_from(limit.as_secs()).unwrap_or(i32::MAX).max(1);
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
        match self.got(&doing, of, key, limit)? {
            Got::Text(text) if text.len() <= VALUE_MAX => {
                String::from_utf8(text).map_err(|error| failed(&doing, error.to_string()))
            }
            other => Err(failed(&doing, strange(&other))),
        }
    }

    fn finish(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.ask("telling the launcher that this process ends", limit, Library::finalize)
    }
}

/// Longest time limit of a put, which sends a message to a process of this host without waiting for it.
const PUT_LIMIT: Duration = Duration::from_secs(30);

/// A common deadline for several calls.
struct Deadline {
    begun: Instant,
    limit: Duration,
}

impl Deadline {
    #[allow(clippy::disallowed_methods, reason = "several calls of foreign code share a limit of real time")]
    fn after(limit: Duration) -> Deadline {
        Deadline { begun: Instant::now(), limit }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.begun.elapsed())
    }
}

fn failed(doing: &str, why: String) -> SpaceError {
    SpaceError { launcher: LAUNCHER, doing: doing.to_owned(), why }
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

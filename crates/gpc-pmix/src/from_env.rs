//! Detects from the environment whether a PMIx launcher started this process.

use std::env;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::time::{Duration, Instant};

use chained_gpc::bootstrap::{self, Bootstrap, BootstrapError, SpaceError};
use chained_gpc::{Clock, Shown};

use crate::process::ProcessName;
use crate::space::{LAUNCHER, Pmix};

/// The job's name at the launcher's server.
const NAMESPACE: &str = "PMIX_NAMESPACE";

/// The rank of this process in the job.
const RANK: &str = "PMIX_RANK";

/// Longest namespace in bytes.
const NAMESPACE_MAX: usize = crate::abi::NAMESPACE_BYTES - 1;

/// The launcher that started this process. A PMIx launcher takes precedence over the launchers of
/// [`chained_gpc::bootstrap::from_env`].
///
/// If one launcher has started another, the inner one is used. PMIx launchers close the descriptors of PMI-1 and PMI-2
/// (`PMI_FD`) in the processes that they start. If that descriptor is still a socket, it belongs to the inner launcher.
///
/// # Errors
/// The launcher's variables are incomplete, libpmix is missing or too old, or the launcher's server does not answer.
/// Such a process must not assume that it runs alone.
pub fn from_env() -> Result<Option<Bootstrap>, BootstrapError> {
    Ok(from_env_within(bootstrap::LIMIT)?.map(|bootstrap| bootstrap.limit(bootstrap::LIMIT)))
}

/// The same with a time limit of the whole bootstrap, which counts from this call.
///
/// # Errors
/// As [`from_env`].
#[allow(clippy::disallowed_methods, reason = "the time limit counts from this call")]
pub fn from_env_within(limit: Duration) -> Result<Option<Bootstrap>, BootstrapError> {
    if has_socket(env::var("PMI_FD").ok().as_deref()) {
        return bootstrap::from_env_within(limit);
    }
    let begun = Instant::now();
    match space(limit)? {
        Some(space) => {
            let bootstrap = Bootstrap::with_space(Box::new(space))?;
            Ok(Some(bootstrap.limit_since(begun, limit)))
        }
        None => bootstrap::from_env_within(limit),
    }
}

/// The key-value space of the launcher that started this process; `None` if the environment has no variables of PMIx.
///
/// # Errors
/// As [`from_env`].
pub fn space(limit: Duration) -> Result<Option<Pmix>, SpaceError> {
    let limit = Clock::system().limit(limit);
    process_name(|name| env::var(name).ok())?.map(|process| Pmix::connect(process, &limit)).transpose()
}

/// Whether a descriptor is an open socket, according to `/proc`.
fn has_socket(number: Option<&str>) -> bool {
    let number = number.and_then(|number| number.trim().parse::<u32>().ok());
    let there = number.and_then(|number| fs::metadata(format!("/proc/self/fd/{number}")).ok());
    there.is_some_and(|there| there.file_type().is_socket())
}

/// Reads the variables.
fn process_name(var: impl Fn(&str) -> Option<String>) -> Result<Option<ProcessName>, SpaceError> {
    let refused = |why: String| {
        Err(SpaceError { launcher: LAUNCHER, doing: "reading the variables of the launcher".to_owned(), why })
    };
    let (namespace, rank) = match (var(NAMESPACE), var(RANK)) {
        (None, None) => return Ok(None),
        (Some(namespace), Some(rank)) => (namespace, rank),
        (Some(_), None) => {
            return refused(format!("{NAMESPACE} is set, {RANK} is not; unset both, or set both"));
        }
        (None, Some(_)) => {
            return refused(format!("{RANK} is set, {NAMESPACE} is not; unset both, or set both"));
        }
    };
    if namespace.is_empty() || namespace.len() > NAMESPACE_MAX {
        return refused(format!(
            "{NAMESPACE} has {} bytes, and 1 to {NAMESPACE_MAX} are right",
            namespace.len()
        ));
    }
    match rank.parse() {
        // Larger ranks have special meanings (`PMIX_RANK_VALID`).
        Ok(rank) if rank < u32::MAX - 50 => Ok(Some(ProcessName { namespace, rank })),
        _ => refused(format!("{RANK} is `{}`, which is no place in a job", Shown(&rank))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(namespace: Option<&str>, rank: Option<&str>) -> Result<Option<ProcessName>, String> {
        let var = |name: &str| if name == NAMESPACE { namespace } else { rank }.map(str::to_owned);
        process_name(var).map_err(|error| error.to_string())
    }

    #[test]
    fn the_variables_say_whether_there_is_a_launcher_and_which_process_this_is() {
        assert_eq!(read(None, None), Ok(None));
        let process = ProcessName { namespace: "slurm.pmix.1.0".to_owned(), rank: 7 };
        assert_eq!(read(Some("slurm.pmix.1.0"), Some("7")), Ok(Some(process)));
    }

    #[test]
    fn a_socket_of_an_inner_launcher_is_told_from_what_is_left_of_an_outer_one() {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::net::UnixStream;
        let (socket, _other) = UnixStream::pair().unwrap();
        let number = socket.as_raw_fd().to_string();
        assert!(has_socket(Some(&number)));
        let file = fs::File::open("/dev/null").unwrap();
        for number in
            [Some(file.as_raw_fd().to_string().as_str()), Some("999999"), Some("-1"), Some("x"), None]
        {
            assert!(!has_socket(number), "{number:?}");
        }
    }

    #[test]
    fn half_a_launcher_is_an_error() {
        let failed = |namespace, rank| read(namespace, rank).unwrap_err();
        let doing = "PMIx: reading the variables of the launcher: ";
        assert_eq!(
            failed(Some("a"), None),
            format!("{doing}PMIX_NAMESPACE is set, PMIX_RANK is not; unset both, or set both")
        );
        assert!(failed(None, Some("0")).starts_with(&format!("{doing}PMIX_RANK is set, ")));
        assert!(failed(Some(""), Some("0")).contains("has 0 bytes"));
        let long = "a".repeat(256);
        assert!(failed(Some(&long), Some("0")).contains("has 256 bytes"));
        for rank in ["", "-1", "one", "4294967294", "4294967296", "1\u{1b}[2J"] {
            assert!(failed(Some("a"), Some(rank)).ends_with("which is no place in a job"), "{rank}");
        }
        assert!(failed(Some("a"), Some("1\u{1b}")).contains(r"`1\u{1b}`"));
    }
}

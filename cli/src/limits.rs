//! Limits of this process that stand in its way, and what to do about them.

use std::io;

use chained_gpc::launch::advice;

/// An error of starting a thread, or something with threads of its own, with what to do about it.
pub(super) fn cannot_start(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot start {what}: {error}{}", advice(&error)))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use rustix::process::{Resource, getrlimit};

    use super::*;

    /// Where `ulimit -u` was too low, all that was said was "Resource temporarily unavailable".
    #[test]
    fn the_limit_on_processes_is_named() {
        let error = cannot_start("a thread")(ErrorKind::WouldBlock.into()).to_string();
        let limit = getrlimit(Resource::Nproc).current;
        // In a control group that is full it is that one's limit.
        assert!(
            limit.is_none_or(|limit| error.contains(&format!("limited to {limit} by `ulimit -u`"))),
            "{error}"
        );
        assert!(error.starts_with("cannot start a thread: ") && error.ends_with("or start fewer"), "{error}");
        assert_eq!(advice(&ErrorKind::NotFound.into()), "");
    }
}

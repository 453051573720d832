//! Errors caused by limits of this process, with what to do about them.

use std::io;

use gpc_launch::advice;

/// Adds what to do to the error of starting a thread, or something with threads of its own.
pub(super) fn cannot_start(what: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot start {what}: {error}{}", advice(&error)))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use rustix::process::{Resource, getrlimit};

    use super::*;

    /// When `ulimit -u` was too low, the error was only "Resource temporarily unavailable".
    #[test]
    fn the_limit_on_processes_is_named() {
        let error = cannot_start("a thread")(ErrorKind::WouldBlock.into()).to_string();
        let limit = getrlimit(Resource::Nproc).current;
        // If a control group is full, the error names the limit of the group.
        assert!(
            limit.is_none_or(|limit| error.contains(&format!("limited to {limit} by `ulimit -u`"))),
            "{error}"
        );
        assert!(error.starts_with("cannot start a thread: ") && error.ends_with("or start fewer"), "{error}");
        assert_eq!(advice(&ErrorKind::NotFound.into()), "");
    }
}

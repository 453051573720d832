//! Raises the soft limit of file descriptors to the hard one if many children need it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::LaunchError;

/// Descriptors for everything but the children: standard streams, the event loop, files, libraries.
const SPARE: u64 = 64;

/// Raises this process's soft limit of file descriptors if it is too low to start `count` processes. Each needs two: a
/// control link, and the link to its node, which a flat tree has. [`Launch::start`](super::Launch::start) calls this
/// itself. A program that makes several launches at once calls it with their total.
///
/// # Errors
/// [`LaunchError::Files`] if the hard limit is too low.
pub fn provide(count: usize) -> Result<(), LaunchError> {
    if count == 0 {
        return Ok(());
    }
    let needed = 2 * count as u64 + SPARE;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let limit = || current.into_iter().chain(maximum).max().unwrap_or_default();
    if maximum.is_some_and(|maximum| maximum < needed) {
        return Err(LaunchError::Files { count, needed, limit: limit() });
    }
    // Without a hard limit, the soft limit is raised only as far as needed: some programs loop over every possible
    // descriptor.
    let raised = Rlimit { current: Some(maximum.unwrap_or(needed)), maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| LaunchError::Files { count, needed, limit: limit() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call over one id, this process itself, was refused for the descriptors of "0 processes".
    #[test]
    fn who_starts_nothing_needs_nothing() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        provide(0).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current, maximum });
    }

    #[test]
    fn the_limit_is_raised_or_named() {
        provide(1).unwrap();
        let Some(hard) = getrlimit(Resource::Nofile).maximum else { return };
        let count = usize::try_from(hard).unwrap();
        let Err(LaunchError::Files { needed, limit, .. }) = provide(count) else {
            panic!("{count} cannot be enough")
        };
        assert_eq!((needed, limit), (2 * hard + SPARE, hard));
        let few = usize::try_from(hard.saturating_sub(SPARE) / 2).unwrap();
        provide(few).unwrap();
        assert!(getrlimit(Resource::Nofile).current >= Some(2 * few as u64 + SPARE));
    }
}

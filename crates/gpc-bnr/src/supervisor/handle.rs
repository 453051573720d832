//! The node's side of its supervisor.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use chained_gpc::{Clock, TimeLimit};
use gpc_launch::name_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process_group, pidfd_open};

use super::connection::{Connection, DESCRIPTORS};
use super::orders::{SupervisorEvent, SupervisorOrder};
use super::passing::PASSED_MAX;
use super::tree::kill_tagged;
use super::{EMPTY_LIMIT, Tag};

/// Most searches for processes that a lost supervisor has left.
const SEARCHES: usize = 100;

/// Consecutive searches without a result after which none is assumed to be left. A process that loads a program has no
/// environment for a moment.
const QUIET: usize = 10;

/// The pause after each search.
const QUIET_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A running supervisor. Its methods do not block, except at its end.
///
/// Dropping it kills all that it has started, and waits for that, at most a little longer than [`EMPTY_LIMIT`].
pub struct Supervisor {
    connection: Connection,
    child: Child,
    clock: Clock,
    ended: bool,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("pid", &self.child.id()).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Starts the supervisor: a program that calls [`run`](super::run) on its standard input. It shares this process's
    /// standard error. It has a process group of its own, so that Ctrl-C at a terminal does not reach it.
    ///
    /// # Errors
    /// A system error: the program cannot be started.
    pub fn start(program: &Path, args: &[OsString]) -> io::Result<Supervisor> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut command = Command::new(program);
        // Process lists show the program's own name.
        command.arg0(name_of(program));
        chained_gpc::bootstrap::scrub(&mut command);
        command.args(args).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).process_group(0);
        let child = command.spawn()?;
        // The supervisor has the same limit; a message uses at most a quarter of it.
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let at_once = limit.map_or(PASSED_MAX, |limit| (limit / 4).clamp(DESCRIPTORS, PASSED_MAX));
        let clock = Clock::system();
        Ok(Supervisor {
            connection: Connection::new(socket, at_once, clock.clone()),
            child,
            clock,
            ended: false,
        })
    }

    /// A supervisor whose process runs already.
    #[cfg(test)]
    pub(super) fn with(connection: Connection, child: Child, clock: Clock) -> Supervisor {
        Supervisor { connection, child, clock, ended: false }
    }

    /// The counts of its connection.
    #[cfg(feature = "snapshot")]
    pub(crate) fn counts(&self) -> Vec<(&'static str, usize)> {
        self.connection.counts()
    }

    /// The socket to poll: readable if there may be an [`event`](Supervisor::event), writable if
    /// [`flush`](Supervisor::flush) can continue.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.connection.socket().as_fd()
    }

    /// The process id of the supervisor.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Queues an order; [`flush`](Supervisor::flush) sends it. A start has four descriptors, other orders have none.
    /// The descriptors are closed here once sent.
    ///
    /// A start that cannot be ordered is answered by [`SupervisorEvent::NotStarted`], like one that fails. The error is
    /// `E2BIG` if the order is longer than any system allows. It is `EAGAIN` if more than 64 MiB of orders wait, and
    /// `EBADF` if there are not four descriptors.
    pub fn order(&mut self, order: SupervisorOrder, descriptors: Vec<OwnedFd>) {
        self.connection.order(order, descriptors);
    }

    /// Sends queued orders, as far as the socket takes them and the supervisor keeps up. Returns whether all have been
    /// sent. Call it again when the socket is writable; orders that wait for answers are sent when those arrive.
    ///
    /// # Errors
    /// A system error: the supervisor is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.connection.flush()
    }

    /// The next event; `None` if the queue is empty.
    ///
    /// # Errors
    /// `UnexpectedEof` if the supervisor is gone, or another system error. Further calls are useless:
    /// [`abandon`](Supervisor::abandon) the supervisor.
    pub fn event(&mut self) -> io::Result<Option<SupervisorEvent>> {
        self.connection.event()
    }

    /// Orders the supervisor to kill all that it has started and to end. Waits for that, up to the limit; then kills
    /// the supervisor.
    pub fn end(mut self, limit: Duration) {
        self.finish(limit);
    }

    /// Gives up a supervisor that is gone or misbehaves: ends it, and kills the processes that it can have left. These
    /// are the process groups of processes without a reported end. They are also the processes that were started with
    /// `GPC_BNR_GROUP` of a group that was not emptied and `GPC_BNR_NODE` of this node. Others run on.
    pub fn abandon(mut self) {
        self.finish(EMPTY_LIMIT);
        for pid in std::mem::take(&mut self.connection.running).into_values() {
            if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                // The process may have ended in the meantime.
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        let tags: BTreeSet<Tag> = std::mem::take(&mut self.connection.tags).into_values().collect();
        let mut quiet = 0;
        // A process started during one search is found by the next.
        for _ in 0..SEARCHES {
            // A killed process stays visible until it has ended.
            quiet = if kill_tagged(&tags) > 0 { 0 } else { quiet + 1 };
            if quiet >= QUIET {
                return;
            }
            let _ = poll(&mut [], Some(&QUIET_PAUSE));
        }
    }

    fn finish(&mut self, limit: Duration) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // The supervisor may be gone.
        let _ = rustix::net::shutdown(self.connection.socket(), Shutdown::Both);
        if !wait_for(&mut self.child, &self.clock.limit(limit)) {
            let _ = self.child.kill();
            wait_for(&mut self.child, &self.clock.limit(EMPTY_LIMIT));
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.finish(EMPTY_LIMIT + Duration::from_secs(2));
    }
}

/// Waits for the end of a process. Returns whether it has ended.
pub(crate) fn wait_for(child: &mut Child, limit: &TimeLimit) -> bool {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    // Terminates with the process or the time limit.
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
        let Some(left) = limit.left() else { return false };
        // Without a pidfd, the process is polled every hundredth of a second.
        let wait = if pidfd.is_ok() { left } else { left.min(Duration::from_millis(10)) };
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        let mut watched: Vec<_> = pidfd.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
        let _ = poll(&mut watched, Some(&wait));
    }
}

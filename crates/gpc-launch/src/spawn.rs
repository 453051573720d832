//! Starts processes in parallel: the system creates one for each core at a time.
//!
//! A parent sleeps until its new child runs its program, which takes most of the time of a start.

use std::io::{self, ErrorKind, Write as _};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gpc_trees::Id;

use super::{LaunchError, Plan, name_of};
use chained_gpc::bootstrap;
use chained_gpc::runtime::Listener;

/// Maximum number of threads that start processes; more would wait for each other inside the system.
const THREADS_MAX: usize = 16;

/// Minimum number of processes for a thread of its own.
const SHARE_MIN: usize = 8;

/// Time limit for a child to read the orders that exceed its socket's buffer: the time that it waits for them itself.
const ORDERS_LIMIT: Duration = Duration::from_secs(30);

/// A started process, and the parent's end of its control link, which does not block.
pub(super) struct Started {
    pub(super) id: Id,
    pub(super) process: Child,
    pub(super) control: UnixStream,
}

/// The shared state of all threads that start processes.
pub(super) struct Spawner<'a> {
    pub(super) plan: &'a Plan,
    pub(super) orders: &'a [u8],
    /// Number of processes started so far.
    pub(super) started: AtomicUsize,
    /// Called with that number before each process; it decides whether to continue.
    pub(super) observe: &'a (dyn Fn(usize) -> ControlFlow<()> + Sync),
    /// Whether one of the threads has failed.
    pub(super) failed: AtomicBool,
}

/// The result of one thread: the processes that it has started, even if it has failed.
type Share = (Vec<Started>, Result<(), LaunchError>);

impl Spawner<'_> {
    /// Starts a process for each listener, in the order of their ids. If one cannot be started, gives up, and returns
    /// those that were started.
    pub(super) fn start_all(&self, listeners: Vec<Listener>) -> Share {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(THREADS_MAX).min(listeners.len() / SHARE_MIN).max(1);
        let mut all = Vec::with_capacity(listeners.len());
        let mut shares = cut(self.plan.ids.clone().zip(listeners).collect(), threads);
        let own = shares.pop().unwrap_or_default();
        let mut ended = Ok(());
        let mut add = |(started, result): Share| {
            all.extend(started);
            ended = std::mem::replace(&mut ended, Ok(())).and(result);
        };
        thread::scope(|scope| {
            let start = |share: Vec<(Id, Listener)>| {
                let first = share.first().map_or(self.plan.ids.start, |(id, _)| *id);
                let thread = thread::Builder::new().name("gpc-start".into());
                let thread = thread.spawn_scoped(scope, || self.start_some(share));
                thread.map_err(|error| self.error(first, "make a thread for", error))
            };
            let threads: Vec<_> = shares.into_iter().map(start).collect();
            let own = self.start_some(own);
            for thread in threads {
                add(match thread {
                    Ok(thread) => thread.join().expect("starting a process does not panic"),
                    Err(error) => (Vec::new(), Err(error)),
                });
            }
            add(own);
        });
        (all, ended)
    }

    fn start_some(&self, share: Vec<(Id, Listener)>) -> Share {
        let mut started = Vec::with_capacity(share.len());
        for (id, listener) in share {
            if (self.observe)(self.started.load(Ordering::Relaxed)).is_break() {
                return (started, Err(LaunchError::Stopped));
            }
            // The thread that has failed reports the error.
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            match self.start_one(id, listener) {
                Ok(process) => started.push(process),
                Err((doing, error)) => return (started, Err(self.error(id, doing, error))),
            }
            self.started.fetch_add(1, Ordering::Relaxed);
        }
        (started, Ok(()))
    }

    fn error(&self, id: Id, doing: &'static str, error: io::Error) -> LaunchError {
        self.failed.store(true, Ordering::Relaxed);
        LaunchError::start(id, self.plan.ids.len(), doing, error)
    }

    fn start_one(&self, id: Id, listener: Listener) -> Result<Started, (&'static str, io::Error)> {
        let (mut control, theirs) =
            UnixStream::pair().map_err(|error| ("make the control link of", error))?;
        let told = send_orders(&mut control, self.orders).map_err(|error| ("give orders to", error))?;
        let mut command = Command::new(&self.plan.exe);
        command.arg0(name_of(&self.plan.exe));
        // The child is not a process of the launcher that has started this one.
        bootstrap::scrub(&mut command);
        let spawned = command
            .args(&self.plan.arguments)
            .arg(id.to_string())
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            // Ctrl-C at the terminal must reach only the parent, which ends its children in order.
            .process_group(0)
            .spawn();
        // With it goes the other end of the control link: if the process closes its own, a write fails at once.
        drop(command);
        let mut process = spawned.map_err(|error| ("start", error))?;
        if let Err(error) = send_rest(&mut control, &self.orders[told..]) {
            // The process is useless and must not stay. The result of killing it no longer matters.
            let _ = process.kill().and_then(|()| process.wait());
            return Err(("give all orders to", error));
        }
        Ok(Started { id, process, control })
    }
}

/// Writes as much as the link's buffer takes, so that the child need not wait; returns the number of bytes.
fn send_orders(control: &mut UnixStream, orders: &[u8]) -> io::Result<usize> {
    control.set_nonblocking(true)?;
    match control.write(orders) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        told => told,
    }
}

/// Waits until the child has read the rest, if there is any.
fn send_rest(control: &mut UnixStream, rest: &[u8]) -> io::Result<()> {
    if rest.is_empty() {
        return Ok(());
    }
    control.set_nonblocking(false)?;
    control.set_write_timeout(Some(ORDERS_LIMIT))?;
    control.write_all(rest)?;
    control.set_nonblocking(true)
}

/// Splits a list into `parts` parts of about the same length.
fn cut<T>(mut list: Vec<T>, parts: usize) -> Vec<Vec<T>> {
    let mut cut: Vec<Vec<T>> =
        (1..parts).rev().map(|left| list.split_off(list.len() - list.len() / (left + 1))).collect();
    cut.push(list);
    cut.reverse();
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_into_parts_of_about_the_same_length() {
        for (len, parts) in [(0, 1), (1, 1), (7, 2), (8, 3), (100, 16)] {
            let cut = cut((0..len).collect(), parts);
            let lengths: Vec<usize> = cut.iter().map(Vec::len).collect();
            assert_eq!(lengths.len(), parts);
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
            assert_eq!(cut.concat(), (0..len).collect::<Vec<_>>());
        }
    }

    /// One thread reports why a launch fails; the others start nothing more, and have no error of their own.
    #[test]
    fn threads_stop_after_the_failure_of_another() {
        let plan = Plan::new(1..2, "/nowhere/gpc", &[]);
        let spawner = Spawner {
            plan: &plan,
            orders: b"",
            started: AtomicUsize::new(0),
            observe: &|_| ControlFlow::Continue(()),
            failed: AtomicBool::new(false),
        };
        let start = || {
            let (listeners, _) = plan.link.listen(plan.ids.clone()).unwrap();
            let (started, ended) = spawner.start_some(plan.ids.clone().zip(listeners).collect());
            assert!(started.is_empty());
            ended.is_ok()
        };
        assert_eq!([start(), start()], [false, true]);
    }

    /// A program that closes its end of the control link without reading its orders ran on unnoticed.
    #[test]
    fn a_process_that_takes_no_orders_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().join("number");
        let script = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600 >&- <&-", number.display());
        let plan = Plan::new(1..2, "/bin/sh", &["-c", &script]);
        // More than the socket holds.
        let orders = vec![b'x'; 4 << 20];
        let spawner = Spawner {
            plan: &plan,
            orders: &orders,
            started: AtomicUsize::new(0),
            observe: &|_| ControlFlow::Continue(()),
            failed: AtomicBool::new(false),
        };
        let (mut listeners, _) = plan.link.listen(plan.ids.clone()).unwrap();
        let (doing, _) = spawner.start_one(1, listeners.remove(0)).map(drop).unwrap_err();
        assert_eq!(doing, "give all orders to");
        let process: i32 = std::fs::read_to_string(number).unwrap().trim().parse().unwrap();
        let process = rustix::process::Pid::from_raw(process).unwrap();
        let is_there = rustix::process::test_kill_process(process).is_ok();
        if is_there {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        assert!(!is_there, "it runs on");
    }
}

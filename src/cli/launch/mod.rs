//! Starts the node processes of a call on this machine, and ends every one of them.
//!
//! The parent binds each node's listening socket and hands it over as the child's standard input, so every address is known, and can be
//! connected to, before the first child runs. The child's standard output is its end of a *control link*, a pair of Unix sockets: the parent
//! writes the table of all addresses to it, and closes it to end the child. When the parent dies, however it dies, the system closes the link,
//! and the children end as well. A child keeps its end open as long as it lives, so the parent reads there that a child has ended.
//!
//! Never leaves a process or a file behind: dropping a [`Launch`] ends what it started.

mod error;
mod files;

pub use error::LaunchError;
pub(super) use files::provide as provide_files;

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gpc_trees::{Id, IdList};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::PROCESSES_MAX;
use crate::runtime::{LinkKind, Listener, Peers};

/// The line that ends the table on a control link.
pub(super) const TABLE_END: &str = "end\n";

/// How long a child may take to read what does not fit into its socket at once: as long as it waits for the table itself.
const TABLE_LIMIT: Duration = Duration::from_secs(30);

/// How long children have to end when a launch is dropped.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// From how many processes on a terminal sees how many have been started; fewer take no noticeable time.
const PROGRESS_MIN: usize = 128;

/// What to start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ids of the nodes to start, at most [`PROCESSES_MAX`].
    pub ids: Range<Id>,
    /// How they listen.
    pub link: LinkKind,
    /// The program: `gpc` itself.
    pub exe: PathBuf,
    /// Arguments between `node --launched` and `--id I`.
    pub args: Vec<OsString>,
    /// Other nodes that the started ones are told about, such as the one of this process.
    pub others: Peers,
}

/// Node processes that are running.
#[derive(Debug)]
pub struct Launch {
    /// By id, without gaps.
    nodes: Vec<Node>,
    first: Id,
    peers: Peers,
}

/// How the processes ended that [`Launch::end`] ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ended {
    /// Ids that did not end in time and were killed.
    pub killed: Vec<Id>,
    /// Ids that ended otherwise than orderly, and how.
    pub failed: Vec<(Id, String)>,
}

#[derive(Debug)]
struct Node {
    id: Id,
    process: Child,
    control: UnixStream,
    /// Once it is reaped.
    status: Option<ExitStatus>,
}

impl Launch {
    /// Starts a process per id, and tells each where all of them listen.
    ///
    /// # Errors
    /// When one cannot be started; those that have been started are ended then.
    pub fn start(plan: &Plan) -> Result<Launch, LaunchError> {
        Launch::start_unless(plan, || false)
    }

    /// Like [`start`](Self::start), and gives up as soon as it is to `stop`: thousands of processes take seconds.
    ///
    /// # Errors
    /// The same, and [`LaunchError::Stopped`].
    pub fn start_unless(plan: &Plan, stop: impl Fn() -> bool) -> Result<Launch, LaunchError> {
        let count = plan.ids.len();
        if count > PROCESSES_MAX as usize {
            return Err(LaunchError::TooMany { count });
        }
        files::provide(count)?;
        let mut launch =
            Launch { nodes: Vec::with_capacity(count), first: plan.ids.start, peers: plan.others.clone() };
        let progress = progress_bar(count);
        for id in plan.ids.clone() {
            if stop() {
                return Err(LaunchError::Stopped);
            }
            launch.start_one(plan, id).map_err(|(doing, error)| LaunchError::Start {
                id,
                count,
                doing,
                error,
            })?;
            progress.inc(1);
        }
        progress.finish_and_clear();
        launch.tell_all(stop)?;
        Ok(launch)
    }

    /// Where all nodes listen, the others of the plan included.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The number of an id's process.
    pub fn process_of(&self, id: Id) -> Option<u32> {
        self.node(id).map(|node| node.process.id())
    }

    /// The numbers of all processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.process.id())
    }

    /// How an id's process ended, such as `killed by signal 9 (SIGKILL)` or `exit status 1`; `None` when it runs. What it says is for people.
    ///
    /// A process that dies loses its connections one by one, so who has just lost one of them waits a moment for the rest: `patience`.
    pub fn exit_of(&mut self, id: Id, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        let place = id.checked_sub(self.first)? as usize;
        let status = self.nodes.get_mut(place)?.ended_by(deadline)?;
        Some(describe(status))
    }

    /// Of some ids, the lowest whose process has ended by itself.
    pub fn first_ended(&mut self, among: &IdList) -> Option<Id> {
        let now = Instant::now();
        let nodes = self.nodes.iter_mut().filter(|node| among.contains(node.id));
        nodes.into_iter().find_map(|node| node.ended_by(now).map(|_| node.id))
    }

    /// Ends all processes: closes every control link, waits until all have ended or the limit has passed, kills the stragglers, and reaps all.
    pub fn end(mut self, limit: Duration) -> Ended {
        self.end_all(limit)
    }

    fn end_all(&mut self, limit: Duration) -> Ended {
        for node in &self.nodes {
            // Fails when the child has gone already.
            let _ = node.control.shutdown(Shutdown::Write);
        }
        let deadline = Instant::now() + limit;
        let mut ended = Ended::default();
        for node in &mut self.nodes {
            if node.ended_by(deadline).is_none() {
                ended.killed.push(node.id);
                // All stragglers are dying before the first one is waited for.
                let _ = node.process.kill();
            }
        }
        for node in &mut self.nodes {
            match node.reap() {
                Some(status) if !status.success() && !ended.killed.contains(&node.id) => {
                    ended.failed.push((node.id, describe(status)));
                }
                _ => {}
            }
        }
        self.nodes.clear();
        ended
    }

    fn start_one(&mut self, plan: &Plan, id: Id) -> Result<(), (&'static str, io::Error)> {
        let listener = Listener::bind(&plan.link.fresh_address(id)).map_err(|error| ("listen for", error))?;
        let address = listener.address().map_err(|error| ("listen for", error))?;
        let (control, theirs) = UnixStream::pair().map_err(|error| ("make the control link of", error))?;
        let process = Command::new(&plan.exe)
            .args(["node", "--launched"])
            .args(&plan.args)
            .args(["--id", &id.to_string()])
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            // Ctrl-C at the terminal is for the parent, which ends its children in order.
            .process_group(0)
            .spawn()
            .map_err(|error| ("start", error))?;
        self.peers.insert(id, address);
        self.nodes.push(Node { id, process, control, status: None });
        Ok(())
    }

    fn tell_all(&mut self, stop: impl Fn() -> bool) -> Result<(), LaunchError> {
        let table = format!("{}{TABLE_END}", self.peers);
        let count = self.nodes.len();
        for node in &mut self.nodes {
            if stop() {
                return Err(LaunchError::Stopped);
            }
            let told = node
                .control
                .set_write_timeout(Some(TABLE_LIMIT))
                .and_then(|()| node.control.write_all(table.as_bytes()));
            if let Err(error) = told {
                let error = match node.ended_by(Instant::now()) {
                    Some(status) => io::Error::other(format!("it ended at once: {}", describe(status))),
                    None => error,
                };
                return Err(LaunchError::Start { id: node.id, count, doing: "tell the addresses to", error });
            }
        }
        Ok(())
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id.checked_sub(self.first)? as usize)
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        self.end_all(DROP_LIMIT);
    }
}

impl Node {
    /// Waits until the process has ended, no longer than to the deadline.
    fn ended_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        if self.status.is_none() && self.is_closed_by(deadline) {
            // It closes its end by dying alone, so this only hastens one that is not the program it should be; a status is never changed by it.
            let _ = self.process.kill();
            self.reap();
        }
        self.status
    }

    /// Whether the child's end of the control link is closed.
    fn is_closed_by(&mut self, deadline: Instant) -> bool {
        // Nothing is expected there; whatever comes is not kept.
        let mut ignored = [0; 512];
        loop {
            let read = self.read_by(deadline, &mut ignored);
            match read {
                Ok(0) => return true,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return false;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Reset by a child that died with the table unread.
                Err(_) => return true,
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }

    fn read_by(&mut self, deadline: Instant, into: &mut [u8]) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would be none at all.
        self.control.set_nonblocking(left.is_zero())?;
        self.control.set_read_timeout(Some(left).filter(|left| !left.is_zero()))?;
        self.control.read(into)
    }

    /// Waits for a process that is dying.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.status = self.status.or_else(|| self.process.wait().ok());
        self.status
    }
}

fn progress_bar(count: usize) -> ProgressBar {
    if count < PROGRESS_MIN {
        return ProgressBar::hidden();
    }
    // Draws on standard error, and only where that is a terminal.
    let style = ProgressStyle::with_template("starting processes {wide_bar} {pos}/{len}");
    ProgressBar::new(count as u64).with_style(style.expect("the template is well formed"))
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal).unwrap_or("unknown");
            format!("killed by signal {signal} ({name})")
        }
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_described() {
        assert_eq!(describe(ExitStatus::from_raw(0)), "exit status 0");
        assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exit status 1");
        assert_eq!(describe(ExitStatus::from_raw(9)), "killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn what_cannot_be_started_is_said() {
        let plan = Plan {
            ids: 1..3,
            link: LinkKind::Tcp,
            exe: "/nowhere/gpc".into(),
            args: vec![],
            others: Peers::new(),
        };
        let error = Launch::start(&plan).unwrap_err().to_string();
        assert!(error.starts_with("cannot start the process of id 1 (of 2): No such file"), "{error}");
        let error = Launch::start(&Plan { ids: 1..PROCESSES_MAX + 2, ..plan }).unwrap_err();
        assert!(matches!(error, LaunchError::TooMany { count: 4097 }));
    }
}

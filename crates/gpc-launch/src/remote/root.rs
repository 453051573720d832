//! The root's side of a launch over hosts: a thread that supervises the agents, and the interface of the process that
//! makes the calls.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::iter::repeat_n;
use std::net::Shutdown;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpc_trees::{Id, IdList};
use rustix::event::PollFlags;

use super::agent::forward_log_line;
use super::answer::{Answer, StartReport};
use super::driver::Driver;
use super::error::{LostProcesses, RemoteError};
use super::network::{Network, place};
use super::share::{HostIds, REMOTE_PROCESSES_MAX, Share, is_name};
use super::task::{Book, Task};
use crate::{NodeSettings, provide_files, this_program};
use chained_gpc::Clock;
use chained_gpc::bootstrap::HostSlots;
use chained_gpc::link::peering::{PrivateKey, Secret};
use chained_gpc::runtime::{Address, Builder, Job, Peers};
use chained_gpc::wire::Shown;

/// The id of the process that starts the others.
const ROOT: Id = 0;

/// Time limit for the processes to end when a launch is dropped or given up.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// How often the observer of a start is called.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum sleep of the thread: every event wakes it.
const SLEEP: Duration = Duration::from_secs(60);

/// Maximum number of losses that are stored.
const LOST_MAX: usize = 4096;

/// What to start, on which hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RemotePlan {
    /// The hosts, as the command takes their names, each once, and their slots. A slot is room for one process: the
    /// launch starts a process in each.
    pub hosts: Vec<HostSlots>,
    /// The command that runs another one on a host, `ssh -o BatchMode=yes` by default. The name of the host replaces
    /// each `{host}` in its words, or is appended if there is none; the other command follows. If there is no word, all
    /// hosts are this machine: the agents are started as its processes.
    pub rsh: Vec<OsString>,
    /// The path of the program on the hosts.
    pub program: PathBuf,
    /// The program's arguments, by which it [recognizes](super::is_agent) that a launch has started it.
    pub arguments: Vec<OsString>,
    /// Settings of all nodes.
    pub settings: NodeSettings,
    /// Maximum number of agents on other hosts that one agent starts, 8 by default; it holds a connection to each.
    pub fan_out: NonZeroU32,
    /// Time limit for a host to report; 30 s by default.
    pub start_limit: Duration,
    /// The network through which the nodes reach each other; by default the one by which the hosts were reached.
    pub network: Option<Network>,
    /// Whether to go on without hosts that do not report; `false` by default.
    pub partial: bool,
}

impl RemotePlan {
    /// Creates a plan with the defaults; its fields may be changed. A host that is only a name has one slot.
    pub fn new<H: Into<HostSlots>>(
        hosts: impl IntoIterator<Item = H>,
        program: impl Into<PathBuf>,
        arguments: &[&str],
    ) -> RemotePlan {
        RemotePlan {
            hosts: hosts.into_iter().map(Into::into).collect(),
            rsh: ["ssh", "-o", "BatchMode=yes"].map(OsString::from).to_vec(),
            program: program.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            settings: NodeSettings::default(),
            fan_out: NonZeroU32::MIN.saturating_add(7),
            start_limit: Duration::from_secs(30),
            network: None,
            partial: false,
        }
    }

    /// Number of processes that it starts, without the root.
    pub fn processes(&self) -> u32 {
        self.hosts.iter().fold(0, |sum, host| sum.saturating_add(host.slots))
    }

    /// Number of processes on the host with the most, at least 1.
    pub fn processes_per_host_max(&self) -> NonZeroU32 {
        let most = self.hosts.iter().map(|host| host.slots).max();
        most.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN)
    }

    /// The ids that it starts, in order, each with its host.
    pub fn ids(&self) -> impl Iterator<Item = (Id, &str)> {
        let names = self.hosts.iter().flat_map(|host| repeat_n(host.name.as_str(), host.slots as usize));
        (1..).zip(names)
    }

    /// Checks the plan before anything is started.
    ///
    /// # Errors
    /// The variants of [`RemoteError`] about the plan.
    pub fn check(&self) -> Result<(), RemoteError> {
        self.share().map(drop)
    }

    fn share(&self) -> Result<Share, RemoteError> {
        let count: u64 = self.hosts.iter().map(|host| u64::from(host.slots)).sum();
        if self.hosts.is_empty() {
            return Err(RemoteError::NoHost);
        }
        if count > REMOTE_PROCESSES_MAX.into() {
            return Err(RemoteError::TooMany(count));
        }
        let mut names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(RemoteError::Name(Shown(&name.chars().take(40).collect::<String>()).to_string()));
        }
        if let Some(host) = self.hosts.iter().find(|host| host.slots == 0) {
            return Err(RemoteError::NoSlot(host.name.clone()));
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(RemoteError::Twice(pair[0].into()));
        }
        let mut first = 1;
        let host = |host: &HostSlots| {
            let ids = HostIds { first, count: host.slots, name: host.name.clone() };
            first = ids.end();
            ids
        };
        Ok(self.hosts.iter().map(host).collect())
    }
}

/// Node processes on other hosts. Dropping it [ends](Self::end) them.
#[derive(Debug)]
pub struct RemoteLaunch {
    peers: Peers,
    secret: Secret,
    key: PrivateKey,
    shared: Arc<Shared>,
    /// Closing the socket ends the thread; `None` once it has ended.
    thread: Option<(UnixStream, JoinHandle<()>)>,
}

/// State that the thread shares with the launch.
#[derive(Debug, Default)]
struct Shared {
    /// Number of processes that have reported.
    running: AtomicUsize,
    /// Time limit for the processes to end, milliseconds.
    end_limit: AtomicU64,
    /// Ids that were not started, or were lost later.
    lost: Mutex<Vec<LostProcesses>>,
    /// Notified of each loss.
    more: Condvar,
}

/// The result of a start, once the state of every process is known.
type Started = Result<Peers, RemoteError>;

impl RemoteLaunch {
    /// Starts the processes, and returns when all of them run and have the addresses of all.
    ///
    /// # Errors
    /// If the plan is invalid, or a host does not report and the plan is not [partial](RemotePlan::partial). No process
    /// is left running then.
    pub fn start(plan: &RemotePlan) -> Result<RemoteLaunch, RemoteError> {
        RemoteLaunch::start_observed(plan, |_| ControlFlow::Continue(()))
    }

    /// Like [`start`](Self::start), with a periodic call of `observe` with the number of processes that have reported;
    /// at the first [`ControlFlow::Break`] the launch is given up.
    ///
    /// # Errors
    /// The same, and [`RemoteError::Stopped`].
    pub fn start_observed(
        plan: &RemotePlan,
        mut observe: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<RemoteLaunch, RemoteError> {
        let system = |what| move |error| RemoteError::System(what, error);
        let exe = this_program().map_err(system("find this program"))?;
        let task = Task {
            limit: plan.start_limit,
            fan_out: plan.fan_out,
            network: plan.network,
            rsh: plan.rsh.clone(),
            program: plan.program.clone().into(),
            arguments: plan.arguments.clone(),
            settings: NodeSettings {
                processes: plan.settings.processes.or(Some(plan.processes_per_host_max())),
                ..plan.settings
            },
            share: plan.share()?,
        };
        // Three pipes and a pidfd for each. If the limit is too low, the error names the host that lacks descriptors.
        let _ = provide_files(4 * plan.fan_out.get() as usize);
        let secret = Secret::random().map_err(system("draw a secret"))?;
        let key = PrivateKey::random().map_err(system("draw a key"))?;
        let shared = Arc::new(Shared::default());
        shared.end_limit.store(DROP_LIMIT.as_millis() as u64, Ordering::Relaxed);
        let (ours, theirs) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        let (ready, started) = channel();
        let supervisor = Supervisor {
            driver: Driver::new(task, (exe.into(), plan.arguments.clone()), Clock::system()),
            stop: theirs,
            shared: Arc::clone(&shared),
            partial: plan.partial,
            root: (place().map_err(system("find out which machine this is"))?, secret.clone(), key.clone()),
            running: BTreeMap::new(),
        };
        let thread = thread::Builder::new().name("gpc-hosts".into()).spawn(move || supervisor.run(&ready));
        let thread = thread.map_err(system("make a thread"))?;
        let mut launch =
            RemoteLaunch { peers: Peers::new(), secret, key, shared, thread: Some((ours, thread)) };
        // If the start fails, dropping the launch ends the processes that were started.
        launch.peers = launch.wait(&started, &mut observe)?;
        Ok(launch)
    }

    fn wait(
        &self,
        started: &Receiver<Started>,
        observe: &mut impl FnMut(usize) -> ControlFlow<()>,
    ) -> Started {
        // Terminates: every agent has a time limit, and the end of the thread closes the channel.
        loop {
            match started.recv_timeout(POLL_INTERVAL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RemoteError::System("wait for the hosts", io::ErrorKind::BrokenPipe.into()));
                }
            }
            if observe(self.shared.running.load(Ordering::Relaxed)).is_break() {
                return Err(RemoteError::Stopped);
            }
        }
    }

    /// The addresses of the processes, with their keys and the job. Processes that could not be started are left out.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Configures the root's node with the addresses of the others, the secret and the root's key.
    pub fn root(&self, builder: Builder) -> Builder {
        builder.peers(self.peers.clone()).secret(self.secret.clone()).key(self.key.clone()).first_run()
    }

    /// Ids whose processes could not be started, or have gone since then, as far as the root knows, and why.
    pub fn lost(&self) -> Vec<LostProcesses> {
        self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the lowest id of `among` whose process could not be started, or has gone.
    pub fn first_lost(&self, among: &IdList) -> Option<Id> {
        let all = self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = all.iter().flat_map(|lost| lost.first..lost.first + lost.count);
        ids.filter(|&id| among.contains(id)).min()
    }

    /// Returns why an id's process could not be started, or has gone; `None` if neither is known. A caller that has
    /// just lost a link with it waits up to `patience` for the report.
    pub fn why_lost(&self, id: Id, patience: Duration) -> Option<String> {
        let find =
            |lost: &[LostProcesses]| lost.iter().find(|lost| lost.has(id)).map(|lost| lost.why.clone());
        let lost = self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.shared.more.wait_timeout_while(lost, patience, |lost| find(lost).is_none());
        let (lost, _) = waited.unwrap_or_else(PoisonError::into_inner);
        find(&lost)
    }

    /// Ends all processes; kills those that do not end within the limit.
    pub fn end(mut self, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.shared.end_limit.store(limit, Ordering::Relaxed);
        self.stop();
    }

    fn stop(&mut self) {
        let Some((stop, thread)) = self.thread.take() else { return };
        // Fails if the thread has ended already.
        let _ = stop.shutdown(Shutdown::Both);
        // A panic of the thread was reported when it happened.
        let _ = thread.join();
    }
}

impl Drop for RemoteLaunch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread that supervises the agents. It must live as long as they do, since the system ends them with the thread
/// that has started them.
struct Supervisor {
    driver: Driver,
    /// The other side closes it to end the thread.
    stop: UnixStream,
    shared: Arc<Shared>,
    partial: bool,
    /// The place, the secret and the key of the root.
    root: (String, Secret, PrivateKey),
    running: BTreeMap<Id, StartReport>,
}

impl Supervisor {
    fn run(mut self, ready: &Sender<Started>) {
        if let Some(result) = self.supervise(ready) {
            // Fails if the launch was given up.
            let _ = ready.send(Err(result));
        }
        let limit = Duration::from_millis(self.shared.end_limit.load(Ordering::Relaxed));
        self.driver.end(limit);
    }

    /// Runs until the launch ends; returns an error if the start has failed.
    fn supervise(&mut self, ready: &Sender<Started>) -> Option<RemoteError> {
        self.driver.start(true);
        let mut started = false;
        loop {
            let answers = self.driver.answers();
            self.record_reports(answers);
            if !started && self.driver.is_done() {
                started = true;
                match self.introduce() {
                    // Fails if the launch was given up; the next poll sees that.
                    Ok(peers) => drop(ready.send(Ok(peers))),
                    Err(error) => return Some(error),
                }
            }
            self.driver.take_log().iter().for_each(|line| forward_log_line(&Shown(line).to_string()));
            match self.driver.turn(&[(self.stop.as_fd(), PollFlags::IN)], SLEEP) {
                Ok(ready) if ready.iter().all(|flags| flags.is_empty()) => {}
                Ok(_) => return None,
                Err(error) => return Some(RemoteError::System("wait for the hosts", error)),
            }
        }
    }

    /// Records the reports of agents.
    fn record_reports(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            match answer {
                Answer::Started(here) => drop(self.running.insert(here.id, here)),
                Answer::Down(gone) | Answer::Lost(gone) => {
                    self.running.retain(|id, _| !gone.has(*id));
                    self.lose(LostProcesses { first: gone.first, count: gone.count, why: gone.why });
                }
                Answer::Wait | Answer::Done => {}
            }
        }
        self.shared.running.store(self.running.len(), Ordering::Relaxed);
    }

    fn lose(&self, lost: LostProcesses) {
        let mut all = self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < LOST_MAX {
            all.push(lost);
        }
        self.shared.more.notify_all();
    }

    fn host_of(&self, id: Id) -> String {
        let host = self.driver.share().iter().find(|host| (host.first..host.end()).contains(&id));
        host.map_or_else(String::new, |host| format!("host {}", host.name))
    }

    /// Sends the addresses of all to all.
    fn introduce(&mut self) -> Started {
        let (place, secret, key) = &self.root;
        let one_place = self.running.values().all(|here| here.place == *place);
        let mut peers = Peers::new();
        for here in self.running.values() {
            let address = if one_place { Some(here.loopback) } else { here.address };
            match address {
                Some(address) => {
                    peers.insert(here.id, Address::Tcp(address));
                    peers.set_key(here.id, here.key);
                }
                None => self.lose(LostProcesses {
                    first: here.id,
                    count: 1,
                    why: format!(
                        "{}: it has no address, or none in the network, that other hosts reach",
                        self.host_of(here.id)
                    ),
                }),
            }
        }
        let mut lost = self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !lost.is_empty() && !self.partial {
            lost.sort_by_key(|lost| lost.first);
            return Err(RemoteError::Hosts(lost));
        }
        peers.set_job(Job::random());
        let book = Book::write(&peers, secret, (ROOT, key.public()));
        self.driver.send_to_all(&book);
        Ok(peers)
    }
}

#[cfg(test)]
mod tests;

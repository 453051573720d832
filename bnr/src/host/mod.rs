//! One node of a domain on sockets: the loop that drives [`Domain`], the processes of this host, and the calls to other
//! nodes.
//!
//! [`Host`] is the head of a domain, such as `gpc run`. [`Serving`] is a node that serves the domains of other nodes.
#![allow(clippy::disallowed_methods, reason = "the loop gives the machine the time")]

mod calls;
mod clients;
mod doing;
mod doors;
mod engine;
mod foreign;
mod input;
mod looking;
mod mailbox;
mod outflow;
mod peer;
mod processes;
mod serving;
mod unread;
mod visits;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chained_gpc::Caller;
use chained_gpc::trees::Id;
use mio::Poll;
use rustix::process::{Resource, getrlimit, setrlimit};

use self::doors::Doors;
use self::engine::{Engine, Parts, WAKER, host_name};
use self::mailbox::{Post, Told};
use self::outflow::{Outflow, Way, Writing};
use self::serving::Shared;
use crate::domain::{Domain, Settings};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Member};
use crate::request::{Answer, Request};
use crate::start_error::StartFailure;
use crate::streams::Piece;

pub use serving::Serving;

/// Most batches that wait for the output writer. The windows of the nodes bound their bytes.
const WRITINGS_MAX: usize = 4;

/// The supervisor's command: a program that calls [`keeper::run`](crate::keeper::run) on its standard input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Writes output: receives pieces of whole lines, or of lines that are longer than a piece.
pub type Writer = Box<dyn FnMut(&Piece) -> io::Result<()> + Send>;

/// Parameters of the head of a domain.
#[non_exhaustive]
pub struct HostSettings {
    /// The id of the head.
    pub me: Id,
    /// The nodes of the domain, the head first.
    pub nodes: Vec<Id>,
    /// Whether the head runs processes as well. Always true if it is the only node.
    pub runs: bool,
    /// The supervisor's command.
    pub keeper: KeeperCommand,
    /// The bounds of the domain.
    pub limits: Limits,
    /// Listener for commands of the same user.
    pub tools: Option<UnixListener>,
    /// Writes output; if `None`, output is dropped.
    pub output: Option<Writer>,
    /// The node that reaches the others, with [`Serving::attach`] called; `None` for a domain of one node.
    pub serving: Option<Serving>,
    /// Whether processes connect to a loopback port, for programs that do not know `PMI_FD`.
    pub pmi_port: bool,
}

impl HostSettings {
    /// A domain of one node, without a socket for commands and without a writer for output.
    pub fn new(keeper: KeeperCommand) -> HostSettings {
        HostSettings {
            me: 0,
            nodes: vec![0],
            runs: true,
            keeper,
            limits: Limits::default(),
            tools: None,
            output: None,
            serving: None,
            pmi_port: false,
        }
    }
}

impl fmt::Debug for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSettings")
            .field("me", &self.me)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

/// An event in a domain, for the application that began it.
#[derive(Debug)]
#[non_exhaustive]
pub enum HostEvent {
    /// A process has ended, in a group that the application has [subscribed](Request::Subscribe) to.
    Death(Death),
    /// A process has aborted its group.
    Aborted {
        /// The process.
        member: Member,
        /// The requested exit status.
        code: u8,
        /// The reason.
        message: String,
    },
    /// Processes of a group could not be started. All such events of a group precede the answer to its start.
    NotStarted(StartFailure),
    /// A group that a process has spawned was started.
    Spawned {
        /// The group.
        group: GroupId,
        /// Number of its processes.
        count: u32,
    },
    /// A process has requested the kill of a group, which explains the group's later deaths.
    Killed {
        /// The group.
        group: GroupId,
        /// The process.
        by: Member,
        /// Number of the group's processes that had ended before; theirs are the first deaths that are reported.
        dead: usize,
    },
    /// A problem that a person may want to see.
    Warning(String),
    /// Output could not be written.
    Output(io::Error),
    /// The domain has ended.
    Ended,
}

/// The head of a domain. Dropping it ends the domain and kills all its processes.
pub struct Host {
    post: Post,
    name: String,
    events: Receiver<HostEvent>,
    thread: Option<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
}

impl Host {
    /// Begins a domain.
    ///
    /// # Errors
    /// A system error: a thread or a descriptor cannot be created.
    pub fn start(settings: HostSettings) -> io::Result<Host> {
        let name = random_name()?;
        let poll = Poll::new()?;
        let (post, inbox) = Post::new(poll.registry(), WAKER)?;
        let (tell, events) = mpsc::channel();
        let (way, writer) = match settings.output {
            Some(write) => {
                let (sender, writings) = mpsc::sync_channel(WRITINGS_MAX);
                (Way::Written(sender), Some(start_writer(write, writings, post.clone())?))
            }
            None => (Way::Dropped, None),
        };
        let began = Instant::now();
        let runs = settings.runs || settings.nodes.len() == 1;
        let domain = Domain::new(
            Settings {
                me: settings.me,
                nodes: settings.nodes.clone(),
                runs,
                name: name.clone(),
                limits: settings.limits,
                host: host_name(),
            },
            Duration::ZERO,
        );
        let shared = settings.serving.as_ref().map(|serving| serving.shared().clone());
        if let Some(shared) = &shared {
            shared.insert(&name, post.clone());
        }
        let engine = Engine::new(Parts {
            poll,
            post: post.clone(),
            inbox,
            me: settings.me,
            outflow: Outflow::new(settings.me, settings.nodes.clone(), way),
            nodes: settings.nodes,
            name: name.clone(),
            domain,
            began,
            keeper: settings.keeper,
            keeps: runs,
            doors: Doors::open(settings.tools, settings.pmi_port)?,
            events: Some(tell),
            calls: shared.as_ref().and_then(|shared| shared.handles.get().copied()),
            caller: shared.as_ref().and_then(|shared| shared.caller.get().cloned()),
        });
        let thread = spawn(engine, name.clone(), shared)?;
        Ok(Host { post, name, events, thread: Some(thread), writer })
    }

    /// The name of the domain.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The events of the domain.
    pub fn events(&self) -> &Receiver<HostEvent> {
        &self.events
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// Those of the request, or `TimedOut` if there is no answer within the limit.
    pub fn ask(&self, request: Request, limit: Duration) -> Result<Answer, Fault> {
        let (sender, answer) = mpsc::sync_channel(1);
        // The receiver may have stopped waiting.
        self.ask_then(request, move |result| drop(sender.send(result)));
        answer.recv_timeout(limit).unwrap_or_else(|_| {
            Err(Fault::new(FaultKind::TimedOut, format!("the domain has not answered within {limit:?}")))
        })
    }

    /// Sends a request and passes the answer to `then`, which runs on the domain's thread. It must be short and must
    /// not block.
    pub fn ask_then(&self, request: Request, then: impl FnOnce(Result<Answer, Fault>) + Send + 'static) {
        let told = Told::Ask { request: Box::new(request), then: Box::new(then) };
        if let Err(Told::Ask { then, .. }) = self.post.tell(told) {
            then(Err(Fault::new(FaultKind::DomainEnded, "the domain has ended")));
        }
    }

    /// A handle by which another thread passes standard input.
    pub fn feeder(&self) -> Feeder {
        Feeder { post: self.post.clone() }
    }

    /// Sends a signal to the processes of one group, or of all groups.
    pub fn signal(&self, group: Option<GroupId>, signal: u8) {
        // A domain that has ended has no processes.
        let _ = self.post.tell(Told::Signal { group, signal });
    }

    /// Waits until all output of ended processes is written. Returns whether that was done within the limit.
    pub fn drain(&self, limit: Duration) -> bool {
        self.wait_for(Told::Drain, limit)
    }

    /// Ends the domain and kills all its processes. Returns whether that was done within the limit.
    pub fn end(mut self, limit: Duration) -> bool {
        let ended = self.wait_for(Told::End, limit);
        if ended {
            self.join();
        }
        ended
    }

    fn wait_for(&self, told: impl FnOnce(SyncSender<()>) -> Told, limit: Duration) -> bool {
        let (sender, done) = mpsc::sync_channel(1);
        match self.post.tell(told(sender)) {
            Ok(()) => !matches!(done.recv_timeout(limit), Err(mpsc::RecvTimeoutError::Timeout)),
            Err(_) => true,
        }
    }

    fn join(&mut self) {
        for thread in [self.thread.take(), self.writer.take()].into_iter().flatten() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let (sender, _) = mpsc::sync_channel(1);
        let _ = self.post.tell(Told::End(sender));
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Passes standard input to rank 0.
#[derive(Clone, Debug)]
pub struct Feeder {
    post: Post,
}

impl Feeder {
    /// Passes these bytes, and waits until they are in the process's pipe. No bytes mean the end of the input.
    ///
    /// # Errors
    /// `BrokenPipe` if no process reads any more.
    pub fn feed(&self, bytes: Vec<u8>) -> io::Result<()> {
        let (sender, taken) = mpsc::sync_channel(1);
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the domain has ended");
        self.post.tell(Told::Feed { data: Bytes::from(bytes), then: sender }).map_err(|_| ended())?;
        // The wait lasts as long as the process does not read; the process's end ends it.
        taken.recv().map_err(|_| ended())?
    }
}

/// Starts the loop of a domain that another node leads.
fn begin_elsewhere(
    shared: &Arc<Shared>,
    name: &str,
    me: Id,
    nodes: &[Id],
    limits: Limits,
    caller: Caller,
) -> io::Result<Post> {
    let poll = Poll::new()?;
    let (post, inbox) = Post::new(poll.registry(), WAKER)?;
    let settings =
        Settings { me, nodes: nodes.to_vec(), runs: true, name: name.into(), limits, host: host_name() };
    let engine = Engine::new(Parts {
        poll,
        post: post.clone(),
        inbox,
        me,
        outflow: Outflow::new(me, nodes.to_vec(), Way::Sent),
        nodes: nodes.to_vec(),
        name: name.into(),
        domain: Domain::new(settings, Duration::ZERO),
        began: Instant::now(),
        keeper: shared.command.clone(),
        keeps: false,
        doors: Doors::default(),
        events: None,
        calls: shared.handles.get().copied(),
        caller: Some(caller),
    });
    shared.insert(name, post.clone());
    spawn(engine, name.into(), Some(shared.clone()))?;
    Ok(post)
}

fn spawn(engine: Engine, name: String, shared: Option<Arc<Shared>>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("bnr-domain".into()).spawn(move || {
        // From then on messages would not be read, while the supervisor may take some time to end.
        engine.run(|| shared.iter().for_each(|shared| shared.remove(&name)));
    })
}

/// Starts the thread that writes output; a slow reader blocks only this thread.
fn start_writer(mut write: Writer, writings: Receiver<Writing>, post: Post) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("bnr-output".into()).spawn(move || {
        // Terminates with the loop that sends the batches.
        while let Ok((pieces, own)) = writings.recv() {
            let result = pieces.iter().try_for_each(&mut write);
            if post.tell(Told::Written(own, result)).is_err() {
                return;
            }
        }
    })
}

/// A random name of 16 hexadecimal digits.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// Raises the limit of descriptors as far as the system allows: each process takes three here.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // With the old limit, fewer processes can be started.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

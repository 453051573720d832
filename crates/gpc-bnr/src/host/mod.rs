//! One node of a domain on sockets: the loop that drives [`Domain`], the processes of this host, and the calls to other
//! nodes.
//!
//! [`Host`] is the head of a domain, such as `gpc run`. [`Serving`] is a node that serves the domains of other nodes.

mod begin;
mod calls;
mod clients;
mod connections;
mod effects;
mod engine;
mod events;
mod foreign;
mod helper;
mod input;
mod links;
mod listeners;
mod local;
mod mailbox;
mod mpi;
mod orders;
mod outflow;
mod owner;
mod peer;
mod pmix;
mod pmix_state;
mod private;
mod processes;
mod programs;
mod queries;
mod serving;
mod settings;
mod shared;
#[cfg(feature = "snapshot")]
mod snapshot;
mod sources;
mod stdio;
mod supervisor;
#[cfg(test)]
mod tests;
mod unread;

use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::Clock;
use mio::Poll;

use self::begin::{spawn, start_writer};
use self::engine::{Engine, Parts, host_name};
use self::listeners::Listeners;
use self::mailbox::{EngineMessage, Mailbox};
use self::outflow::{Destination, Outflow};
use self::sources::WAKER;
use crate::domain::{Domain, Settings};
use crate::fault::{Fault, FaultKind};
use crate::names::GroupId;
use crate::request::{Answer, Request};
use crate::supervisor::Recipients;

pub use self::events::HostEvent;
pub use self::helper::PmixCommand;
pub use self::input::HostInput;
pub use self::outflow::Writer;
pub use self::programs::PROGRAMS_MAX;
pub use self::serving::Serving;
pub use self::settings::HostSettings;
pub use self::supervisor::SupervisorCommand;

/// Most batches that wait for the output writer. The windows of the nodes bound their bytes.
const WRITINGS_MAX: usize = 4;

/// The head of a domain. Dropping it ends the domain and kills all its processes.
pub struct Host {
    mailbox: Mailbox,
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
        let (mailbox, inbox) = Mailbox::new(poll.registry(), WAKER)?;
        let (event_sender, events) = mpsc::channel();
        let (destination, writer) = match settings.output {
            Some(write) => {
                let (sender, writings) = mpsc::sync_channel(WRITINGS_MAX);
                (Destination::Written(sender), Some(start_writer(write, writings, mailbox.clone())?))
            }
            None => (Destination::Dropped, None),
        };
        let clock = Clock::system();
        let runs = settings.runs || settings.nodes.len() == 1;
        let domain = Domain::new(
            Settings {
                me: settings.me,
                nodes: settings.nodes.clone(),
                runs,
                name: name.clone(),
                limits: settings.limits,
                slots: settings.slots,
                addresses: settings.addresses,
                host: host_name(),
                dead_after: None,
            },
            clock.now(),
        );
        let shared = settings.serving.as_ref().map(|serving| serving.shared().clone());
        let mut engine = Engine::new(Parts {
            poll,
            mailbox: mailbox.clone(),
            inbox,
            me: settings.me,
            outflow: Outflow::new(settings.me, settings.nodes.clone(), destination),
            nodes: settings.nodes,
            name: name.clone(),
            domain,
            clock,
            supervisor: settings.supervisor,
            pmix: settings.pmix,
            starts_at_once: runs,
            listeners: Listeners::open(settings.tools, settings.pmi_port)?,
            events: Some(event_sender),
            calls: shared.as_ref().and_then(|shared| shared.handles.get().copied()),
            caller: shared.as_ref().and_then(|shared| shared.caller.get().cloned()),
        });
        engine.stdio.own_input = settings.input;
        if let Some(shared) = &shared {
            shared.insert(&name, engine.part());
        }
        let thread = spawn(engine, name.clone(), shared)?;
        Ok(Host { mailbox, name, events, thread: Some(thread), writer })
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

    /// Sends a request and passes the answer to `callback`, which runs on the domain's thread. It must be short and
    /// must not block.
    pub fn ask_then(&self, request: Request, callback: impl FnOnce(Result<Answer, Fault>) + Send + 'static) {
        let message = EngineMessage::Ask { request: Box::new(request), callback: Box::new(callback) };
        if let Err(EngineMessage::Ask { callback, .. }) = self.mailbox.send(message) {
            callback(Err(Fault::new(FaultKind::DomainEnded, "the domain has ended")));
        }
    }

    /// A handle by which another thread passes standard input.
    pub fn feeder(&self) -> Feeder {
        Feeder { mailbox: self.mailbox.clone() }
    }

    /// Sends a signal to the processes of one group, or of all groups.
    pub fn signal(&self, group: Option<GroupId>, signal: u8) {
        // A domain that has ended has no processes.
        let _ = self.mailbox.send(EngineMessage::Signal { group, signal, to: Recipients::All });
    }

    /// Sends a signal that a terminal has sent to this process: to the processes of all groups that are not in the
    /// process group of this process, as the one is that [reads the terminal](HostInput).
    pub fn signal_others(&self, signal: u8) {
        // A domain that has ended has no processes.
        let _ = self.mailbox.send(EngineMessage::Signal { group: None, signal, to: Recipients::NotJoined });
    }

    /// Asks for a message when all output of processes that have ended by now is written. The channel is closed without
    /// one if the domain has ended.
    pub fn drain(&self) -> Receiver<()> {
        let (sender, drained) = mpsc::sync_channel(1);
        // A message that is not taken drops the sender.
        let _ = self.mailbox.send(EngineMessage::Drain(sender));
        drained
    }

    /// Ends the domain and kills all its processes. Returns whether that was done within the limit.
    pub fn end(mut self, limit: Duration) -> bool {
        let ended = self.wait_for(EngineMessage::End, limit);
        if ended {
            self.join();
        }
        ended
    }

    /// What the head holds now. `None` if the domain has ended.
    #[cfg(feature = "snapshot")]
    #[doc(hidden)]
    pub fn snapshot(&self) -> Option<chained_gpc::Snapshot> {
        let (sender, snapshot) = mpsc::sync_channel(1);
        self.mailbox.send(EngineMessage::Snapshot(sender)).ok()?;
        snapshot.recv().ok()
    }

    fn wait_for(&self, message: impl FnOnce(SyncSender<()>) -> EngineMessage, limit: Duration) -> bool {
        let (sender, done) = mpsc::sync_channel(1);
        match self.mailbox.send(message(sender)) {
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
        let _ = self.mailbox.send(EngineMessage::End(sender));
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Passes standard input to the processes that read it.
#[derive(Clone, Debug)]
pub struct Feeder {
    mailbox: Mailbox,
}

impl Feeder {
    /// Passes these bytes, and waits until they are in the pipes of the processes. No bytes mean the end of the input.
    ///
    /// # Errors
    /// `BrokenPipe` if no process reads any more.
    pub fn feed(&self, bytes: Vec<u8>) -> io::Result<()> {
        let (sender, taken) = mpsc::sync_channel(1);
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the domain has ended");
        self.mailbox
            .send(EngineMessage::Feed { data: Bytes::from(bytes), done: sender })
            .map_err(|_| ended())?;
        // The wait lasts as long as the process does not read; the process's end ends it.
        taken.recv().map_err(|_| ended())?
    }
}

/// A random name of 16 hexadecimal digits.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

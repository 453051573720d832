//! The agent: a process of a launch over hosts, which is one of its nodes, and starts its share of the others.
//!
//! Standard input carries its task and its address book, standard output its reports; both stay open as long as it
//! lives. If standard input ends, or nothing arrives for two minutes, the agent ends, with all that it has started. So
//! however the root ends, no process is left on any host. `session` is the part without I/O.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::time::Duration;

use gpc_trees::Id;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use zeroize::Zeroizing;

use super::agent_error::AgentError;
use super::answer::{Answer, GREETING, StartReport};
use super::driver::Driver;
use super::network::{Listening, place};
use super::session::{Order, Session};
use super::task::{Book, PART_MAX, Task};
use crate::{advice, provide_files, this_program};
use chained_gpc::Clock;
use chained_gpc::link::peering::PrivateKey;
use chained_gpc::runtime::{Address, Functions, Listener, Node};

/// Time limit for the processes below an agent to end when it ends.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of bytes of one write: a pipe that is writable takes this many without blocking.
const WRITE_MAX: usize = 4096;

/// Maximum number of bytes of one read.
const READ_MAX: usize = 1 << 16;

/// Maximum number of bytes that the agent above has not read.
const UNSENT_MAX: usize = PART_MAX;

/// Whether this process is an agent of a launch over hosts, as its arguments say: those of the
/// [plan](super::RemotePlan::arguments), and nothing else.
pub fn is_agent(arguments: impl IntoIterator<Item = OsString>, plan: &[&str]) -> bool {
    arguments.into_iter().skip(1).eq(plan.iter().copied())
}

/// Runs the agent until the one above ends this process, or dies. The program should end at once afterwards: functions
/// may still be running.
///
/// # Errors
/// See [`AgentError`].
pub fn run_agent(functions: &Functions) -> Result<(), AgentError> {
    Agent::begin(Clock::system())?.run(functions)
}

/// The pipes to the agent above, on this side.
struct Above {
    input: OwnedFd,
    output: OwnedFd,
    unsent: VecDeque<u8>,
}

struct Agent {
    clock: Clock,
    above: Above,
    session: Session,
    /// Received orders that are still unprocessed.
    orders: VecDeque<Order>,
    key: PrivateKey,
}

/// State of an agent after it has received its task.
struct Started {
    id: Id,
    driver: Driver,
    listening: Option<Listening>,
    task: Task,
    node: Option<Node>,
}

impl Agent {
    fn begin(clock: Clock) -> Result<Agent, AgentError> {
        let above = Above::take()
            .map_err(|error| AgentError::System("take the pipes to the process above", error))?;
        let key = PrivateKey::random().map_err(|error| AgentError::System("draw a key", error))?;
        let session = Session::new(clock.now());
        Ok(Agent { clock, above, session, orders: VecDeque::new(), key })
    }

    fn run(mut self, functions: &Functions) -> Result<(), AgentError> {
        self.above.queue_line(GREETING)?;
        let task = loop {
            match self.orders.pop_front() {
                Some(Order::Task(task)) => break task,
                // The session returns the task first.
                Some(Order::Book(_)) | None => self.wait()?,
            }
        };
        let mut started = self.start(task)?;
        let result = self.serve(&mut started, functions);
        // The agents below are notified before this agent waits for anything else.
        started.driver.dismiss();
        started.node.take().into_iter().for_each(|node| node.shutdown(Duration::ZERO));
        started.driver.end(END_LIMIT);
        // Standard output stays open until this program has ended. An agent that closes it and runs on for a second is
        // killed by the agent above, and this program may have processes to end.
        let _ = self.above.output.into_raw_fd();
        // If the agent above has gone, no process is left to receive the error.
        result.or_else(|error| if matches!(error, AgentError::ParentGone) { Ok(()) } else { Err(error) })
    }

    /// Listens, reports the addresses, and begins to start the others.
    fn start(&mut self, task: Task) -> Result<Started, AgentError> {
        let (own, network) = (&task.share[0], task.network);
        let id = own.first;
        let system = |what| move |error| AgentError::System(what, error);
        let listening = Listening::open(&own.name, network).map_err(system("listen"))?;
        let socket = |listener: &Listener| match listener.address()? {
            Address::Tcp(address) => Ok(address),
            other => Err(io::Error::other(format!("{other} is no TCP port"))),
        };
        let here = StartReport {
            id,
            loopback: socket(&listening.loopback).map_err(system("listen"))?,
            address: listening.outside.as_ref().map(socket).transpose().map_err(system("listen"))?,
            key: self.key.public(),
            place: place().map_err(system("find out which machine this is"))?,
        };
        self.above.queue_line(&Answer::Started(here).to_string())?;
        // Written before the others are started: the agent above expects it within its limit. Ends: the session does.
        while !self.above.unsent.is_empty() {
            self.wait()?;
        }
        let exe = this_program().map_err(system("find this program"))?;
        // As for the root.
        let _ = provide_files(4 * task.fan_out.get() as usize);
        let own = (exe.into(), task.arguments.clone());
        let mut driver = Driver::new(task.clone(), own, self.clock.clone());
        driver.start(false);
        Ok(Started { id, driver, listening: Some(listening), task, node: None })
    }

    /// Runs until the agent above ends it.
    fn serve(&mut self, started: &mut Started, functions: &Functions) -> Result<(), AgentError> {
        loop {
            while let Some(order) = self.orders.pop_front() {
                if let Order::Book(text) = order {
                    started.node = self.node(started, &text, functions)?;
                }
            }
            self.report(started)?;
            let wants = self.above.wants();
            let limit = self.session.wait_limit(self.clock.now());
            let ready =
                started.driver.turn(&wants, limit).map_err(|error| AgentError::System("wait", error))?;
            self.turn(&ready)?;
        }
    }

    /// Reports the state of the agents below.
    fn report(&mut self, started: &mut Started) -> Result<(), AgentError> {
        let is_complete = started.driver.is_done();
        for answer in started.driver.answers() {
            self.above.queue_line(&answer.to_string())?;
        }
        if let Some(answer) = self.session.report(is_complete, self.clock.now()) {
            self.above.queue_line(&answer.to_string())?;
        }
        started.driver.take_log().iter().for_each(|line| forward_log_line(line));
        Ok(())
    }

    /// Waits for events of the pipes to the agent above alone.
    fn wait(&mut self) -> Result<(), AgentError> {
        let wants = self.above.wants();
        let mut waited: Vec<PollFd<'_>> =
            wants.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        let limit = self.session.wait_limit(self.clock.now());
        // A failed conversion waits without a limit; the session's limit is two minutes.
        match poll(&mut waited, Timespec::try_from(limit).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(AgentError::System("wait", error.into())),
        }
        let ready: Vec<PollFlags> = waited.iter().map(PollFd::revents).collect();
        drop(waited);
        self.turn(&ready)
    }

    /// Reads and writes what is ready.
    fn turn(&mut self, ready: &[PollFlags]) -> Result<(), AgentError> {
        if ready.get(1).is_some_and(|flags| !flags.is_empty()) {
            self.above.write()?;
        }
        if ready.first().is_some_and(|flags| !flags.is_empty()) {
            let mut chunk = Zeroizing::new([0; READ_MAX]);
            let bytes = self.above.read(&mut *chunk)?;
            if !bytes.is_empty() {
                self.orders.extend(self.session.receive(bytes, self.clock.now())?);
            }
        }
        match self.session.is_abandoned(self.clock.now()) {
            true => Err(AgentError::ParentGone),
            false => Ok(()),
        }
    }

    /// Starts the node, once the address book has arrived. An agent that no other host reaches has no node, and
    /// continues for those that it has started.
    fn node(
        &self,
        started: &mut Started,
        text: &str,
        functions: &Functions,
    ) -> Result<Option<Node>, AgentError> {
        // Forwarded unchanged: the agents below are in the same state as this one.
        started.driver.send_to_all(text);
        let Book { peers, secret } = Book::parse(text)?;
        let listening = started.listening.take();
        let sockets =
            listening.into_iter().flat_map(|listening| [Some(listening.loopback), listening.outside]);
        let Some(own) = peers.address(started.id) else { return Ok(None) };
        let at = |listener: &Listener| listener.address().is_ok_and(|address| address == own);
        let listener =
            sockets.flatten().find(at).ok_or(AgentError::BadOrders("of another address than its own"))?;
        let builder =
            Node::builder(started.id).functions(functions).peers(peers).listener(listener).first_run();
        let builder = builder.secret(secret).key(self.key.clone());
        let node = started.task.settings.apply(builder).start().map_err(|error| {
            let text = format!("{error}{}", advice(&error));
            AgentError::System("start the node", io::Error::new(error.kind(), text))
        });
        node.map(Some)
    }
}

impl Above {
    /// Takes standard input and output for itself, so that neither the processes that it starts nor a stray print use
    /// them.
    fn take() -> io::Result<Above> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&nothing)?;
        rustix::stdio::dup2_stdout(&nothing)?;
        Ok(Above { input, output, unsent: VecDeque::new() })
    }

    /// Queues a line for the agent above.
    fn queue_line(&mut self, line: &str) -> Result<(), AgentError> {
        // The agent above has not read for a long time: it counts as gone.
        if self.unsent.len() + line.len() > UNSENT_MAX {
            return Err(AgentError::ParentGone);
        }
        self.unsent.extend(line.bytes().chain([b'\n']));
        Ok(())
    }

    /// The descriptors to poll, with the events: input, and output if bytes are unsent.
    fn wants(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let output = (!self.unsent.is_empty()).then(|| (self.output.as_fd(), PollFlags::OUT));
        [(self.input.as_fd(), PollFlags::IN)].into_iter().chain(output).collect()
    }

    /// Writes unsent bytes, as many as a writable pipe takes without blocking.
    fn write(&mut self) -> Result<(), AgentError> {
        let (first, _) = self.unsent.as_slices();
        match write(&self.output, &first[..first.len().min(WRITE_MAX)]) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return Err(AgentError::ParentGone),
        }
        Ok(())
    }

    /// Reads from a readable pipe; returns no bytes if a signal has interrupted it.
    fn read<'a>(&self, chunk: &'a mut [u8]) -> Result<&'a [u8], AgentError> {
        match read(&self.input, &mut *chunk) {
            Ok(0) => Err(AgentError::ParentGone),
            Ok(count) => Ok(&chunk[..count]),
            Err(Errno::INTR | Errno::AGAIN) => Ok(&[]),
            Err(_) => Err(AgentError::ParentGone),
        }
    }
}

/// Forwards a log line, if standard error takes it at once: nothing waits for standard error.
pub(super) fn forward_log_line(line: &str) {
    let mut line: Vec<u8> = line.bytes().take(WRITE_MAX - 1).collect();
    line.push(b'\n');
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
        // An error cannot be reported: standard error is the place for it.
        let _ = write(&stderr, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_launch_writes_is_taken_for_it() {
        let is = |line: &str| is_agent(line.split(' ').map(OsString::from), &["node", "--agent"]);
        assert!(is("gpc node --agent"));
        for line in ["gpc", "gpc node", "gpc call --agent", "gpc node --agent --help"] {
            assert!(!is(line), "{line}");
        }
    }

    /// An agent without the process above it.
    fn agent() -> Agent {
        let (input, output) = std::os::unix::net::UnixStream::pair().unwrap();
        let above = Above { input: input.into(), output: output.into(), unsent: VecDeque::new() };
        let (clock, key) = (Clock::system(), PrivateKey::random().unwrap());
        Agent { session: Session::new(clock.now()), clock, above, orders: VecDeque::new(), key }
    }

    #[test]
    fn an_agent_above_that_reads_nothing_counts_as_gone() {
        let mut agent = agent();
        agent.above.queue_line(&"x".repeat(UNSENT_MAX)).unwrap();
        assert!(matches!(agent.above.queue_line("x"), Err(AgentError::ParentGone)));
    }

    /// On a host of several, the address in the book is not that of the first socket.
    #[test]
    fn a_node_listens_at_the_address_that_the_book_gives_it() {
        let agent = agent();
        let bind = || Listener::bind(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        let secret = chained_gpc::link::peering::Secret::new(&[7; 32]).unwrap();
        for is_outside in [false, true] {
            let (loopback, outside) = (bind(), bind());
            let address = if is_outside { &outside } else { &loopback }.address().unwrap();
            let mut peers = chained_gpc::runtime::Peers::new();
            peers.insert(1, address.clone());
            peers.set_job(chained_gpc::runtime::Job::random());
            let book = Book::write(&peers, &secret, (0, agent.key.public()));
            let task = Task {
                limit: Duration::from_secs(30),
                fan_out: std::num::NonZeroU32::MIN,
                network: None,
                rsh: vec!["ssh".into()],
                program: "gpc".into(),
                arguments: Vec::new(),
                settings: crate::NodeSettings::default(),
                share: vec![super::super::share::HostIds { first: 1, count: 1, name: "a".into() }],
            };
            let driver = Driver::new(task.clone(), ("gpc".into(), Vec::new()), agent.clock.clone());
            let listening = Some(Listening { loopback, outside: Some(outside) });
            let mut started = Started { id: 1, driver, listening, task, node: None };
            let node = agent.node(&mut started, &book, &Functions::new()).unwrap().unwrap();
            assert_eq!(node.address(), Some(&address));
        }
    }
}

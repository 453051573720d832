//! The agent: a process of a launch over hosts, which is one of its nodes, and starts its share of the others.
//!
//! Standard input carries its task and its address book, standard output its reports; both stay open as long as it
//! lives. If standard input ends, or nothing arrives for two minutes, the agent ends, with all that it has started. So
//! however the root ends, no process is left on any host.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use gpc_trees::Id;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use zeroize::Zeroizing;

use super::answer::{Answer, GREETING, StartReport};
use super::driver::{Driver, SHELL};
use super::lines::{Lines, TooLong};
use super::network::{Listening, place};
use super::task::{ALIVE, Book, GO, LINE_MAX, PART_MAX, START, Task, TaskError};
use crate::{advice, provide_files, this_program};
use chained_gpc::peering::PrivateKey;
use chained_gpc::runtime::{Address, Functions, Listener, Node};

/// Maximum silence before an agent ends; the agent above sends a keep-alive line every 15 s.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Time limit for the processes below an agent to end when it ends.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of bytes of one write: a pipe that is writable takes this many without blocking.
const WRITE_MAX: usize = 4096;

/// Maximum number of bytes of one read.
const READ_MAX: usize = 1 << 16;

/// Maximum number of bytes that the agent above has not read.
const UNSENT_MAX: usize = PART_MAX;

/// The part of a process in a launch over hosts, as its arguments define it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A node that starts others.
    Agent,
    /// This command, which replaces the process.
    Shell(Vec<OsString>),
}

/// Why a process cannot run as the agent that it was started as.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The agent above has gone.
    #[error("the process that started this agent has gone")]
    ParentGone,
    /// The task or the address book is invalid.
    #[error("what this agent was told: {0}")]
    Task(#[from] TaskError),
    /// The orders are too long, or in the wrong order.
    #[error("this agent was told {0}")]
    BadOrders(&'static str),
    /// The command cannot be run.
    #[error("cannot run {0}: {1}")]
    Run(String, #[source] io::Error),
    /// A system call has failed.
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] io::Error),
}

/// Returns the part of this process in a launch over hosts: the arguments after [those of the
/// plan](super::RemotePlan::arguments) define it. `None` for any other process.
pub fn own_part(arguments: impl IntoIterator<Item = OsString>, plan: &[&str]) -> Option<Part> {
    let mut arguments = arguments.into_iter().skip(1);
    for &known in plan {
        arguments.next().filter(|argument| argument == known)?;
    }
    match arguments.next() {
        None => Some(Part::Agent),
        Some(shell) if shell == SHELL => {
            let words: Vec<OsString> = arguments.collect();
            (!words.is_empty()).then_some(Part::Shell(words))
        }
        Some(_) => None,
    }
}

impl Part {
    /// Runs the part until the agent above ends this process, or dies. The program should end at once afterwards:
    /// functions may still be running.
    ///
    /// # Errors
    /// See [`AgentError`].
    pub fn run(self, functions: &Functions) -> Result<(), AgentError> {
        match self {
            Part::Shell(words) => Err(become_command(&words)),
            Part::Agent => Agent::begin()?.run(functions),
        }
    }
}

/// Replaces this process by a command that the system ends when the process's parent dies. Otherwise it could survive
/// while it tries to reach a host, since it reads nothing then.
fn become_command(words: &[OsString]) -> AgentError {
    let parent = getppid();
    let tied = set_parent_process_death_signal(Some(Signal::TERM));
    if let Err(error) = tied {
        return AgentError::System("be told of the end of the process above", error.into());
    }
    // The parent may have died before that call.
    if parent != getppid() || parent.is_none() {
        return AgentError::ParentGone;
    }
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    AgentError::Run(words[0].to_string_lossy().into_owned(), error)
}

/// The pipes to the agent above, on this side.
struct Above {
    input: OwnedFd,
    output: OwnedFd,
    lines: Lines,
    /// Received lines that are still unprocessed.
    received: Vec<Zeroizing<String>>,
    /// When the last bytes arrived.
    heard_at: Instant,
    unsent: VecDeque<u8>,
}

struct Agent {
    above: Above,
    key: PrivateKey,
    /// Lines of the part that is being received.
    part: Zeroizing<String>,
}

/// State of an agent after it has received its task.
struct Started {
    id: Id,
    driver: Driver,
    listening: Option<Listening>,
    task: Task,
    /// When this agent last sent a line. Silence would make the agent above take it for lost.
    last_report: Instant,
    done: bool,
    /// Whether it has received its address book.
    introduced: bool,
    node: Option<Node>,
}

impl Agent {
    fn begin() -> Result<Agent, AgentError> {
        let above = Above::take()
            .map_err(|error| AgentError::System("take the pipes to the process above", error))?;
        let key = PrivateKey::random().map_err(|error| AgentError::System("draw a key", error))?;
        Ok(Agent { above, key, part: Zeroizing::new(String::new()) })
    }

    fn run(mut self, functions: &Functions) -> Result<(), AgentError> {
        self.above.queue_line(GREETING)?;
        let task = loop {
            if let Some(text) = self.take_orders(START)? {
                break Task::parse(&text)?;
            }
            self.above.wait()?;
        };
        let mut started = self.start(task)?;
        let result = self.serve(&mut started, functions);
        // The agents below are notified before this agent waits for anything else.
        started.driver.dismiss();
        started.node.take().into_iter().for_each(|node| node.shutdown(Duration::ZERO));
        started.driver.end(END_LIMIT);
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
        let exe = this_program().map_err(system("find this program"))?;
        // As for the root.
        let _ = provide_files(4 * task.fan_out.get() as usize);
        let mut driver = Driver::new(task.clone(), (exe.into(), task.arguments.clone()));
        driver.start(false);
        Ok(Started {
            id,
            driver,
            listening: Some(listening),
            task,
            last_report: Instant::now(),
            done: false,
            introduced: false,
            node: None,
        })
    }

    /// Runs until the agent above ends it.
    fn serve(&mut self, started: &mut Started, functions: &Functions) -> Result<(), AgentError> {
        loop {
            if let Some(text) = self.take_orders(GO)? {
                if !started.done || started.introduced {
                    return Err(AgentError::BadOrders("to go before it was done, or twice"));
                }
                started.introduced = true;
                started.node = self.node(started, &text, functions)?;
            }
            self.report(started)?;
            let wants = self.above.wants();
            // A quarter of the silence after which it would be taken for lost, but at least a millisecond.
            let limit = (started.task.limit / 4).max(Duration::from_millis(1));
            let ready =
                started.driver.turn(&wants, limit).map_err(|error| AgentError::System("wait", error))?;
            self.above.turn(&ready)?;
        }
    }

    /// Reports the state of the agents below.
    fn report(&mut self, started: &mut Started) -> Result<(), AgentError> {
        for answer in started.driver.answers() {
            self.above.queue_line(&answer.to_string())?;
        }
        if !started.done && started.driver.is_done() {
            started.done = true;
            self.above.queue_line(&Answer::Done.to_string())?;
        }
        if !started.done && started.last_report.elapsed() >= started.task.limit / 4 {
            started.last_report = Instant::now();
            self.above.queue_line(&Answer::Wait.to_string())?;
        }
        started.driver.take_log().iter().for_each(|line| forward_log_line(line));
        Ok(())
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

    /// Returns a complete part of the orders, including the line that ends it, if it has arrived.
    fn take_orders(&mut self, end: &str) -> Result<Option<Zeroizing<String>>, AgentError> {
        let mut whole = None;
        for line in std::mem::take(&mut self.above.received) {
            if *line == ALIVE {
                continue;
            }
            if whole.is_some() || self.part.len() + line.len() > PART_MAX {
                return Err(AgentError::BadOrders("more than there is to say"));
            }
            self.part.push_str(&line);
            self.part.push('\n');
            if *line == end {
                whole = Some(std::mem::take(&mut self.part));
            }
        }
        Ok(whole)
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
        let lines = Lines::new(LINE_MAX);
        Ok(Above {
            input,
            output,
            lines,
            received: Vec::new(),
            heard_at: Instant::now(),
            unsent: VecDeque::new(),
        })
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

    /// The descriptors to poll, with the events; [`turn`](Self::turn) takes the results.
    fn wants(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let output = (!self.unsent.is_empty()).then(|| (self.output.as_fd(), PollFlags::OUT));
        [(self.input.as_fd(), PollFlags::IN)].into_iter().chain(output).collect()
    }

    /// Waits for events of these pipes alone.
    fn wait(&mut self) -> Result<(), AgentError> {
        let wants = self.wants();
        let mut waited: Vec<PollFd<'_>> =
            wants.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        let limit = Timespec { tv_sec: SILENCE_MAX.as_secs().cast_signed(), tv_nsec: 0 };
        match poll(&mut waited, Some(&limit)) {
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
            let (first, _) = self.unsent.as_slices();
            match write(&self.output, &first[..first.len().min(WRITE_MAX)]) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(AgentError::ParentGone),
            }
        }
        if ready.first().is_some_and(|flags| !flags.is_empty()) {
            let mut chunk = Zeroizing::new([0; READ_MAX]);
            match read(&self.input, &mut *chunk) {
                Ok(0) => return Err(AgentError::ParentGone),
                Ok(count) => {
                    self.heard_at = Instant::now();
                    let received = &mut self.received;
                    let lines =
                        self.lines.add(&chunk[..count], |line| received.push(Zeroizing::new(line.into())));
                    lines.map_err(|TooLong| AgentError::BadOrders("a line that is too long"))?;
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(AgentError::ParentGone),
            }
        }
        if self.heard_at.elapsed() > SILENCE_MAX { Err(AgentError::ParentGone) } else { Ok(()) }
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
        let part = |line: &str| own_part(line.split(' ').map(OsString::from), &["node", "--agent"]);
        assert_eq!(part("gpc node --agent"), Some(Part::Agent));
        let words = ["ssh", "a", "gpc"].map(OsString::from).to_vec();
        assert_eq!(part("gpc node --agent --rsh ssh a gpc"), Some(Part::Shell(words)));
        for line in
            ["gpc", "gpc node", "gpc call --agent", "gpc node --agent --rsh", "gpc node --agent --help"]
        {
            assert_eq!(part(line), None, "{line}");
        }
    }

    /// Becoming a command changed the process even where it failed: it died of writing to a pipe without a reader. So
    /// did other tests of the same process, now and then.
    #[test]
    fn a_command_that_cannot_be_run_is_named() {
        const ALONE: &str = "GPC_BECOMES_A_COMMAND";
        if std::env::var_os(ALONE).is_some() {
            let error = become_command(&["/nowhere/ssh".into()]).to_string();
            assert!(error.starts_with("cannot run /nowhere/ssh: No such file"), "{error}");
            return;
        }
        let name = "remote::agent::tests::a_command_that_cannot_be_run_is_named";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

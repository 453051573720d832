//! The agent: a process of a launch over hosts, which is one of its nodes, and starts its share of the others.
//!
//! Standard input has its task and its book, standard output its answers; both stay open as long as it lives. When standard input ends, or nothing comes for two minutes, the agent ends, and with it all that it has started: so however the one that makes the call ends, nothing of it stays
//! behind on any host.

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

use super::answer::{Answer, GREETING, Here};
use super::driver::{Driver, SHELL};
use super::lines::{Lines, TooLong};
use super::network::{Listening, place};
use super::task::{ALIVE, Book, GO, LINE_MAX, PART_MAX, START, Task, TaskError};
use crate::launch::{advice, provide_files, this_program};
use crate::peering::PrivateKey;
use crate::runtime::{Address, Functions, Listener, Node};

/// How long an agent hears nothing before it ends: those that start it say every 15 s that they are there.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long those that it has started have to end when it ends.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Bytes that are written at a time: a pipe that takes any takes so many without blocking.
const WRITE_MAX: usize = 4096;

/// Bytes that are read at a time.
const READ_MAX: usize = 1 << 16;

/// Most bytes that the one above has not taken.
const UNSENT_MAX: usize = PART_MAX;

/// What a process is to be that was started for a launch over hosts: told by its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A node that starts others.
    Agent,
    /// This command, which it becomes.
    Shell(Vec<OsString>),
}

/// Why a process cannot be the agent that it was started to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The one that started it has gone.
    #[error("the process that started this agent has gone")]
    ParentGone,
    /// What it was told is wrong.
    #[error("what this agent was told: {0}")]
    Task(#[from] TaskError),
    /// It was told too much, or in the wrong order.
    #[error("this agent was told {0}")]
    Told(&'static str),
    /// A command cannot be run.
    #[error("cannot run {0}: {1}")]
    Run(String, #[source] io::Error),
    /// The system fails.
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] io::Error),
}

/// What a process of a launch over hosts is to be: of its arguments, those behind [the ones of the plan](super::RemotePlan::arguments) say it. `None` for any other process.
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
    /// Is that, until the one that started this process ends it or dies. A program that is done with this ends at once: functions may still be running.
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

/// Becomes a command that the system ends when the one that started it dies, as it may while it tries to reach a host and reads nothing.
fn become_command(words: &[OsString]) -> AgentError {
    let parent = getppid();
    let tied = set_parent_process_death_signal(Some(Signal::TERM));
    if let Err(error) = tied {
        return AgentError::System("be told of the end of the process above", error.into());
    }
    // It may have died before that.
    if parent != getppid() || parent.is_none() {
        return AgentError::ParentGone;
    }
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    AgentError::Run(words[0].to_string_lossy().into_owned(), error)
}

/// Its side of the pipes to the one above.
struct Above {
    input: OwnedFd,
    output: OwnedFd,
    lines: Lines,
    /// Lines that have come and not been looked at.
    heard: Vec<Zeroizing<String>>,
    /// When anything came.
    heard_at: Instant,
    unsent: VecDeque<u8>,
}

struct Agent {
    above: Above,
    key: PrivateKey,
    /// Lines of the part that is being read.
    part: Zeroizing<String>,
}

/// What is there once the task is known.
struct Started {
    id: Id,
    driver: Driver,
    listening: Option<Listening>,
    task: Task,
    /// When something was last said, so that the one above does not take it for lost.
    said: Instant,
    done: bool,
    /// Whether it has got its book.
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
        self.above.say(GREETING)?;
        let task = loop {
            if let Some(text) = self.hear(START)? {
                break Task::parse(&text)?;
            }
            self.above.wait()?;
        };
        let mut started = self.start(task)?;
        let result = self.serve(&mut started, functions);
        // Those below are told before anything else is waited for.
        started.driver.dismiss();
        started.node.take().into_iter().for_each(|node| node.shutdown(Duration::ZERO));
        started.driver.end(END_LIMIT);
        // Whoever it was has gone, and nobody is left to be told.
        result.or_else(|error| if matches!(error, AgentError::ParentGone) { Ok(()) } else { Err(error) })
    }

    /// Says where it is, and begins to start the others.
    fn start(&mut self, task: Task) -> Result<Started, AgentError> {
        let (own, network) = (&task.share[0], task.network);
        let id = own.first;
        let system = |what| move |error| AgentError::System(what, error);
        let listening = Listening::open(&own.name, network).map_err(system("listen"))?;
        let socket = |listener: &Listener| match listener.address()? {
            Address::Tcp(address) => Ok(address),
            other => Err(io::Error::other(format!("{other} is no TCP port"))),
        };
        let here = Here {
            id,
            loopback: socket(&listening.loopback).map_err(system("listen"))?,
            address: listening.outside.as_ref().map(socket).transpose().map_err(system("listen"))?,
            key: self.key.public(),
            place: place().map_err(system("find out which machine this is"))?,
        };
        self.above.say(&Answer::Here(here).to_string())?;
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
            said: Instant::now(),
            done: false,
            introduced: false,
            node: None,
        })
    }

    /// Until the one above ends it.
    fn serve(&mut self, started: &mut Started, functions: &Functions) -> Result<(), AgentError> {
        loop {
            if let Some(text) = self.hear(GO)? {
                if !started.done || started.introduced {
                    return Err(AgentError::Told("to go before it was done, or twice"));
                }
                started.introduced = true;
                started.node = self.node(started, &text, functions)?;
            }
            self.report(started)?;
            let wants = self.above.wants();
            // A quarter of the time after which it would be taken for lost, and not less than a machine needs.
            let limit = (started.task.limit / 4).max(Duration::from_millis(1));
            let ready =
                started.driver.turn(&wants, limit).map_err(|error| AgentError::System("wait", error))?;
            self.above.turn(&ready)?;
        }
    }

    /// Says what there is to say of those below.
    fn report(&mut self, started: &mut Started) -> Result<(), AgentError> {
        for answer in started.driver.answers() {
            self.above.say(&answer.to_string())?;
        }
        if !started.done && started.driver.is_done() {
            started.done = true;
            self.above.say(&Answer::Done.to_string())?;
        }
        if !started.done && started.said.elapsed() >= started.task.limit / 4 {
            started.said = Instant::now();
            self.above.say(&Answer::Wait.to_string())?;
        }
        started.driver.said().iter().for_each(|line| tell_people(line));
        Ok(())
    }

    /// Makes the node, once the others know where it is. One that no other host reaches has no node, and goes on for those that it has started.
    fn node(
        &self,
        started: &mut Started,
        text: &str,
        functions: &Functions,
    ) -> Result<Option<Node>, AgentError> {
        // As it is: those below are as far as this one.
        started.driver.tell_all(text);
        let Book { peers, secret } = Book::parse(text)?;
        let listening = started.listening.take();
        let sockets =
            listening.into_iter().flat_map(|listening| [Some(listening.loopback), listening.outside]);
        let Some(own) = peers.address(started.id) else { return Ok(None) };
        let at = |listener: &Listener| listener.address().is_ok_and(|address| address == own);
        let listener =
            sockets.flatten().find(at).ok_or(AgentError::Told("of another address than its own"))?;
        let builder =
            Node::builder(started.id).functions(functions).peers(peers).listener(listener).first_run();
        let builder = builder.secret(secret).key(self.key.clone());
        let node = started.task.settings.apply(builder).start().map_err(|error| {
            let text = format!("{error}{}", advice(&error));
            AgentError::System("start the node", io::Error::new(error.kind(), text))
        });
        node.map(Some)
    }

    /// A whole part of what it is told, the line that ends it included, if it is there.
    fn hear(&mut self, end: &str) -> Result<Option<Zeroizing<String>>, AgentError> {
        let mut whole = None;
        for line in std::mem::take(&mut self.above.heard) {
            if *line == ALIVE {
                continue;
            }
            if whole.is_some() || self.part.len() + line.len() > PART_MAX {
                return Err(AgentError::Told("more than there is to say"));
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
    /// Takes standard input and output for itself: neither what it starts nor a stray print has them then.
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
            heard: Vec::new(),
            heard_at: Instant::now(),
            unsent: VecDeque::new(),
        })
    }

    /// Says a line, now or as it is taken.
    fn say(&mut self, line: &str) -> Result<(), AgentError> {
        // It has not read for that long: it is as good as gone.
        if self.unsent.len() + line.len() > UNSENT_MAX {
            return Err(AgentError::ParentGone);
        }
        self.unsent.extend(line.bytes().chain([b'\n']));
        Ok(())
    }

    /// What is to be waited for: the [turn](Self::turn) is told what is ready.
    fn wants(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let output = (!self.unsent.is_empty()).then(|| (self.output.as_fd(), PollFlags::OUT));
        [(self.input.as_fd(), PollFlags::IN)].into_iter().chain(output).collect()
    }

    /// Waits for that, while there is nothing else.
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

    /// Reads and writes where it can.
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
                    let heard = &mut self.heard;
                    let lines =
                        self.lines.add(&chunk[..count], |line| heard.push(Zeroizing::new(line.into())));
                    lines.map_err(|TooLong| AgentError::Told("a line that is too long"))?;
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(AgentError::ParentGone),
            }
        }
        if self.heard_at.elapsed() > SILENCE_MAX { Err(AgentError::ParentGone) } else { Ok(()) }
    }
}

/// Passes on a line that is for people, as far as standard error takes it at once: nothing waits for that.
pub(super) fn tell_people(line: &str) {
    let mut line: Vec<u8> = line.bytes().take(WRITE_MAX - 1).collect();
    line.push(b'\n');
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
        // Nowhere is left to report that it is closed.
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

    /// What a process does to become a command changes it, also where that fails: it dies of writing to a pipe that nobody reads. Other tests of the same process did, now and then.
    #[test]
    fn a_command_that_cannot_be_run_is_named() {
        const ALONE: &str = "GPC_BECOMES_A_COMMAND";
        if std::env::var_os(ALONE).is_some() {
            let error = become_command(&["/nowhere/ssh".into()]).to_string();
            assert!(error.starts_with("cannot run /nowhere/ssh: No such file"), "{error}");
            return;
        }
        let name = "launch::remote::agent::tests::a_command_that_cannot_be_run_is_named";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args([name, "--exact"]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

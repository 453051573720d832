//! Drives the start of a part of the tree: starts processes, reads and writes their pipes, and passes events and the
//! time to `Starting`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::{Answer, LINE_MAX};
use super::process::{Process, ProcessLine};
use super::share::HostIds;
use super::starting::{Output, Starting};
use super::task::{ALIVE, Task};
use super::tied::tie;
use super::words::with_host;
use crate::name_of;
use chained_gpc::Clock;

/// Maximum time of a wait without a deadline; an event ends the wait.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The start of a part of the tree, with its processes.
pub(super) struct Driver {
    task: Task,
    /// This program, and its arguments as an agent.
    own: (OsString, Vec<OsString>),
    starting: Starting,
    processes: BTreeMap<usize, Process>,
    clock: Clock,
    up: Vec<Answer>,
    log: Vec<String>,
}

impl Driver {
    /// Creates the driver of a task; nothing is started yet.
    pub(super) fn new(task: Task, own: (OsString, Vec<OsString>), clock: Clock) -> Driver {
        Driver {
            starting: Starting::new(task.fan_out, task.limit, seed(&task)),
            task,
            own,
            processes: BTreeMap::new(),
            clock,
            up: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Starts everything below the first id of the task's share. The root, which is not in the share, starts all.
    pub(super) fn start(&mut self, root: bool) {
        let now = self.now();
        match root {
            true => self.starting.start_all(&self.task.share, now),
            false => self.starting.start_below(&self.task.share, now),
        }
        self.carry_out();
    }

    /// The hosts of the task.
    pub(super) fn share(&self) -> &[HostIds] {
        &self.task.share
    }

    /// Whether the state of every id is known.
    pub(super) fn is_done(&self) -> bool {
        self.starting.is_done()
    }

    /// Takes the reports for the agent above.
    pub(super) fn answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.up)
    }

    /// Takes the log lines of agents.
    pub(super) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Sends a text to all agents below.
    pub(super) fn send_to_all(&mut self, text: &str) {
        self.processes.values_mut().for_each(|process| process.send(text));
    }

    /// Waits until something happens, or `limit` has passed, and handles it. Also waits for the descriptors in `also`,
    /// and returns their ready events.
    ///
    /// # Errors
    /// The system's, of the poll itself.
    pub(super) fn turn(
        &mut self,
        also: &[(BorrowedFd<'_>, PollFlags)],
        limit: Duration,
    ) -> io::Result<Vec<PollFlags>> {
        let limit = self.wait_limit().min(limit);
        let wants = self.processes.values().flat_map(Process::wants);
        let mut waited: Vec<PollFd<'_>> = also
            .iter()
            .copied()
            .chain(wants)
            .map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags))
            .collect();
        // In nanoseconds, so that a deadline has passed when the poll returns.
        let limit =
            Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut waited, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = waited[..also.len()].iter().map(PollFd::revents).collect();
        drop(waited);
        self.process_pipes();
        Ok(ready)
    }

    /// Ends all processes: closes their standard input, waits until they have ended or the limit has passed, and kills
    /// the rest. Nothing is started after that.
    pub(super) fn end(&mut self, limit: Duration) {
        self.dismiss();
        let limit = self.clock.limit(limit);
        while let Some(left) = limit.left().filter(|_| !self.processes.is_empty()) {
            if self.turn(&[], left).is_err() {
                break;
            }
        }
        let mut left: Vec<Process> = std::mem::take(&mut self.processes).into_values().collect();
        // All are killed before the first one is waited for.
        left.iter_mut().for_each(Process::kill);
        left.into_iter().for_each(Process::reap);
    }

    /// Requests that all end, without waiting for it.
    pub(super) fn dismiss(&mut self) {
        // An empty start: no process is started in place of those that end now.
        self.starting = Starting::new(self.task.fan_out, self.task.limit, seed(&self.task));
        self.processes.values_mut().for_each(Process::dismiss);
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Time until something is due.
    fn wait_limit(&self) -> Duration {
        let closed = self.processes.values().filter_map(Process::deadline);
        let next = self.starting.deadline().into_iter().chain(closed).min();
        next.map_or(WAIT_MAX, |next| next.saturating_sub(self.now()))
    }

    /// Reads from and writes to all pipes, and handles expired time limits.
    fn process_pipes(&mut self) {
        let now = self.now();
        let numbers: Vec<usize> = self.processes.keys().copied().collect();
        for number in numbers {
            let Some(process) = self.processes.get_mut(&number) else { continue };
            let mut take = |spoken: ProcessLine<'_>| match spoken {
                ProcessLine::Answer(line) => self.starting.line(number, line, now),
                ProcessLine::Log(line) => self.starting.log_line(number, line),
            };
            let sound = process.turn(now, &mut take);
            let ended = process.end(now, &mut take);
            if !sound {
                self.starting.fail(number, &format!("it says a line of more than {LINE_MAX} bytes"), now);
            }
            if let Some(how) = ended {
                self.processes.remove(&number);
                self.starting.end(number, &how, now);
            }
        }
        self.starting.tick(now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.starting.next_output() {
            match output {
                Output::Up(answer) => self.up.push(answer),
                Output::Log { line } => self.log.push(line),
                Output::KeepAlive => self.send_to_all(&format!("{ALIVE}\n")),
                // The poll reports its end, and then it is reaped.
                Output::Kill { agent } => self.processes.get_mut(&agent).into_iter().for_each(Process::kill),
                Output::Spawn { agent, share, same_host } => {
                    let task = self.task.text_for(&share);
                    match Process::start(&mut self.command(&share[0], same_host)) {
                        Ok(mut process) => {
                            process.send(&task);
                            self.processes.insert(agent, process);
                        }
                        Err(error) => {
                            let now = self.now();
                            let name = self.program(same_host).to_string_lossy();
                            let why = format!("cannot run {name}: {error}");
                            self.starting.fail(agent, &why, now);
                        }
                    }
                }
            }
        }
    }

    fn program(&self, same_host: bool) -> &OsString {
        self.task.rsh.first().filter(|_| !same_host).unwrap_or(&self.own.0)
    }

    /// Returns the command that starts an agent. One that reaches another host does not outlive this process. Without
    /// such a command, all agents are processes of this machine.
    fn command(&self, host: &HostIds, same_host: bool) -> Command {
        if same_host || self.task.rsh.is_empty() {
            let (program, arguments) = &self.own;
            let mut command = Command::new(program);
            command.arg0(name_of(Path::new(program))).args(arguments);
            return command;
        }
        let words = with_host(&self.task.rsh, &host.name);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&self.task.program).args(&self.task.arguments);
        // The ssh server of the other host sets these variables anew; another command would leave them wrong. Agents of
        // this host are reached as this process is.
        command.env_remove("SSH_CONNECTION").env_remove("SSH_CLIENT");
        tie(&mut command);
        command
    }
}

/// A number that differs for each process that starts others.
fn seed(task: &Task) -> u64 {
    let first = task.share.first().map_or(0, |host| host.first);
    u64::from(std::process::id()) << 32 | u64::from(first)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::NodeSettings;

    const LIMIT: Duration = Duration::from_secs(30);

    /// An agent: it reports its id, and then copies its orders to its log.
    const AGENT: &str = "echo 'chained-gpc-agent 1'
        while read -r word id rest; do case $word in host) own=$id;; start) break;; esac; done
        echo \"here $own 127.0.0.1:5 - KEY place\"; echo done
        while read -r line; do echo \"$own $line\" >&2; done";

    /// A driver whose agents of the same host are shells with this script, and its clock, which the test moves.
    fn driver(script: &str, count: u32) -> (Driver, Arc<Mutex<Duration>>) {
        let time = Arc::new(Mutex::new(Duration::ZERO));
        let read = time.clone();
        let task = Task {
            limit: LIMIT,
            fan_out: NonZeroU32::new(4).unwrap(),
            network: None,
            rsh: vec!["/nowhere/ssh".into()],
            program: "gpc".into(),
            arguments: vec!["--agent".into()],
            settings: NodeSettings::default(),
            share: vec![HostIds { first: 1, count, name: "a".into() }],
        };
        let script = script.replace("KEY", &"0".repeat(64));
        let own = ("/bin/sh".into(), vec!["-c".into(), script.into()]);
        (Driver::new(task, own, Clock::reading(move || *read.lock().unwrap())), time)
    }

    /// Handles events until `enough` returns true; returns the reports and the log. Waits for events alone.
    fn turns(
        driver: &mut Driver,
        mut enough: impl FnMut(&Driver, &[String]) -> bool,
    ) -> (Vec<Answer>, Vec<String>) {
        let (mut answers, mut log, mut silent) = (Vec::new(), Vec::new(), 0);
        while silent < 150 {
            silent += 1;
            let before = answers.len() + log.len();
            answers.append(&mut driver.answers());
            log.append(&mut driver.take_log());
            if enough(driver, &log) {
                return (answers, log);
            }
            silent *= u32::from(answers.len() + log.len() == before);
            driver.turn(&[], Duration::from_millis(100)).unwrap();
        }
        panic!("nothing happens: {answers:?}, {log:?}");
    }

    fn ids(answers: &[Answer]) -> Vec<u32> {
        let id = |answer: &Answer| if let Answer::Started(here) = answer { here.id } else { 0 };
        let mut ids: Vec<u32> = answers.iter().map(id).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn agents_are_started_kept_alive_and_ended() {
        let (mut driver, time) = driver(AGENT, 4);
        driver.start(false);
        let (answers, _) = turns(&mut driver, |driver, _| driver.is_done());
        assert_eq!((ids(&answers), driver.processes.len()), (vec![2, 3, 4], 3));
        driver.send_to_all("go\n");
        let (_, log) = turns(&mut driver, |_, log| log.len() == 3);
        assert!(["2 go", "3 go", "4 go"].iter().all(|line| log.contains(&(*line).to_owned())), "{log:?}");
        // Hours pass.
        for _ in 0..3 {
            *time.lock().unwrap() += Duration::from_secs(15);
            driver.turn(&[], Duration::ZERO).unwrap();
            let (_, log) = turns(&mut driver, |_, log| log.len() == 3);
            assert!(log.iter().all(|line| line.ends_with(" alive")), "{log:?}");
        }
        driver.end(LIMIT);
        assert!(driver.processes.is_empty() && driver.answers().is_empty());
        assert!(driver.is_done());
    }

    /// An agent that says nothing has the whole limit, and no more. Nothing is left of it.
    #[test]
    fn silent_agents_are_given_up_at_their_limit_and_are_gone() {
        let (mut driver, time) = driver("exec sleep 60", 3);
        driver.start(false);
        *time.lock().unwrap() += LIMIT - Duration::from_nanos(1);
        driver.turn(&[], Duration::ZERO).unwrap();
        assert!(driver.answers().is_empty() && !driver.is_done());
        *time.lock().unwrap() += Duration::from_nanos(1);
        driver.turn(&[], Duration::ZERO).unwrap();
        let (answers, _) = turns(&mut driver, |driver, _| driver.processes.is_empty());
        let whys: Vec<&str> = answers
            .iter()
            .map(|answer| if let Answer::Down(loss) = answer { loss.why.as_str() } else { "" })
            .collect();
        assert_eq!(whys, ["host a: it did not answer within 30 s"; 2]);
        assert!(driver.is_done());
    }

    #[test]
    fn an_agent_that_ends_is_named_with_its_status_and_its_last_lines() {
        let (mut driver, _) = driver("echo broken >&2; exit 4", 2);
        driver.start(false);
        let (answers, _) = turns(&mut driver, |driver, _| driver.is_done());
        let [Answer::Down(loss)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((loss.first, loss.why.as_str()), (2, "host a: exit status 4: broken"));
        assert!(driver.processes.is_empty());
    }

    #[test]
    fn what_does_not_end_within_the_limit_is_killed() {
        let (mut driver, _) = driver("exec sleep 60", 3);
        driver.start(false);
        assert_eq!(driver.processes.len(), 2);
        driver.end(Duration::ZERO);
        assert!(driver.processes.is_empty() && driver.is_done() && driver.answers().is_empty());
    }

    #[test]
    fn commands_name_the_host_and_the_program_there() {
        let (mut driver, _) = driver("x", 1);
        let host = HostIds { first: 3, count: 1, name: "b".into() };
        let words_of = |driver: &Driver, is_here| {
            let command = driver.command(&host, is_here);
            let mut words = vec![command.get_program().to_str().unwrap().to_owned()];
            words.extend(command.get_args().map(|word| word.to_str().unwrap().to_owned()));
            let removed: Vec<&str> = command
                .get_envs()
                .filter(|(_, value)| value.is_none())
                .map(|(name, _)| name.to_str().unwrap())
                .collect();
            (words.join(" "), removed.join(" "))
        };
        let words = |is_here| words_of(&driver, is_here);
        assert_eq!(words(true), ("/bin/sh -c x".into(), String::new()));
        let there = "/nowhere/ssh b gpc --agent".into();
        assert_eq!(words(false), (there, "SSH_CLIENT SSH_CONNECTION".into()));
        // Without such a command, the host is this machine.
        driver.task.rsh.clear();
        assert_eq!(words_of(&driver, false), words_of(&driver, true));
        assert_eq!(driver.program(false), "/bin/sh");
    }

    /// A process that has closed its standard output is killed after a second, though nothing else happens then.
    #[test]
    fn the_driver_wakes_to_kill_a_process_that_reports_nothing_more() {
        let (mut driver, _) = driver("exec >&-; exec sleep 60", 2);
        driver.start(false);
        turns(&mut driver, |driver, _| driver.processes.values().any(|process| process.deadline().is_some()));
        assert_eq!(driver.wait_limit(), Duration::from_secs(1));
        driver.end(Duration::ZERO);
    }
}

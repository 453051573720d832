//! The process of an agent, or of the command that starts it on another host, and the three non-blocking pipes to it.

use std::io::{self, ErrorKind, Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use zeroize::Zeroizing;

use super::answer::LINE_MAX;
use super::lines::Lines;
use crate::describe;
use chained_gpc::bootstrap::scrub;

/// How long a process may live after it has closed its standard output: it can report nothing more.
const CLOSED_LIMIT: Duration = Duration::from_secs(1);

/// Time limit for reaping a killed process, seconds. A process of another user, or one that hangs in the system, may
/// never end.
const REAP_LIMIT_S: i64 = 2;

/// Maximum number of bytes of a stream that one turn reads, so that other streams get their turn.
const TURN_MAX: usize = 1 << 16;

/// A running process.
pub(super) struct Process {
    child: Child,
    pid: Pid,
    /// A pidfd: readable once the process has ended.
    ended: OwnedFd,
    stdin: Option<ChildStdin>,
    /// Bytes that standard input has not taken yet, and how many of them are written. They may contain a secret.
    unsent: Zeroizing<Vec<u8>>,
    sent: usize,
    stdout: Option<ChildStdout>,
    answers: Lines,
    stderr: Option<ChildStderr>,
    stderr_lines: Lines,
    /// When it is killed, once its standard output is closed.
    closed: Option<Duration>,
    killed: bool,
}

/// A line of a process.
pub(super) enum ProcessLine<'a> {
    /// On standard output.
    Answer(&'a str),
    /// On standard error.
    Log(&'a str),
}

impl Process {
    /// Starts a command, in a process group of its own. Ctrl-C at the terminal must reach only the root, which ends all
    /// others in order.
    pub(super) fn start(command: &mut Command) -> io::Result<Process> {
        scrub(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pid = Pid::from_child(&child);
        let watched = || {
            stdin.iter().try_for_each(|pipe| ioctl_fionbio(pipe, true))?;
            stdout.iter().try_for_each(|pipe| ioctl_fionbio(pipe, true))?;
            stderr.iter().try_for_each(|pipe| ioctl_fionbio(pipe, true))?;
            pidfd_open(pid, PidfdFlags::empty())
        };
        let ended = watched().inspect_err(|_| {
            // The process is useless and must not stay.
            let _ = child.kill().and_then(|()| child.wait());
        })?;
        Ok(Process {
            child,
            pid,
            ended,
            stdin,
            unsent: Zeroizing::new(Vec::new()),
            sent: 0,
            stdout,
            answers: Lines::new(LINE_MAX),
            stderr,
            stderr_lines: Lines::new(LINE_MAX),
            closed: None,
            killed: false,
        })
    }

    /// Writes a text to its standard input, now or when the pipe takes it.
    pub(super) fn send(&mut self, text: &str) {
        if self.stdin.is_none() {
            return;
        }
        self.unsent.drain(..self.sent);
        self.sent = 0;
        self.unsent.extend_from_slice(text.as_bytes());
        self.write();
    }

    /// Whether text for its standard input is still unwritten.
    pub(super) fn is_behind(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// Closes its standard input: an agent ends then, with all that it has started.
    pub(super) fn dismiss(&mut self) {
        self.stdin = None;
        self.unsent = Zeroizing::new(Vec::new());
        self.sent = 0;
    }

    /// Kills it and all processes of its group.
    pub(super) fn kill(&mut self) {
        self.dismiss();
        self.killed = true;
        // Fails if all of them have gone, or if they are another user's, such as those of a command that raises its own
        // rights.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// The descriptors to poll, with the events.
    pub(super) fn wants(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let stdin = self.stdin.as_ref().filter(|_| self.is_behind());
        let stdin = stdin.map(|pipe| (pipe.as_fd(), PollFlags::OUT));
        let stdout = self.stdout.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
        let stderr = self.stderr.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
        let ended = (self.ended.as_fd(), PollFlags::IN);
        stdin.into_iter().chain(stdout).chain(stderr).chain([ended])
    }

    /// When it is to be killed because it has closed its standard output and still runs.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.closed.filter(|_| !self.killed)
    }

    /// Reads and writes what is ready; returns false if a line on standard output exceeds the maximum length.
    pub(super) fn turn(&mut self, now: Duration, take: &mut impl FnMut(ProcessLine<'_>)) -> bool {
        self.write();
        let stderr = read_some(&mut self.stderr, &mut self.stderr_lines, |line| take(ProcessLine::Log(line)));
        // A log line that is too long is not an error of the reports on standard output.
        if stderr.is_err() {
            self.stderr_lines = Lines::new(LINE_MAX);
        }
        let answers = read_some(&mut self.stdout, &mut self.answers, |line| take(ProcessLine::Answer(line)));
        if self.stdout.is_none() && self.closed.is_none() {
            self.closed = Some(now + CLOSED_LIMIT);
        }
        if self.deadline().is_some_and(|limit| now >= limit) {
            self.kill();
        }
        answers.is_ok()
    }

    /// If the process has ended, kills the rest of its group, reaps it, and returns its status in words.
    pub(super) fn end(&mut self, now: Duration, take: &mut impl FnMut(ProcessLine<'_>)) -> Option<String> {
        let mut ended = [PollFd::new(&self.ended, PollFlags::IN)];
        let ready = poll(&mut ended, Some(&Timespec::default()));
        ready.ok().filter(|&count| count > 0)?;
        // Reads the rest of the pipes. Other processes, of its group or not, may still hold them open.
        let _ = read_some(&mut self.stdout, &mut self.answers, |line| take(ProcessLine::Answer(line)));
        let _ = read_some(&mut self.stderr, &mut self.stderr_lines, |line| take(ProcessLine::Log(line)));
        self.stderr_lines.rest(|line| take(ProcessLine::Log(line)));
        self.answers.rest(|line| take(ProcessLine::Answer(line)));
        // Must precede the reaping: until then no other group has this number.
        self.kill();
        let status = self.child.wait().ok()?;
        let outstayed = self.closed.is_some_and(|limit| now >= limit);
        Some(if outstayed { "it closed its standard output".into() } else { describe(status) })
    }

    /// Reaps a killed process within a time limit. A process that cannot be killed is left; its standard input is
    /// closed.
    pub(super) fn reap(mut self) {
        let limit = Timespec { tv_sec: REAP_LIMIT_S, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], Some(&limit));
        if ended.is_ok_and(|count| count > 0) {
            // The result no longer matters.
            let _ = self.child.wait();
        }
    }

    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        while self.sent < self.unsent.len() {
            match stdin.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The process reads no more. Its end is detected elsewhere.
                Err(_) => return self.dismiss(),
            }
        }
        self.unsent = Zeroizing::new(Vec::new());
        self.sent = 0;
    }
}

/// Reads available bytes, up to a bound, and closes the pipe at its end.
fn read_some(
    pipe: &mut Option<impl Read>,
    lines: &mut Lines,
    mut take: impl FnMut(&str),
) -> Result<(), super::lines::TooLong> {
    let mut chunk = [0; 4096];
    let mut read = 0;
    while let Some(open) = pipe.as_mut().filter(|_| read < TURN_MAX) {
        match open.read(&mut chunk) {
            Ok(0) => *pipe = None,
            Ok(count) => {
                read += count;
                lines.add(&chunk[..count], &mut take)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(_) => *pipe = None,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What a test reads of a process.
    #[derive(Default)]
    struct Heard {
        answers: Vec<String>,
        log: Vec<String>,
        is_sound: bool,
    }

    fn shell(script: &str) -> Process {
        Process::start(Command::new("/bin/sh").args(["-c", script])).unwrap()
    }

    /// Handles events at `now` until `enough` returns true. Waits for events alone, each at most ten seconds.
    fn turns(
        process: &mut Process,
        now: Duration,
        mut enough: impl FnMut(&mut Process, &Heard) -> bool,
    ) -> Heard {
        let mut heard = Heard { is_sound: true, ..Heard::default() };
        for _ in 0..10_000 {
            let mut take = |line: ProcessLine<'_>| match line {
                ProcessLine::Answer(line) => heard.answers.push(line.to_owned()),
                ProcessLine::Log(line) => heard.log.push(line.to_owned()),
            };
            let is_sound = process.turn(now, &mut take);
            heard.is_sound &= is_sound;
            if enough(process, &heard) {
                return heard;
            }
            let mut wants: Vec<PollFd<'_>> =
                process.wants().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
            let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
            assert!(poll(&mut wants, Some(&limit)).unwrap() > 0, "nothing happens: {:?}", heard.answers);
        }
        panic!("it is not enough: {:?}", heard.answers);
    }

    /// Waits for the end; returns the status and the last lines.
    fn end(process: &mut Process, now: Duration) -> (String, Vec<String>) {
        let mut ended = [PollFd::new(&process.ended, PollFlags::IN)];
        assert!(poll(&mut ended, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap() > 0);
        let mut rest = Vec::new();
        let mut take = |line: ProcessLine<'_>| match line {
            ProcessLine::Answer(line) | ProcessLine::Log(line) => rest.push(line.to_owned()),
        };
        let status = process.end(now, &mut take).unwrap();
        (status, rest)
    }

    #[test]
    fn lines_are_passed_on_to_the_last_byte() {
        let mut process = shell("echo hello; echo log >&2; read x; echo \"got $x\"; printf rest; exit 3");
        let now = Duration::ZERO;
        let heard = turns(&mut process, now, |_, heard| heard.answers.len() + heard.log.len() == 2);
        assert_eq!((heard.answers, heard.log), (vec!["hello".to_owned()], vec!["log".to_owned()]));
        assert!(process.end(now, &mut |_| {}).is_none(), "it still runs");
        process.send("abc\nmore\n");
        let (status, rest) = end(&mut process, now);
        assert_eq!((status.as_str(), rest), ("exit status 3", vec!["got abc".to_owned(), "rest".to_owned()]));
    }

    /// A process that has closed its standard output can report nothing more. It has a second to end.
    #[test]
    fn a_process_without_standard_output_is_killed_after_its_limit() {
        let now = Duration::from_secs(7);
        let mut process = shell("exec >&-; exec sleep 60");
        turns(&mut process, now, |process, _| process.stdout.is_none());
        assert_eq!(process.deadline(), Some(now + CLOSED_LIMIT));
        let _ = process.turn(now + CLOSED_LIMIT - Duration::from_nanos(1), &mut |_| {});
        assert!(!process.killed && process.deadline().is_some());
        let _ = process.turn(now + CLOSED_LIMIT, &mut |_| {});
        assert!(process.killed && process.deadline().is_none());
        assert_eq!(end(&mut process, now + CLOSED_LIMIT).0, "it closed its standard output");
        // One that ends in time has its own status.
        let mut process = shell("exec >&-; read x; exit 5");
        turns(&mut process, now, |process, _| process.stdout.is_none());
        process.send("x\n");
        assert_eq!(end(&mut process, now).0, "exit status 5");
    }

    /// The command of a user may have started others, which must not outlive it.
    #[test]
    fn all_processes_of_the_group_end_with_it() {
        for is_killed in [true, false] {
            let mut process = shell("sleep 60 & echo $!; read x || wait; exit 0");
            let heard = turns(&mut process, Duration::ZERO, |_, heard| heard.answers.len() == 1);
            let other = Pid::from_raw(heard.answers[0].parse().unwrap()).unwrap();
            let other = pidfd_open(other, PidfdFlags::empty()).unwrap();
            if is_killed {
                process.kill();
                assert!(process.stdin.is_none() && !process.is_behind());
                assert_eq!(end(&mut process, Duration::ZERO).0, "killed by signal 9 (SIGKILL)");
            } else {
                process.send("x\n");
                assert_eq!(end(&mut process, Duration::ZERO).0, "exit status 0");
            }
            let mut gone = [PollFd::new(&other, PollFlags::IN)];
            assert_eq!(poll(&mut gone, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })), Ok(1));
        }
    }

    #[test]
    fn a_process_that_is_dismissed_reads_the_end_of_its_input() {
        let mut process = shell("cat; echo end");
        process.send("one\n");
        process.dismiss();
        process.send("nobody reads that\n");
        assert!(!process.is_behind());
        let mut left = turns(&mut process, Duration::ZERO, |process, _| process.stdout.is_none()).answers;
        left.extend(end(&mut process, Duration::ZERO).1);
        assert_eq!(left, ["one", "end"]);
    }

    /// A text that the pipe does not take at once is written as the process reads it.
    #[test]
    fn a_long_text_arrives_whole_and_in_its_order() {
        let mut process = shell("read x; exec sha256sum");
        let text: String = (0..60_000).map(|number| format!("{number}\n")).collect();
        process.send("\n");
        let (first, second) = text.split_at(text.len() / 2);
        process.send(first);
        process.send(second);
        assert!(process.is_behind() || process.unsent.is_empty());
        turns(&mut process, Duration::ZERO, |process, _| !process.is_behind());
        process.dismiss();
        let mut sum = turns(&mut process, Duration::ZERO, |process, _| process.stdout.is_none()).answers;
        sum.extend(end(&mut process, Duration::ZERO).1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, text).unwrap();
        let expected = Command::new("sha256sum").stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
        assert_eq!(sum, [String::from_utf8(expected.stdout).unwrap().trim_end()]);
    }

    /// A report that is too long costs the agent, a log line that is too long costs itself.
    #[test]
    fn a_line_that_is_too_long_is_no_report() {
        let long = format!("head -c {} /dev/zero | tr '\\0' x", LINE_MAX + 1);
        let mut process = shell(&format!("({long}; echo x) >&2; while read x; do echo fine >&2; done"));
        // What comes with the end of the long line is lost with it, and the next lines are not.
        let heard = turns(&mut process, Duration::ZERO, |process, heard| {
            process.send("\n");
            heard.log.contains(&"fine".to_owned())
        });
        assert!(heard.is_sound && heard.answers.is_empty());
        process.kill();
        process.reap();
        let mut process = shell(&format!("{long}; echo; read x"));
        let heard = turns(&mut process, Duration::ZERO, |_, heard| !heard.is_sound);
        assert!(heard.answers.is_empty());
        let pid = process.child.id();
        process.kill();
        process.reap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it is reaped");
    }
}

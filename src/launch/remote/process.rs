//! A started agent, or the command that starts it on another host: its process and the three pipes to it, none of which blocks.

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
use crate::launch::describe;
use crate::launchers::scrub;

/// How long a process may stay that has closed its standard output: whoever reads there no more has given it up.
const CLOSED_LIMIT: Duration = Duration::from_secs(1);

/// How long the end of a process that was killed is waited for, seconds: one that is another user's, or that hangs in the system, may never end.
const REAP_LIMIT_S: i64 = 2;

/// Bytes of a stream that are read in one turn: others want their turn as well.
const TURN_MAX: usize = 1 << 16;

/// A running process.
pub(super) struct Process {
    child: Child,
    pid: Pid,
    /// Readable once it has ended.
    ended: OwnedFd,
    stdin: Option<ChildStdin>,
    /// What standard input has not taken yet, and how much of it has gone; it may have a secret in it.
    unsent: Zeroizing<Vec<u8>>,
    sent: usize,
    stdout: Option<ChildStdout>,
    answers: Lines,
    stderr: Option<ChildStderr>,
    said: Lines,
    /// Until when it may stay after its standard output was closed.
    closed: Option<Duration>,
    killed: bool,
}

/// A line of a process.
pub(super) enum Spoken<'a> {
    /// On standard output.
    Answer(&'a str),
    /// On standard error.
    Said(&'a str),
}

impl Process {
    /// Starts a command, in a process group of its own: Ctrl-C at the terminal is for the one that makes the call, which ends all others in order.
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
            // It is of no use, and must not stay behind.
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
            said: Lines::new(LINE_MAX),
            closed: None,
            killed: false,
        })
    }

    /// Writes a text to its standard input, now or as it takes it.
    pub(super) fn tell(&mut self, text: &str) {
        if self.stdin.is_none() {
            return;
        }
        self.unsent.drain(..self.sent);
        self.sent = 0;
        self.unsent.extend_from_slice(text.as_bytes());
        self.write();
    }

    /// Whether it still has to take what it was told.
    pub(super) fn is_behind(&self) -> bool {
        self.sent < self.unsent.len()
    }

    /// Closes its standard input: an agent ends then, with all that it has started.
    pub(super) fn dismiss(&mut self) {
        self.stdin = None;
        self.unsent = Zeroizing::new(Vec::new());
        self.sent = 0;
    }

    /// Ends it and whatever it has started in its group, by force.
    pub(super) fn kill(&mut self) {
        self.dismiss();
        self.killed = true;
        // Fails when all of them have gone, or when they are another user's, such as those of a command that gives itself more rights.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }

    /// What is to be waited for.
    pub(super) fn wants(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let stdin = self.stdin.as_ref().filter(|_| self.is_behind());
        let stdin = stdin.map(|pipe| (pipe.as_fd(), PollFlags::OUT));
        let stdout = self.stdout.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
        let stderr = self.stderr.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
        let ended = (self.ended.as_fd(), PollFlags::IN);
        stdin.into_iter().chain(stdout).chain(stderr).chain([ended])
    }

    /// When it is to be killed, since it has closed its standard output and stays.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.closed.filter(|_| !self.killed)
    }

    /// Reads and writes what there is; whether it says no more than lines may be long.
    pub(super) fn turn(&mut self, now: Duration, take: &mut impl FnMut(Spoken<'_>)) -> bool {
        self.write();
        let stderr = read_some(&mut self.stderr, &mut self.said, |line| take(Spoken::Said(line)));
        // A line of a log that is too long is nobody's fault who speaks on standard output.
        if stderr.is_err() {
            self.said = Lines::new(LINE_MAX);
        }
        let answers = read_some(&mut self.stdout, &mut self.answers, |line| take(Spoken::Answer(line)));
        if self.stdout.is_none() && self.closed.is_none() {
            self.closed = Some(now + CLOSED_LIMIT);
        }
        if self.deadline().is_some_and(|limit| now >= limit) {
            self.kill();
        }
        answers.is_ok()
    }

    /// How it ended, if it has, in words. What is left of its group is ended as well.
    pub(super) fn end(&mut self, now: Duration, take: &mut impl FnMut(Spoken<'_>)) -> Option<String> {
        let mut ended = [PollFd::new(&self.ended, PollFlags::IN)];
        let ready = poll(&mut ended, Some(&Timespec::default()));
        ready.ok().filter(|&count| count > 0)?;
        // What lies in the pipes; others of its group, or of none, may still hold them open.
        let _ = read_some(&mut self.stdout, &mut self.answers, |line| take(Spoken::Answer(line)));
        let _ = read_some(&mut self.stderr, &mut self.said, |line| take(Spoken::Said(line)));
        self.said.rest(|line| take(Spoken::Said(line)));
        self.answers.rest(|line| take(Spoken::Answer(line)));
        // Before it is reaped: until then no other group has its number.
        self.kill();
        let status = self.child.wait().ok()?;
        let outstayed = self.closed.is_some_and(|limit| now >= limit);
        Some(if outstayed { "it closed its standard output".into() } else { describe(status) })
    }

    /// Waits for one that was killed, as long as the end of a process takes. One that cannot be killed is left to itself: its standard input is closed.
    pub(super) fn reap(mut self) {
        let limit = Timespec { tv_sec: REAP_LIMIT_S, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], Some(&limit));
        if ended.is_ok_and(|count| count > 0) {
            // All that it can say is that it has been reaped.
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
                // It reads no more: its end is seen where it speaks.
                Err(_) => return self.dismiss(),
            }
        }
        self.unsent = Zeroizing::new(Vec::new());
        self.sent = 0;
    }
}

/// Reads what is there, up to a bound, and closes the pipe at its end.
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

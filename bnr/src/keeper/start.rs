//! Starts one process, in a session of its own.
//!
//! Linux shares the processors out to sessions first where it groups processes automatically (`sched_autogroup_enabled`). In the session of a busy shell all processes of a job together get as much as one of its other processes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use chained_gpc::launch::advice;

use rustix::io::{Errno, dup2};
use rustix::process::{Pid, setsid};

use super::cores::Cores;
use super::inspect::{self, Kind};
use super::lookup::Lookup;
use crate::start_error::StartError;

/// The shell that runs programs without `#!`.
const SHELL: &str = "/bin/sh";

/// What is to be started.
pub(super) struct Program<'a> {
    pub(super) program: &'a [u8],
    pub(super) args: &'a [Vec<u8>],
    pub(super) env: &'a [(Vec<u8>, Vec<u8>)],
    pub(super) wdir: Option<&'a [u8]>,
    pub(super) bind: Option<usize>,
}

/// What does not change from process to process.
pub(super) struct Starter {
    /// Variables of launchers, which this process has although it should not.
    scrubbed: Vec<OsString>,
    lookup: Lookup,
    /// Looked at when the first is bound.
    cores: Option<Cores>,
    /// The descriptor that a process inherits as its socket: of the same number in all, and a low one. Not closed in programs, so it is the socket only while one is started.
    inherited: OwnedFd,
    /// What is in its place otherwise.
    nothing: OwnedFd,
}

impl Starter {
    /// While few descriptors are open.
    pub(super) fn new() -> io::Result<Starter> {
        let mut command = Command::new(".");
        chained_gpc::bootstrap::scrub(&mut command);
        let scrubbed = command.get_envs().map(|(name, _)| name.into()).collect();
        let nothing = OwnedFd::from(File::open("/dev/null")?);
        let inherited = nothing.try_clone()?;
        Ok(Starter { scrubbed, lookup: Lookup::new(), cores: None, inherited, nothing })
    }

    /// Starts a program with its standard input, output and error, and the socket by which it asks its node.
    ///
    /// A program that the system cannot execute and that is text is run by the shell, as `execvp` does it.
    ///
    /// # Errors
    /// What failed, and what the system says.
    pub(super) fn start(
        &mut self,
        program: &Program<'_>,
        descriptors: [OwnedFd; 4],
    ) -> Result<Pid, StartError> {
        let path = super::told(program.env, b"PATH");
        let found = find(&mut self.lookup, program.program, path, program.wdir)?;
        let mut command = Command::new(&found);
        // What it is called is what was asked for, as a shell does it.
        command.arg0(OsStr::from_bytes(program.program));
        let error = match self.run(command, program, &descriptors) {
            Ok(pid) => return Ok(pid),
            Err(error) => error,
        };
        inspect::folder(program.wdir)?;
        let kind = inspect::file(program.program, &found, program.wdir)?;
        if kind == Kind::Plain && Errno::from_io_error(&error) == Some(Errno::NOEXEC) {
            let mut command = Command::new(SHELL);
            command.arg(&found);
            return self.run(command, program, &descriptors).map_err(|error| refused(&error));
        }
        Err(refused(&error))
    }

    /// Starts the command in the place of a program.
    fn run(
        &mut self,
        mut command: Command,
        program: &Program<'_>,
        [stdin, stdout, stderr, link]: &[OwnedFd; 4],
    ) -> io::Result<Pid> {
        own_session(&mut command);
        command.args(program.args.iter().map(|arg| OsStr::from_bytes(arg)));
        for name in &self.scrubbed {
            command.env_remove(name);
        }
        let variables =
            program.env.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)));
        command.envs(variables);
        let number = self.inherited.as_raw_fd().to_string();
        if !program.env.iter().any(|(name, _)| name == b"PMI_PORT") {
            command.env("PMI_FD", &number);
        }
        command.env("GPC_BNR_FD", &number);
        if let Some(wdir) = program.wdir {
            command.current_dir(OsStr::from_bytes(wdir));
        }
        command.stdin(stdin.try_clone()?).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        dup2(link, &mut self.inherited)?;
        let started = self.spawn(&mut command, program.bind);
        // Whoever has the other end sees the end of the process, and this one does not hold it open.
        dup2(&self.nothing, &mut self.inherited)?;
        started
    }

    fn spawn(&mut self, command: &mut Command, bind: Option<usize>) -> io::Result<Pid> {
        let Some(core) = bind else { return spawn(command) };
        let cores = match &self.cores {
            Some(cores) => cores,
            None => self.cores.insert(Cores::look()?),
        };
        cores.bound(core, || spawn(command))?
    }
}

/// Has the program lead a session, and with it a process group.
#[allow(unsafe_code)]
fn own_session(command: &mut Command) {
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(|| setsid().map(drop).map_err(io::Error::from)) };
}

fn spawn(command: &mut Command) -> io::Result<Pid> {
    // Its end is waited for with that of all others.
    command.spawn().map(|child| Pid::from_child(&child))
}

/// The error of a program whose file is in order.
pub(super) fn refused(error: &io::Error) -> StartError {
    // A zero byte in an argument is seen before the system is asked.
    let errno = Errno::from_io_error(error).unwrap_or(Errno::INVAL).raw_os_error();
    let mut refused = StartError::new(errno, StartError::NOT_EXECUTED, "the system refuses the process");
    refused.why.push_str(&advice(&io::Error::from_raw_os_error(errno)));
    refused
}

fn find(
    lookup: &mut Lookup,
    program: &[u8],
    path: Option<&[u8]>,
    wdir: Option<&[u8]>,
) -> Result<PathBuf, StartError> {
    lookup.find(program, path, wdir).map_err(|errno| match inspect::folder(wdir) {
        Err(error) => error,
        Ok(()) => inspect::missing(program, errno),
    })
}

/// Looks whether a keeper of this process can start a program, as far as its folder and its file show it. `path` is the `PATH` of its environment, where that has one of its own.
///
/// # Errors
/// What would fail.
pub(crate) fn check(program: &[u8], path: Option<&[u8]>, wdir: Option<&[u8]>) -> Result<(), StartError> {
    inspect::folder(wdir)?;
    let found = find(&mut Lookup::new(), program, path, wdir)?;
    inspect::file(program, &found, wdir).map(drop)
}

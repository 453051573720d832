//! Starts one process. Nothing runs between its making and its program, so the standard library uses `posix_spawn`, which copies no page tables: the time does not grow with the keeper.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::io::{Errno, dup2};
use rustix::process::Pid;

use super::cores::Cores;
use super::lookup::Lookup;

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
    /// # Errors
    /// As the system says it.
    pub(super) fn start(&mut self, program: &Program<'_>, descriptors: [OwnedFd; 4]) -> Result<Pid, Errno> {
        let [stdin, stdout, stderr, link] = descriptors;
        let path = program.env.iter().rfind(|(name, _)| name == b"PATH").map(|(_, value)| value.as_slice());
        let found = self.lookup.find(program.program, path, program.wdir)?;
        let mut command = Command::new(&found);
        // What it is called is what was asked for, as a shell does it.
        command.arg0(OsStr::from_bytes(program.program)).process_group(0);
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
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
        dup2(&link, &mut self.inherited)?;
        let started = self.spawn(&mut command, program.bind);
        // Whoever has the other end sees the end of the process, and this one does not hold it open.
        dup2(&self.nothing, &mut self.inherited)?;
        started
    }

    fn spawn(&mut self, command: &mut Command, bind: Option<usize>) -> Result<Pid, Errno> {
        let Some(core) = bind else { return spawn(command) };
        let cores = match &self.cores {
            Some(cores) => cores,
            None => self.cores.insert(Cores::look()?),
        };
        cores.bound(core, || spawn(command))?
    }
}

fn spawn(command: &mut Command) -> Result<Pid, Errno> {
    match command.spawn() {
        // Its end is waited for with that of all others.
        Ok(child) => Ok(Pid::from_child(&child)),
        // A zero byte in an argument is seen before the system is asked.
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL)),
    }
}

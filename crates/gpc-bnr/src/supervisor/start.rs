//! Starts one process, in a session of its own unless it reads a terminal.
//!
//! If Linux groups processes automatically (`sched_autogroup_enabled`), it shares the processors among sessions first.
//! In the session of a busy shell, all processes of a job together would get as much as one of the shell's other
//! processes.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use gpc_launch::advice;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, getrlimit};

use super::cores::Cores;
use super::inspect::{self, Kind};
use super::lookup::Lookup;
use super::need::{ProgramFacts, facts};
use super::orders::{BindTo, Binding};
use super::spawn::{Image, spawn};
use super::topology::{self, BoundCpus};
use crate::names::Member;
use crate::start_error::StartError;

/// The shell that runs programs without `#!`.
const SHELL: &str = "/bin/sh";

/// Most bytes of one argument or variable: 32 pages, a limit of Linux.
const WORD_MAX: usize = 128 << 10;

/// Most bytes of all arguments and variables, whatever the limit of the stack.
const ALL_MAX: u64 = 6 << 20;

/// A program to start.
pub(super) struct Program<'a> {
    pub(super) program: &'a [u8],
    /// The file to execute, if it is not to be found by the program's name.
    pub(super) image: Option<&'a [u8]>,
    pub(super) args: &'a [Vec<u8>],
    pub(super) env: &'a [(Vec<u8>, Vec<u8>)],
    pub(super) wdir: Option<&'a [u8]>,
    pub(super) bind: Option<&'a Binding>,
    pub(super) process_group: Option<Pid>,
    pub(super) member: Member,
}

/// State shared by all starts.
pub(super) struct Starter {
    /// The environment of this process without the launchers' variables.
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    lookup: Lookup,
    /// Read when the first process is bound.
    cores: Option<Cores>,
    /// Reserves the descriptor number of each process's socket: in this process it refers to `/dev/null`.
    socket: OwnedFd,
}

impl Starter {
    /// Call it while few descriptors are open.
    pub(super) fn new() -> io::Result<Starter> {
        let mut command = Command::new(".");
        chained_gpc::bootstrap::scrub(&mut command);
        let scrubbed: Vec<OsString> = command.get_envs().map(|(name, _)| name.into()).collect();
        let own = env::vars_os().filter(|(name, _)| !scrubbed.contains(name));
        let environment = own.map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
        let socket = OwnedFd::from(File::open("/dev/null")?);
        Ok(Starter { environment, lookup: Lookup::new(), cores: None, socket })
    }

    /// Starts a program with its standard input, output and error, and the socket to its node.
    ///
    /// A text file that the system cannot execute is run by the shell, as `execvp` does it.
    ///
    /// # Errors
    /// What failed, and the system's error.
    pub(super) fn start(
        &mut self,
        program: &Program<'_>,
        descriptors: [OwnedFd; 4],
    ) -> Result<Pid, StartError> {
        let path = super::env_value(program.env, b"PATH");
        let found = match program.image {
            Some(image) => PathBuf::from(OsStr::from_bytes(image)),
            None => find(&mut self.lookup, program.program, path, program.wdir)?,
        };
        // The program's name is the requested one, as in a shell.
        let name = [program.program];
        let bound = self.bound(program, &descriptors[2])?;
        let bound = bound.as_ref();
        let error = match self.run(&found, &name, program, bound, &descriptors) {
            Ok(pid) => return Ok(pid),
            Err(error) => error,
        };
        inspect::folder(program.wdir)?;
        let kind = inspect::file(program.program, &found, program.wdir)?.kind;
        if kind == Kind::Plain && Errno::from_io_error(&error) == Some(Errno::NOEXEC) {
            let words = [SHELL.as_bytes(), found.as_os_str().as_bytes()];
            let ran = self.run(Path::new(SHELL), &words, program, bound, &descriptors);
            return ran.map_err(|error| self.refused(&error, program));
        }
        Err(self.refused(&error, program))
    }

    /// The error of a program whose file is in order, with the sizes if they are too large.
    fn refused(&self, error: &io::Error, program: &Program<'_>) -> StartError {
        let mut refused = refused(error);
        if Errno::from_io_error(error) == Some(Errno::TOOBIG) {
            let variables = self.environment_of(program).unwrap_or_default();
            refused.why.push_str(&sizes(program, &variables));
        }
        refused
    }

    /// The processors of a program. A line about them goes to its standard error, if it is to be reported.
    ///
    /// # Errors
    /// The processors may not be used, or the system does not say which may.
    fn bound(&mut self, program: &Program<'_>, stderr: &OwnedFd) -> Result<Option<BoundCpus>, StartError> {
        let Some(binding) = program.bind else { return Ok(None) };
        let cores = match &self.cores {
            Some(cores) => cores,
            None => self.cores.insert(Cores::read().map_err(|error| refused(&error.into()))?),
        };
        let bound = cores.of(binding).map_err(|why| {
            StartError::new(
                Errno::INVAL.raw_os_error(),
                StartError::REFUSED,
                &format!("cannot bind it: {why}"),
            )
        })?;
        if binding.report {
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let (host, cpus) = (host.trim_end(), topology::shown(&bound.cpus));
            let line = format!("gpc: {} on host {host}: cpus {cpus} ({})\n", program.member, bound.object);
            // The pipe is empty, so it takes the line. The write fails only if the reader has gone.
            let _ = rustix::io::write(stderr, line.as_bytes());
        }
        Ok((binding.to != BindTo::Nothing).then_some(bound))
    }

    /// Starts `file` as the program; `words` precede the program's arguments.
    fn run(
        &mut self,
        file: &Path,
        words: &[&[u8]],
        program: &Program<'_>,
        bound: Option<&BoundCpus>,
        [stdin, stdout, stderr, link]: &[OwnedFd; 4],
    ) -> io::Result<Pid> {
        let args = program.args.iter().map(Vec::as_slice);
        let image = Image {
            path: CString::new(file.as_os_str().as_bytes())?,
            args: words.iter().copied().chain(args).map(CString::new).collect::<Result<_, _>>()?,
            env: self.environment_of(program)?,
            wdir: program.wdir.map(CString::new).transpose()?,
            process_group: program.process_group,
        };
        let socket = self.socket.as_raw_fd();
        let descriptors = [(stdin, 0), (stdout, 1), (stderr, 2), (link, socket)];
        let descriptors = descriptors.map(|(descriptor, number)| (descriptor.as_fd(), number));
        match (bound, &self.cores) {
            (Some(bound), Some(cores)) => cores.bound(&bound.cpus, || spawn(&image, &descriptors))?,
            _ => spawn(&image, &descriptors),
        }
    }

    /// The environment of a program: this process's, the program's own, and the number of its socket.
    fn environment_of(&self, program: &Program<'_>) -> io::Result<Vec<CString>> {
        let number = self.socket.as_raw_fd().to_string();
        let variables = self.environment.iter().chain(program.env);
        let mut all: BTreeMap<&[u8], &[u8]> = variables.map(|(name, value)| (&**name, &**value)).collect();
        all.insert(b"GPC_BNR_FD", number.as_bytes());
        if !program.env.iter().any(|(name, _)| name == b"PMI_PORT") {
            all.insert(b"PMI_FD", number.as_bytes());
        }
        let line = |(name, value)| CString::new([name, value].join(&b'='));
        Ok(all.into_iter().map(line).collect::<Result<_, _>>()?)
    }
}

/// The error of a program whose file is in order.
pub(super) fn refused(error: &io::Error) -> StartError {
    // A zero byte in an argument is found before the system call.
    let errno = Errno::from_io_error(error).unwrap_or(Errno::INVAL).raw_os_error();
    let mut refused = StartError::new(errno, StartError::NOT_EXECUTED, "the system refuses the process");
    refused.why.push_str(&advice(&io::Error::from_raw_os_error(errno)));
    refused
}

/// The sizes of arguments and variables, and the limits of Linux for them.
fn sizes(program: &Program<'_>, variables: &[CString]) -> String {
    // Each has a zero byte at its end.
    let of_args = program.args.iter().map(|arg| arg.len() + 1);
    let of_variables = variables.iter().map(|variable| variable.as_bytes_with_nul().len());
    let longest = of_args.clone().chain(of_variables.clone()).max().unwrap_or(0);
    let (args, variables) = (of_args.sum::<usize>(), of_variables.sum::<usize>());
    let stack = getrlimit(Resource::Stack).current.map_or(ALL_MAX, |stack| (stack / 4).min(ALL_MAX));
    format!(
        ": {args} bytes of arguments and {variables} of variables, {longest} in the longest of them; the limits are {stack} in all (a quarter of `ulimit -s`, at most 6 MiB) and {WORD_MAX} in one: put long lists into a file"
    )
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

/// Checks whether the supervisor can start a program, as far as the working directory and the file show. `path` is the
/// program's own `PATH`, if it has one; `image` the file to execute, if it is not to be found by the program's name.
/// Returns what the file shows about its MPI library.
///
/// # Errors
/// The reason why the start would fail.
pub(crate) fn check(
    (program, args): (&[u8], &[Vec<u8>]),
    image: Option<&Path>,
    path: Option<&[u8]>,
    wdir: Option<&[u8]>,
) -> Result<ProgramFacts, StartError> {
    inspect::folder(wdir)?;
    let found = match image {
        Some(image) => image.to_owned(),
        None => find(&mut Lookup::new(), program, path, wdir)?,
    };
    let inspected = inspect::file(program, &found, wdir)?;
    Ok(facts(&inspected, &found, args, wdir))
}

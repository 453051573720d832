//! The supervisor process: one thread that waits for orders and for the ends of processes.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, BytesMut};
use chained_gpc::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, set_child_subreaper};
use rustix::thread::set_name;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::codec::{FAILED, Frames, HELLO, SupervisorMessage, get_message, put_event, put_hello};
use super::groups::Groups;
use super::orders::{SupervisorEvent, SupervisorOrder};
use super::passing::{receive, send};
use super::start::{Program, Starter, refused};
use super::system::Machine;
use crate::names::Member;

/// Its name in the process table. A pattern for `gpc` does not match it.
const NAME: &std::ffi::CStr = c"bnr-keeper";

/// Bytes received at a time.
const READ: usize = 64 << 10;

/// Bytes of unsent events beyond which no orders are read.
const EVENTS_MAX: usize = 1 << 20;

/// Runs the supervisor until its control socket closes or a signal ends it; then kills all that it has started, and
/// returns. The calling process should do nothing else and have no other children: their exit statuses are collected as
/// well.
///
/// # Errors
/// System errors and invalid orders. All started processes have been killed in that case, too. An error of the start is
/// sent to the node, and returned only if that fails.
pub fn run(control: UnixStream) -> io::Result<()> {
    let mut hello = BytesMut::new();
    let mut process = match begin(&control) {
        Ok(process) => process,
        Err(error) => {
            put_hello(&mut hello, &format!("{FAILED}{error}"));
            let sent = send(&control, &hello, &[]);
            // The node reports an error that it has received.
            return if sent.is_ok_and(|sent| sent == Some(hello.len())) { Ok(()) } else { Err(error) };
        }
    };
    put_hello(&mut process.events, HELLO);
    let result = process.run_loop();
    process.groups.end(&process.clock);
    result
}

/// Turns this process into a supervisor.
///
/// # Errors
/// A system error, with the operation that the system refuses.
fn begin(control: &UnixStream) -> io::Result<Process> {
    // The name is optional.
    let _ = set_name(NAME);
    set_child_subreaper(Some(getpid())).map_err(|errno| {
        let error = io::Error::from(errno);
        let what = "it may not adopt the processes that others leave (prctl PR_SET_CHILD_SUBREAPER)";
        let advice = "a seccomp filter or a sandbox denies it: allow that call";
        io::Error::new(error.kind(), format!("{what}: {error}; {advice}"))
    })?;
    chained_gpc::bootstrap::inherit_nothing()?;
    control.set_nonblocking(true)?;
    Process::new(control.try_clone()?)
}

/// The standard input of this process as the control socket of a supervisor.
///
/// # Errors
/// System errors.
pub fn stdin_control() -> io::Result<UnixStream> {
    io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)
}

/// The answer to a start order, for an error that does not concern the program's file.
fn not_started(member: Member, errno: i32) -> SupervisorEvent {
    SupervisorEvent::NotStarted(member, refused(&io::Error::from_raw_os_error(errno)))
}

struct Process {
    control: UnixStream,
    /// Readable when a signal has arrived.
    woken: UnixStream,
    /// Whether a signal has requested the end.
    ends: Arc<AtomicBool>,
    clock: Clock,
    frames: Frames,
    /// Descriptors received for the orders in `frames`.
    descriptors: VecDeque<OwnedFd>,
    starter: Starter,
    /// The process that joins a process group, and that process group, until it is started.
    joins: Option<(Member, Pid)>,
    groups: Groups,
    events: BytesMut,
}

impl Process {
    fn new(control: UnixStream) -> io::Result<Process> {
        let starter = Starter::new()?;
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let ends = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            signal_hook::flag::register(signal, ends.clone())?;
            signal_hook::low_level::pipe::register(signal, wakes.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, wakes)?;
        Ok(Process {
            control,
            woken,
            ends,
            clock: Clock::system(),
            frames: Frames::default(),
            descriptors: VecDeque::new(),
            starter,
            joins: None,
            groups: Groups::new(Machine),
            events: BytesMut::new(),
        })
    }

    /// Terminates with the control socket or a signal.
    fn run_loop(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ];
        loop {
            self.wait()?;
            if self.ends.load(Ordering::Relaxed) {
                return Ok(());
            }
            if self.take_signals()? {
                self.groups.reap(|event| put_event(&mut self.events, &event));
            }
            if self.events.len() < EVENTS_MAX {
                match receive(&self.control, &mut buffer, |descriptor| self.descriptors.push_back(descriptor))
                {
                    Ok(Some(0)) => return Ok(()),
                    Ok(Some(count)) => self.frames.push(&buffer[..count]),
                    Ok(None) => {}
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                    Err(error) => return Err(error),
                }
                self.obey()?;
            }
            self.groups.step(&self.clock, |event| put_event(&mut self.events, &event));
            if !self.tell()? {
                return Ok(());
            }
        }
    }

    /// Waits for orders, signals, room for events, or the next step of a kill.
    fn wait(&self) -> io::Result<()> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, self.events.len() < EVENTS_MAX);
        interest.set(PollFlags::OUT, !self.events.is_empty());
        let mut watched = [PollFd::new(&self.control, interest), PollFd::new(&self.woken, PollFlags::IN)];
        let left = self.groups.next().map(|next| next.saturating_sub(self.clock.now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut watched, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Empties the socket that signals write to. Returns whether a signal has arrived.
    fn take_signals(&mut self) -> io::Result<bool> {
        let mut woken = false;
        let mut buffer = [0; 256];
        // Terminates: the socket holds a bounded number of bytes, and each is consumed once.
        loop {
            match self.woken.read(&mut buffer) {
                Ok(count) => {
                    woken = true;
                    if count < buffer.len() {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(woken),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Carries out all complete orders.
    fn obey(&mut self) -> io::Result<()> {
        let invalid = |error| io::Error::new(ErrorKind::InvalidData, error);
        // Terminates: the received bytes are bounded, and each iteration consumes some.
        while let Some(body) = self.frames.next().map_err(invalid)? {
            match get_message(body).map_err(invalid)? {
                SupervisorMessage::Order(
                    SupervisorOrder::Start { member, program, args, env, wdir, bind, image },
                    count,
                ) => {
                    if count != 4 || self.descriptors.len() < 4 {
                        let message = "a process is to be started without its four descriptors";
                        return Err(io::Error::new(ErrorKind::InvalidData, message));
                    }
                    let joins = self.joins.take_if(|(joins, _)| *joins == member);
                    let program = Program {
                        program: &program,
                        image: image.as_deref(),
                        args: &args,
                        env: &env,
                        wdir: wdir.as_deref(),
                        bind: bind.as_ref(),
                        process_group: joins.map(|(_, process_group)| process_group),
                        member,
                    };
                    let event = self.start(member, &program);
                    put_event(&mut self.events, &event);
                }
                SupervisorMessage::Order(SupervisorOrder::Join { member, process_group }, _) => {
                    let process_group = i32::try_from(process_group).ok().and_then(Pid::from_raw);
                    self.joins = process_group.map(|process_group| (member, process_group));
                }
                SupervisorMessage::Order(SupervisorOrder::Signal { group, signal, to }, _) => {
                    self.groups.signal(group, signal, to);
                }
                SupervisorMessage::Order(SupervisorOrder::Kill { group, grace }, _) => {
                    self.groups.kill(group, self.clock.now(), grace);
                }
                SupervisorMessage::Refused(member, errno) => {
                    put_event(&mut self.events, &not_started(member, errno));
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, member: Member, program: &Program<'_>) -> SupervisorEvent {
        let mut next = || self.descriptors.pop_front();
        let (Some(stdin), Some(stdout), Some(stderr), Some(link)) = (next(), next(), next(), next()) else {
            return not_started(member, Errno::BADF.raw_os_error());
        };
        if self.groups.is_killed(member.group) {
            return not_started(member, Errno::CANCELED.raw_os_error());
        }
        match self.starter.start(program, [stdin, stdout, stderr, link]) {
            Ok(pid) => {
                let is_joined = program.process_group.is_some();
                self.groups.insert(member, pid, program.env, is_joined);
                SupervisorEvent::Started(member, pid.as_raw_nonzero().get().cast_unsigned())
            }
            Err(error) => SupervisorEvent::NotStarted(member, error),
        }
    }

    /// Sends events as far as the socket takes them. Returns whether the node is still there.
    fn tell(&mut self) -> io::Result<bool> {
        // Terminates: each iteration sends something or stops.
        while !self.events.is_empty() {
            match send(&self.control, &self.events, &[]) {
                Ok(Some(count)) => self.events.advance(count),
                Ok(None) => break,
                Err(error) if [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

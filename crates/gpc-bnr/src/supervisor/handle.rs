//! The node's side of its supervisor.
#![allow(clippy::disallowed_methods, reason = "the end of a process is waited for by the clock")]

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use chained_gpc::Shown;
use gpc_launch::name_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process_group, pidfd_open};

use super::EMPTY_LIMIT;
use super::codec::{Frames, SupervisorMessage, get_event, get_hello, put_message};
use super::orders::{SupervisorEvent, SupervisorOrder};
use super::passing::{PASSED_MAX, receive, send};
use super::tree::kill_tagged;
use super::{GROUP, NODE, Tag, env_value};
use crate::names::{GroupId, Member};

/// Descriptors for each started process.
const DESCRIPTORS: usize = 4;

/// Most starts that are ordered and unanswered: 512 descriptors in transit. The system limits a user's descriptors in
/// transit to the number that one process may open, by default 1,024.
const UNANSWERED_MAX: usize = 128;

/// Size at which a message takes no further order, in bytes.
const MESSAGE: usize = 32 << 10;

/// Most bytes of queued orders. Beyond that, starts are refused and signals are dropped.
const WAITING_MAX: usize = 64 << 20;

/// Bytes received at a time.
const READ: usize = 4096;

/// Time to wait for this user's descriptors that are in transit elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Most searches for processes that a lost supervisor has left.
const SEARCHES: usize = 100;

/// Consecutive searches without a result after which none is assumed to be left. A process that loads a program has no
/// environment for a moment.
const QUIET: usize = 10;

/// The pause after each search.
const QUIET_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Some orders and their descriptors.
#[derive(Default)]
struct Message {
    bytes: BytesMut,
    descriptors: Vec<OwnedFd>,
    starts: usize,
    /// Whether its descriptors and some of its bytes have been sent.
    begun: bool,
}

/// A running supervisor. Its methods do not block, except at its end.
///
/// Dropping it kills all that it has started, and waits for that, at most a little longer than [`EMPTY_LIMIT`].
pub struct Supervisor {
    socket: UnixStream,
    child: Child,
    messages: VecDeque<Message>,
    waiting: usize,
    unanswered: usize,
    /// Most descriptors of one message.
    at_once: usize,
    frames: Frames,
    /// Whether the version of the supervisor has been checked.
    greeted: bool,
    /// Running processes, each with its process group.
    running: BTreeMap<Member, u32>,
    /// The tags of the groups that are not yet emptied.
    tags: BTreeMap<GroupId, Tag>,
    ended: bool,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("pid", &self.child.id()).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Starts the supervisor: a program that calls [`run`](super::run) on its standard input. It shares this process's
    /// standard error. It has a process group of its own, so that Ctrl-C at a terminal does not reach it.
    ///
    /// # Errors
    /// A system error: the program cannot be started.
    pub fn start(program: &Path, args: &[OsString]) -> io::Result<Supervisor> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut command = Command::new(program);
        // Process lists show the program's own name.
        command.arg0(name_of(program));
        chained_gpc::bootstrap::scrub(&mut command);
        command.args(args).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).process_group(0);
        let child = command.spawn()?;
        // The supervisor has the same limit; a message uses at most a quarter of it.
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let at_once = limit.map_or(PASSED_MAX, |limit| (limit / 4).clamp(DESCRIPTORS, PASSED_MAX));
        Ok(Supervisor {
            socket,
            child,
            messages: VecDeque::new(),
            waiting: 0,
            unanswered: 0,
            at_once,
            frames: Frames::default(),
            greeted: false,
            running: BTreeMap::new(),
            tags: BTreeMap::new(),
            ended: false,
        })
    }

    /// The socket to poll: readable if there may be an [`event`](Supervisor::event), writable if
    /// [`flush`](Supervisor::flush) can continue.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The process id of the supervisor.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Queues an order; [`flush`](Supervisor::flush) sends it. A start has four descriptors, other orders have none.
    /// The descriptors are closed here once sent.
    ///
    /// A start that cannot be ordered is answered by [`SupervisorEvent::NotStarted`], like one that fails. The error is
    /// `E2BIG` if the order is longer than any system allows. It is `EAGAIN` if more than 64 MiB of orders wait, and
    /// `EBADF` if there are not four descriptors.
    pub fn order(&mut self, order: SupervisorOrder, descriptors: Vec<OwnedFd>) {
        let is_full = self.waiting > WAITING_MAX;
        let sent = match order {
            SupervisorOrder::Start { member, .. } if descriptors.len() != DESCRIPTORS => {
                SupervisorMessage::Refused(member, Errno::BADF.raw_os_error())
            }
            SupervisorOrder::Start { member, .. } if is_full => {
                SupervisorMessage::Refused(member, Errno::AGAIN.raw_os_error())
            }
            SupervisorOrder::Signal { .. } if is_full => return,
            order => SupervisorMessage::Order(order, u8::try_from(descriptors.len()).unwrap_or_default()),
        };
        if self.messages.back().is_none_or(|last| !last.takes(self.at_once)) {
            self.messages.push_back(Message::default());
        }
        let Some(message) = self.messages.back_mut() else { return };
        let before = message.bytes.len();
        let put = put_message(&mut message.bytes, &sent);
        match sent {
            SupervisorMessage::Order(SupervisorOrder::Start { member, env, .. }, _) => {
                message.starts += 1;
                if let Entry::Vacant(vacant) = self.tags.entry(member.group) {
                    let value = |name| env_value(&env, name).map(<[u8]>::to_vec).unwrap_or_default();
                    vacant.insert((value(GROUP), value(NODE)));
                }
                if put {
                    message.descriptors.extend(descriptors);
                } else {
                    put_message(
                        &mut message.bytes,
                        &SupervisorMessage::Refused(member, Errno::TOOBIG.raw_os_error()),
                    );
                }
            }
            SupervisorMessage::Refused(..) => message.starts += 1,
            SupervisorMessage::Order(..) => {}
        }
        self.waiting += message.bytes.len() - before;
    }

    /// Sends queued orders, as far as the socket takes them and the supervisor keeps up. Returns whether all have been
    /// sent. Call it again when the socket is writable; orders that wait for answers are sent when those arrive.
    ///
    /// # Errors
    /// A system error: the supervisor is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        // A supervisor of another version would misread orders.
        if !self.greeted {
            return Ok(false);
        }
        // Terminates: each iteration sends something or returns.
        while let Some(message) = self.messages.front_mut() {
            if !message.begun && self.unanswered > 0 && self.unanswered + message.starts > UNANSWERED_MAX {
                return Ok(false);
            }
            let Some(count) = message.send(&self.socket)? else { return Ok(false) };
            if !std::mem::replace(&mut message.begun, true) {
                message.descriptors.clear();
                self.unanswered += message.starts;
            }
            self.waiting -= count;
            drop(message.bytes.split_to(count));
            if message.bytes.is_empty() {
                self.messages.pop_front();
            }
        }
        Ok(true)
    }

    /// The next event; `None` if the queue is empty.
    ///
    /// # Errors
    /// `UnexpectedEof` if the supervisor is gone, or another system error. Further calls are useless:
    /// [`abandon`](Supervisor::abandon) the supervisor.
    pub fn event(&mut self) -> io::Result<Option<SupervisorEvent>> {
        // Terminates: each iteration reads something or returns.
        loop {
            let body = self.frames.next().map_err(invalid)?;
            if let Some(body) = body {
                if !self.greeted {
                    get_hello(&body)
                        .map_err(|why| io::Error::new(ErrorKind::InvalidData, Shown(&why).to_string()))?;
                    self.greeted = true;
                    continue;
                }
                let event = get_event(body).map_err(invalid)?;
                self.account(&event);
                return Ok(Some(event));
            }
            // Orders that waited for answers may now be sent. An error shows up in `receive` below.
            let _ = self.flush();
            let mut buffer = [0; READ];
            match receive(&self.socket, &mut buffer, drop)? {
                Some(0) => {
                    let message = "the keeper has closed its socket: it has ended";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, message));
                }
                Some(count) => self.frames.push(&buffer[..count]),
                None => return Ok(None),
            }
        }
    }

    fn account(&mut self, event: &SupervisorEvent) {
        match event {
            SupervisorEvent::Started(member, pid) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.running.insert(*member, *pid);
            }
            SupervisorEvent::NotStarted(..) => self.unanswered = self.unanswered.saturating_sub(1),
            SupervisorEvent::Ended(member, _) => drop(self.running.remove(member)),
            SupervisorEvent::Emptied(group) => drop(self.tags.remove(group)),
        }
    }

    /// Orders the supervisor to kill all that it has started and to end. Waits for that, up to the limit; then kills
    /// the supervisor.
    pub fn end(mut self, limit: Duration) {
        self.finish(limit);
    }

    /// Gives up a supervisor that is gone or misbehaves: ends it, and kills the processes that it can have left. These
    /// are the process groups of processes without a reported end. They are also the processes that were started with
    /// `GPC_BNR_GROUP` of a group that was not emptied and `GPC_BNR_NODE` of this node. Others run on.
    pub fn abandon(mut self) {
        self.finish(EMPTY_LIMIT);
        for pid in std::mem::take(&mut self.running).into_values() {
            if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                // The process may have ended in the meantime.
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        let tags: BTreeSet<Tag> = std::mem::take(&mut self.tags).into_values().collect();
        let mut quiet = 0;
        // A process started during one search is found by the next.
        for _ in 0..SEARCHES {
            // A killed process stays visible until it has ended.
            quiet = if kill_tagged(&tags) > 0 { 0 } else { quiet + 1 };
            if quiet >= QUIET {
                return;
            }
            let _ = poll(&mut [], Some(&QUIET_PAUSE));
        }
    }

    fn finish(&mut self, limit: Duration) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        // The supervisor may be gone.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        if !wait_for(&mut self.child, limit) {
            let _ = self.child.kill();
            wait_for(&mut self.child, EMPTY_LIMIT);
        }
    }
}

impl Message {
    /// Whether another order may be added.
    fn takes(&self, at_once: usize) -> bool {
        !self.begun && self.bytes.len() < MESSAGE && self.descriptors.len() + DESCRIPTORS <= at_once
    }

    /// Sends some of the message; `None` if the socket is full.
    fn send(&self, socket: &UnixStream) -> io::Result<Option<usize>> {
        let until = Instant::now() + ELSEWHERE;
        // Terminates with the time limit.
        loop {
            match send(socket, &self.bytes, &self.descriptors) {
                Err(error)
                    if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) && Instant::now() < until =>
                {
                    // Descriptors in transit elsewhere will arrive: their receivers do nothing else.
                    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
                }
                result => return result,
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.finish(EMPTY_LIMIT + Duration::from_secs(2));
    }
}

fn invalid(error: super::codec::CodecError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Waits for the end of a process. Returns whether it has ended.
fn wait_for(child: &mut Child, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    // Terminates with the process or the time limit.
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // Without a pidfd, the process is polled every hundredth of a second.
        let wait = if pidfd.is_ok() { left } else { left.min(Duration::from_millis(10)) };
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        let mut watched: Vec<_> = pidfd.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
        let _ = poll(&mut watched, Some(&wait));
    }
}

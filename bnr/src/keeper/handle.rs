//! The node's side of its keeper.
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
use chained_gpc::launch::name_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process_group, pidfd_open};

use super::EMPTY_LIMIT;
use super::codec::{Frames, Sent, get_event, get_hello, put_sent};
use super::orders::{KeeperEvent, KeeperOrder};
use super::passing::{PASSED_MAX, receive, send};
use super::tree::kill_tagged;
use super::{GROUP, NODE, Tag, told};
use crate::names::{GroupId, Member};

/// Descriptors of a process that is started.
const DESCRIPTORS: usize = 4;

/// How many processes may be ordered and not yet answered for: 512 descriptors on their way, of which the system allows a user's processes as many as one of them may open, 1,024 by default.
const UNANSWERED_MAX: usize = 128;

/// Bytes after which a message gets no further order.
const MESSAGE: usize = 32 << 10;

/// Bytes of orders that may wait. Processes beyond that are not started; signals are not sent.
const WAITING_MAX: usize = 64 << 20;

/// Bytes that are received at a time.
const READ: usize = 4096;

/// How long descriptors of this user that are on their way elsewhere are waited for.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// How often what a lost keeper has left is looked for.
const SEARCHES: usize = 100;

/// How often in a row nothing may be found until nothing is left: a process that begins a program has no environment for a moment.
const QUIET: usize = 10;

/// The pause behind a look.
const QUIET_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Some orders, and the descriptors that go with them.
#[derive(Default)]
struct Message {
    bytes: BytesMut,
    descriptors: Vec<OwnedFd>,
    starts: usize,
    /// Whether its descriptors, and some of its bytes, have gone.
    begun: bool,
}

/// A keeper that was started. It does not block, except at its end.
///
/// When it is dropped, all that it has started is killed: this waits for it, but no longer than [`EMPTY_LIMIT`] and a little more.
pub struct Keeper {
    socket: UnixStream,
    child: Child,
    messages: VecDeque<Message>,
    waiting: usize,
    unanswered: usize,
    /// How many descriptors go with one message.
    at_once: usize,
    frames: Frames,
    /// It has said its version.
    greeted: bool,
    /// Who runs: the first of its process group.
    running: BTreeMap<Member, u32>,
    /// What the processes of a group have in [`GROUP`] and [`NODE`]: those groups that were not emptied.
    tags: BTreeMap<GroupId, Tag>,
    ended: bool,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("pid", &self.child.id()).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Starts the keeper: a program that calls [`run`](super::run) on its standard input. Its standard error is this process's; it has a process group of its own, so that Ctrl-C at a terminal does not reach it.
    ///
    /// # Errors
    /// The system's: the program cannot be started.
    pub fn start(program: &Path, args: &[OsString]) -> io::Result<Keeper> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut command = Command::new(program);
        // A person who looks at processes sees the program's own name.
        command.arg0(name_of(program));
        chained_gpc::bootstrap::scrub(&mut command);
        command.args(args).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).process_group(0);
        let child = command.spawn()?;
        // The keeper has the same limit: at most half of it is on its way to it in one message.
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let at_once = limit.map_or(PASSED_MAX, |limit| (limit / 4).clamp(DESCRIPTORS, PASSED_MAX));
        Ok(Keeper {
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

    /// What to wait for: readable when there may be an [`event`](Keeper::event), writable when a [`flush`](Keeper::flush) may get on.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The process number of the keeper.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Queues an order; [`flush`](Keeper::flush) sends it. A start has four descriptors, others none: they are closed here when they have gone.
    ///
    /// A start that cannot be ordered is answered by [`KeeperEvent::NotStarted`], like one that fails: with `E2BIG` if it is longer than any system takes, with `EAGAIN` if more than 64 MiB of orders wait, with `EBADF` if its descriptors are not four.
    pub fn order(&mut self, order: KeeperOrder, descriptors: Vec<OwnedFd>) {
        let is_full = self.waiting > WAITING_MAX;
        let sent = match order {
            KeeperOrder::Start { member, .. } if descriptors.len() != DESCRIPTORS => {
                Sent::Refused(member, Errno::BADF.raw_os_error())
            }
            KeeperOrder::Start { member, .. } if is_full => {
                Sent::Refused(member, Errno::AGAIN.raw_os_error())
            }
            KeeperOrder::Signal { .. } if is_full => return,
            order => Sent::Order(order, u8::try_from(descriptors.len()).unwrap_or_default()),
        };
        if self.messages.back().is_none_or(|last| !last.takes(self.at_once)) {
            self.messages.push_back(Message::default());
        }
        let Some(message) = self.messages.back_mut() else { return };
        let before = message.bytes.len();
        let put = put_sent(&mut message.bytes, &sent);
        match sent {
            Sent::Order(KeeperOrder::Start { member, env, .. }, _) => {
                message.starts += 1;
                if let Entry::Vacant(vacant) = self.tags.entry(member.group) {
                    let value = |name| told(&env, name).map(<[u8]>::to_vec).unwrap_or_default();
                    vacant.insert((value(GROUP), value(NODE)));
                }
                if put {
                    message.descriptors.extend(descriptors);
                } else {
                    put_sent(&mut message.bytes, &Sent::Refused(member, Errno::TOOBIG.raw_os_error()));
                }
            }
            Sent::Refused(..) => message.starts += 1,
            Sent::Order(..) => {}
        }
        self.waiting += message.bytes.len() - before;
    }

    /// Sends what is queued, as far as the socket takes it and the keeper gets along with it; whether all has gone. To be called again when the socket is writable; what waits for answers goes by itself when they come.
    ///
    /// # Errors
    /// The system's: the keeper is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        // A keeper of another version would take orders for others.
        if !self.greeted {
            return Ok(false);
        }
        // Ends: each turn sends something, or stops.
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

    /// What has happened; none if nothing has at the moment.
    ///
    /// # Errors
    /// `UnexpectedEof` when the keeper is gone; the system's. Nothing comes after one: [`abandon`](Keeper::abandon) it.
    pub fn event(&mut self) -> io::Result<Option<KeeperEvent>> {
        // Ends: each turn reads something, or returns.
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
            // What waited for answers may go now. That it cannot is seen below.
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

    fn account(&mut self, event: &KeeperEvent) {
        match event {
            KeeperEvent::Started(member, pid) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                self.running.insert(*member, *pid);
            }
            KeeperEvent::NotStarted(..) => self.unanswered = self.unanswered.saturating_sub(1),
            KeeperEvent::Ended(member, _) => drop(self.running.remove(member)),
            KeeperEvent::Emptied(group) => drop(self.tags.remove(group)),
        }
    }

    /// Has the keeper kill all that it has started, and end; waits for it, but no longer than the limit. After that it is killed.
    pub fn end(mut self, limit: Duration) {
        self.finish(limit);
    }

    /// Gives up a keeper that is gone, or makes no sense: has it end, and kills what it can have left: the process groups of those that were not said to have ended, and processes that have `GPC_BNR_GROUP` of a group that was not emptied, and `GPC_BNR_NODE` of this node, in the environment that they were started with. Others go on.
    pub fn abandon(mut self) {
        self.finish(EMPTY_LIMIT);
        for pid in std::mem::take(&mut self.running).into_values() {
            if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
                // It may have ended meanwhile.
                let _ = kill_process_group(pid, Signal::KILL);
            }
        }
        let tags: BTreeSet<Tag> = std::mem::take(&mut self.tags).into_values().collect();
        let mut quiet = 0;
        // What is started while one looks is found the next time.
        for _ in 0..SEARCHES {
            // What was killed is still seen until it has gone.
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
        // It may have gone.
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

    /// Sends some of it; none if the socket is full.
    fn send(&self, socket: &UnixStream) -> io::Result<Option<usize>> {
        let until = Instant::now() + ELSEWHERE;
        // Ends: with the time.
        loop {
            match send(socket, &self.bytes, &self.descriptors) {
                Err(error)
                    if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) && Instant::now() < until =>
                {
                    // Those on their way elsewhere arrive: whoever receives them does nothing else.
                    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
                }
                result => return result,
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.finish(EMPTY_LIMIT + Duration::from_secs(2));
    }
}

fn invalid(error: super::codec::CodecError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Waits until a process has ended; whether it has.
fn wait_for(child: &mut Child, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    // Ends: with the process, or the time.
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        // Without a descriptor that tells, it is asked for every hundredth of a second.
        let wait = if pidfd.is_ok() { left } else { left.min(Duration::from_millis(10)) };
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        let mut watched: Vec<_> = pidfd.iter().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
        let _ = poll(&mut watched, Some(&wait));
    }
}

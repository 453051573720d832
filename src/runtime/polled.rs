//! A node that the application drives itself, from an event loop of its own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use gpc_trees::{Id, Ids};

use super::announcements::announcement_call;
use super::call::Call;
use super::call_error::CallError;
use super::caller::Caller;
use super::change::Change;
use super::command::Command;
use super::deadlock_check;
use super::event_loop::{EventLoop, SLEEP_MAX};
use super::events::Events;
use super::front::Front;
use super::handle::CallHandle;
use super::loop_state::UNBOUNDED;
use super::mailbox::{COMMANDS, CommandError};
use super::outcome::Outcome;
use super::peer_wait::PeerWait;
use super::{AbsentPeers, Address, MembershipError, Peer};
use crate::branch_hint::unlikely;
use crate::chain::{PAUSE_MAX, Recording};
use crate::wire::message::CallId;

/// Whether a loop may sleep until the node's descriptor is readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a loop that sleeps where the node is ready sleeps for nothing"]
pub enum Prepared {
    /// There is work: call [`PolledNode::progress`] before any sleep.
    Ready,
    /// There is no work: the descriptor becomes readable when there is.
    MaySleep,
}

/// A node without a thread: everything happens inside [`progress`](Self::progress), functions included.
///
/// An application with nothing else to wait for calls [`wait`](Self::wait), or `progress` with a limit, which sleeps
/// until there is work.
///
/// # In an event loop of the application
/// The node has one descriptor ([`AsFd`], [`AsRawFd`]) to wait for with `poll`, `epoll` or libraries over them
/// (edge-triggered or not). It becomes readable when there is work: bytes or connections have arrived, another thread
/// has sent a deferred reply or cancelled a call, a deadline is due. Before each wait the loop calls
/// [`prepare_wait`](Self::prepare_wait). When the descriptor is readable, it calls `progress` with a limit of zero, or
/// [`progress_at_most`](Self::progress_at_most) if other work must not wait long.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::{Call, Functions, Node, Prepared};
/// use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, reply| {
///     reply.data = b"hello".to_vec();
///     Ok(())
/// })?;
/// let mut node = Node::builder(0).functions(&functions).polled()?;
///
/// let epoll = epoll::create(CreateFlags::CLOEXEC)?;
/// epoll::add(&epoll, &node, EventData::new_u64(0), EventFlags::IN)?;
/// let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 8];
///
/// let mut handle = node.call(Call::new(hello).ids([0]))?;
/// let outcome = loop {
///     if node.prepare_wait()? == Prepared::MaySleep {
///         epoll::wait(&epoll, &mut events, None)?; // and whatever else the application waits for
///     }
///     node.progress(Duration::ZERO)?;
///     if let Some(outcome) = handle.test() {
///         break outcome?;
///     }
/// };
/// assert_eq!(outcome.replies()?[0].data, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A node that is not driven answers no peer, and reads nothing. Peers that await its answer give it up after ten
/// seconds of silence. Over TCP, peers that send it more than the system's buffers hold give it up after twenty. An
/// application that will compute for longer announces that with [`pause`](Self::pause).
pub struct PolledNode {
    pub(super) front: Front,
    event_loop: EventLoop,
    /// Whether a pause has been announced and not ended.
    pauses: bool,
    /// Calls that the next turns start: at most [`COMMANDS`], together with those that the loop already has. The node's
    /// own caller does not need the mailbox, which is for other threads.
    started: RefCell<VecDeque<Command>>,
}

impl PolledNode {
    /// Longest [`pause`](Self::pause) that peers grant: ten minutes.
    pub const PAUSE_MAX: Duration = PAUSE_MAX;

    pub(super) fn new(front: Front, event_loop: EventLoop) -> PolledNode {
        PolledNode { front, event_loop, pauses: false, started: RefCell::default() }
    }

    /// The node's id.
    pub fn id(&self) -> Id {
        self.front.shared.id
    }

    /// The address at which it listens, if it does.
    pub fn address(&self) -> Option<&Address> {
        self.front.address.as_ref()
    }

    /// Starts a call; it proceeds while [`progress`](Self::progress) is called.
    ///
    /// # Errors
    /// An invalid call, before anything is sent; [`CallError::Busy`] at once if 4096 calls wait to be started.
    pub fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        let (start, plan) = self.front.shared.prepare(call, None)?;
        let mut started = self.started.borrow_mut();
        if started.len() + self.event_loop.starting() >= COMMANDS {
            return Err(CallError::Busy);
        }
        let (handle, command) = CallHandle::of(&self.front.shared.mailbox, start, plan, true);
        started.push_back(command);
        if self.event_loop.polling.is_armed {
            // The next wait for the descriptor must see that there is work.
            self.front.shared.mailbox.wake();
        }
        Ok(handle)
    }

    /// Sets the address of a peer: see [`Node::learn`](super::Node::learn). It takes effect in the next turn, in order
    /// with the calls that are started.
    ///
    /// # Errors
    /// [`MembershipError::Own`]; [`MembershipError::Busy`] at once if 4096 commands wait for the next turn.
    pub fn learn(&self, peer: Peer) -> Result<(), MembershipError> {
        self.queue(self.front.learns(peer)?)
    }

    /// Sets the addresses of many peers at once: see [`Node::learn_all`](super::Node::learn_all). They take effect in
    /// the next turn, before calls that are started afterwards.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn); then no peer is learned.
    pub fn learn_all(&self, peers: impl IntoIterator<Item = Peer>) -> Result<(), MembershipError> {
        let peers: Vec<Peer> = peers.into_iter().collect();
        peers.iter().try_for_each(|peer| self.front.is_other(peer.id))?;
        self.queue(Command::LearnAll(peers))
    }

    /// Removes the address of a peer, and closes the link with it: see [`Node::forget`](super::Node::forget). It takes
    /// effect in the next turn.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn).
    pub fn forget(&self, id: Id) -> Result<(), MembershipError> {
        self.queue(self.front.forgets(id)?)
    }

    /// Makes this node, and every id that it knows, learn a peer: see [`Node::announce`](super::Node::announce). The
    /// driving thread [waits](Self::wait) for the call.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn announce(&self, peer: Peer) -> Result<CallHandle, CallError> {
        self.call(announcement_call(
            self.id(),
            &Change::Announce(peer),
            self.event_loop.connections.members(),
        ))
    }

    /// Makes this node, and every id that it knows, forget an id: see [`Node::withdraw`](super::Node::withdraw).
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn withdraw(&self, id: Id) -> Result<CallHandle, CallError> {
        self.call(announcement_call(self.id(), &Change::Withdraw(id), self.event_loop.connections.members()))
    }

    /// Subscribes to the events of peers whose links come up or are lost, from the next turn on: see [`Events`]. The
    /// driving thread takes them between two turns; any other thread may take them as well.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], as for [`learn`](Self::learn).
    pub fn events(&self) -> Result<Events, MembershipError> {
        let (events, listener) = Events::new();
        self.queue(Command::Listen(listener))?;
        Ok(events)
    }

    /// Queues a command for the next turn, after those that are queued.
    fn queue(&self, command: Command) -> Result<(), MembershipError> {
        let mut started = self.started.borrow_mut();
        if started.len() + self.event_loop.starting() >= COMMANDS {
            return Err(MembershipError::Busy);
        }
        started.push_back(command);
        if self.event_loop.polling.is_armed {
            // The next wait for the descriptor must see that there is work.
            self.front.shared.mailbox.wake();
        }
        Ok(())
    }

    /// Whether a call is in flight at this id.
    pub(crate) fn has_call(&self, call: CallId) -> bool {
        self.event_loop.node.has_call(call)
    }

    /// Returns a handle that makes calls from other threads and from functions. The thread that drives the node waits
    /// for a call with [`wait`](Self::wait).
    pub fn caller(&self) -> Caller {
        Caller::new(self.front.shared.this.clone())
    }

    /// Does all pending work; if there is none, waits for some up to `limit`. Returns the number of items: messages
    /// received, calls started, replies taken from other threads, deadlines met. It may be 0 if only a connection was
    /// made, or bytes were sent.
    ///
    /// # Errors
    /// The system's, of the poll itself.
    pub fn progress(&mut self, limit: Duration) -> io::Result<usize> {
        self.turn(limit, UNBOUNDED)
    }

    /// Handles about `budget` [items](Self::progress), at least one, without waiting; returns their number. The rest
    /// follows in the next call: until then [`prepare_wait`](Self::prepare_wait) returns [`Prepared::Ready`].
    ///
    /// Functions run inside this call, so a loop with other work limits the time that it takes. It may exceed `budget`
    /// slightly: by the short messages in 1 KiB, and by one item of each kind.
    ///
    /// # Errors
    /// The system's, of the poll itself.
    pub fn progress_at_most(&mut self, budget: usize) -> io::Result<usize> {
        self.turn(Duration::ZERO, budget.max(1))
    }

    fn turn(&mut self, limit: Duration, budget: usize) -> io::Result<usize> {
        self.event_loop.take_started(self.started.get_mut());
        if unlikely(self.pauses) {
            self.end_pause();
        }
        self.front.shared.mailbox.waiters.drive();
        deadlock_check::as_driver(|| self.event_loop.turn(limit, budget))
    }

    /// Announces to every linked peer that the node will not be driven for up to `length`, at most
    /// [`PAUSE_MAX`](Self::PAUSE_MAX), because the application computes. The next [`progress`](Self::progress) ends the
    /// pause. Returns the number of peers notified. A peer whose link takes no bytes at present is notified when the
    /// node is driven again.
    ///
    /// Without this, peers whose calls await an answer of this node give it up after the silence that their
    /// [`Builder::heartbeat`](super::Builder::heartbeat) allows, 10 s by default. They do not count the pause; if it
    /// takes longer than announced, they count from its announced end. Nothing else waits longer: calls keep their time
    /// limits, and a peer that connects meanwhile gets no answer before the pause ends, though it gives up after 10 s.
    /// A later announcement replaces the one before.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a pause longer than [`PAUSE_MAX`](Self::PAUSE_MAX): peers would not grant
    /// it.
    pub fn pause(&mut self, length: Duration) -> io::Result<usize> {
        if length > Self::PAUSE_MAX {
            let message = format!("a pause of {length:?} is longer than peers grant, {:?}", Self::PAUSE_MAX);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.pauses = !length.is_zero();
        Ok(self.event_loop.announce_pause(length))
    }

    #[cold]
    fn end_pause(&mut self) {
        self.pauses = false;
        self.event_loop.announce_pause(Duration::ZERO);
    }

    /// Prepares a wait for the node's [descriptor](Self::as_fd): sets the node's timer, makes peers and other threads
    /// wake the descriptor, and checks for work once more. After [`Prepared::MaySleep`], and until the next
    /// [`progress`](Self::progress), the descriptor becomes readable as soon as there is work.
    ///
    /// It does no work, and makes no system call unless the timer must be set again. It may be called again before
    /// `progress`.
    ///
    /// # Errors
    /// The system's, of the timer.
    pub fn prepare_wait(&mut self) -> io::Result<Prepared> {
        self.event_loop.take_started(self.started.get_mut());
        Ok(if self.event_loop.prepare_sleep()? { Prepared::MaySleep } else { Prepared::Ready })
    }

    /// Ends the preparation of a wait that does not take place: peers and other threads no longer make system calls to
    /// wake the descriptor. It does no work and loses none: what has made the descriptor readable keeps it readable
    /// until the next [`progress`](Self::progress).
    pub fn cancel_wait(&mut self) {
        self.event_loop.cancel_sleep();
    }

    /// Time until a deadline of the node: zero if there is work now, `None` if there is no deadline. The descriptor
    /// becomes readable at the deadline; this is for loops that plan ahead.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.event_loop.is_busy() || !self.started.borrow().is_empty() {
            return Some(Duration::ZERO);
        }
        self.event_loop.next_deadline().map(|at| at.since(self.event_loop.now()))
    }

    /// Drives the node until there is a link to each of these ids, up to `limit`: see
    /// [`Node::wait_for_peers`](super::Node::wait_for_peers).
    ///
    /// # Errors
    /// As there; [`AbsentPeers::Ended`] if the poll itself fails.
    pub fn wait_for_peers(&mut self, ids: impl Into<Ids>, limit: Duration) -> Result<(), AbsentPeers> {
        // Learned peers must be known first. Terminates: no command is added meanwhile.
        while !self.started.get_mut().is_empty() || self.event_loop.starting() > 0 {
            self.progress(Duration::ZERO).map_err(|_| AbsentPeers::Ended)?;
        }
        let mut wait = PeerWait::new(ids.into().list()?, limit);
        let begun = self.event_loop.now();
        // Both loops terminate: the time limit passes.
        loop {
            let now = self.event_loop.now();
            let absent = wait.try_local(&mut self.event_loop);
            let Some(pause) = wait.next_pause(absent, now.since(begun))? else { return Ok(()) };
            let until = now.plus(pause);
            let mut left = pause;
            while !left.is_zero() {
                self.progress(left).map_err(|_| AbsentPeers::Ended)?;
                left = until.since(self.event_loop.now());
            }
        }
    }

    /// Drives the node until a call has ended, at most 1 % and 100 ms after its [time limit](super::Call::limit). If it
    /// has ended already, many calls that were started meanwhile may be sent first.
    ///
    /// # Errors
    /// The error of the call; [`CallError::Ended`] if the poll itself fails.
    pub fn wait(&mut self, mut handle: CallHandle) -> Result<Outcome, CallError> {
        self.wait_until(&mut handle, None).unwrap_or(Err(CallError::Taken))
    }

    /// Like [`wait`](Self::wait), but up to `limit`, without the time of functions that run meanwhile; `None` if the
    /// call has not ended then. The node takes at least one turn, unless the call has ended already.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), and [`CallError::Ended`] if the poll itself fails.
    pub fn wait_for(
        &mut self,
        handle: &mut CallHandle,
        limit: Duration,
    ) -> Option<Result<Outcome, CallError>> {
        self.wait_until(handle, Some(limit))
    }

    fn wait_until(
        &mut self,
        handle: &mut CallHandle,
        limit: Option<Duration>,
    ) -> Option<Result<Outcome, CallError>> {
        if self.event_loop.is_worth_a_turn(self.started.get_mut().len()) {
            // If the poll fails, it fails again in the next turn; the result of a call that has ended is not affected.
            let _ = self.progress(Duration::ZERO);
        }
        if let Some(ended) = handle.test() {
            return Some(ended);
        }
        // The clock is read only if there is a limit: it takes a hundredth of a short call.
        let mut left = limit.map(|limit| (self.event_loop.now().plus(limit), limit));
        // Terminates: the call has a time limit, and the caller may set one.
        while self.progress(left.map_or(SLEEP_MAX, |(_, left)| left)).is_ok() {
            if let Some(ended) = handle.test() {
                return Some(ended);
            }
            if let Some((until, left)) = &mut left {
                *left = until.since(self.event_loop.now());
                if left.is_zero() {
                    return None;
                }
            }
        }
        Some(Err(CallError::Ended))
    }

    /// Ends the node in order, driving it: see [`Node::shutdown`](super::Node::shutdown).
    ///
    /// # Errors
    /// The system's, of the poll itself.
    pub fn shutdown(mut self, limit: Duration) -> io::Result<()> {
        // Queued after earlier commands; every turn frees a place.
        while self.front.shared.mailbox.command(Command::Shutdown { limit }, Duration::ZERO)
            == Err(CommandError::Full)
        {
            self.progress(Duration::ZERO)?;
        }
        // Terminates: calls have time limits, and so have the last frames.
        while !self.event_loop.has_ended() {
            self.progress(SLEEP_MAX)?;
        }
        Ok(())
    }
}

impl PolledNode {
    pub(super) fn recording(&self) -> Recording {
        self.event_loop.recording()
    }
}

#[cfg(feature = "snapshot")]
impl PolledNode {
    /// What the node holds, with the commands that its loop has not taken yet.
    #[doc(hidden)]
    pub fn snapshot(&self) -> crate::snapshot::Snapshot {
        let started = [("commands to be taken", self.started.borrow().len())];
        self.event_loop.snapshot().and(crate::snapshot::Snapshot::new(started))
    }
}

#[cfg(test)]
impl PolledNode {
    pub(super) fn event_loop(&self) -> &EventLoop {
        &self.event_loop
    }

    pub(super) fn event_loop_mut(&mut self) -> &mut EventLoop {
        &mut self.event_loop
    }
}

impl Drop for PolledNode {
    /// Passes the queued commands to the loop, which completes their calls when it is dropped.
    fn drop(&mut self) {
        self.event_loop.take_started(self.started.get_mut());
    }
}

/// The descriptor that an event loop waits for: see [`PolledNode`]. It belongs to the node; wait for it, but never read
/// it.
impl AsFd for PolledNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event_loop.poll.registry().as_fd()
    }
}

impl AsRawFd for PolledNode {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for PolledNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolledNode({})", self.front.shared.id)
    }
}

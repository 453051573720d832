//! A node that the application drives itself, from a loop of its own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use gpc_trees::{Id, Ids};

use super::Address;
use super::budget::UNBOUNDED;
use super::call::Call;
use super::call_error::CallError;
use super::caller::Caller;
use super::command::Command;
use super::event_loop::{EventLoop, SLEEP_MAX};
use super::events::Events;
use super::handle::CallHandle;
use super::mailbox::{COMMANDS, Unsent};
use super::meeting::{AbsentPeers, Meeting};
use super::membership::{MembershipError, Peer};
use super::node::Front;
use super::outcome::Outcome;
use super::spreading::Change;
use super::waiting;
use crate::chain::PAUSE_MAX;
use crate::hint::unlikely;

/// Whether a loop may sleep until the node's descriptor is readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a loop that sleeps where the node is ready sleeps for nothing"]
pub enum Prepared {
    /// There is something to do: call [`PolledNode::progress`] and do not sleep before.
    Ready,
    /// Nothing: the descriptor becomes readable when there is.
    MaySleep,
}

/// A node without any thread: everything happens inside [`progress`](Self::progress), functions too.
///
/// An application with nothing else to wait for calls [`wait`](Self::wait), or `progress` with a limit, which sleeps until something comes.
///
/// # In a loop of the application's own
/// The node has one descriptor ([`AsFd`], [`AsRawFd`]) to wait for with `poll`, `epoll` or what is built on them (edge-triggered or not). It becomes readable when there is something to do: bytes or connections have come, another
/// thread has given a deferred reply or cancelled a call, a deadline is due. Before the loop waits it calls [`prepare_wait`](Self::prepare_wait), every time; when the descriptor is readable, `progress` with a limit of zero, or
/// [`progress_at_most`](Self::progress_at_most) where other duties must not wait long.
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
/// A node that is not driven answers no peer, and reads nothing. Peers that await its answer give it up after ten seconds of silence, and over TCP those that send it more than the system's buffers hold after twenty: an application that is about to compute for longer announces that with [`pause`](Self::pause).
pub struct PolledNode {
    front: Front,
    event_loop: EventLoop,
    /// Whether a pause has been announced and not ended.
    pauses: bool,
    /// Calls that the next turns start: at most [`COMMANDS`] with those that the loop has already. Its own caller needs no mailbox, which is made for other threads.
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
        self.front.side.id
    }

    /// Where it listens, if it does.
    pub fn address(&self) -> Option<&Address> {
        self.front.address.as_ref()
    }

    /// Starts a call; it moves on while [`progress`](Self::progress) is called.
    ///
    /// # Errors
    /// What is wrong with the call, before anything is sent; [`CallError::Busy`] at once where 4096 wait to be started.
    pub fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        let (start, plan) = self.front.side.prepare(call, None)?;
        let mut started = self.started.borrow_mut();
        if started.len() + self.event_loop.starting() >= COMMANDS {
            return Err(CallError::Busy);
        }
        let (handle, command) = CallHandle::of(&self.front.side.mailbox, start, plan, true);
        started.push_back(command);
        if self.event_loop.armed {
            // Whoever waits for the descriptor next is to see that there is something to do.
            self.front.side.mailbox.wake();
        }
        Ok(handle)
    }

    /// Says where a peer listens: see [`Node::learn`](super::Node::learn). It holds from the next turn on, in its order with the calls that are started.
    ///
    /// # Errors
    /// [`MembershipError::Own`]; [`MembershipError::Busy`] at once where 4096 commands wait for the next turn.
    pub fn learn(&self, peer: Peer) -> Result<(), MembershipError> {
        self.queue(self.front.learns(peer)?)
    }

    /// Forgets where a peer listens, and closes the link with it: see [`Node::forget`](super::Node::forget). It holds from the next turn on.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn).
    pub fn forget(&self, id: Id) -> Result<(), MembershipError> {
        self.queue(self.front.forgets(id)?)
    }

    /// Has this node, and every id that it knows, learn a peer: see [`Node::announce`](super::Node::announce). Whoever drives the node [waits](Self::wait) for the call.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn announce(&self, peer: Peer) -> Result<CallHandle, CallError> {
        self.call(Change::Announce(peer).call(self.event_loop.links.members()))
    }

    /// Has this node, and every id that it knows, forget an id: see [`Node::withdraw`](super::Node::withdraw).
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub fn withdraw(&self, id: Id) -> Result<CallHandle, CallError> {
        self.call(Change::Withdraw(id).call(self.event_loop.links.members()))
    }

    /// Tells of peers whose links come up and are lost, from the next turn on: see [`Events`]. Whoever drives the node takes them between two turns; so may any other thread.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], as for [`learn`](Self::learn).
    pub fn events(&self) -> Result<Events, MembershipError> {
        let (events, listener) = Events::new();
        self.queue(Command::Listen(listener))?;
        Ok(events)
    }

    /// Has the next turn do something, behind what it is to do already.
    fn queue(&self, command: Command) -> Result<(), MembershipError> {
        let mut started = self.started.borrow_mut();
        if started.len() + self.event_loop.starting() >= COMMANDS {
            return Err(MembershipError::Busy);
        }
        started.push_back(command);
        if self.event_loop.armed {
            // Whoever waits for the descriptor next is to see that there is something to do.
            self.front.side.mailbox.wake();
        }
        Ok(())
    }

    /// Makes calls from other threads and from functions. The thread that drives the node waits for a call with [`wait`](Self::wait).
    pub fn caller(&self) -> Caller {
        Caller::new(&self.front.side)
    }

    /// Does what there is to do; if there is nothing, waits for something at most `limit`. Returns how many things were done: messages taken in, calls started, replies taken from other threads, deadlines met. It may
    /// be 0 where all that happened is that a peer connected, or that bytes left.
    ///
    /// # Errors
    /// The system's, of the poll itself.
    pub fn progress(&mut self, limit: Duration) -> io::Result<usize> {
        self.turn(limit, UNBOUNDED)
    }

    /// Does about `budget` of the [things](Self::progress) that there are to do, at least one, and does not wait; returns how many. What is left is done next time: until then
    /// [`prepare_wait`](Self::prepare_wait) says [`Prepared::Ready`].
    ///
    /// Functions run in here, so a loop with other duties limits how long it stays away from them. A few more things than `budget` may be done: what 1 KiB of short messages holds, and
    /// one of each kind.
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
        self.front.side.mailbox.waiters.drive();
        waiting::driving(|| self.event_loop.turn(limit, budget))
    }

    /// Announces to every linked peer that the node is not driven for up to `length`, at most [`PAUSE_MAX`](Self::PAUSE_MAX), because the application computes. The next [`progress`](Self::progress) ends the pause. Returns how
    /// many peers were told: one whose link takes no bytes at present hears of it only when the node is driven again.
    ///
    /// Peers whose calls await an answer of this node would else give it up when it has been silent for as long as their [`Builder::heartbeat`](super::Builder::heartbeat) allows, 10 s by default. They do not
    /// count the pause; one that takes longer than announced counts from its announced end. Nothing else waits longer: calls keep their time limits, and a peer that connects meanwhile is not answered
    /// before the pause ends, though it gives up after 10 s. A later announcement replaces the one before.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a pause longer than [`PAUSE_MAX`](Self::PAUSE_MAX): peers would not grant it.
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

    /// The step before a wait for the node's [descriptor](Self::as_fd): sets the node's timer, has peers and other threads wake the descriptor, and says whether something has come meanwhile. After
    /// [`Prepared::MaySleep`], and until the next [`progress`](Self::progress), the descriptor becomes readable as soon as there is something to do.
    ///
    /// It does no work, and makes no system call except where the timer has to be set again. May be called again before `progress`.
    ///
    /// # Errors
    /// The system's, of the timer.
    pub fn prepare_wait(&mut self) -> io::Result<Prepared> {
        self.event_loop.take_started(self.started.get_mut());
        Ok(if self.event_loop.prepare_sleep()? { Prepared::MaySleep } else { Prepared::Ready })
    }

    /// How long until a deadline of the node is due: zero if there is something to do now, `None` if nothing is due. The descriptor becomes readable then by itself; this is for loops that plan ahead.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.event_loop.is_busy() || !self.started.borrow().is_empty() {
            return Some(Duration::ZERO);
        }
        self.event_loop.next_deadline().map(|at| at.since(self.event_loop.ask_time()))
    }

    /// Drives the node until there is a link to each of these ids, at most `limit`: see [`Node::wait_for_peers`](super::Node::wait_for_peers).
    ///
    /// # Errors
    /// As there; [`AbsentPeers::Ended`] where the poll itself fails.
    pub fn wait_for_peers(&mut self, ids: impl Into<Ids>, limit: Duration) -> Result<(), AbsentPeers> {
        // What was learned is to be known. Ends: nobody adds anything meanwhile.
        while !self.started.get_mut().is_empty() || self.event_loop.starting() > 0 {
            self.progress(Duration::ZERO).map_err(|_| AbsentPeers::Ended)?;
        }
        let mut meeting = Meeting::new(ids.into().list()?, limit);
        let begun = self.event_loop.ask_time();
        // Ends, both do: the time passes.
        loop {
            let now = self.event_loop.ask_time();
            let absent = meeting.try_once(&mut self.event_loop);
            let Some(pause) = meeting.judge(absent, now.since(begun))? else { return Ok(()) };
            let until = now.plus(pause);
            let mut left = pause;
            while !left.is_zero() {
                self.progress(left).map_err(|_| AbsentPeers::Ended)?;
                left = until.since(self.event_loop.ask_time());
            }
        }
    }

    /// Drives the node until a call has ended, at most 1 % and 100 ms after its [time limit](super::Call::limit). Where it has ended already, calls that were started meanwhile may leave first, if they are many.
    ///
    /// # Errors
    /// What made the call fail; [`CallError::Ended`] where the poll itself fails.
    pub fn wait(&mut self, mut handle: CallHandle) -> Result<Outcome, CallError> {
        self.wait_until(&mut handle, None).unwrap_or(Err(CallError::Taken))
    }

    /// Like [`wait`](Self::wait), but at most `limit`, not counting functions that run meanwhile; `None` if the call has not ended then. The node takes at least one turn, unless the call has ended already.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), and [`CallError::Ended`] where the poll itself fails.
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
            // What goes wrong with the poll goes wrong the next time, too, and ends no call that has ended.
            let _ = self.progress(Duration::ZERO);
        }
        if let Some(ended) = handle.test() {
            return Some(ended);
        }
        // The clock is asked where there is a limit, and not for nothing: it takes a hundredth of a short call.
        let mut left = limit.map(|limit| (self.event_loop.ask_time().plus(limit), limit));
        // Ends: the call has a time limit, and so may the caller.
        while self.progress(left.map_or(SLEEP_MAX, |(_, left)| left)).is_ok() {
            if let Some(ended) = handle.test() {
                return Some(ended);
            }
            if let Some((until, left)) = &mut left {
                *left = until.since(self.event_loop.ask_time());
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
        // Behind the calls that are queued already; every turn makes room.
        while self.front.side.mailbox.command(Command::Shutdown { limit }, Duration::ZERO)
            == Err(Unsent::Full)
        {
            self.progress(Duration::ZERO)?;
        }
        // Ends: calls have time limits, and the last frames have theirs.
        while !self.event_loop.has_ended() {
            self.progress(SLEEP_MAX)?;
        }
        Ok(())
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
    /// The loop tells those who still wait.
    fn drop(&mut self) {
        self.event_loop.take_started(self.started.get_mut());
    }
}

/// The descriptor that a loop waits for: see [`PolledNode`]. It is only to be waited for, never read, and is the node's own.
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
        write!(f, "PolledNode({})", self.front.side.id)
    }
}

//! A node: one id in this process, with its event loop on a thread of its own or driven by the application.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use gpc_trees::{Id, Ids};
use tracing::error;

use super::announcements::announcement_call;
use super::builder::Builder;
use super::call::Call;
use super::call_error::{CallError, Deadlock};
use super::caller::{self, CALL_BLOCKS_MAX, Caller};
use super::change::Change;
use super::command::Command;
use super::deadlock_check;
use super::events::Events;
use super::front::Front;
use super::functions::Functions;
use super::handle::CallHandle;
use super::leader_followers::LeaderFollowers;
use super::mailbox::{COMMANDS, CommandError};
use super::membership_error::{CHANGE_LIMIT, MembershipError};
use super::peer_wait::PeerWait;
use super::polled::PolledNode;
use super::{AbsentPeers, Address, Peer};
use crate::channel::channel;

/// Time limit of a dropped node's calls: its thread only sends a goodbye.
const DROP_LIMIT: Duration = Duration::ZERO;

/// Length of one wait for a place in the command queue when a node is shut down.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// Capacity of the command queue of a served node: only its own functions send commands. The whole queue is allocated
/// at the start, and there may be thousands of such processes.
const SERVED_COMMANDS: usize = 256;

impl Builder {
    /// Starts the node, with an event loop on a thread of its own.
    ///
    /// # Errors
    /// The system's: no descriptors, no threads, a listener that cannot be used.
    pub fn start(self) -> io::Result<Node> {
        let (front, event_loop) = self.build(false, COMMANDS)?;
        let lead = LeaderFollowers::new(front.shared.id, front.shared.clone(), event_loop);
        lead.start()?;
        Ok(Node { front, lead: Some(lead) })
    }

    /// Creates a node without a thread: [`PolledNode::progress`] drives it, and runs its functions.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn polled(self) -> io::Result<PolledNode> {
        let (front, event_loop) = self.build(true, COMMANDS)?;
        Ok(PolledNode::new(front, event_loop))
    }

    /// Runs the node on this thread until the other end of `control_link` is closed, as the system does when its
    /// process dies. Then the node ends at once, without a message to its peers. For a process that is nothing but a
    /// node, and must not outlive the process that started it. Bytes that arrive on `control_link` are not read.
    ///
    /// # Errors
    /// As for [`start`](Self::start), and the system's, of the poll itself.
    pub fn serve(self, control_link: UnixStream) -> io::Result<()> {
        let (front, mut event_loop) = self.build(false, SERVED_COMMANDS)?;
        event_loop.end_with_control_link(control_link)?;
        LeaderFollowers::new(front.shared.id, front.shared, event_loop).serve()
    }
}

/// A node with an event loop on a thread of its own. Any thread may make calls; its drop ends it with a goodbye.
///
/// A process of a job, which gets its id as argument and the addresses of the others from a peers file:
///
/// ```no_run
/// use std::time::Duration;
///
/// use chained_gpc::{Call, Functions, Listener, Node, Peers};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let me = std::env::args().nth(1).ok_or("which id am I?")?.parse()?;
/// let peers: Peers = std::fs::read_to_string("peers.txt")?.parse()?;
/// let functions = Functions::new();
/// let pid = functions.func("pid", |_, reply| {
///     reply.data = std::process::id().to_string().into_bytes();
///     Ok(())
/// })?;
/// let listener = Listener::bind(&peers.address(me).ok_or("I am not among the peers")?)?;
/// let node = Node::builder(me).functions(&functions).peers(peers.clone()).listener(listener).start()?;
/// if me == 0 {
///     let all: Vec<_> = peers.ids().collect();
///     node.wait_for_peers(&all, Duration::from_secs(30))?;
///     let outcome = node.call(Call::new(pid).ids(&all))?.wait()?;
///     println!("{} processes answered", outcome.replies()?.len());
/// }
/// std::io::stdin().read_line(&mut String::new())?; // serve until the user presses Enter
/// node.shutdown(Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
///
/// A node without a listener can call others:
///
/// ```
/// use chained_gpc::{Call, Functions, Listener, Node, Peers};
///
/// let functions = Functions::new();
/// let hello = functions.func("hello", |_, _| Ok(()))?;
/// let listener = Listener::bind(&"127.0.0.1:0".parse()?)?;
/// let peers: Peers = [(1, listener.address()?)].into_iter().collect();
/// let _serves = Node::builder(1).functions(&functions).listener(listener).start()?;
/// let calls = Node::builder(0).functions(&functions).peers(peers).start()?;
/// assert!(calls.call(Call::new(hello).ids([0, 1]))?.wait()?.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Node {
    pub(super) front: Front,
    lead: Option<Arc<LeaderFollowers>>,
}

impl Node {
    /// Creates a builder with the defaults.
    pub fn builder(id: Id) -> Builder {
        Builder::new(id)
    }

    /// The node's id.
    pub fn id(&self) -> Id {
        self.front.shared.id
    }

    /// The address at which it listens, if it does.
    pub fn address(&self) -> Option<&Address> {
        self.front.address.as_ref()
    }

    /// The functions that it knows; more may be registered at any time.
    pub fn functions(&self) -> &Functions {
        &self.front.shared.functions
    }

    /// Starts a call: see [`Caller::call`]. The handle waits for it.
    ///
    /// # Errors
    /// As for [`Caller::call`].
    pub fn call(&self, call: Call) -> Result<CallHandle, CallError> {
        caller::start(&*self.front.shared, call, None, CALL_BLOCKS_MAX)
    }

    /// Returns a handle that makes calls from other threads, and without a reference to the node.
    pub fn caller(&self) -> Caller {
        Caller::new(self.front.shared.this.clone())
    }

    /// Sets the address of a peer, while the node runs: from now on calls reach the peer there. A call sees every
    /// change that precedes its start.
    ///
    /// If the peer is known already, the address replaces the former one. A link that is up stays, and the new address
    /// is used once the link is lost; to close it at once, [forget](Self::forget) the peer before. An attempt to
    /// connect to the former address restarts at this one, and calls that wait for it go on. Learned ids are treated
    /// like those of [`Builder::peers`]: if file descriptors are short, their links stay.
    ///
    /// # Errors
    /// See [`MembershipError`]; it waits up to five seconds for a place in the queue of commands.
    ///
    /// ```
    /// use std::time::Duration;
    /// use chained_gpc::{Call, Functions, IdList, LinkKind, Listener, Node, Peer};
    ///
    /// let functions = Functions::new();
    /// let name = functions.func("name", |request, reply| {
    ///     reply.data = request.me().to_string().into_bytes();
    ///     Ok(())
    /// })?;
    /// let root = Node::builder(0).functions(&functions).start()?;
    /// let listener = Listener::bind(&LinkKind::default().fresh_address(5))?;
    /// let joins = Node::builder(5).functions(&functions).listener(listener).start()?;
    ///
    /// root.learn(Peer::new(5, joins.address().expect("it listens").clone()))?;
    /// root.wait_for_peers(5..6, Duration::from_secs(10))?;
    /// let outcome = root.call(Call::new(name).ids(IdList::from_ids([0, 5])?))?.wait()?;
    /// assert_eq!(outcome.replies()?.len(), 2);
    ///
    /// root.forget(5)?;
    /// assert!(root.call(Call::new(name).ids(IdList::from_ids([0, 5])?))?.wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn learn(&self, peer: Peer) -> Result<(), MembershipError> {
        let command = self.front.learns(peer)?;
        Ok(self.front.shared.mailbox.command(command, CHANGE_LIMIT)?)
    }

    /// [Learns](Self::learn) many peers at once: all are known before any call that is started afterwards.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn); then no peer is learned.
    pub fn learn_all(&self, peers: impl IntoIterator<Item = Peer>) -> Result<(), MembershipError> {
        let peers: Vec<Peer> = peers.into_iter().collect();
        peers.iter().try_for_each(|peer| self.front.is_other(peer.id))?;
        Ok(self.front.shared.mailbox.command(Command::LearnAll(peers), CHANGE_LIMIT)?)
    }

    /// Removes the address of a peer, and closes the link with it in order: the peer is notified, and keeps running.
    /// Calls in flight through that link fail as if it were lost. Later calls fail at once, until the peer is
    /// [learned](Self::learn) again. For an unknown id it does nothing.
    ///
    /// It is no ban: a forgotten peer that knows this node's address may connect again, like any stranger.
    ///
    /// # Errors
    /// As for [`learn`](Self::learn).
    pub fn forget(&self, id: Id) -> Result<(), MembershipError> {
        let command = self.front.forgets(id)?;
        Ok(self.front.shared.mailbox.command(command, CHANGE_LIMIT)?)
    }

    /// [Learns](Self::learn) a peer, and makes every id that this node knows learn it: by a partial call, whose handle
    /// this returns. Afterwards the peer is reached in every tree. The outcome names the ids that have not learned it,
    /// and why; announcing the peer again does no harm. A node may announce itself.
    ///
    /// An announcement never replaces a key that an application has listed, or that a link has proved: a node that
    /// claims an id must still prove it. An id accepts at most [`ANNOUNCED_MAX`](super::ANNOUNCED_MAX) announced ids
    /// beside its own list.
    ///
    /// ```
    /// use chained_gpc::{Call, Functions, LinkKind, Listener, Node, Peer, Peers, Tree};
    ///
    /// let functions = Functions::new();
    /// let name = functions.func("name", |request, reply| {
    ///     reply.data = request.me().to_string().into_bytes();
    ///     Ok(())
    /// })?;
    /// let serve = |id| {
    ///     let listener = Listener::bind(&LinkKind::default().fresh_address(id))?;
    ///     Node::builder(id).functions(&functions).listener(listener).start()
    /// };
    /// let member = serve(1)?;
    /// let peers: Peers = [(1, member.address().expect("it listens").clone())].into_iter().collect();
    /// let root = Node::builder(0).functions(&functions).peers(peers).start()?;
    ///
    /// let joins = serve(2)?;
    /// let outcome = root.announce(Peer::new(2, joins.address().expect("it listens").clone()))?.wait()?;
    /// assert!(outcome.is_complete());
    /// // In a chain id 1 calls id 2.
    /// let outcome = root.call(Call::new(name).ids(0..3).tree(Tree::Chain))?.wait()?;
    /// assert_eq!(outcome.replies()?.len(), 3);
    ///
    /// assert!(root.withdraw(2)?.wait()?.is_complete());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`call`](Self::call); [`CallError::Deadlock`] on the thread that drives the node.
    pub fn announce(&self, peer: Peer) -> Result<CallHandle, CallError> {
        self.spread(Change::Announce(peer))
    }

    /// [Forgets](Self::forget) an id, and makes every id that this node knows forget it, by a call as in
    /// [`announce`](Self::announce). The id itself is not notified. A key that an application has listed for it stays.
    ///
    /// # Errors
    /// As for [`announce`](Self::announce).
    pub fn withdraw(&self, id: Id) -> Result<CallHandle, CallError> {
        self.spread(Change::Withdraw(id))
    }

    fn spread(&self, change: Change) -> Result<CallHandle, CallError> {
        if deadlock_check::is_driving() {
            return Err(CallError::Deadlock(Deadlock::Driver));
        }
        let (answer, members) = channel();
        self.front.shared.mailbox.command(Command::Members { answer }, CHANGE_LIMIT).map_err(|unsent| {
            match unsent {
                CommandError::Full => CallError::Busy,
                CommandError::Ended => CallError::Ended,
            }
        })?;
        // If the node has ended, the sender is dropped, which ends the wait.
        let members = members.recv_timeout(CHANGE_LIMIT).map_err(|late| match late {
            RecvTimeoutError::Timeout => CallError::Busy,
            RecvTimeoutError::Disconnected => CallError::Ended,
        })?;
        self.call(announcement_call(self.id(), &change, members))
    }

    /// Subscribes to the events of peers whose links come up or are lost: see [`Events`]. Each subscription gets all.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], after five seconds, and [`MembershipError::Ended`].
    pub fn events(&self) -> Result<Events, MembershipError> {
        let (events, listener) = Events::new();
        self.front.shared.mailbox.command(Command::Listen(listener), CHANGE_LIMIT)?;
        Ok(events)
    }

    /// Ends the node in order: it accepts no more calls, those in flight get `limit` to end, and peers are notified.
    /// Calls that are still in flight then end with [`CallError::Ended`].
    ///
    /// Peers get [`Loss::Left`](super::Loss::Left) among their [events](Self::events). Requests that arrive meanwhile
    /// are rejected, and later ones find no node: either fails the call at this id at once.
    pub fn shutdown(mut self, limit: Duration) {
        self.end(limit);
    }

    /// Waits until there is a link to each of these ids, up to `limit`: nodes of a job start in any order, and a call
    /// fails at a node that is not up yet. It retries with pauses that grow to a quarter of a second. Only a root needs
    /// to wait; its calls use these links.
    ///
    /// # Errors
    /// [`AbsentPeers`], with the ids that did not come up, and why the first of them did not.
    #[allow(clippy::disallowed_methods, reason = "the pause between two attempts is not a wait for anything")]
    pub fn wait_for_peers(&self, ids: impl Into<Ids>, limit: Duration) -> Result<(), AbsentPeers> {
        if deadlock_check::is_driving() {
            return Err(AbsentPeers::Driver);
        }
        let mut wait = PeerWait::new(ids.into().list()?, limit);
        let begun = Instant::now();
        // Terminates: the time limit passes.
        while let Some(pause) =
            wait.next_pause(wait.try_remote(&self.front.shared.mailbox, begun.elapsed()), begun.elapsed())?
        {
            thread::sleep(pause);
        }
        Ok(())
    }

    pub(super) fn front(&self) -> &Front {
        &self.front
    }

    fn end(&mut self, limit: Duration) {
        let Some(lead) = self.lead.take() else { return };
        if self.front.shared.mailbox.waiters.is_driver() {
            // Dropped by an inline function or a continuation of its own: the node ends after this turn, unawaited.
            let shared = self.front.shared.clone();
            let ask = move |room| shared.mailbox.command(Command::Shutdown { limit }, room);
            if ask(Duration::ZERO) == Err(CommandError::Full) {
                // Terminates: the loop frees a place, or ends by itself.
                let asking = move || while ask(COMMAND_LIMIT) == Err(CommandError::Full) {};
                if let Err(error) = thread::Builder::new().name("gpc-ends".into()).spawn(asking) {
                    error!(%error, "cannot send the shutdown command of a dropped node");
                }
            }
            return;
        }
        deadlock_check::hand_over();
        // A loop that frees no place cannot be waited for. One that has ended accepts no command.
        while self.front.shared.mailbox.command(Command::Shutdown { limit }, COMMAND_LIMIT)
            == Err(CommandError::Full)
        {}
        lead.wait_for_end();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end(DROP_LIMIT);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.front.shared.id)
    }
}

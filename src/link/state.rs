//! State of one link: its inbox, its outbox, its credit and its deadlines.
//!
//! A request of the peer counts until it is acknowledged; acknowledgements are sent in portions. A peer that does not
//! read its replies gets no more credit.
//!
//! Source: docs/wire.md, "CREDIT" and "WINDOW".

use gpc_trees::Id;

use super::inbox::{BODIES_MAX, Inbox};
use super::loss::Loss;
use super::outbox::Outbox;
use super::pace::Pace;
use super::peering::{LinkKey, Proof};
use super::ping_state::PingState;
use crate::branch_hint::unlikely;
use crate::chain::Time;
use crate::wire::Message;

/// Default maximum number of unacknowledged requests that a node accepts on a link. They keep the link busy, and bound
/// the queue of a slow node.
pub const HIWATER: u32 = 256;

/// Divisor of hiwater. The quotient is the ackmark: once this number of requests has been consumed, a frame of their
/// own acknowledges them. The sender gets the credit long before its own is spent.
const ACKMARK_PARTS: u32 = 2;

/// Divisor of the ackmark. Once the quotient has been consumed, the next write of other bytes carries the
/// acknowledgement. A separate frame would cost a write here, and a wake-up of an id that waits for its own children.
const PIGGYBACK_PARTS: u32 = 2;

/// Maximum backlog of a peer that still gets credit for requests, in bytes. The replies to requests that it has credit
/// for, of up to a segment each, may be added.
const BACKLOG: u64 = 4 << 20;

/// Maximum number of long replies that wait for windows of a peer that still gets credit for requests. It is the number
/// of requests that may be arriving. Windows must not depend on credit, and below this bound credit does not depend on
/// windows.
const REPLIES_MAX: usize = BODIES_MAX;

/// Phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// This node is opening the connection to this id.
    Connecting(Id),
    /// The connection is open; [`peering`](super::peering) handles its bytes until both hellos have been exchanged.
    Greeting,
    /// The connection is the link to this id.
    Up(Id),
    /// The last frame is queued; the connection closes once it is written.
    Closing,
}

/// The protocol on one connection.
#[derive(Debug)]
pub struct Link {
    /// The receiving half.
    pub inbox: Inbox,
    /// The sending half.
    pub outbox: Outbox,
    /// Phase of the connection.
    pub phase: Phase,
    /// How the peer has proved its membership.
    pub proof: Proof,
    /// The kind of loss if the link ends now.
    pub loss: Loss,
    /// When a closing connection is closed even if its last frame is not written.
    pub deadline: Option<Time>,
    /// End of the pause that the peer has announced last; `None` if the peer has ended it.
    pub pause_end: Option<Time>,
    /// When the ids, shape and header of the incomplete requests must have arrived: the soonest deadline.
    pub request_deadline: Option<Time>,
    /// Whether the peer was alive since this was last taken: bytes have arrived, or the peer has accepted bytes that
    /// had to wait for it.
    pub has_heartbeat: bool,
    /// Whether the link is in the list of links with queued bytes.
    pub is_dirty: bool,
    /// Whether the link is in the list of links that send long messages.
    pub is_streaming: bool,
    /// Maximum number of unacknowledged requests, as the hello of this node announces it.
    hiwater: u32,
    /// Number of requests that were received and not acknowledged.
    pub unacknowledged: u32,
    /// Number of requests that were consumed and not acknowledged.
    consumed: u32,
    /// Whether the system has accepted bytes since requests were last acknowledged.
    peer_reads: bool,
    /// Pace at which the peer accepts long data; `None` before the first, and on links through shared memory.
    pace: Option<Box<Pace>>,
    /// State of the PING that is being sent.
    ping: PingState,
}

impl Link {
    /// Returns a link on which nothing has been sent or received.
    pub fn new(phase: Phase) -> Link {
        Link {
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            phase,
            proof: Proof::None,
            loss: Loss::default(),
            deadline: None,
            pause_end: None,
            request_deadline: None,
            has_heartbeat: false,
            is_dirty: false,
            is_streaming: false,
            hiwater: HIWATER,
            unacknowledged: 0,
            consumed: 0,
            peer_reads: false,
            pace: None,
            ping: PingState::Idle,
        }
    }

    /// Sets the maximum number of unacknowledged requests.
    pub fn set_hiwater(&mut self, hiwater: u32) {
        self.hiwater = hiwater;
    }

    /// Maximum number of unacknowledged requests.
    pub fn hiwater(&self) -> u32 {
        self.hiwater
    }

    /// Number of consumed requests that are acknowledged in a frame of their own.
    pub fn ackmark(&self) -> u32 {
        self.hiwater.div_ceil(ACKMARK_PARTS)
    }

    /// Number of consumed requests that are acknowledged together with other bytes.
    fn piggyback_mark(&self) -> u32 {
        self.hiwater.div_ceil(ACKMARK_PARTS * PIGGYBACK_PARTS)
    }

    /// Whether the next frame may take the fast path: no message is partly received, the peer has credit for a request,
    /// and there is room for replies.
    pub fn allows_fast_path(&self) -> bool {
        self.inbox.is_idle() & (self.unacknowledged < self.hiwater) & !self.outbox.is_full()
    }

    /// Counts a request as received; returns whether the peer had credit for it.
    pub fn admit(&mut self) -> bool {
        self.unacknowledged += 1;
        self.unacknowledged <= self.hiwater
    }

    /// Counts a request as consumed, and acknowledges if enough have been consumed. Returns whether it has
    /// acknowledged.
    pub fn consume(&mut self) -> bool {
        self.consumed += 1;
        unlikely(self.consumed >= self.ackmark()) && self.acknowledge()
    }

    /// Whether a write of other bytes carries no acknowledgement, because too few requests have been consumed.
    #[inline(always)]
    pub fn defers_credit(&self) -> bool {
        self.consumed < self.piggyback_mark()
    }

    /// Acknowledges the consumed requests together with other bytes, if enough have been consumed.
    pub fn piggyback_credit(&mut self) {
        if self.consumed >= self.piggyback_mark() {
            self.acknowledge();
        }
    }

    /// Acknowledges the consumed requests, unless the peer has stopped reading: a peer that only sends gets no more
    /// credit.
    #[inline(never)]
    fn acknowledge(&mut self) -> bool {
        // A long reply may exceed the backlog for minutes on a slow link. Small calls continue as long as the peer
        // reads.
        let backlog = if self.peer_reads { self.outbox.queued() as u64 } else { self.outbox.backlog() };
        if backlog > BACKLOG || self.outbox.response_count() > REPLIES_MAX {
            return false;
        }
        self.peer_reads = false;
        self.outbox.push_credit(self.consumed);
        self.unacknowledged = self.unacknowledged.saturating_sub(self.consumed);
        self.consumed = 0;
        true
    }

    /// Adds the link to the list of links with queued bytes, unless it is there.
    #[inline(always)]
    pub fn mark(&mut self, dirty: &mut Vec<LinkKey>, key: LinkKey) {
        if !self.is_dirty {
            self.is_dirty = true;
            dirty.push(key);
        }
    }

    /// Queues windows for the senders of long data; returns whether there were any.
    pub fn grant_windows(&mut self) -> bool {
        let mut any = false;
        self.inbox.take_windows(|window| {
            any = true;
            self.outbox.push_window(&window);
        });
        any
    }

    /// Queues a message.
    pub fn push(&mut self, message: Message) {
        if let Message::Ping = message {
            return self.push_ping();
        }
        self.outbox.push(message);
    }

    /// Earliest time of a response: now, or the end of the announced pause of the peer.
    pub fn earliest_response(&self, now: Time) -> Time {
        self.pause_end.map_or(now, |end| end.max(now))
    }

    /// Queues a PING, unless one is being sent.
    #[cold]
    fn push_ping(&mut self) {
        if self.ping == PingState::Idle {
            self.outbox.push(Message::Ping);
            self.ping = PingState::Queued(self.outbox.queued());
        }
    }

    /// Whether a PING is being sent.
    #[inline(always)]
    pub fn is_pinging(&self) -> bool {
        self.ping != PingState::Idle
    }

    /// Whether the PING may be in the buffer of the socket, so that the system reports when it has been sent.
    pub fn is_ping_in_socket(&self) -> bool {
        self.ping == PingState::InSocket
    }

    /// Handles free space in the buffer of the socket: a PING in it has been sent.
    pub fn confirm_ping_sent(&mut self) {
        self.ping.confirm_sent();
    }

    /// Returns true once after a PING has been sent.
    pub fn take_ping_sent(&mut self) -> bool {
        self.ping.take_sent()
    }
}

/// Pacing of long data.
impl Link {
    /// Starts the pacing of long data, if the connection does not go through shared memory (`on_wire`). Returns the
    /// length of segments if the connection is to be prepared for them.
    pub fn begin_bulk(&mut self, now: &impl Fn() -> Time, on_wire: bool) -> Option<usize> {
        let mut first = None;
        if self.pace.is_none() && on_wire {
            let pace = Pace::new();
            first = Some(pace.segment());
            self.pace = Some(Box::new(pace));
        }
        if let Some(pace) = &mut self.pace
            && pace.start(now)
        {
            self.outbox.set_pace(pace.segment(), pace.allowance());
        }
        first
    }

    /// Updates the pace: the system has space for more long data. Returns the length of segments if it has changed.
    pub fn continue_bulk(&mut self, now: Time) -> Option<usize> {
        let pace = self.pace.as_mut()?;
        let changed = pace.continue_round(now).then(|| pace.segment());
        self.outbox.set_pace(pace.segment(), pace.allowance());
        changed
    }

    /// Stops the pacing: no bytes are queued.
    pub fn end_bulk(&mut self) {
        self.pace.iter_mut().for_each(|pace| pace.stop());
    }

    /// Counts bytes that the system has accepted.
    pub fn mark_written(&mut self, count: usize) {
        self.outbox.mark_written(count);
        self.peer_reads = true;
        self.pace.iter_mut().for_each(|pace| pace.mark_written(count));
        if self.ping != PingState::Idle {
            self.ping.mark_written(count);
        }
    }
}

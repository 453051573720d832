//! The protocol on one connection: its two halves, and what binds them.
//!
//! Credit: a request of the peer counts until it has been acknowledged, which is done in portions. A peer that does not
//! read its replies gets no more credit.
//!
//! Source: docs/wire.md, "CREDIT" and "WINDOW".

use gpc_trees::Id;

use super::inbox::{BODIES_MAX, Inbox};
use super::loss::Loss;
use super::outbox::Outbox;
use super::pace::Pace;
use super::peering::{LinkKey, Proof};
use super::question::Question;
use crate::chain::Time;
use crate::hint::unlikely;
use crate::wire::Message;

/// Requests that a node usually accepts on a link without having acknowledged them. They keep the link busy, and bound
/// what waits at a slow node.
pub const HIWATER: u32 = 256;

/// Part of hiwater that is acknowledged at the latest when it has been consumed, so that the sender learns of it long
/// before its credit ends.
const ACKMARK_PARTS: u32 = 2;

/// Part of ackmark that is acknowledged with other bytes. Alone, the frame would cost a write here, and a wake-up of an
/// id that waits for its own children.
const BESIDE_PARTS: u32 = 2;

/// Maximum number of bytes that wait for a peer which still gets credit for requests. The replies to requests that it
/// has credit for, of up to a segment each, may be added.
const BACKLOG: u64 = 4 << 20;

/// Maximum number of long replies that wait for windows of a peer which still gets credit for requests: the number of
/// requests that may be arriving. Windows must not depend on credit, and credit does not depend on windows below it.
const REPLIES_MAX: usize = BODIES_MAX;

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// This node is opening it to this id.
    Connecting(Id),
    /// Connected; [`peering`](super::peering) handles the bytes until both hellos are exchanged.
    Greeting,
    /// It is the link to this id.
    Up(Id),
    /// The last frame is queued; the connection closes when that is written.
    Closing,
}

/// The protocol on one connection.
#[derive(Debug)]
pub struct Link {
    /// The receiving half.
    pub inbox: Inbox,
    /// The sending half.
    pub outbox: Outbox,
    /// How far the connection has come.
    pub phase: Phase,
    /// How the peer was proved to be a member.
    pub proof: Proof,
    /// How the link is lost if it ends now.
    pub loss: Loss,
    /// When a connection that is closing is given up.
    pub deadline: Option<Time>,
    /// When the pause ends that the peer has announced last; `None` if the peer has ended it.
    pub back: Option<Time>,
    /// When the rest of a request must have arrived.
    pub unfinished: Option<Time>,
    /// Whether the peer has sent a heartbeat since this was last taken: bytes have come, or the peer has accepted some
    /// of the bytes that had to wait for it.
    pub heard: bool,
    /// Whether it is among the links with something to write.
    pub marked: bool,
    /// Whether it is among the links on which long messages leave.
    pub streams: bool,
    /// Requests that this node accepts without having acknowledged them, as its hello says.
    hiwater: u32,
    /// Requests received and not acknowledged.
    pub unacknowledged: u32,
    /// Requests consumed and not acknowledged.
    consumed: u32,
    /// Whether the system has accepted bytes since requests were last acknowledged.
    takes: bool,
    /// Speed at which the peer accepts long data; `None` before the first.
    pace: Option<Box<Pace>>,
    /// Whether a heartbeat request is leaving.
    question: Question,
}

impl Link {
    /// A connection on which nothing has been sent or received.
    pub fn new(phase: Phase) -> Link {
        Link {
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            phase,
            proof: Proof::None,
            loss: Loss::default(),
            deadline: None,
            back: None,
            unfinished: None,
            heard: false,
            marked: false,
            streams: false,
            hiwater: HIWATER,
            unacknowledged: 0,
            consumed: 0,
            takes: false,
            pace: None,
            question: Question::None,
        }
    }

    /// Sets how many requests this node accepts without having acknowledged them.
    pub fn limit_credit(&mut self, hiwater: u32) {
        self.hiwater = hiwater;
    }

    /// Requests that this node accepts without having acknowledged them.
    pub fn hiwater(&self) -> u32 {
        self.hiwater
    }

    /// Number of consumed requests that are acknowledged at the latest.
    pub fn ackmark(&self) -> u32 {
        self.hiwater.div_ceil(ACKMARK_PARTS)
    }

    /// Number of consumed requests that are acknowledged with other bytes.
    fn ackmark_beside(&self) -> u32 {
        self.hiwater.div_ceil(ACKMARK_PARTS * BESIDE_PARTS)
    }

    /// Whether the next frame may be carried out where it lies: nothing long is arriving, and the peer has credit for a
    /// request.
    pub fn is_plain(&self) -> bool {
        self.inbox.is_idle() & (self.unacknowledged < self.hiwater) & !self.outbox.was_full()
    }

    /// Counts a request as received; returns whether the peer had credit for it.
    pub fn admit(&mut self) -> bool {
        self.unacknowledged += 1;
        self.unacknowledged <= self.hiwater
    }

    /// Counts a request as consumed, and acknowledges if enough have been; returns whether it has.
    pub fn consume(&mut self) -> bool {
        self.consumed += 1;
        unlikely(self.consumed >= self.ackmark()) && self.acknowledge()
    }

    /// Whether so few requests are to be acknowledged that a write of other bytes leaves them out.
    #[inline(always)]
    pub fn leaves_credit_out(&self) -> bool {
        self.consumed < self.ackmark_beside()
    }

    /// Acknowledges the consumed requests with other bytes, if there are enough of them.
    pub fn acknowledge_beside(&mut self) {
        if self.consumed >= self.ackmark_beside() {
            self.acknowledge();
        }
    }

    /// Acknowledges the consumed requests of a peer that reads what it is sent, or continues to read: a peer that only
    /// sends gets no more credit.
    #[inline(never)]
    fn acknowledge(&mut self) -> bool {
        // A long reply may exceed the backlog for minutes on a slow link, which must not stop small calls as long as
        // bytes leave.
        let backlog = if self.takes { self.outbox.queued() as u64 } else { self.outbox.backlog() };
        if backlog > BACKLOG || self.outbox.replies() > REPLIES_MAX {
            return false;
        }
        self.takes = false;
        self.outbox.acknowledge(self.consumed);
        self.unacknowledged = self.unacknowledged.saturating_sub(self.consumed);
        self.consumed = 0;
        true
    }

    /// Adds the link once to those with something to write.
    #[inline(always)]
    pub fn mark(&mut self, dirty: &mut Vec<LinkKey>, key: LinkKey) {
        if !self.marked {
            self.marked = true;
            dirty.push(key);
        }
    }

    /// Queues windows for the senders of long data; returns whether there were any.
    pub fn grant_windows(&mut self) -> bool {
        let mut news = false;
        self.inbox.windows(|window| {
            news = true;
            self.outbox.window(&window);
        });
        news
    }

    /// Queues a message.
    pub fn push(&mut self, message: Message) {
        if let Message::Ping = message {
            return self.ask();
        }
        self.outbox.push(message);
    }

    /// When the peer can respond: now, or at the end of its announced pause.
    pub fn answers_from(&self, now: Time) -> Time {
        self.back.map_or(now, |back| back.max(now))
    }

    /// Queues a heartbeat request, unless one has not left yet.
    #[cold]
    fn ask(&mut self) {
        if self.question == Question::None {
            self.outbox.push(Message::Ping);
            self.question = Question::Queued(self.outbox.queued());
        }
    }

    /// Whether a heartbeat request is leaving.
    #[inline(always)]
    pub fn asks(&self) -> bool {
        self.question != Question::None
    }

    /// Whether a heartbeat request may be with the system, which then says when it has left.
    pub fn question_is_in_socket(&self) -> bool {
        self.question == Question::InSocket
    }

    /// The system has room for more bytes, so a heartbeat request that it had has left.
    pub fn question_has_left(&mut self) {
        self.question.room();
    }

    /// Returns true once when a heartbeat request has left.
    pub fn take_question_left(&mut self) -> bool {
        self.question.take_left()
    }
}

/// The pace of long data.
impl Link {
    /// Long data are about to be written, over a connection with a wire if `on_wire`. Returns the length of segments if
    /// the connection is to be prepared for them.
    pub fn begin_bulk(&mut self, now: &impl Fn() -> Time, on_wire: bool) -> Option<usize> {
        let mut first = None;
        if self.pace.is_none() && on_wire {
            let pace = Pace::new();
            first = Some(pace.segment());
            self.pace = Some(Box::new(pace));
        }
        if let Some(pace) = &mut self.pace
            && pace.begin(now)
        {
            self.outbox.pace(pace.segment(), pace.allowance());
        }
        first
    }

    /// The system has room for the next long data. Returns the length of segments if it has changed.
    pub fn continue_bulk(&mut self, now: Time) -> Option<usize> {
        let pace = self.pace.as_mut()?;
        let changed = pace.room(now).then(|| pace.segment());
        self.outbox.pace(pace.segment(), pace.allowance());
        changed
    }

    /// Nothing is left to write.
    pub fn rest(&mut self) {
        self.pace.iter_mut().for_each(|pace| pace.rest());
    }

    /// The system has accepted this number of bytes.
    pub fn written(&mut self, count: usize) {
        self.outbox.written(count);
        self.takes = true;
        self.pace.iter_mut().for_each(|pace| pace.written(count));
        if self.question != Question::None {
            self.question.written(count);
        }
    }
}

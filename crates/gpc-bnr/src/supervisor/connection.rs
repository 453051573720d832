//! The node's connection to its supervisor: queued orders, answers that are pending, and what a lost supervisor leaves.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use chained_gpc::{Clock, Shown};
use rustix::event::{Timespec, poll};
use rustix::io::Errno;

use super::codec::{CodecError, Frames, SupervisorMessage, get_event, get_hello, put_message};
use super::orders::{SupervisorEvent, SupervisorOrder};
use super::passing::{receive, send};
use super::{GROUP, NODE, Tag, env_value};
use crate::names::{GroupId, Member};

/// Descriptors for each started process.
pub(super) const DESCRIPTORS: usize = 4;

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

/// Some orders and their descriptors.
#[derive(Default)]
struct Message {
    bytes: BytesMut,
    descriptors: Vec<OwnedFd>,
    starts: usize,
    /// Whether its descriptors and some of its bytes have been sent.
    begun: bool,
}

/// A connection. Its methods do not block.
pub(super) struct Connection {
    socket: UnixStream,
    clock: Clock,
    messages: VecDeque<Message>,
    waiting: usize,
    unanswered: usize,
    /// Most descriptors of one message.
    at_once: usize,
    frames: Frames,
    /// Whether the version of the supervisor has been checked.
    greeted: bool,
    /// Running processes, each with its process group.
    pub(super) running: BTreeMap<Member, u32>,
    /// The tags of the groups that are not yet emptied.
    pub(super) tags: BTreeMap<GroupId, Tag>,
}

impl Connection {
    /// A connection over a socket that does not block. A message carries at most `at_once` descriptors.
    pub(super) fn new(socket: UnixStream, at_once: usize, clock: Clock) -> Connection {
        Connection {
            socket,
            clock,
            messages: VecDeque::new(),
            waiting: 0,
            unanswered: 0,
            at_once,
            frames: Frames::default(),
            greeted: false,
            running: BTreeMap::new(),
            tags: BTreeMap::new(),
        }
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// What waits, and what the supervisor still has.
    #[cfg(feature = "snapshot")]
    pub(super) fn counts(&self) -> Vec<(&'static str, usize)> {
        let descriptors = self.messages.iter().map(|message| message.descriptors.len()).sum();
        vec![
            ("messages to the supervisor", self.messages.len()),
            ("bytes to the supervisor", self.waiting),
            ("descriptors to the supervisor", descriptors),
            ("unanswered starts", self.unanswered),
            ("processes of the supervisor", self.running.len()),
            ("groups of the supervisor", self.tags.len()),
        ]
    }

    /// Queues an order.
    pub(super) fn order(&mut self, order: SupervisorOrder, descriptors: Vec<OwnedFd>) {
        let is_full = self.waiting > WAITING_MAX;
        let sent = match order {
            SupervisorOrder::Start { member, .. } if descriptors.len() != DESCRIPTORS => {
                SupervisorMessage::Refused(member, Errno::BADF.raw_os_error())
            }
            SupervisorOrder::Start { member, .. } if is_full => {
                SupervisorMessage::Refused(member, Errno::AGAIN.raw_os_error())
            }
            SupervisorOrder::Signal { .. } | SupervisorOrder::Join { .. } if is_full => return,
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

    /// Sends queued orders. Returns whether all have been sent.
    ///
    /// # Errors
    /// A system error: the supervisor is gone.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        // A supervisor of another version would misread orders.
        if !self.greeted {
            return Ok(false);
        }
        // Terminates: each iteration sends something or returns.
        while let Some(message) = self.messages.front_mut() {
            if !message.begun && self.unanswered > 0 && self.unanswered + message.starts > UNANSWERED_MAX {
                return Ok(false);
            }
            let Some(count) = message.send(&self.socket, &self.clock)? else { return Ok(false) };
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

    /// The next event; `None` if none has arrived.
    ///
    /// # Errors
    /// A system error, or the end of the supervisor.
    pub(super) fn event(&mut self) -> io::Result<Option<SupervisorEvent>> {
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
}

impl Message {
    /// Whether another order may be added.
    fn takes(&self, at_once: usize) -> bool {
        !self.begun && self.bytes.len() < MESSAGE && self.descriptors.len() + DESCRIPTORS <= at_once
    }

    /// Sends some of the message; `None` if the socket is full.
    fn send(&self, socket: &UnixStream, clock: &Clock) -> io::Result<Option<usize>> {
        let limit = clock.limit(ELSEWHERE);
        // Terminates with the time limit.
        loop {
            match send(socket, &self.bytes, &self.descriptors) {
                Err(error)
                    if Errno::from_io_error(&error) == Some(Errno::TOOMANYREFS) && !limit.is_over() =>
                {
                    // Descriptors in transit elsewhere will arrive: their receivers do nothing else.
                    let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
                }
                result => return result,
            }
        }
    }
}

fn invalid(error: CodecError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;

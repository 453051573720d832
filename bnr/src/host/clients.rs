//! Connections of processes and tools: bytes to requests, and answers to bytes.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use rustix::io::Errno;

use super::unread::{Held, Node, Size, Unread};
use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::Fault;
use crate::request::{Answer, Request};
use crate::speak::{Conversation, NodeAsk, Said};

/// Most bytes that are read of one connection before the others have their turn.
const READ_MAX: usize = 64 << 10;

/// How many bytes may wait for one connection: an answer of the largest database, and its notices. No request is taken while so much waits, so nobody comes to it.
const QUEUED_MAX: usize = 512 << 20;

/// Most requests of one connection that are taken before the others have their turn.
const ASKED_MAX: usize = 256;

/// One connection.
pub(super) struct Link {
    socket: OwnedFd,
    pub(super) conversation: Conversation,
    queue: VecDeque<Bytes>,
    unread: Unread,
    /// A request that waits for room for its answer.
    held: Option<(Serial, Request)>,
    /// Whether something of it was not taken, since answers wait.
    paused: bool,
    /// Whether nobody reads at the other end any more.
    deaf: bool,
    /// Whether the system tells of room for what waits.
    room: bool,
    /// Whether the system has told that the peer has closed its side: there is an end behind what can be read.
    hung_up: bool,
    /// Whether the peer has closed its side, and all that it has said is read.
    pub(super) ended: bool,
    /// Why it is to be closed.
    pub(super) broken: Option<String>,
}

/// What a connection has said.
#[derive(Default)]
pub(super) struct Heard {
    /// Requests.
    pub(super) asked: Vec<(Serial, Request)>,
    /// Requests for the processes of the same group on this node.
    pub(super) node: Vec<(Serial, NodeAsk)>,
    /// A process that has connected to a port shows this to say who it is.
    pub(super) who: Option<String>,
    /// Whether there may be more.
    pub(super) more: bool,
}

impl Link {
    pub(super) fn new(socket: OwnedFd, conversation: Conversation, node: Arc<Node>) -> Link {
        Link {
            socket,
            conversation,
            queue: VecDeque::new(),
            unread: Unread::new(node),
            held: None,
            paused: false,
            deaf: false,
            room: false,
            hung_up: false,
            ended: false,
            broken: None,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The system has told that the peer has closed its side.
    pub(super) fn hung_up(&mut self) {
        self.hung_up = true;
    }

    /// Whether the system is to tell of room for what waits to be written, where that has changed since it was asked last. It is not while nothing waits: it would tell of each answer that the peer has read.
    pub(super) fn room_wanted(&mut self) -> Option<bool> {
        let wanted = !self.queue.is_empty();
        (std::mem::replace(&mut self.room, wanted) != wanted).then_some(wanted)
    }

    /// Reads some of what has come, unless answers wait, or requests that were read before. Where the buffer is not filled there was no more, and the system tells of what comes later; but of the end it has told, if it has.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Heard {
        let mut heard = Heard { more: true, ..Heard::default() };
        let room = buffer.len().min(READ_MAX);
        if self.holds().is_some() || self.is_full() {
            self.paused = true;
            heard.more = false;
        } else if !self.ended && self.broken.is_none() {
            match rustix::io::read(&self.socket, &mut buffer[..room]) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.conversation.bytes(&buffer[..count]);
                    heard.more = count == room || self.hung_up;
                }
                Err(Errno::AGAIN) => heard.more = false,
                Err(Errno::INTR) => {}
                Err(_) => self.ended = true,
            }
        }
        heard.more &= !self.ended && self.broken.is_none();
        heard.more |= self.said(&mut heard);
        heard
    }

    /// Whether requests wait, and more may come: of one that has closed its side no more is waited for, so its end is seen.
    fn is_full(&self) -> bool {
        self.conversation.is_full() && !self.hung_up
    }

    /// What keeps the next request from being taken.
    pub(super) fn holds(&self) -> Option<Held> {
        let size = self.held.as_ref().map_or(Size::Small, |(_, request)| Size::of(request));
        self.unread.holds(size)
    }

    /// Whether something was not taken that can be taken now.
    pub(super) fn goes_on(&mut self) -> bool {
        let can = self.holds().is_none() && !self.is_full();
        self.paused && can && std::mem::take(&mut self.paused)
    }

    /// Takes what the conversation says; whether it may say more.
    pub(super) fn said(&mut self, heard: &mut Heard) -> bool {
        while heard.asked.len() + heard.node.len() < ASKED_MAX {
            let holds = self.holds().is_some();
            if !holds && let Some((serial, request)) = self.held.take() {
                self.unread.takes(serial, Size::of(&request));
                heard.asked.push((serial, request));
                continue;
            }
            self.paused |= holds;
            let said = if holds { self.conversation.pending() } else { self.conversation.next() };
            match said {
                None => return false,
                // Taken by the next turn, if there is room for its answer.
                Some(Said::Ask(serial, request)) if Size::of(&request) == Size::Large => {
                    self.held = Some((serial, request));
                }
                Some(Said::Ask(serial, request)) => {
                    self.unread.takes(serial, Size::of(&request));
                    heard.asked.push((serial, request));
                }
                Some(Said::Node(serial, ask)) => heard.node.push((serial, ask)),
                Some(Said::Send(bytes)) => self.send(bytes),
                Some(Said::Who(secret)) => heard.who = Some(secret),
                Some(Said::Close(why)) => {
                    self.broken.get_or_insert(why);
                    return false;
                }
            }
        }
        true
    }

    /// An answer.
    pub(super) fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        self.unread.answered(serial);
        self.conversation.answered(serial, answer);
    }

    /// A process has ended.
    pub(super) fn notice(&mut self, death: Death) {
        self.conversation.notice(death);
    }

    fn send(&mut self, bytes: Bytes) {
        if self.deaf {
            return;
        }
        self.unread.add(bytes.len());
        self.queue.push_back(bytes);
        if self.unread.queued() > QUEUED_MAX {
            let message = format!("{} bytes wait for it, and it reads none", self.unread.queued());
            self.broken.get_or_insert(message);
        }
    }

    /// Writes what waits, as far as the system takes it.
    pub(super) fn write(&mut self) {
        while let Some(first) = self.queue.front_mut() {
            match rustix::io::write(&self.socket, first) {
                Ok(count) => {
                    self.unread.remove(count);
                    first.advance(count);
                    if first.is_empty() {
                        self.queue.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => {
                    // Whoever has gone reads nothing; what it has said before that counts.
                    self.queue.clear();
                    self.unread.remove(self.unread.queued());
                    (self.deaf, self.hung_up) = (true, true);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::names::{GroupId, Member};
    use crate::request::Identity;

    const ASK: &[u8] = b"cmd=get kvsname=kvs key=k\n";

    /// What a connection has asked is answered, each get with a long value.
    fn answer(link: &mut Link, heard: Heard) {
        for (serial, request) in heard.asked {
            let answer = match request {
                Request::Init => Answer::Identity(Identity {
                    member: Member { group: GroupId(1), rank: 0 },
                    size: 1,
                    parent: None,
                    database: "kvs".into(),
                    spec: 0,
                    neighbours: vec![0],
                }),
                _ => Answer::Value(vec![b'v'; 60_000]),
            };
            link.answered(serial, Ok(answer));
        }
        link.write();
    }

    /// One turn of the loop: some of what has come is read, what was asked is answered, and what that makes room for is asked.
    fn turn(link: &mut Link, buffer: &mut [u8]) -> bool {
        let heard = link.read(buffer);
        let mut asked = !heard.asked.is_empty();
        answer(link, heard);
        let mut heard = Heard::default();
        link.said(&mut heard);
        asked |= !heard.asked.is_empty();
        answer(link, heard);
        asked
    }

    /// A process sent gets and read no answer. All of them were taken, and up to 512 MiB of answers waited for it.
    #[test]
    fn of_a_process_that_reads_no_answer_nothing_is_read_until_it_does() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut link = Link::new(ours.into(), Conversation::new(), Arc::default());
        let mut buffer = vec![0; READ_MAX];
        theirs.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").unwrap();
        // Until neither side goes on: the one does not read, and the other has no room.
        let (mut asked, mut idle) = (0, 0);
        while idle < 3 {
            let wrote = theirs.write(&ASK[asked % ASK.len()..]).unwrap_or(0);
            asked += wrote;
            let took = turn(&mut link, &mut buffer);
            idle = if wrote == 0 && !took { idle + 1 } else { 0 };
            assert!(link.unread.queued() < 2 << 20, "{} bytes wait", link.unread.queued());
            assert_eq!(link.broken, None);
        }
        assert!(link.holds() == Some(Held::Own) && link.room_wanted() == Some(true));
        // It reads: all that it has asked is answered.
        let (mut read, mut lines, mut quiet) = (vec![0; 1 << 20], 0, 0);
        while quiet < 3 {
            let count = theirs.read(&mut read).unwrap_or(0);
            lines += read[..count].iter().filter(|byte| **byte == b'\n').count();
            link.write();
            let took = link.goes_on() | turn(&mut link, &mut buffer);
            quiet = if count == 0 && !took { quiet + 1 } else { 0 };
        }
        assert_eq!(lines, 1 + asked / ASK.len());
    }
}

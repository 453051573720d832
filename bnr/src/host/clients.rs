//! Connections of processes and tools: bytes to requests, and answers to bytes.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use bytes::{Buf as _, Bytes};
use rustix::io::Errno;

use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::Fault;
use crate::request::{Answer, Request};
use crate::speak::{Conversation, NodeAsk, Said};

/// Most bytes that are read of one connection before the others have their turn.
const READ_MAX: usize = 64 << 10;

/// How many bytes may wait for one who does not read: an answer of the largest database, and its notices. Who lets more wait is closed.
const QUEUED_MAX: usize = 512 << 20;

/// Most requests of one connection that are taken before the others have their turn.
const ASKED_MAX: usize = 256;

/// One connection.
pub(super) struct Link {
    socket: OwnedFd,
    pub(super) conversation: Conversation,
    queue: VecDeque<Bytes>,
    queued: usize,
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
    pub(super) fn new(socket: OwnedFd, conversation: Conversation) -> Link {
        Link {
            socket,
            conversation,
            queue: VecDeque::new(),
            queued: 0,
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

    /// Reads some of what has come. Where the buffer is not filled there was no more, and the system tells of what comes later; but of the end it has told, if it has.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Heard {
        let mut heard = Heard { more: true, ..Heard::default() };
        let room = buffer.len().min(READ_MAX);
        if !self.ended && self.broken.is_none() {
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

    /// Takes what the conversation says; whether it may say more.
    pub(super) fn said(&mut self, heard: &mut Heard) -> bool {
        while heard.asked.len() + heard.node.len() < ASKED_MAX {
            match self.conversation.next() {
                None => return false,
                Some(Said::Ask(serial, request)) => heard.asked.push((serial, request)),
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
        self.conversation.answered(serial, answer);
    }

    /// A process has ended.
    pub(super) fn notice(&mut self, death: Death) {
        self.conversation.notice(death);
    }

    fn send(&mut self, bytes: Bytes) {
        self.queued += bytes.len();
        self.queue.push_back(bytes);
        if self.queued > QUEUED_MAX {
            let message = format!("{} bytes wait for it, and it reads none", self.queued);
            self.broken.get_or_insert(message);
        }
    }

    /// Writes what waits, as far as the system takes it.
    pub(super) fn write(&mut self) {
        while let Some(first) = self.queue.front_mut() {
            match rustix::io::write(&self.socket, first) {
                Ok(count) => {
                    self.queued -= count;
                    first.advance(count);
                    if first.is_empty() {
                        self.queue.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => {
                    // Whoever has gone reads nothing.
                    self.queue.clear();
                    self.queued = 0;
                    self.ended = true;
                }
            }
        }
    }
}

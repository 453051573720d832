//! Connections of processes and tools: decodes requests and encodes answers.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use rustix::io::Errno;

use super::unread::{DelayCause, NodeUnread, Size, Unread};
use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::Fault;
use crate::protocol::{Conversation, NodeRequest, ProtocolOutput};
use crate::request::{Answer, Request};

/// Most bytes read from one connection per iteration.
const READ_MAX: usize = 64 << 10;

/// Most bytes queued for one connection: an answer with the largest database, and notices. Requests are not read while
/// so much is queued, so the limit is not reached in practice.
const QUEUED_MAX: usize = 512 << 20;

/// Most requests taken from one connection per iteration.
const REQUESTS_MAX: usize = 256;

/// One connection.
pub(super) struct Link {
    socket: OwnedFd,
    pub(super) conversation: Conversation,
    queue: VecDeque<Bytes>,
    unread: Unread,
    /// A request that waits for room for its answer.
    delayed_request: Option<(Serial, Request)>,
    /// Whether input was left unread, since answers wait.
    paused: bool,
    /// Whether the peer reads no more.
    ignores_output: bool,
    /// Whether the system reports room for writing.
    polls_room: bool,
    /// Whether the system has reported that the peer has closed its side: the readable bytes end with an end of stream.
    hung_up: bool,
    /// Whether the peer has closed its side and all its bytes are read.
    pub(super) ended: bool,
    /// The reason to close the connection.
    pub(super) broken: Option<String>,
}

/// The result of reading from a connection.
#[derive(Default)]
pub(super) struct ConnectionInput {
    /// Requests.
    pub(super) requests: Vec<(Serial, Request)>,
    /// Requests for the node attributes of the process's group.
    pub(super) node_requests: Vec<(Serial, NodeRequest)>,
    /// The secret by which a process that connected to the port identifies itself.
    pub(super) secret: Option<String>,
    /// Whether there may be more.
    pub(super) more: bool,
}

impl Link {
    pub(super) fn new(socket: OwnedFd, conversation: Conversation, node: Arc<NodeUnread>) -> Link {
        Link {
            socket,
            conversation,
            queue: VecDeque::new(),
            unread: Unread::new(node),
            delayed_request: None,
            paused: false,
            ignores_output: false,
            polls_room: false,
            hung_up: false,
            ended: false,
            broken: None,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The peer has closed its side, as the system reports.
    pub(super) fn hung_up(&mut self) {
        self.hung_up = true;
    }

    /// Whether to poll for room to write, if that has changed since the last call. It is off while nothing waits:
    /// otherwise each answer that the peer reads would cause an event.
    pub(super) fn room_wanted(&mut self) -> Option<bool> {
        let wanted = !self.queue.is_empty();
        (std::mem::replace(&mut self.polls_room, wanted) != wanted).then_some(wanted)
    }

    /// Reads some input, unless answers or earlier requests wait. If the buffer is not filled, no more is there now,
    /// and the system reports later input. If `hung_up` is set, the end of the stream follows without another report.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> ConnectionInput {
        let mut input = ConnectionInput { more: true, ..ConnectionInput::default() };
        let room = buffer.len().min(READ_MAX);
        if self.delay().is_some() || self.is_full() {
            self.paused = true;
            input.more = false;
        } else if !self.ended && self.broken.is_none() {
            match rustix::io::read(&self.socket, &mut buffer[..room]) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.conversation.bytes(&buffer[..count]);
                    input.more = count == room || self.hung_up;
                }
                Err(Errno::AGAIN) => input.more = false,
                Err(Errno::INTR) => {}
                Err(_) => self.ended = true,
            }
        }
        input.more &= !self.ended && self.broken.is_none();
        input.more |= self.take_outputs(&mut input);
        input
    }

    /// Whether too many requests wait. If the peer has closed its side, its input is bounded and is read to the end.
    fn is_full(&self) -> bool {
        self.conversation.is_full() && !self.hung_up
    }

    /// What delays the next request.
    pub(super) fn delay(&self) -> Option<DelayCause> {
        let size = self.delayed_request.as_ref().map_or(Size::Small, |(_, request)| Size::of(request));
        self.unread.delay(size)
    }

    /// Resumes delayed input if it can be read now. Returns whether it does.
    pub(super) fn resume(&mut self) -> bool {
        let can = self.delay().is_none() && !self.is_full();
        self.paused && can && std::mem::take(&mut self.paused)
    }

    /// Takes outputs of the conversation. Returns whether there may be more.
    pub(super) fn take_outputs(&mut self, input: &mut ConnectionInput) -> bool {
        while input.requests.len() + input.node_requests.len() < REQUESTS_MAX {
            let is_delayed = self.delay().is_some();
            if !is_delayed && let Some((serial, request)) = self.delayed_request.take() {
                self.unread.takes(serial, Size::of(&request));
                input.requests.push((serial, request));
                continue;
            }
            self.paused |= is_delayed;
            let output = if is_delayed { self.conversation.pending() } else { self.conversation.next() };
            match output {
                None => return false,
                // Taken in the next iteration, if there is room for its answer.
                Some(ProtocolOutput::Request(serial, request)) if Size::of(&request) == Size::Large => {
                    self.delayed_request = Some((serial, request));
                }
                Some(ProtocolOutput::Request(serial, request)) => {
                    self.unread.takes(serial, Size::of(&request));
                    input.requests.push((serial, request));
                }
                Some(ProtocolOutput::NodeRequest(serial, ask)) => input.node_requests.push((serial, ask)),
                Some(ProtocolOutput::Send(bytes)) => self.send(bytes),
                Some(ProtocolOutput::Identify(secret)) => input.secret = Some(secret),
                Some(ProtocolOutput::Close(why)) => {
                    self.broken.get_or_insert(why);
                    return false;
                }
            }
        }
        true
    }

    /// Passes an answer to the client.
    pub(super) fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        self.unread.answered(serial);
        self.conversation.answered(serial, answer);
    }

    /// Passes the notice of a process that has ended to the client.
    pub(super) fn notice(&mut self, death: Death) {
        self.conversation.notice(death);
    }

    fn send(&mut self, bytes: Bytes) {
        if self.ignores_output {
            return;
        }
        self.unread.add(bytes.len());
        self.queue.push_back(bytes);
        if self.unread.queued() > QUEUED_MAX {
            let message = format!("{} bytes wait for it, and it reads none", self.unread.queued());
            self.broken.get_or_insert(message);
        }
    }

    /// Writes queued bytes as far as the system takes them.
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
                    // The peer is gone and reads nothing; its earlier requests still count.
                    self.queue.clear();
                    self.unread.remove(self.unread.queued());
                    (self.ignores_output, self.hung_up) = (true, true);
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

    /// Answers all requests, each get with a long value.
    fn answer(link: &mut Link, input: ConnectionInput) {
        for (serial, request) in input.requests {
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

    /// One iteration of the loop: reads some input, answers requests, and takes the requests that this makes room for.
    fn run_iteration(link: &mut Link, buffer: &mut [u8]) -> bool {
        let input = link.read(buffer);
        let mut asked = !input.requests.is_empty();
        answer(link, input);
        let mut input = ConnectionInput::default();
        link.take_outputs(&mut input);
        asked |= !input.requests.is_empty();
        answer(link, input);
        asked
    }

    /// A process sent gets and read no answer. All of its requests were taken, and up to 512 MiB of answers were queued
    /// for it.
    #[test]
    fn of_a_process_that_reads_no_answer_nothing_is_read_until_it_does() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut link = Link::new(ours.into(), Conversation::new(), Arc::default());
        let mut buffer = vec![0; READ_MAX];
        theirs.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").unwrap();
        // Until both sides are stuck: the node does not read, and the socket has no room for the process.
        let (mut asked, mut idle) = (0, 0);
        while idle < 3 {
            let wrote = theirs.write(&ASK[asked % ASK.len()..]).unwrap_or(0);
            asked += wrote;
            let took = run_iteration(&mut link, &mut buffer);
            idle = if wrote == 0 && !took { idle + 1 } else { 0 };
            assert!(link.unread.queued() < 2 << 20, "{} bytes wait", link.unread.queued());
            assert_eq!(link.broken, None);
        }
        assert!(link.delay() == Some(DelayCause::Own) && link.room_wanted() == Some(true));
        // Once the process reads, all its requests are answered.
        let (mut read, mut lines, mut quiet) = (vec![0; 1 << 20], 0, 0);
        while quiet < 3 {
            let count = theirs.read(&mut read).unwrap_or(0);
            lines += read[..count].iter().filter(|byte| **byte == b'\n').count();
            link.write();
            let took = link.resume() | run_iteration(&mut link, &mut buffer);
            quiet = if count == 0 && !took { quiet + 1 } else { 0 };
        }
        assert_eq!(lines, 1 + asked / ASK.len());
    }

    /// A link and its peer, which has sent its first request.
    fn greeted() -> (Link, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").unwrap();
        (Link::new(ours.into(), Conversation::new(), Arc::default()), theirs)
    }

    /// The system reports the end of a stream together with its last bytes, and not again.
    #[test]
    fn the_end_behind_the_last_bytes_is_read() {
        let (mut link, theirs) = greeted();
        drop(theirs);
        link.hung_up();
        let mut buffer = vec![0; READ_MAX];
        let input = link.read(&mut buffer);
        assert!(input.more && !link.ended);
        answer(&mut link, input);
        assert!(!link.read(&mut buffer).more && link.ended);
    }

    /// A peer that reads no more has perhaps sent a request before: its bytes are read to their end.
    #[test]
    fn of_a_peer_that_reads_no_more_all_is_read() {
        let (mut link, theirs) = greeted();
        theirs.shutdown(std::net::Shutdown::Read).unwrap();
        let input = link.read(&mut vec![0; READ_MAX]);
        answer(&mut link, input);
        let mut rest = ConnectionInput::default();
        link.take_outputs(&mut rest);
        link.write();
        assert!(link.ignores_output && link.hung_up && link.queue.is_empty());
        assert_eq!((link.unread.queued(), link.broken), (0, None));
    }
}

//! A fake node, driven by a test: the other end of a client's link.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpc_bnr::client::{Process, TimeLimits};
use gpc_bnr::names::{GroupId, Member};
use gpc_bnr::native::{Conversation, NativeOutput};
use gpc_bnr::request::{Answer, Identity, Request};
use gpc_bnr::{Death, Exit, Fault};

/// Time limit after which a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The group of all clients.
pub(crate) const GROUP: GroupId = GroupId(4);

pub(crate) struct Fake {
    pub(crate) stream: UnixStream,
    conversation: Conversation,
    heard: VecDeque<(u64, Request)>,
}

impl Fake {
    pub(crate) fn new(stream: UnixStream) -> Fake {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Fake { stream, conversation: Conversation::new(), heard: VecDeque::new() }
    }

    /// The next request; `None` if the client has closed the link.
    pub(crate) fn hear_or_end(&mut self) -> Option<(u64, Request)> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Some(heard);
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.conversation.bytes(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the client says nothing: {error}"),
            }
            self.said();
        }
    }

    pub(crate) fn hear(&mut self) -> (u64, Request) {
        self.hear_or_end().expect("the client asks")
    }

    /// Whether the client has sent nothing. Call it only after the test has observed a later action of the client.
    pub(crate) fn has_heard_nothing(&mut self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let come = self.stream.read(&mut [0; 1]);
        self.stream.set_nonblocking(false).unwrap();
        self.heard.is_empty() && come.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    fn said(&mut self) {
        while let Some(said) = self.conversation.next() {
            match said {
                NativeOutput::Request(serial, request) => self.heard.push_back((serial, request)),
                // The client may be gone.
                NativeOutput::Send(bytes) => drop(self.stream.write_all(&bytes)),
                NativeOutput::Close(why) => panic!("the client is to be closed: {why}"),
            }
        }
    }

    pub(crate) fn answer(&mut self, serial: u64, answer: Result<Answer, Fault>) {
        self.conversation.answered(serial, answer);
        self.said();
    }

    /// Receives a request, checks that it is the expected one, and answers it.
    pub(crate) fn expect(&mut self, request: &Request, answer: Result<Answer, Fault>) {
        let (serial, heard) = self.hear();
        assert_eq!(&heard, request);
        self.answer(serial, answer);
    }

    pub(crate) fn notice(&mut self, death: Death) {
        self.conversation.notice(death);
        self.said();
    }

    /// Sends a notice and then an answer.
    pub(crate) fn notice_and_answer(&mut self, death: Death, serial: u64, answer: Result<Answer, Fault>) {
        self.conversation.notice(death);
        self.conversation.answered(serial, answer);
        self.said();
    }

    /// Sends arbitrary bytes.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
}

pub(crate) fn identity(rank: u32) -> Identity {
    Identity {
        member: Member { group: GROUP, rank },
        size: 4,
        parent: Some(GroupId(1)),
        database: "kvs_d_4".into(),
        spec: 1,
        neighbours: vec![0, rank],
    }
}

pub(crate) fn death(rank: u32) -> Death {
    Death { member: Member { group: GROUP, rank }, exit: Exit::Signal(9), finalized: false }
}

/// Time limits that a busy machine keeps, unless the node is silent.
pub(crate) fn waits() -> TimeLimits {
    TimeLimits { collective: PATIENCE, other: PATIENCE, margin: Duration::ZERO }
}

/// A process of rank 2 that has initialized, and its node.
pub(crate) fn begun() -> (Arc<Process>, Fake) {
    let (node, client) = UnixStream::pair().unwrap();
    let mut fake = Fake::new(node);
    let process = beginning(client);
    fake.expect(&Request::Init, Ok(Answer::Identity(identity(2))));
    (Arc::new(process.join().unwrap().unwrap()), fake)
}

pub(crate) fn beginning(client: UnixStream) -> JoinHandle<Result<Process, gpc_bnr::client::ClientError>> {
    thread::spawn(move || Process::over(client.into(), waits()))
}

/// Runs some work on a process in a separate thread.
pub(crate) fn meanwhile<T: Send + 'static>(
    process: &Arc<Process>,
    work: impl FnOnce(&Process) -> T + Send + 'static,
) -> JoinHandle<T> {
    let process = Arc::clone(process);
    thread::spawn(move || work(&process))
}

//! The server's side of PMI without I/O: translates the messages of MPI programs and others into requests, and answers
//! into PMI replies. `docs/pmi.md` describes all of it, line by line.
//!
//! Source: PMI-1 and PMI-2, as MPICH's `hydra` and Slurm's plugin `pmi2` serve them; BNR, "Database manipulation", of
//! which PMI is the successor.
//!
//! A connection carries lines (PMI-1) or messages with a length (PMI-2). Both versions begin with a line; after that
//! the first byte of each unit tells them apart. Requests are served in order: while one waits for its answer, all
//! later ones wait, except an abort. Barriers with a group, and messages with a thread id, do not block later requests.

mod attributes;
mod barrier;
mod message;
mod one;
mod spawn;
mod step;
#[cfg(test)]
mod tests;
mod text;
mod two;

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

pub use self::attributes::{Attributes, NodeAnswer, NodeRequest};
use self::message::LENGTH;
use self::one::One;
pub use self::step::ASK_MAX;
use self::step::{PendingReply, Step, TwoReply, quoted};
pub(crate) use self::text::status as exit_status;
use crate::domain::Serial;
use crate::fault::Fault;
use crate::names::Rank;
use crate::protocol_output::ProtocolOutput;
use crate::request::{Answer, Identity, Request};

/// Most received bytes that are not yet decoded: the longest request, and one read.
const RECEIVED_MAX: usize = ASK_MAX + (1 << 20);

/// Most unanswered requests that do not block later ones, such as those of several threads. Beyond that, later requests
/// wait.
const WAITING_MAX: usize = 256;

/// Longest abort message that is forwarded, in bytes.
const MESSAGE_MAX: usize = 1024;

/// One PMI connection. Drain [`next`](Self::next) after each call of another method.
#[derive(Debug)]
pub struct Pmi {
    received: BytesMut,
    /// Number of leading bytes of `received` without a line end.
    scanned: usize,
    out: VecDeque<ProtocolOutput>,
    serial: Serial,
    waiting: BTreeMap<Serial, PendingReply>,
    blocker: Blocker,
    me: Option<Identity>,
    /// The unanswered finalize request.
    leaving: Option<Serial>,
    /// Whether the client connected to the port and is not yet identified.
    port: bool,
    /// Whether clients that request 1.1 are answered 1.2.
    groups: bool,
    one: One,
    input: InputState,
}

/// What blocks the next request.
#[derive(Debug)]
enum Blocker {
    Nothing,
    Answer(Serial),
    /// The process is not yet identified. Holds the PMI-2 message, or `None` for a PMI-1 line.
    Identification(Option<TwoReply>),
}

/// Whether input is still processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InputState {
    Open,
    /// The process has aborted its job. Bytes after the abort are further lines of its message.
    Ignored,
    Closed,
}

/// A complete line or message.
enum Unit {
    Line(Bytes),
    Message(Bytes),
}

impl Default for Pmi {
    fn default() -> Pmi {
        Pmi::new()
    }
}

impl Pmi {
    /// The connection of a process that inherited it.
    pub fn new() -> Pmi {
        Pmi {
            received: BytesMut::new(),
            scanned: 0,
            out: VecDeque::new(),
            serial: 0,
            waiting: BTreeMap::new(),
            blocker: Blocker::Nothing,
            me: None,
            leaving: None,
            port: false,
            groups: false,
            one: One::default(),
            input: InputState::Open,
        }
    }

    /// A connection that a client made to the port.
    pub fn by_port() -> Pmi {
        Pmi { port: true, ..Pmi::new() }
    }

    /// Answers clients that request 1.1 with 1.2, as `hydra` does. MPICH 5 requests 1.1, and uses group barriers if the
    /// answer is 1.2. Clients that know 1.1 alone, such as Flux's, refuse that answer.
    pub fn with_groups(self) -> Pmi {
        Pmi { groups: true, ..self }
    }

    /// Takes received bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.input != InputState::Open {
            return;
        }
        if bytes.len() > RECEIVED_MAX - self.received.len() {
            return self.close(format!("more than {RECEIVED_MAX} bytes of it wait"));
        }
        self.received.extend_from_slice(bytes);
    }

    /// Sends the answer to a request.
    pub fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        let Some(pending) = self.waiting.remove(&serial) else { return };
        if matches!(self.blocker, Blocker::Answer(of) if of == serial) {
            self.blocker = Blocker::Nothing;
        }
        if let Ok(Answer::Identity(me)) = &answer {
            self.me = Some(me.clone());
        }
        let left = answer.is_ok() && self.leaving.take_if(|leaving| *leaving == serial).is_some();
        let bytes = match pending {
            PendingReply::Init(version, subversion) => return self.begun(version, subversion, answer),
            PendingReply::One(what) => self.one.answer(&what, answer),
            PendingReply::Two(reply) => reply.answer(self.me.as_ref(), answer),
        };
        if left {
            // The process may initialize again; until then it is unidentified.
            self.me = None;
        }
        self.send(bytes);
    }

    /// The process behind a connection to the port: its rank and the size of its group. `None` closes the connection.
    pub fn identified(&mut self, who: Option<(Rank, u32)>) {
        let Blocker::Identification(reply) = std::mem::replace(&mut self.blocker, Blocker::Nothing) else {
            return;
        };
        let Some((rank, size)) = who else {
            return self
                .close("no process of this node has this number: it is in its variable PMI_ID".into());
        };
        self.port = false;
        match reply {
            Some(reply) => self.ask(Request::Init, PendingReply::Two(reply), true),
            None => {
                let lines =
                    format!("cmd=initack\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n");
                self.send(lines.into_bytes());
            }
        }
    }

    /// Whether more bytes wait than the longest request has: stop reading until some are decoded.
    pub fn is_full(&self) -> bool {
        self.received.len() > ASK_MAX
    }

    /// The next queued output. Decodes no further request.
    pub fn pending(&mut self) -> Option<ProtocolOutput> {
        self.out.pop_front()
    }

    /// The next output, if there is one.
    #[expect(clippy::should_implement_trait, reason = "more may come after nothing has")]
    pub fn next(&mut self) -> Option<ProtocolOutput> {
        // Terminates: each iteration consumes received bytes.
        while self.out.is_empty() && self.input == InputState::Open {
            match self.unit() {
                Ok(Some(unit)) => self.take(&unit),
                Ok(None) => break,
                Err(why) => self.close(why),
            }
        }
        self.out.pop_front()
    }

    fn send(&mut self, bytes: Vec<u8>) {
        if self.input != InputState::Closed {
            self.out.push_back(ProtocolOutput::Send(bytes.into()));
        }
    }

    fn close(&mut self, why: String) {
        if self.input != InputState::Closed {
            self.input = InputState::Closed;
            self.received = BytesMut::new();
            self.out.push_back(ProtocolOutput::Close(why));
        }
    }

    /// The next line or message, if it is complete and not blocked.
    fn unit(&mut self) -> Result<Option<Unit>, String> {
        let Some(first) = self.received.first() else { return Ok(None) };
        let is_line = self.one.is_inside() || matches!(first, b'c' | b'm');
        let (skip, length, end) = if is_line {
            let Some(length) = self.line()? else { return Ok(None) };
            (0, length, 1)
        } else {
            let length = message::length(&self.received)
                .map_err(|why| format!("{why}: `{}`", quoted(&self.received)))?;
            let Some(length) = length.filter(|length| self.received.len() >= LENGTH + length) else {
                return Ok(None);
            };
            (LENGTH, length, 0)
        };
        let held_up = !matches!(self.blocker, Blocker::Nothing) || self.waiting.len() >= WAITING_MAX;
        if held_up && !self.received[skip..skip + length].starts_with(b"cmd=abort") {
            return Ok(None);
        }
        let mut unit = self.received.split_to(skip + length + end).freeze();
        self.scanned = 0;
        let unit = unit.split_off(skip).slice(..length);
        Ok(Some(if is_line { Unit::Line(unit) } else { Unit::Message(unit) }))
    }

    /// Length of the next line without its end; `None` if it is incomplete.
    fn line(&mut self) -> Result<Option<usize>, String> {
        let end =
            self.received[self.scanned..].iter().position(|byte| *byte == b'\n').map(|at| self.scanned + at);
        if end.unwrap_or(self.received.len()) > ASK_MAX {
            return Err(format!("a line of more than {ASK_MAX} bytes: `{}`", quoted(&self.received)));
        }
        self.scanned = end.unwrap_or(self.received.len());
        Ok(end)
    }

    fn take(&mut self, unit: &Unit) {
        let step = match unit {
            Unit::Line(line) => self.one.line(self.me.as_ref(), line),
            Unit::Message(message) => two::message(self.me.as_ref(), self.port, message),
        };
        match step {
            Ok(step) => self.step(step),
            Err(why) => self.close(why),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Send(bytes) => self.send(bytes),
            Step::Init(version, subversion) => self.init(version, subversion),
            Step::Identify(secret, reply) => {
                self.blocker = Blocker::Identification(reply);
                self.out.push_back(ProtocolOutput::Identify(secret));
            }
            Step::Request(request, pending, holds_up) => self.ask(request, pending, holds_up),
            Step::NodeRequest(ask, pending, holds_up) => {
                let serial = self.wait(pending, holds_up);
                self.out.push_back(ProtocolOutput::NodeRequest(serial, ask));
            }
            Step::Abort(code, message) => {
                self.input = InputState::Ignored;
                self.received = BytesMut::new();
                let message = bounded(&message);
                self.serial += 1;
                self.out.push_back(ProtocolOutput::Request(self.serial, Request::Abort { code, message }));
            }
        }
    }

    fn ask(&mut self, request: Request, pending: PendingReply, holds_up: bool) {
        let serial = self.wait(pending, holds_up);
        if request == Request::Finalize {
            self.leaving = Some(serial);
        }
        self.out.push_back(ProtocolOutput::Request(serial, request));
    }

    fn wait(&mut self, pending: PendingReply, holds_up: bool) -> Serial {
        self.serial += 1;
        self.waiting.insert(self.serial, pending);
        if holds_up {
            self.blocker = Blocker::Answer(self.serial);
        }
        self.serial
    }

    /// Handles the version that the client requests. The answer is the highest version that both sides support.
    fn init(&mut self, version: u32, subversion: u32) {
        match version {
            // In port mode, a PMI-1 client identifies itself before this, a PMI-2 client after it.
            1 if self.port => self.close(
                "init before initack, and it has come to the port: nobody knows which process it is".into(),
            ),
            2 if self.port => self.send(agreed(2, 0, "0")),
            1 => {
                let subversion = if self.groups { 2 } else { subversion.clamp(1, 2) };
                self.ask(Request::Init, PendingReply::Init(1, subversion), true);
            }
            2 => self.ask(Request::Init, PendingReply::Init(2, 0), true),
            // The client may try another version.
            _ => self.send(agreed(1, 1, "-1")),
        }
    }

    fn begun(&mut self, version: u32, subversion: u32, answer: Result<Answer, Fault>) {
        match answer {
            Ok(Answer::Identity(_)) => {
                self.one.tags = (version, subversion) == (1, 2);
                self.send(agreed(version, subversion, "0"));
            }
            Ok(_) => self.close("init was answered with something else than who the process is".into()),
            Err(fault) => {
                self.send(agreed(version, subversion, "-1"));
                self.close(format!("init was refused: {fault}"));
            }
        }
    }
}

fn agreed(version: u32, subversion: u32, code: &str) -> Vec<u8> {
    format!("cmd=response_to_init pmi_version={version} pmi_subversion={subversion} rc={code}\n").into_bytes()
}

/// The part of a message that is forwarded.
fn bounded(message: &str) -> String {
    let end = (0..=MESSAGE_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or_default();
    message[..end.min(message.len())].to_owned()
}

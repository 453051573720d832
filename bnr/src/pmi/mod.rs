//! The server's side of PMI without I/O: what processes of MPI and of its like say becomes requests, and answers become what they expect. `docs/pmi.md` has all of it, line by line.
//!
//! Source: PMI-1 and PMI-2, as MPICH's `hydra` and Slurm's plugin `pmi2` serve them; BNR, "Database manipulation", of which PMI is the successor.
//!
//! One connection speaks lines (PMI-1) or messages with a length (PMI-2), told apart by their first byte, since both begin with a line. Requests are taken one after the other: while one waits for its answer, what has come behind it waits, too, but for an abort. Barriers with a group, and messages with the mark of a thread, do not hold up others.

mod attributes;
mod barrier;
mod message;
mod one;
mod spawn;
#[cfg(test)]
mod tests;
mod text;
mod two;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chained_gpc::Shown;

pub use self::attributes::{Attributes, NodeAnswer, NodeAsk};
use self::message::LENGTH;
use self::one::One;
use crate::domain::Serial;
use crate::fault::Fault;
use crate::names::{RESERVED, Rank};
use crate::request::{Answer, Identity, Request};
use crate::speak::Said;

/// Longest line, message or spawn, bytes: a message's length has six digits, and more than that nobody needs.
pub const ASK_MAX: usize = 1 << 20;

/// How many bytes may have come and not been taken: the longest request, and what is read at a time beside it.
const HELD_MAX: usize = ASK_MAX + (1 << 20);

/// How many requests may be unanswered that do not hold up others: threads of one process. What comes behind waits.
const WAITING_MAX: usize = 256;

/// How long a barrier waits: as long as any job. PMI knows no limit, and a process may compute for days before it comes; who ends without coming fails it.
const JOB_LIMIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Longest message of an abort that is passed on, bytes.
const MESSAGE_MAX: usize = 1024;

/// One connection that speaks PMI. Drain [`next`](Self::next) after each of the others.
#[derive(Debug)]
pub struct Pmi {
    held: BytesMut,
    /// So many bytes of them are known to have no end of a line.
    seen: usize,
    out: VecDeque<Said>,
    serial: Serial,
    waiting: BTreeMap<Serial, Then>,
    turn: Turn,
    me: Option<Identity>,
    /// By which request it says goodbye.
    leaving: Option<Serial>,
    /// Whether it has come to the port, and nobody has said which process it is.
    port: bool,
    /// Whether who asks for 1.1 is told 1.2.
    groups: bool,
    one: One,
    heard: Heard,
}

/// What holds up the next request.
#[derive(Debug)]
enum Turn {
    Free,
    Answer(Serial),
    /// It is to be said which process this is; for a message of PMI-2, or a line of PMI-1.
    Who(Option<two::Asked>),
}

/// Whether anything is heard any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    All,
    /// The process has asked for the end of its job; what it says behind that are the other lines of its reason.
    Nothing,
    Closed,
}

/// What is done when an answer comes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Then {
    /// The version that is agreed.
    Init(u32, u32),
    One(one::For),
    Two(two::Asked),
}

/// What a line or a message comes to.
enum Step {
    Nothing,
    Say(Vec<u8>),
    /// Which version the client speaks.
    Init(u32, u32),
    /// Which process has come to the port, it says; for a message of PMI-2, or a line of PMI-1.
    Who(String, Option<two::Asked>),
    /// A request, and whether it holds up what comes behind it.
    Ask(Request, Then, bool),
    Node(NodeAsk, Then, bool),
    Abort(u8, String),
}

/// A line or a message that has come whole.
enum Unit {
    Line(Bytes),
    Message(Bytes),
}

/// Whether only the server writes such keys.
fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(RESERVED)
}

/// Foreign bytes for people: bounded, and nothing in them that a terminal obeys.
fn quoted(bytes: &[u8]) -> String {
    let bounded = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]);
    Shown(&bounded).to_string()
}

impl Default for Pmi {
    fn default() -> Pmi {
        Pmi::new()
    }
}

impl Pmi {
    /// A process that has inherited its connection.
    pub fn new() -> Pmi {
        Pmi {
            held: BytesMut::new(),
            seen: 0,
            out: VecDeque::new(),
            serial: 0,
            waiting: BTreeMap::new(),
            turn: Turn::Free,
            me: None,
            leaving: None,
            port: false,
            groups: false,
            one: One::default(),
            heard: Heard::All,
        }
    }

    /// Somebody who has connected to the port.
    pub fn by_port() -> Pmi {
        Pmi { port: true, ..Pmi::new() }
    }

    /// Tells clients that ask for 1.1 that 1.2 is spoken, as `hydra` does: MPICH 5 asks for 1.1, and uses barriers of groups where it is told so. Clients that know 1.1 alone, such as Flux's, refuse it.
    pub fn with_groups(self) -> Pmi {
        Pmi { groups: true, ..self }
    }

    /// Bytes have come.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if self.heard != Heard::All {
            return;
        }
        if bytes.len() > HELD_MAX - self.held.len() {
            return self.close(format!("more than {HELD_MAX} bytes of it wait"));
        }
        self.held.extend_from_slice(bytes);
    }

    /// A request is answered.
    pub fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        let Some(then) = self.waiting.remove(&serial) else { return };
        if matches!(self.turn, Turn::Answer(of) if of == serial) {
            self.turn = Turn::Free;
        }
        if let Ok(Answer::Identity(me)) = &answer {
            self.me = Some(me.clone());
        }
        let left = answer.is_ok() && self.leaving.take_if(|leaving| *leaving == serial).is_some();
        let bytes = match then {
            Then::Init(version, subversion) => return self.begun(version, subversion, answer),
            Then::One(what) => self.one.answer(&what, answer),
            Then::Two(asked) => asked.answer(self.me.as_ref(), answer),
        };
        if left {
            // It may begin again, and is nobody until then.
            self.me = None;
        }
        self.send(bytes);
    }

    /// Which process has connected to the port: its rank, and how many there are in its group.
    pub fn identified(&mut self, who: Option<(Rank, u32)>) {
        let Turn::Who(asked) = std::mem::replace(&mut self.turn, Turn::Free) else { return };
        let Some((rank, size)) = who else {
            return self
                .close("no process of this node has this number: it is in its variable PMI_ID".into());
        };
        self.port = false;
        match asked {
            Some(asked) => self.ask(Request::Init, Then::Two(asked), true),
            None => {
                let lines =
                    format!("cmd=initack\ncmd=set size={size}\ncmd=set rank={rank}\ncmd=set debug=0\n");
                self.send(lines.into_bytes());
            }
        }
    }

    /// Whether more has come and was not taken than the longest request has.
    pub fn is_full(&self) -> bool {
        self.held.len() > ASK_MAX
    }

    /// What is to be done next without taking another request.
    pub fn pending(&mut self) -> Option<Said> {
        self.out.pop_front()
    }

    /// What is to be done next, if something is.
    #[expect(clippy::should_implement_trait, reason = "more may come after nothing has")]
    pub fn next(&mut self) -> Option<Said> {
        // Ends: each turn takes some of what has come.
        while self.out.is_empty() && self.heard == Heard::All {
            match self.unit() {
                Ok(Some(unit)) => self.take(&unit),
                Ok(None) => break,
                Err(why) => self.close(why),
            }
        }
        self.out.pop_front()
    }

    fn send(&mut self, bytes: Vec<u8>) {
        if self.heard != Heard::Closed {
            self.out.push_back(Said::Send(bytes.into()));
        }
    }

    fn close(&mut self, why: String) {
        if self.heard != Heard::Closed {
            self.heard = Heard::Closed;
            self.held = BytesMut::new();
            self.out.push_back(Said::Close(why));
        }
    }

    /// The next line or message, if it has come whole and nothing holds it up.
    fn unit(&mut self) -> Result<Option<Unit>, String> {
        let Some(first) = self.held.first() else { return Ok(None) };
        let is_line = self.one.is_inside() || matches!(first, b'c' | b'm');
        let (skip, length, end) = if is_line {
            let Some(length) = self.line()? else { return Ok(None) };
            (0, length, 1)
        } else {
            let length =
                message::length(&self.held).map_err(|why| format!("{why}: `{}`", quoted(&self.held)))?;
            let Some(length) = length.filter(|length| self.held.len() >= LENGTH + length) else {
                return Ok(None);
            };
            (LENGTH, length, 0)
        };
        let held_up = !matches!(self.turn, Turn::Free) || self.waiting.len() >= WAITING_MAX;
        if held_up && !self.held[skip..skip + length].starts_with(b"cmd=abort") {
            return Ok(None);
        }
        let mut unit = self.held.split_to(skip + length + end).freeze();
        self.seen = 0;
        let unit = unit.split_off(skip).slice(..length);
        Ok(Some(if is_line { Unit::Line(unit) } else { Unit::Message(unit) }))
    }

    /// How long the next line is without its end.
    fn line(&mut self) -> Result<Option<usize>, String> {
        let end = self.held[self.seen..].iter().position(|byte| *byte == b'\n').map(|at| self.seen + at);
        if end.unwrap_or(self.held.len()) > ASK_MAX {
            return Err(format!("a line of more than {ASK_MAX} bytes: `{}`", quoted(&self.held)));
        }
        self.seen = end.unwrap_or(self.held.len());
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
            Step::Say(bytes) => self.send(bytes),
            Step::Init(version, subversion) => self.init(version, subversion),
            Step::Who(secret, asked) => {
                self.turn = Turn::Who(asked);
                self.out.push_back(Said::Who(secret));
            }
            Step::Ask(request, then, holds_up) => self.ask(request, then, holds_up),
            Step::Node(ask, then, holds_up) => {
                let serial = self.wait(then, holds_up);
                self.out.push_back(Said::Node(serial, ask));
            }
            Step::Abort(code, message) => {
                self.heard = Heard::Nothing;
                self.held = BytesMut::new();
                let message = bounded(&message);
                self.serial += 1;
                self.out.push_back(Said::Ask(self.serial, Request::Abort { code, message }));
            }
        }
    }

    fn ask(&mut self, request: Request, then: Then, holds_up: bool) {
        let serial = self.wait(then, holds_up);
        if request == Request::Finalize {
            self.leaving = Some(serial);
        }
        self.out.push_back(Said::Ask(serial, request));
    }

    fn wait(&mut self, then: Then, holds_up: bool) -> Serial {
        self.serial += 1;
        self.waiting.insert(self.serial, then);
        if holds_up {
            self.turn = Turn::Answer(self.serial);
        }
        self.serial
    }

    /// The client says which version it speaks. It is told the highest one that both do.
    fn init(&mut self, version: u32, subversion: u32) {
        match version {
            // In port mode, PMI-1 says before this which process it is, and PMI-2 behind it.
            1 if self.port => self.close(
                "init before initack, and it has come to the port: nobody knows which process it is".into(),
            ),
            2 if self.port => self.send(agreed(2, 0, "0")),
            1 => {
                let subversion = if self.groups { 2 } else { subversion.clamp(1, 2) };
                self.ask(Request::Init, Then::Init(1, subversion), true);
            }
            2 => self.ask(Request::Init, Then::Init(2, 0), true),
            // It may try another one.
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

/// As much of a message as is passed on.
fn bounded(message: &str) -> String {
    let end = (0..=MESSAGE_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or_default();
    message[..end.min(message.len())].to_owned()
}

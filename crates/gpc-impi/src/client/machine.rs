//! State machine of a client's session: what it sends next, and which commands of the server are valid.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::answers::{Answer, Answers};
use super::incoming::{self, Incoming, length};
use super::{
    ClientEvent, ClientFault, ClientSettings, ClientSettingsError, ClientStage, LearnError, Learned,
    Violation, learn,
};
use crate::server::Rank;
use crate::wire::{Command, Frame, Label, PRIVATE_MAJOR, coll, command};

/// An input of the client.
#[derive(Debug)]
pub enum ClientInput<'a> {
    /// Bytes have arrived from the server.
    Received(&'a [u8]),
    /// The connection has ended: closed by the server, or by an error.
    Lost(&'a str),
    /// The time limit for DONE has passed; this is its length.
    Late(Duration),
}

/// An output to the driver.
pub enum ClientOutput {
    /// Send these bytes to the server. They may be the key, and are wiped from memory when the last copy is dropped.
    Send(Bytes),
    /// An event, for observers.
    Event(ClientEvent),
    /// All clients are done. The connection stays open until FINI is sent.
    Learned(Box<Learned>),
    /// The session has failed, and the connection must be closed. This is the last output.
    Failed(ClientFault),
}

/// Shows the number of bytes only, because they may be the key.
impl fmt::Debug for ClientOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientOutput::Send(bytes) => write!(f, "Send({} bytes)", bytes.len()),
            ClientOutput::Event(event) => f.debug_tuple("Event").field(event).finish(),
            ClientOutput::Learned(learned) => f.debug_tuple("Learned").field(learned).finish(),
            ClientOutput::Failed(fault) => f.debug_tuple("Failed").field(fault).finish(),
        }
    }
}

/// A session of a client, from the moment at which it is connected.
///
/// The driver takes all [outputs](Self::next_output) after [`new`](Self::new), and after every
/// [`handle`](Self::handle). Waiting for the server ends when the driver reports that the [time
/// limit](ClientInput::Late) has passed.
#[derive(Debug)]
pub struct Client {
    settings: ClientSettings,
    incoming: Incoming,
    state: State,
    /// Number of clients, once it is known.
    size: u32,
    /// The known labels that it sends, ascending.
    labels: Vec<Label>,
    /// Whether all clients know the labels of this project.
    own_labels: bool,
    answers: Answers,
    outputs: VecDeque<ClientOutput>,
}

/// The input that the client expects next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The server's choice of a method, without a head.
    Auth,
    /// The number of clients.
    Impi,
    /// The broadcast of the label at this index.
    At(usize),
    /// DONE.
    Done,
    /// Nothing: all clients are done.
    Over,
    /// Nothing: FINI was sent, or the session has failed.
    Ended,
}

impl Client {
    /// A session that begins by sending AUTH.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub fn new(settings: ClientSettings) -> Result<Client, ClientSettingsError> {
        let settings = settings.checked()?;
        let labels: Vec<Label> =
            Label::KNOWN.into_iter().filter(|label| settings.cluster.has_values(*label)).collect();
        let most = settings.bytes_max.min(i32::MAX as usize - 64);
        for label in labels.iter().chain(&Label::OWN[1..]).chain(settings.extra.keys()) {
            match settings.len(*label) {
                Some(len) if len > most => {
                    return Err(ClientSettingsError::Long { label: *label, len, most });
                }
                _ => {}
            }
        }
        let mut client = Client {
            incoming: Incoming::new(settings.bytes_max),
            state: State::Auth,
            size: 0,
            labels,
            own_labels: false,
            answers: Answers::new(),
            outputs: VecDeque::new(),
            settings,
        };
        client.send(command(Command::Auth, &[client.settings.methods.mask()]));
        Ok(client)
    }

    /// Handles an input.
    pub fn handle(&mut self, input: ClientInput<'_>) {
        match (self.state, input) {
            (State::Ended, _) => {}
            (State::Over, ClientInput::Lost(why)) => {
                self.state = State::Ended;
                self.event(ClientEvent::Lost(chained_gpc::Shown(why).to_string()));
            }
            // The server is expected to be silent, and there is no time limit.
            (State::Over, _) => {}
            (_, ClientInput::Received(bytes)) => self.received(bytes),
            (_, ClientInput::Lost(why)) => {
                let (stage, why) = (self.stage(), chained_gpc::Shown(why).to_string());
                self.fail(ClientFault::Lost { stage, why });
            }
            (_, ClientInput::Late(limit)) => self.fail(ClientFault::Late { stage: self.stage(), limit }),
        }
    }

    /// The next output.
    pub fn next_output(&mut self) -> Option<ClientOutput> {
        self.outputs.pop_front()
    }

    /// Sends FINI, because the client's processes have ended; then the connection may be closed. Has no effect before
    /// all clients are done.
    pub fn fini(&mut self) {
        if self.state == State::Over {
            self.state = State::Ended;
            self.send(command(Command::Fini, &[]));
            self.event(ClientEvent::Ended);
        }
    }

    /// Stage of the client.
    pub fn stage(&self) -> ClientStage {
        match self.state {
            State::Auth => ClientStage::Auth,
            State::Impi => ClientStage::Impi,
            State::At(i) => self.labels.get(i).map_or(ClientStage::Done, |label| ClientStage::At(*label)),
            State::Done => ClientStage::Done,
            State::Over | State::Ended => ClientStage::Over,
        }
    }

    /// Bytes of the server that are held.
    pub fn held(&self) -> usize {
        self.incoming.held() + self.answers.values().map(|answer| answer.values.len()).sum::<usize>()
    }

    fn send(&mut self, bytes: Bytes) {
        self.outputs.push_back(ClientOutput::Send(bytes));
    }

    fn event(&mut self, event: ClientEvent) {
        self.outputs.push_back(ClientOutput::Event(event));
    }

    fn fail(&mut self, fault: ClientFault) {
        self.state = State::Ended;
        self.incoming = Incoming::new(0);
        self.answers.clear();
        self.outputs.push_back(ClientOutput::Failed(fault));
    }

    fn received(&mut self, mut bytes: &[u8]) {
        // Ends: each round consumes bytes, or ends the session.
        while !bytes.is_empty() && !matches!(self.state, State::Over | State::Ended) {
            let said = match self.incoming.take(&mut bytes) {
                Ok(None) => Ok(()),
                Ok(Some(Frame::Raw(chosen))) => self.chosen(&chosen),
                Ok(Some(Frame::Command(command, payload))) => self.handle_command(command, payload),
                Err(wrong) => Err(wrong.into()),
            };
            if let Err(Fault(fault)) = said {
                let stage = self.stage();
                self.fail(match fault {
                    Ok(wrong) => ClientFault::Violation { stage, wrong },
                    Err(error) => ClientFault::Learn(error),
                });
            }
        }
    }

    /// Handles the server's choice of a method.
    fn chosen(&mut self, chosen: &[u8]) -> Result<(), Fault> {
        let (method, key) = incoming::chosen(&self.settings.methods, chosen)?;
        self.event(ClientEvent::Auth(method));
        if let Some(key) = key {
            self.send(key);
        }
        self.send(command(Command::Impi, &[self.settings.rank]));
        self.state = State::Impi;
        Ok(())
    }

    /// Counts input that a server may send, but need not.
    fn needless(&mut self) -> Result<(), Fault> {
        Ok(self.incoming.needless()?)
    }

    fn handle_command(&mut self, command: Command, payload: Bytes) -> Result<(), Fault> {
        match (command, self.state) {
            (Command::Impi, _) => self.joined(&payload),
            (Command::Coll, State::At(_) | State::Done) => self.answered(payload),
            (Command::Done, State::Done) => {
                length(command, 0, payload.len())?;
                self.done()
            }
            (Command::Other(_), _) => {
                self.event(ClientEvent::Ignored(command, payload.len()));
                self.needless()
            }
            _ => Err(Violation::Early(command).into()),
        }
    }

    /// Handles the number of clients. A server may send it immediately, and again when all have joined.
    fn joined(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let (rank, size) = (self.settings.rank, incoming::clients(payload)?);
        if self.state != State::Impi {
            let before = self.size;
            return match before == size {
                true => self.needless(),
                false => Err(Violation::Resized { before, now: size }.into()),
            };
        }
        if rank >= size {
            self.fail(ClientFault::Rank { rank, size });
            return Ok(());
        }
        self.size = size;
        self.event(ClientEvent::Joined(rank, size));
        self.next_label(0);
        Ok(())
    }

    /// Sends the label at this index, and before it the extra labels of the client that sort before it. After the last
    /// known label, sends the rest of these, the labels of this project, and DONE.
    fn next_label(&mut self, at: usize) {
        let Some(label) = self.labels.get(at).copied() else { return self.finish() };
        let before = at.checked_sub(1).map_or(Label::NONE, |at| self.labels[at]);
        self.state = State::At(at);
        let extra: Vec<Label> = self.settings.extra.range(before..label).map(|(label, _)| *label).collect();
        extra.into_iter().chain([label]).for_each(|label| self.send_label(label));
    }

    fn send_label(&mut self, label: Label) {
        let values = match label {
            Label::C_JOB => self.settings.job.map(|job| Bytes::from(job.to_vec())),
            _ => self.settings.cluster.values(label).map(Bytes::from),
        };
        let values = values.or_else(|| self.settings.extra.get(&label).cloned()).unwrap_or_default();
        self.send(coll(label, None, [&values[..]]));
        self.event(ClientEvent::Sent(label, values.len()));
    }

    fn finish(&mut self) {
        self.state = State::Done;
        let before = self.labels.last().copied().unwrap_or(Label::NONE);
        let own = Label::OWN.into_iter().filter(|label| self.has_values(*label));
        let extra = self.settings.extra.range(before..).map(|(label, _)| *label);
        let labels: BTreeSet<Label> = own.chain(extra).collect();
        labels.into_iter().for_each(|label| self.send_label(label));
        self.send(command(Command::Done, &[]));
        self.event(ClientEvent::Done);
    }

    /// Whether this client sends this label at some time.
    fn has_values(&self, label: Label) -> bool {
        match label {
            Label::C_JOB => self.own_labels && self.settings.rank == 0 && self.settings.job.is_some(),
            label if Label::OWN.contains(&label) => {
                self.own_labels && self.settings.cluster.has_values(label)
            }
            label => self.settings.len(label).is_some(),
        }
    }

    /// Whether the client has sent this label, if it is one that it sends. It sends its labels in ascending order.
    fn is_sent(&self, label: Label) -> bool {
        match self.state {
            State::At(at) => self.labels.get(at).is_some_and(|now| label <= *now),
            state => state == State::Done,
        }
    }

    /// Handles the broadcast of a label. One without values of this client may arrive at any time, also while those are
    /// under way: servers differ in when they broadcast. A label that was broadcast before may arrive again with more
    /// clients. Each repetition adds a client, so a label has at most as many broadcasts as there are clients.
    fn answered(&mut self, payload: Bytes) -> Result<(), Fault> {
        let (label, mask, values) = incoming::broadcast(payload)?;
        let len = values.len();
        if Label::OWN.contains(&label) && !self.own_labels {
            self.event(ClientEvent::Unknown(label, len));
            return self.needless();
        }
        let is_whole = |answer: &Answer| answer.has(self.settings.rank) || !self.has_values(label);
        let was_whole = self.answers.get(&label).is_some_and(is_whole);
        self.may_be_answered(label, mask, len)?;
        let answer = Answer { mask, values };
        let whole = is_whole(&answer);
        let waits = whole && self.stage() == ClientStage::At(label);
        learn::check(label, &answer)?;
        if label.is_known() || Label::OWN.contains(&label) || self.settings.extra.contains_key(&label) {
            self.event(ClientEvent::Answered(label, mask, len));
        } else {
            self.event(ClientEvent::Unknown(label, len));
            self.needless()?;
        }
        self.answers.insert(label, answer);
        // The first broadcast with the values of this client counts: after a later one, the labels of this project may
        // be sent already.
        if label == Label::C_VERSION && whole && !was_whole {
            self.own_labels = self.settings.own_labels && self.all_know()?;
        }
        if let (true, State::At(at)) = (waits, self.state) {
            self.next_label(at + 1);
        }
        Ok(())
    }

    fn may_be_answered(&self, label: Label, mask: u32, len: usize) -> Result<(), Fault> {
        let (rank, size) = (self.settings.rank, self.size);
        let own = mask >> rank & 1 == 1;
        let (says, sent) = (self.has_values(label), self.is_sent(label));
        let wrong = match label {
            _ if u64::from(mask) >> size != 0 => Violation::Mask { label, mask, size },
            _ if self.answers.get(&label).is_some_and(|answer| !answer.lacks_some_of(mask)) => {
                Violation::Twice(label)
            }
            _ if says && own && !sent => Violation::Unsent(label),
            _ if !says && own => Violation::Invented { label, mask, rank },
            _ if mask == 0 && len > 0 => Violation::Nobodys { label, len },
            _ => return Ok(()),
        };
        Err(wrong.into())
    }

    /// Whether all clients have named the major number of this project.
    fn all_know(&self) -> Result<bool, LearnError> {
        let versions = learn::versions(&self.answers)?;
        let knows = |rank: Rank| {
            let named = &versions[rank as usize];
            named.iter().any(|version| version.major == PRIVATE_MAJOR)
        };
        Ok((0..self.size).all(knows))
    }

    /// Handles DONE. A server that does not support unknown labels has broadcast none of this project's.
    fn done(&mut self) -> Result<(), Fault> {
        let carried = Label::OWN.iter().any(|label| self.answers.contains_key(label));
        let unanswered =
            Label::OWN.into_iter().find(|label| self.has_values(*label) && !self.answers.contains_key(label));
        if let (true, Some(label)) = (carried, unanswered) {
            return Err(Violation::Unanswered(label).into());
        }
        let rank = self.settings.rank;
        let mut answers = self.answers.iter();
        let dropped = answers.find(|(label, answer)| self.has_values(**label) && !answer.has(rank));
        if let Some((label, answer)) = dropped {
            return Err(Violation::Dropped { label: *label, mask: answer.mask, rank }.into());
        }
        let (mut learned, doubts) = learn::learn(&self.settings, self.size, &self.answers, carried)?;
        if carried && self.has_values(Label::C_JOB) && learned.job != self.settings.job {
            return Err(LearnError::Altered(Label::C_JOB).into());
        }
        doubts.into_iter().for_each(|(label, why)| self.event(ClientEvent::Doubted(label, why)));
        let answers = std::mem::take(&mut self.answers).into_iter();
        let others = answers.filter(|(label, _)| !label.is_known() && !Label::OWN.contains(label));
        learned.others = others.map(|(label, answer)| (label, (answer.mask, answer.values))).collect();
        self.state = State::Over;
        self.event(ClientEvent::AllDone(carried));
        self.outputs.push_back(ClientOutput::Learned(Box::new(learned)));
        Ok(())
    }
}

/// A fault that ends the session: the server has violated the protocol, or the clients' values are inconsistent.
struct Fault(Result<Violation, LearnError>);

impl From<Violation> for Fault {
    fn from(wrong: Violation) -> Fault {
        Fault(Ok(wrong))
    }
}

impl From<LearnError> for Fault {
    fn from(error: LearnError) -> Fault {
        Fault(Err(error))
    }
}

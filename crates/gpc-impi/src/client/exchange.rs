//! State machine of a session whose owner chooses the labels and interprets the values: for implementations of MPI.
//!
//! Unlike [`Client`](super::Client) it gives values no meaning. It checks that the server broadcasts what was sent, and
//! nothing that cannot be.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::answers::{Answer, Answers};
use super::incoming::{self, Incoming, length};
use super::{ClientFault, ClientInput, ClientSettingsError, ClientStage, Violation};
use crate::server::Rank;
use crate::wire::{CLIENTS_MAX, Command, Frame, Label, Methods, VALUES_MAX, coll, command};

/// Settings of an [`Exchange`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExchangeSettings {
    /// Rank among the clients, 0 to 31.
    pub rank: Rank,
    /// Authentication methods.
    pub methods: Methods,
    /// Most bytes that the server may send.
    pub bytes_max: usize,
}

impl ExchangeSettings {
    /// Settings with which the server may send 1 GiB.
    pub fn new(rank: Rank, methods: Methods) -> ExchangeSettings {
        ExchangeSettings { rank, methods, bytes_max: 1 << 30 }
    }
}

/// The values or DONE cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The session is at another stage.
    #[error("{what} cannot be sent while {stage}")]
    Stage {
        /// What was to be sent.
        what: String,
        /// The stage.
        stage: ClientStage,
    },
    /// The session has failed.
    #[error(transparent)]
    Failed(#[from] ClientFault),
    /// 0 is no label.
    #[error("label 0 stands for no label")]
    NoLabel,
    /// Each label is sent once.
    #[error("COLL {0} was sent already: each label is sent once")]
    Again(Label),
    /// The length does not fit the label.
    #[error("COLL {label} with {len} bytes: {}", expected(*.label))]
    Length {
        /// The label.
        label: Label,
        /// Length of the values, bytes.
        len: usize,
    },
    /// The values are longer than a message, or than what the server may send back.
    #[error("COLL {label} with {len} bytes; at most {most} can be sent")]
    Long {
        /// The label.
        label: Label,
        /// Length of the values, bytes.
        len: usize,
        /// Longest length, bytes.
        most: usize,
    },
}

/// The length of a label's values, for people.
fn expected(label: Label) -> String {
    match (label.shape(), unit(label)) {
        (Some((crate::wire::Per::Client, size)), _) => format!("it has {size}"),
        (_, unit) => format!("it has a multiple of {unit}"),
    }
}

/// Bytes of an element.
fn unit(label: Label) -> usize {
    match label {
        // A version.
        Label::C_VERSION => 8,
        label => label.shape().map_or(1, |(_, size)| size),
    }
}

/// Whether a known label may have values of this length.
fn fits(label: Label, len: usize) -> bool {
    match label.shape() {
        Some((crate::wire::Per::Client, size)) => len == size,
        None if label != Label::C_VERSION => true,
        _ => len > 0 && len.is_multiple_of(unit(label)),
    }
}

/// A session, from the moment at which it is connected.
///
/// The driver takes all [outgoing bytes](Self::next_bytes) after every call. A session that has
/// [failed](Self::fault) stays so: its connection must be closed.
#[derive(Debug)]
pub struct Exchange {
    settings: ExchangeSettings,
    incoming: Incoming,
    state: State,
    /// Number of clients, once it is known.
    size: u32,
    sent: BTreeSet<Label>,
    answers: Answers,
    /// Whether DONE was received.
    all_done: bool,
    outgoing: VecDeque<Bytes>,
    fault: Option<ClientFault>,
}

/// What has happened last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// AUTH was sent.
    Auth,
    /// The rank was sent.
    Impi,
    /// The client has joined.
    Open,
    /// DONE was sent.
    Done,
    /// DONE was received.
    Over,
    /// FINI was sent, or the session has failed.
    Ended,
}

impl Exchange {
    /// A session that begins by sending AUTH.
    ///
    /// # Errors
    /// Returns an error if the rank is too high, or no method is enabled.
    pub fn new(settings: ExchangeSettings) -> Result<Exchange, ClientSettingsError> {
        if settings.rank >= CLIENTS_MAX {
            return Err(ClientSettingsError::Rank(settings.rank));
        }
        let mask = settings.methods.mask();
        if mask == 0 {
            return Err(ClientSettingsError::Methods);
        }
        Ok(Exchange {
            incoming: Incoming::new(settings.bytes_max),
            state: State::Auth,
            size: 0,
            sent: BTreeSet::new(),
            answers: Answers::new(),
            all_done: false,
            outgoing: [command(Command::Auth, &[mask])].into(),
            fault: None,
            settings,
        })
    }

    /// The next bytes to send. They may be the key, and are wiped from memory when the last copy is dropped.
    pub fn next_bytes(&mut self) -> Option<Bytes> {
        self.outgoing.pop_front()
    }

    /// Sends the values of a label, which were not sent before. The server broadcasts them when all clients have sent
    /// the label, or have moved past it.
    ///
    /// # Errors
    /// Nothing was sent: see [`SendError`].
    pub fn send(&mut self, label: Label, values: &[u8]) -> Result<(), SendError> {
        self.at(State::Open, || format!("COLL {label}"))?;
        let (len, most) = (values.len(), VALUES_MAX.min(self.settings.bytes_max.saturating_sub(16)));
        if label == Label::NONE {
            return Err(SendError::NoLabel);
        }
        if self.sent.contains(&label) {
            return Err(SendError::Again(label));
        }
        if !fits(label, len) {
            return Err(SendError::Length { label, len });
        }
        if len > most {
            return Err(SendError::Long { label, len, most });
        }
        self.sent.insert(label);
        self.outgoing.push_back(coll(label, None, [values]));
        Ok(())
    }

    /// Sends DONE: this client sends no more labels.
    ///
    /// # Errors
    /// The session is at another stage, or has failed.
    pub fn done(&mut self) -> Result<(), SendError> {
        self.at(State::Open, || "DONE".into())?;
        self.state = State::Done;
        self.outgoing.push_back(command(Command::Done, &[]));
        Ok(())
    }

    /// Sends FINI, because the client's processes have ended. Then the connection may be closed.
    ///
    /// # Errors
    /// Not all clients are done, or the session has failed.
    pub fn fini(&mut self) -> Result<(), SendError> {
        self.at(State::Over, || "FINI".into())?;
        self.state = State::Ended;
        self.outgoing.push_back(command(Command::Fini, &[]));
        Ok(())
    }

    fn at(&self, state: State, what: impl FnOnce() -> String) -> Result<(), SendError> {
        match &self.fault {
            Some(fault) => Err(fault.clone().into()),
            None if self.state == state => Ok(()),
            None => Err(SendError::Stage { what: what(), stage: self.stage() }),
        }
    }

    /// Rank of this client.
    pub fn rank(&self) -> Rank {
        self.settings.rank
    }

    /// Number of clients, once the server has sent it.
    pub fn clients(&self) -> Option<u32> {
        (self.size > 0).then_some(self.size)
    }

    /// Whether this client has sent the label.
    pub fn has_sent(&self, label: Label) -> bool {
        self.sent.contains(&label)
    }

    /// The last broadcast of a label, also of one that only other clients have sent: the mask of the clients with
    /// values (bit i for client i), and the values by ascending rank, without gaps.
    pub fn broadcast(&self, label: Label) -> Option<(u32, &Bytes)> {
        self.answers.get(&label).map(|answer| (answer.mask, &answer.values))
    }

    /// Whether DONE was sent.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::Over) || self.all_done
    }

    /// Whether FINI was sent.
    pub fn is_finished(&self) -> bool {
        self.state == State::Ended && self.fault.is_none()
    }

    /// Whether all clients are done. What they have sent stays, also if the server is lost then.
    pub fn are_all_done(&self) -> bool {
        self.all_done
    }

    /// Why the session has failed.
    pub fn fault(&self) -> Option<&ClientFault> {
        self.fault.as_ref()
    }

    /// Stage of the session.
    pub fn stage(&self) -> ClientStage {
        let rank = self.settings.rank;
        let is_answered = |label: &Label| self.answers.get(label).is_some_and(|answer| answer.has(rank));
        let waiting = || self.sent.iter().find(|label| !is_answered(label));
        match self.state {
            State::Auth => ClientStage::Auth,
            State::Impi => ClientStage::Impi,
            State::Open => waiting().map_or(ClientStage::Between, |label| ClientStage::At(*label)),
            State::Done => ClientStage::Done,
            State::Over | State::Ended => ClientStage::Over,
        }
    }

    /// Bytes of the server that are held.
    pub fn held(&self) -> usize {
        self.incoming.held() + self.answers.values().map(|answer| answer.values.len()).sum::<usize>()
    }

    /// Handles an input. The driver does not report a lost connection if FINI has left before.
    pub fn handle(&mut self, input: ClientInput<'_>) {
        match (self.state, input) {
            (State::Ended, ClientInput::Lost(_)) if self.fault.is_some() => {}
            (State::Ended, ClientInput::Received(_)) | (State::Over | State::Ended, ClientInput::Late(_)) => {
            }
            (_, ClientInput::Received(bytes)) => self.received(bytes),
            (_, ClientInput::Lost(why)) => {
                let (stage, why) = (self.stage(), chained_gpc::Shown(why).to_string());
                self.fail(ClientFault::Lost { stage, why });
            }
            (_, ClientInput::Late(limit)) => self.late(limit),
        }
    }

    fn late(&mut self, limit: Duration) {
        self.fail(ClientFault::Late { stage: self.stage(), limit });
    }

    fn fail(&mut self, fault: ClientFault) {
        self.state = State::Ended;
        self.incoming = Incoming::new(0);
        if !self.all_done {
            self.answers.clear();
        }
        self.outgoing.clear();
        self.fault = Some(fault);
    }

    fn received(&mut self, mut bytes: &[u8]) {
        // Ends: each round consumes bytes, or ends the session. Bytes after DONE have no meaning.
        while !bytes.is_empty() && !matches!(self.state, State::Over | State::Ended) {
            let handled = match self.incoming.take(&mut bytes) {
                Ok(None) => Ok(()),
                Ok(Some(Frame::Raw(chosen))) => self.chosen(&chosen),
                Ok(Some(Frame::Command(command, payload))) => self.handle_command(command, payload),
                Err(wrong) => Err(wrong),
            };
            if let Err(wrong) = handled {
                self.fail(ClientFault::Violation { stage: self.stage(), wrong });
            }
        }
    }

    fn chosen(&mut self, chosen: &[u8]) -> Result<(), Violation> {
        let (_, key) = incoming::chosen(&self.settings.methods, chosen)?;
        self.outgoing.extend(key);
        self.outgoing.push_back(command(Command::Impi, &[self.settings.rank]));
        self.state = State::Impi;
        Ok(())
    }

    fn handle_command(&mut self, command: Command, payload: Bytes) -> Result<(), Violation> {
        match (command, self.state) {
            (Command::Impi, _) => self.joined(&payload),
            (Command::Coll, State::Open | State::Done) => self.answered(payload),
            (Command::Done, State::Done) => {
                length(command, 0, payload.len())?;
                self.finished()
            }
            (Command::Other(_), _) => self.incoming.needless(),
            _ => Err(Violation::Early(command)),
        }
    }

    /// Handles the number of clients. A server may send it immediately, and again when all have joined.
    fn joined(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let (before, now, rank) = (self.size, incoming::clients(payload)?, self.settings.rank);
        match self.state {
            State::Impi if rank >= now => self.fail(ClientFault::Rank { rank, size: now }),
            State::Impi => (self.size, self.state) = (now, State::Open),
            _ if before == now => return self.incoming.needless(),
            _ => return Err(Violation::Resized { before, now }),
        }
        Ok(())
    }

    /// Handles the broadcast of a label. One without values of this client may arrive at any time, also while those are
    /// under way, and the broadcast of a label may be repeated with more clients: servers differ.
    fn answered(&mut self, payload: Bytes) -> Result<(), Violation> {
        let (label, mask, values) = incoming::broadcast(payload)?;
        let (rank, size, len) = (self.settings.rank, self.size, values.len());
        let (own, sent) = (mask >> rank & 1 == 1, self.sent.contains(&label));
        let wrong = match self.answers.get(&label) {
            _ if u64::from(mask) >> size != 0 => Violation::Mask { label, mask, size },
            Some(before) if !before.lacks_some_of(mask) => Violation::Twice(label),
            _ if !sent && own => Violation::Invented { label, mask, rank },
            _ if mask == 0 && len > 0 => Violation::Nobodys { label, len },
            before => {
                // So the number of broadcasts is bounded, whatever the server sends.
                if before.is_some() || !(sent || label.is_known()) {
                    self.incoming.needless()?;
                }
                self.answers.insert(label, Answer { mask, values });
                return Ok(());
            }
        };
        Err(wrong)
    }

    /// Handles DONE. A server that does not support unknown labels has broadcast none of them.
    fn finished(&mut self) -> Result<(), Violation> {
        let rank = self.settings.rank;
        let missing = |label: &Label| match self.answers.get(label) {
            Some(answer) if answer.has(rank) => None,
            Some(answer) => Some(Violation::Dropped { label: *label, mask: answer.mask, rank }),
            None => label.is_known().then_some(Violation::Unanswered(*label)),
        };
        match self.sent.iter().find_map(missing) {
            Some(wrong) => Err(wrong),
            None => {
                (self.state, self.all_done) = (State::Over, true);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;

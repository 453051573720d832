//! The session: who has joined, what is collected, what is broadcast.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::seat::Seat;
use super::{Check, ConnId, Event, Failure, Rank, Settings, SettingsError, Stage, check};
use crate::wire::{Command, Frame, Key, Label, Method, Reader, coll, command, server_auth};

/// Connections that have not named their rank: enough for all clients to come at once, twice.
const STRANGERS_MAX: usize = 64;

/// Labels of one client that wait to be broadcast: many times those that are known.
const LABELS_MAX: usize = 4096;

/// Longest payload of a command that is not COLL: what is longer is no command of this protocol.
const COMMAND_MAX: usize = 64;

/// What happens to a server.
#[derive(Debug)]
pub enum Input<'a> {
    /// Somebody has connected, from there.
    Connected(ConnId, &'a str),
    /// Bytes have come.
    Received(ConnId, &'a [u8]),
    /// A connection has ended: by its peer, or by an error.
    Lost(ConnId, &'a str),
    /// Time has passed.
    Tick,
}

/// What a server wants done.
#[derive(Debug)]
pub enum Output {
    /// These bytes are to be sent. One broadcast is the same bytes for all: they are shared.
    Send(ConnId, Bytes),
    /// The connection is to be closed when what was sent has left. Nothing is said of it afterwards.
    Close(ConnId),
    /// For those who look on.
    Event(Event),
    /// The session is over. The last output.
    Ended(Result<(), Failure>),
}

/// A session of the server.
///
/// After every [`handle`](Self::handle) all [outputs](Self::next_output) are taken before the next one.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    conns: BTreeMap<ConnId, Conn>,
    /// By rank.
    seats: Vec<Option<Seat>>,
    /// All have joined: seats are not freed any more.
    complete: bool,
    /// Up to which label everything is broadcast.
    answered: Option<Label>,
    /// All are done.
    over: bool,
    /// The first cause, of a session that is over but for FINI.
    first: Option<Failure>,
    ended: bool,
    outputs: VecDeque<Output>,
}

/// One connection.
#[derive(Debug)]
struct Conn {
    reader: Reader,
    state: State,
    /// Until when it has to have named its rank.
    until: Duration,
    /// Bytes of values that it has sent.
    received: usize,
}

/// What comes next on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// AUTH.
    Auth,
    /// The key, without a head.
    Key,
    /// IMPI.
    Impi,
    /// What a client says.
    Client(Rank),
}

impl Server {
    /// A session that begins now: all times are counted from there.
    ///
    /// # Errors
    /// When no session can have these settings.
    pub fn new(settings: Settings) -> Result<Server, SettingsError> {
        let settings = settings.checked()?;
        Ok(Server {
            conns: BTreeMap::new(),
            seats: (0..settings.clients).map(|_| None).collect(),
            complete: false,
            answered: None,
            over: false,
            first: None,
            ended: false,
            outputs: VecDeque::new(),
            settings,
        })
    }

    /// Takes what has happened, at this time since the begin.
    pub fn handle(&mut self, now: Duration, input: Input<'_>) {
        if self.ended {
            return;
        }
        match input {
            Input::Connected(conn, from) => self.connected(now, conn, from),
            Input::Received(conn, bytes) => self.received(conn, bytes),
            Input::Lost(conn, why) => self.lost(conn, why),
            Input::Tick => {}
        }
        self.tick(now);
    }

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the machine wants to be told that time has passed, at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        let strangers = self.conns.values().filter(|conn| !matches!(conn.state, State::Client(_)));
        let session = (!self.over).then_some(self.settings.limit);
        strangers.map(|conn| conn.until).chain(session).min()
    }

    /// Whether the session is over: nothing more comes of it.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn connected(&mut self, now: Duration, conn: ConnId, from: &str) {
        self.event(Event::Connected(conn, chained_gpc::Shown(from).to_string()));
        let until = now.saturating_add(self.settings.greeting);
        self.conns.insert(conn, Conn { reader: Reader::new(), state: State::Auth, until, received: 0 });
        if self.complete {
            return self.refuse(conn, "all clients have joined".into());
        }
        let strangers = || self.conns.iter().filter(|(_, conn)| !matches!(conn.state, State::Client(_)));
        if strangers().count() > STRANGERS_MAX {
            // The oldest has had the most time.
            if let Some(oldest) = strangers().map(|(conn, _)| *conn).next() {
                self.refuse(
                    oldest,
                    format!("more than {STRANGERS_MAX} connections have not said who they are"),
                );
            }
        }
    }

    /// Closes a connection that is no client's.
    fn refuse(&mut self, conn: ConnId, why: String) {
        self.conns.remove(&conn);
        self.event(Event::Refused(conn, why));
        self.outputs.push_back(Output::Close(conn));
    }

    fn received(&mut self, id: ConnId, mut bytes: &[u8]) {
        // Ends: each round takes bytes, or closes the connection.
        while !bytes.is_empty() && !self.ended {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let most = match conn.state {
                State::Client(_) => self.settings.bytes_max.saturating_sub(conn.received),
                _ => COMMAND_MAX,
            };
            let most = |command| if command == Command::Coll { most } else { COMMAND_MAX.min(most) };
            let taken = conn.reader.take(&mut bytes, most);
            let state = conn.state;
            match taken {
                Ok(None) => {}
                Ok(Some(frame)) => self.said(id, state, frame),
                Err(error) => self.wrong(id, state, error.to_string()),
            }
        }
    }

    fn said(&mut self, id: ConnId, state: State, frame: Frame) {
        let fault = match (state, frame) {
            (State::Auth, Frame::Command(Command::Auth, payload)) => self.auth(id, &payload),
            (State::Key, Frame::Raw(key)) => self.key(id, &key),
            (State::Impi, Frame::Command(Command::Impi, payload)) => self.join(id, &payload),
            (State::Client(rank), Frame::Command(command, payload)) => {
                self.client(id, rank, command, payload)
            }
            (State::Auth, Frame::Command(command, _)) => Err(format!("{command} before AUTH")),
            (_, Frame::Command(command, _)) => Err(format!("{command} before IMPI")),
            (_, Frame::Raw(_)) => Err("bytes that belong to no command".into()),
        };
        if let Err(why) = fault {
            self.wrong(id, state, why);
        }
    }

    /// A connection has said what it must not.
    fn wrong(&mut self, id: ConnId, state: State, why: String) {
        let State::Client(rank) = state else { return self.refuse(id, why) };
        if !self.complete {
            self.free(rank, why);
            self.conns.remove(&id);
            self.outputs.push_back(Output::Close(id));
        } else if let Some(stage) = self.stage_of(rank) {
            self.fail(Failure::Wrong { rank, stage, why });
        }
    }

    fn auth(&mut self, id: ConnId, payload: &[u8]) -> Result<(), String> {
        let mask = u32::from_be_bytes(payload.try_into().map_err(|_| length("AUTH", 4, payload.len()))?);
        let methods = &self.settings.methods;
        let method = methods.choose(mask).ok_or_else(|| {
            format!(
                "no method in common: the mask of the client is {mask:#x}, that of the server {:#x}",
                methods.mask()
            )
        })?;
        let Some(conn) = self.conns.get_mut(&id) else { return Ok(()) };
        self.outputs.push_back(Output::Send(id, server_auth(method)));
        match method {
            Method::None => conn.state = State::Impi,
            Method::Key => {
                conn.state = State::Key;
                conn.reader.expect_raw(8);
            }
        }
        if method == Method::None {
            self.event(Event::Proved(id, method));
        }
        Ok(())
    }

    fn key(&mut self, id: ConnId, key: &[u8]) -> Result<(), String> {
        let key = Key::from_bytes(key.try_into().map_err(|_| length("the key", 8, key.len()))?);
        if self.settings.methods.key.as_ref() != Some(&key) {
            return Err("the key is another one".into());
        }
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.state = State::Impi;
            self.event(Event::Proved(id, Method::Key));
        }
        Ok(())
    }

    fn join(&mut self, id: ConnId, payload: &[u8]) -> Result<(), String> {
        let number = i32::from_be_bytes(payload.try_into().map_err(|_| length("IMPI", 4, payload.len()))?);
        let clients = self.settings.clients;
        let rank = Rank::try_from(number).ok().filter(|rank| *rank < clients);
        let rank = rank.ok_or_else(|| format!("rank {number}, and the ranks are 0 to {}", clients - 1))?;
        let seat = &mut self.seats[rank as usize];
        if seat.is_some() {
            return Err(format!("rank {rank} is taken by another connection"));
        }
        *seat = Some(Seat::new(id));
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.state = State::Client(rank);
        }
        self.event(Event::Joined(id, rank));
        if self.seats.iter().all(Option::is_some) {
            self.complete = true;
            self.event(Event::Complete);
            self.send_all(&command(Command::Impi, &[clients]));
            self.answer();
        }
        Ok(())
    }

    fn client(&mut self, id: ConnId, rank: Rank, command: Command, payload: Bytes) -> Result<(), String> {
        let Some(seat) = self.seats[rank as usize].as_mut() else { return Ok(()) };
        let empty = |payload: &[u8]| match payload.len() {
            0 => Ok(()),
            len => Err(length(&command.to_string(), 0, len)),
        };
        match command {
            Command::Coll => self.collect(id, rank, &payload),
            Command::Done if seat.done => Err("DONE a second time".into()),
            Command::Done => {
                empty(&payload)?;
                seat.done = true;
                self.event(Event::Done(rank));
                self.answer();
                Ok(())
            }
            Command::Fini if !seat.done => Err("FINI before DONE".into()),
            Command::Fini if seat.ended => Err("FINI a second time".into()),
            Command::Fini => {
                empty(&payload)?;
                seat.ended = true;
                self.event(Event::Ended(rank));
                self.ended_all();
                Ok(())
            }
            Command::Auth | Command::Impi => Err(format!("{command} a second time")),
            Command::Other(number) => {
                self.event(Event::Ignored(rank, number, payload.len()));
                Ok(())
            }
        }
    }

    fn collect(&mut self, id: ConnId, rank: Rank, payload: &Bytes) -> Result<(), String> {
        let Some(label) = payload.first_chunk().map(|label| Label(u32::from_be_bytes(*label))) else {
            return Err(format!("COLL with {} bytes, and its label has 4", payload.len()));
        };
        let values = payload.slice(4..);
        let Some(seat) = self.seats[rank as usize].as_mut() else { return Ok(()) };
        if seat.done {
            return Err(format!("COLL {label} after DONE"));
        }
        if seat.sent.contains_key(&label) || self.answered >= Some(label) {
            return Err(format!("COLL {label} when it was sent or broadcast already: labels ascend"));
        }
        if seat.sent.len() == LABELS_MAX {
            return Err(format!("more than {LABELS_MAX} labels that others have not come to"));
        }
        let doubt = match self.settings.check {
            Check::Off => None,
            _ => check::wrong(rank, label, &values, &seat.counts),
        };
        seat.counts.learn(label, &values);
        seat.highest = seat.highest.max(Some(label));
        let len = values.len();
        seat.sent.insert(label, values);
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.received += 8 + payload.len();
        }
        self.event(Event::Sent(rank, label, len));
        if let Some(why) = doubt {
            if self.settings.check == Check::Refuse {
                return Err(format!("COLL {label}: {why}"));
            }
            self.event(Event::Doubted(rank, label, why));
        }
        self.answer();
        Ok(())
    }

    /// Broadcasts what everybody has sent or moved past: known labels that nobody has sent, too, without values.
    fn answer(&mut self) {
        if !self.complete || self.over {
            return;
        }
        let passed = self.seats.iter().flatten().map(Seat::passed).min().flatten();
        let Some(passed) = passed.filter(|passed| self.answered < Some(*passed)) else { return };
        let sent = self.seats.iter().flatten().flat_map(|seat| seat.sent.keys().copied());
        let mut labels: Vec<Label> = sent.chain(Label::KNOWN).collect();
        labels.retain(|label| Some(*label) > self.answered && *label <= passed);
        labels.sort_unstable();
        labels.dedup();
        for label in labels {
            self.broadcast(label);
        }
        self.answered = Some(passed);
        if self.seats.iter().flatten().all(|seat| seat.done) {
            self.over = true;
            self.event(Event::AllDone);
            self.send_all(&command(Command::Done, &[]));
            self.ended_all();
        }
    }

    fn broadcast(&mut self, label: Label) {
        let mut mask = 0;
        let mut values = Vec::new();
        for (rank, seat) in (0..).zip(self.seats.iter_mut().flatten()) {
            if let Some(sent) = seat.sent.remove(&label) {
                mask |= 1u32 << rank;
                values.push(sent);
            }
        }
        let bytes = coll(label, Some(mask), values.iter().map(|value| &value[..]));
        self.event(Event::Answered(label, mask, bytes.len() - 16));
        self.send_all(&bytes);
    }

    fn send_all(&mut self, bytes: &Bytes) {
        let conns = self.seats.iter().flatten().filter_map(|seat| seat.conn);
        self.outputs.extend(conns.map(|conn| Output::Send(conn, bytes.clone())));
    }

    fn lost(&mut self, id: ConnId, why: &str) {
        let Some(conn) = self.conns.remove(&id) else { return };
        let why = chained_gpc::Shown(why).to_string();
        let State::Client(rank) = conn.state else { return self.event(Event::Refused(id, why)) };
        let Some(stage) = self.stage_of(rank) else { return };
        let Some(seat) = self.seats[rank as usize].as_mut() else { return };
        seat.conn = None;
        match (self.complete, seat.ended) {
            (false, _) => self.free(rank, why),
            // It has said that it would go.
            (true, true) => {}
            (true, false) if self.over => {
                self.event(Event::Lost(rank, why.clone()));
                self.first.get_or_insert(Failure::Lost { rank, stage, why });
                self.ended_all();
            }
            (true, false) => self.fail(Failure::Lost { rank, stage, why }),
        }
    }

    fn free(&mut self, rank: Rank, why: String) {
        self.seats[rank as usize] = None;
        self.event(Event::Freed(rank, why));
    }

    /// Ends the session when everybody has ended.
    fn ended_all(&mut self) {
        let gone = |seat: &Seat| seat.ended || seat.conn.is_none();
        if self.over && self.seats.iter().flatten().all(gone) {
            let ended = self.first.take().map_or(Ok(()), Err);
            self.end(ended);
        }
    }

    fn fail(&mut self, failure: Failure) {
        let first = self.first.take().unwrap_or(failure);
        self.end(Err(first));
    }

    fn end(&mut self, ended: Result<(), Failure>) {
        let conns = std::mem::take(&mut self.conns);
        self.outputs.extend(conns.into_keys().map(Output::Close));
        self.outputs.push_back(Output::Ended(ended));
        self.ended = true;
    }

    /// Where a client stands.
    fn stage_of(&self, rank: Rank) -> Option<Stage> {
        let seat = self.seats[rank as usize].as_ref()?;
        Some(match (self.over, self.complete) {
            (true, _) => Stage::Over,
            (false, false) => Stage::Joining,
            (false, true) => seat.stage(),
        })
    }

    fn tick(&mut self, now: Duration) {
        if self.ended {
            return;
        }
        let late = |conn: &Conn| !matches!(conn.state, State::Client(_)) && now >= conn.until;
        let late: Vec<ConnId> = self.conns.iter().filter(|(_, conn)| late(conn)).map(|(id, _)| *id).collect();
        for conn in late {
            self.refuse(conn, format!("it has not named its rank within {:?}", self.settings.greeting));
        }
        if !self.over && now >= self.settings.limit {
            let missing = self.missing();
            let stage = self.stage();
            self.fail(Failure::Late { limit: self.settings.limit, missing, joined: self.complete, stage });
        }
    }

    /// Where the session stands: at the label that it waits for.
    fn stage(&self) -> Stage {
        let next = self.seats.iter().flatten().flat_map(|seat| seat.sent.keys()).min();
        match (self.complete, next) {
            (false, _) => Stage::Joining,
            (true, Some(label)) => Stage::At(*label),
            (true, None) => self.answered.map_or(Stage::Joined, Stage::At),
        }
    }

    /// Whom the session waits for.
    fn missing(&self) -> Vec<Rank> {
        let behind = self.seats.iter().flatten().map(Seat::passed).min().flatten();
        let waits = |seat: &Option<Seat>| match seat {
            None => true,
            Some(seat) => self.complete && !seat.done && seat.passed() == behind,
        };
        (0..).zip(&self.seats).filter(|(_, seat)| waits(seat)).map(|(rank, _)| rank).collect()
    }
}

fn length(what: &str, expected: usize, found: usize) -> String {
    format!("{what} with {found} bytes, and it has {expected}")
}

//! State machine of a session: inputs are connections, bytes and time; outputs are bytes to send, connections to close,
//! and events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::seat::Seat;
use super::{ConnId, Event, Failure, Rank, Settings, SettingsError, Stage, WaitingFor};
use crate::wire::{Command, Frame, FrameError, Label, Method, Reader};

/// Longest payload accepted for a command with a payload of at most 8 bytes. A longer one does not belong to this
/// protocol.
const COMMAND_MAX: usize = 64;

/// Longest payload of an unknown command, which is read and ignored.
const OTHER_MAX: usize = 64 << 10;

/// Most bytes of a client after its FINI. They have no meaning, and reading them must end.
const LATE_MAX: usize = 4096;

/// Description of bytes that are not a command, where AUTH or IMPI is due. The bytes are omitted, because they may be a
/// key that was sent without a request.
const NO_COMMAND: &str = "bytes that are no command of IMPI";

/// An input of the server.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection was accepted, from this address.
    Connected(ConnId, &'a str),
    /// Bytes have arrived.
    Received(ConnId, &'a [u8]),
    /// The peer has closed its sending side. It may still read: a client that has sent FINI continues to get
    /// broadcasts. Any other client is lost.
    Closed(ConnId),
    /// A connection has ended, for this reason.
    Lost(ConnId, &'a str),
    /// More connections wait to be accepted, and the system has no room for them. If there is a connection without a
    /// rank, the server closes it to make room.
    Crowded,
    /// Time has passed.
    Tick,
}

/// An output to the driver.
#[derive(Debug)]
pub enum Output {
    /// Send these bytes. The copies of a broadcast share their memory.
    Send(ConnId, Bytes),
    /// Close the connection when its outgoing bytes have left. No further output concerns it.
    Close(ConnId),
    /// An event, for observers.
    Event(Event),
    /// The session is over. This is the last output.
    Ended(Result<(), Failure>),
}

/// A session of the server.
///
/// The driver takes all [outputs](Self::next_output) after every [`handle`](Self::handle).
#[derive(Debug)]
pub struct Server {
    pub(super) settings: Settings,
    pub(super) conns: BTreeMap<ConnId, Conn>,
    /// Clients by rank.
    pub(super) seats: Vec<Option<Seat>>,
    /// Why seats were freed, for ranks that are still free.
    pub(super) freed: BTreeMap<Rank, String>,
    /// Whether all clients have joined; from then on no seat is freed.
    pub(super) complete: bool,
    /// The label that was broadcast last.
    pub(super) last: Option<Label>,
    /// Labels that were broadcast without a client that may still send them.
    pub(super) partial: BTreeSet<Label>,
    /// When bytes of a client last arrived, or a label was last broadcast without all values.
    quiet_since: Duration,
    /// Whether the event for a known label that some clients left out was emitted.
    pub(super) told_partial: bool,
    /// Whether all clients are done.
    pub(super) over: bool,
    /// The first failure after all clients were done.
    first: Option<Failure>,
    pub(super) ended: bool,
    pub(super) outputs: VecDeque<Output>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) reader: Reader,
    pub(super) state: State,
    /// Whether any bytes have arrived.
    pub(super) has_spoken: bool,
    /// The method by which it was authenticated.
    pub(super) proved: Option<Method>,
    /// Time by which it must have named its rank.
    pub(super) until: Duration,
    /// Bytes of commands that count against the limit of a client.
    pub(super) received: usize,
}

/// The input that a connection expects next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// AUTH.
    Auth,
    /// The key, without a head.
    Key,
    /// IMPI.
    Impi,
    /// Commands of a client.
    Client(Rank),
}

impl Server {
    /// A session that begins now: all times are relative to this moment.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid.
    pub fn new(settings: Settings) -> Result<Server, SettingsError> {
        let settings = settings.checked()?;
        Ok(Server {
            conns: BTreeMap::new(),
            seats: (0..settings.clients).map(|_| None).collect(),
            freed: BTreeMap::new(),
            complete: false,
            last: None,
            partial: BTreeSet::new(),
            quiet_since: Duration::ZERO,
            told_partial: false,
            over: false,
            first: None,
            ended: false,
            outputs: VecDeque::new(),
            settings,
        })
    }

    /// Handles an input at this time since the begin.
    pub fn handle(&mut self, now: Duration, input: Input<'_>) {
        if self.ended {
            return;
        }
        match input {
            Input::Connected(conn, from) => self.connected(now, conn, from),
            Input::Received(conn, bytes) => {
                self.received(conn, bytes);
                self.quiet_since = now;
            }
            Input::Closed(conn) => self.closed(conn),
            Input::Lost(conn, why) => self.lost(conn, why),
            Input::Crowded => self.make_room(),
            Input::Tick => {}
        }
        self.tick(now);
    }

    /// The next output.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The time at which the driver must give an input at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let session = (!self.over).then_some(self.settings.limit);
        let patience = self.is_stalled().then(|| self.patient_until());
        self.strangers().map(|(_, conn)| conn.until).chain(session).chain(patience).min()
    }

    /// Whether the session is over: there are no further outputs.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Bytes of clients that are held: of incomplete commands, of values before their broadcast, and of values for
    /// later comparison. Outputs are excluded.
    pub fn held(&self) -> usize {
        let under_way: usize = self.conns.values().map(|conn| conn.reader.held()).sum();
        under_way + self.seats.iter().flatten().map(Seat::held).sum::<usize>()
    }

    /// Connections without a rank.
    pub(super) fn strangers(&self) -> impl Iterator<Item = (ConnId, &Conn)> {
        let strangers = self.conns.iter().filter(|(_, conn)| !matches!(conn.state, State::Client(_)));
        strangers.map(|(id, conn)| (*id, conn))
    }

    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub(super) fn send_all(&mut self, bytes: &Bytes) {
        let conns = self.seats.iter().flatten().filter_map(|seat| seat.conn);
        self.outputs.extend(conns.map(|conn| Output::Send(conn, bytes.clone())));
    }

    /// Closes a connection that is not a client's.
    pub(super) fn refuse(&mut self, conn: ConnId, why: String) {
        self.event(Event::Refused(conn, why));
        self.close(conn);
    }

    fn close(&mut self, conn: ConnId) {
        self.conns.remove(&conn);
        self.outputs.push_back(Output::Close(conn));
    }

    fn received(&mut self, id: ConnId, mut bytes: &[u8]) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.has_spoken = true;
        }
        // Ends: each round consumes bytes, or closes the connection.
        while !bytes.is_empty() {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let (state, left) = (conn.state, self.settings.bytes_max.saturating_sub(conn.received));
            if let Some(seat) = self.seat_of(state).filter(|seat| seat.ended) {
                // Bytes after FINI have no meaning.
                seat.late = seat.late.saturating_add(bytes.len());
                if seat.late > LATE_MAX {
                    self.wrong(id, state, "it goes on after FINI".into());
                }
                return;
            }
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let most = |command| match (state, command) {
                (State::Client(_), Command::Coll) => left.saturating_sub(8),
                (State::Client(_), Command::Other(_)) => OTHER_MAX.min(left.saturating_sub(8)),
                _ => COMMAND_MAX,
            };
            match conn.reader.take(&mut bytes, most) {
                Ok(None) => {}
                Ok(Some(frame)) => self.handle_command(id, state, frame),
                Err(FrameError { command: Command::Other(_), .. }) if !matches!(state, State::Client(_)) => {
                    self.wrong(id, state, NO_COMMAND.into());
                }
                Err(error) => self.wrong(id, state, error.to_string()),
            }
        }
    }

    fn handle_command(&mut self, id: ConnId, state: State, frame: Frame) {
        let fault = match (state, frame) {
            (State::Auth, Frame::Command(Command::Auth, payload)) => self.auth(id, &payload),
            (State::Key, Frame::Raw(key)) => self.key(id, &key),
            (State::Impi, Frame::Command(Command::Impi, payload)) => self.join(id, &payload),
            (State::Client(rank), Frame::Command(command, payload)) => {
                self.client(id, rank, command, payload)
            }
            (_, Frame::Command(Command::Other(_), _)) => Err(NO_COMMAND.into()),
            (State::Auth, Frame::Command(command, _)) => Err(format!("{command} where AUTH is due")),
            (_, Frame::Command(command, _)) => Err(format!("{command} where IMPI is due")),
            (_, Frame::Raw(_)) => Err("bytes that belong to no command".into()),
        };
        if let Err(why) = fault {
            self.wrong(id, state, why);
        }
    }

    /// A connection has violated the protocol.
    fn wrong(&mut self, id: ConnId, state: State, why: String) {
        let State::Client(rank) = state else { return self.refuse(id, why) };
        let Some(stage) = self.stage_of(rank) else { return };
        self.close(id);
        self.leaves(rank, why.clone(), Failure::Violation { rank, stage, why });
    }

    /// The peer has closed its sending side.
    fn closed(&mut self, id: ConnId) {
        let Some(state) = self.conns.get(&id).map(|conn| conn.state) else { return };
        if !self.seat(state).is_some_and(|seat| seat.ended) {
            self.outputs.push_back(Output::Close(id));
            self.lost(id, "it has closed the connection");
        }
    }

    fn lost(&mut self, id: ConnId, why: &str) {
        let Some(conn) = self.conns.remove(&id) else { return };
        let why = chained_gpc::Shown(why).to_string();
        let State::Client(rank) = conn.state else { return self.event(Event::Refused(id, why)) };
        let Some(stage) = self.stage_of(rank) else { return };
        self.leaves(rank, why.clone(), Failure::Lost { rank, stage, why });
    }

    /// The connection of a client has ended.
    fn leaves(&mut self, rank: Rank, why: String, failure: Failure) {
        let Some(seat) = self.seats[rank as usize].as_mut() else { return };
        seat.conn = None;
        if !self.complete {
            self.seats[rank as usize] = None;
            self.event(Event::Freed(rank, why.clone()));
            self.freed.insert(rank, why);
        } else if seat.ended {
            // It has sent FINI, so its end is expected.
        } else if self.over {
            self.event(Event::Lost(rank, why));
            self.first.get_or_insert(failure);
            self.end_if_all_are_gone();
        } else {
            self.fail(failure);
        }
    }

    /// Ends the session when every client has sent FINI or is lost.
    pub(super) fn end_if_all_are_gone(&mut self) {
        let gone = |seat: &Seat| seat.ended || seat.conn.is_none();
        if self.over && self.seats.iter().flatten().all(gone) {
            let ended = self.first.take().map_or(Ok(()), Err);
            self.end(ended);
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.end(Err(failure));
    }

    fn end(&mut self, ended: Result<(), Failure>) {
        let conns = std::mem::take(&mut self.conns);
        self.outputs.extend(conns.into_keys().map(Output::Close));
        self.outputs.push_back(Output::Ended(ended));
        self.seats.clear();
        self.ended = true;
    }

    /// The seat of a connection's client.
    fn seat(&self, state: State) -> Option<&Seat> {
        let State::Client(rank) = state else { return None };
        self.seats.get(rank as usize)?.as_ref()
    }

    fn seat_of(&mut self, state: State) -> Option<&mut Seat> {
        let State::Client(rank) = state else { return None };
        self.seats.get_mut(rank as usize)?.as_mut()
    }

    /// Stage of a client.
    fn stage_of(&self, rank: Rank) -> Option<Stage> {
        let seat = self.seat(State::Client(rank))?;
        Some(match (self.over, self.complete) {
            (true, _) => Stage::Over,
            (false, false) => Stage::Joining,
            (false, true) => seat.stage(),
        })
    }

    fn patient_until(&self) -> Duration {
        self.quiet_since.saturating_add(self.settings.patience)
    }

    fn tick(&mut self, now: Duration) {
        if self.ended {
            return;
        }
        // Ends: each round broadcasts a label. With a patience of zero, all of them are due immediately.
        while self.is_stalled() && now >= self.patient_until() {
            self.answer_without_the_missing();
            self.quiet_since = now;
        }
        if self.ended {
            return;
        }
        let late = self.strangers().filter(|(_, conn)| now >= conn.until);
        let late: Vec<ConnId> = late.map(|(id, _)| id).collect();
        for conn in late {
            self.refuse(conn, format!("it has not named its rank within {:?}", self.settings.greeting));
        }
        if !self.over && now >= self.settings.limit {
            let (limit, waits) = (self.settings.limit, self.waits());
            self.fail(Failure::Late { limit, waits });
        }
    }

    /// The clients that the session waits for, and its stage. After the end there are none.
    pub fn waits(&self) -> WaitingFor {
        let lost = self.freed.iter().map(|(rank, why)| (*rank, why.clone())).collect();
        WaitingFor { missing: self.missing(), lost, joined: self.complete, stage: self.stage() }
    }

    /// Stage of the session: the label that it waits for, or the last one.
    fn stage(&self) -> Stage {
        if self.over {
            return Stage::Over;
        }
        match (self.complete, self.next_label(), self.last) {
            (false, ..) => Stage::Joining,
            (true, Some(label), _) => Stage::At(label),
            (true, None, Some(label)) => Stage::After(label),
            (true, None, None) => Stage::Joined,
        }
    }

    /// The clients that the session waits for. Before all have joined, those are the clients that have not; at the end,
    /// the clients without FINI. In between, they are the clients whose turn it is to send; if there are none, the
    /// clients without the next label.
    fn missing(&self) -> Vec<Rank> {
        let ranks = |waits: &dyn Fn(&Seat) -> bool| {
            let waits = |(rank, seat): (Rank, &Option<Seat>)| seat.as_ref().is_none_or(waits).then_some(rank);
            (0..).zip(&self.seats).filter_map(waits).collect::<Vec<Rank>>()
        };
        if !self.complete {
            return ranks(&|_| false);
        }
        if self.over {
            return ranks(&|seat| !seat.ended && seat.conn.is_some());
        }
        let turn = ranks(&|seat| !seat.done && seat.unanswered.is_empty());
        match self.next_label() {
            Some(next) if turn.is_empty() => ranks(&|seat| !seat.done && !seat.sent.contains_key(&next)),
            _ => turn,
        }
    }
}

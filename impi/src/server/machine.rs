//! The session: connections, bytes and time come in; what is to be sent, closed and told goes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::relay::Relaying;
use super::seat::Seat;
use super::{ConnId, Event, Failure, Rank, Settings, SettingsError, Stage, Waits};
use crate::wire::{Command, Frame, FrameError, Label, Method, Reader};

/// Longest payload of a command that has a payload of at most 8 bytes: what is longer is no command of this protocol.
const COMMAND_MAX: usize = 64;

/// Longest payload of a command that is not known, and is read only to be left alone.
const OTHER_MAX: usize = 64 << 10;

/// Most bytes of a client after its FINI, to which nothing belongs: what a client sends without end is not read without end.
const LATE_MAX: usize = 4096;

/// What is said of bytes that are no command, where AUTH or IMPI is due. They are not shown: they may be a key that nobody has asked for.
const NO_COMMAND: &str = "bytes that are no command of IMPI";

/// What happens to a server.
#[derive(Debug)]
pub enum Input<'a> {
    /// Somebody has connected, from there.
    Connected(ConnId, &'a str),
    /// Bytes have come.
    Received(ConnId, &'a [u8]),
    /// Nothing more comes on a connection. Its peer may still read, and a client that has sent FINI gets what is broadcast; of any other one it is the end.
    Closed(ConnId),
    /// A connection has ended, and why.
    Lost(ConnId, &'a str),
    /// Others wait to be accepted, and the system has no room for them: a connection that has named no rank makes room, if there is one.
    Crowded,
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
    pub(super) settings: Settings,
    pub(super) conns: BTreeMap<ConnId, Conn>,
    /// By rank.
    pub(super) seats: Vec<Option<Seat>>,
    /// Why the seats of these clients were freed, as long as nobody else has taken them.
    pub(super) freed: BTreeMap<Rank, String>,
    /// All have joined: seats are not freed any more.
    pub(super) complete: bool,
    /// The label that was broadcast last.
    pub(super) last: Option<Label>,
    /// Labels that were broadcast without a client that may send them yet.
    pub(super) partial: BTreeSet<Label>,
    /// The known labels that no client has sent are broadcast.
    pub(super) left_out_answered: bool,
    /// When bytes of a client came last, or a broadcast did not wait for more of them.
    quiet_since: Duration,
    /// Whether it was told that a known label was left out by some.
    pub(super) told_partial: bool,
    /// All are done.
    pub(super) over: bool,
    /// The first cause, of a session that is over but for FINI.
    first: Option<Failure>,
    pub(super) ended: bool,
    /// How broadcasts go out.
    pub(super) relaying: Relaying,
    pub(super) outputs: VecDeque<Output>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) reader: Reader,
    pub(super) state: State,
    /// Whether bytes have come.
    pub(super) has_spoken: bool,
    /// How it has proved that it may take part.
    pub(super) proved: Option<Method>,
    /// Until when it has to have named its rank.
    pub(super) until: Duration,
    /// Bytes of commands that count against what one client may send.
    pub(super) received: usize,
}

/// What comes next on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
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
            freed: BTreeMap::new(),
            complete: false,
            last: None,
            partial: BTreeSet::new(),
            left_out_answered: false,
            quiet_since: Duration::ZERO,
            told_partial: false,
            over: false,
            first: None,
            ended: false,
            relaying: Relaying::default(),
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

    /// What is to be done next.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the machine wants to be told that time has passed, at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let session = (!self.over).then_some(self.settings.limit);
        let patience = self.is_stalled().then(|| self.patient_until());
        self.strangers().map(|(_, conn)| conn.until).chain(session).chain(patience).min()
    }

    /// Whether the session is over: nothing more comes of it.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Bytes of clients that are held: of commands that are under way, of values that are not broadcast, and of those that later ones are compared with. Not those in outputs.
    pub fn held(&self) -> usize {
        let under_way: usize = self.conns.values().map(|conn| conn.reader.held()).sum();
        under_way + self.relaying.held() + self.seats.iter().flatten().map(Seat::held).sum::<usize>()
    }

    /// Connections that have not named their rank.
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

    /// Closes a connection that is no client's.
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
        // Ends: each round takes bytes, or closes the connection.
        while !bytes.is_empty() {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            let (state, left) = (conn.state, self.settings.bytes_max.saturating_sub(conn.received));
            if let Some(seat) = self.seat_of(state).filter(|seat| seat.ended) {
                // After FINI nothing matters that this connection says.
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
                Ok(Some(frame)) => self.said(id, state, frame),
                Err(FrameError { command: Command::Other(_), .. }) if !matches!(state, State::Client(_)) => {
                    self.wrong(id, state, NO_COMMAND.into());
                }
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
            (_, Frame::Command(Command::Other(_), _)) => Err(NO_COMMAND.into()),
            (State::Auth, Frame::Command(command, _)) => Err(format!("{command} where AUTH is due")),
            (_, Frame::Command(command, _)) => Err(format!("{command} where IMPI is due")),
            (_, Frame::Raw(_)) => Err("bytes that belong to no command".into()),
        };
        if let Err(why) = fault {
            self.wrong(id, state, why);
        }
    }

    /// A connection has said what it must not.
    fn wrong(&mut self, id: ConnId, state: State, why: String) {
        let State::Client(rank) = state else { return self.refuse(id, why) };
        let Some(stage) = self.stage_of(rank) else { return };
        self.close(id);
        self.leaves(rank, why.clone(), Failure::Wrong { rank, stage, why });
    }

    /// The peer has closed its side.
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

    /// The connection of a client is no more.
    fn leaves(&mut self, rank: Rank, why: String, failure: Failure) {
        let Some(seat) = self.seats[rank as usize].as_mut() else { return };
        seat.conn = None;
        if !self.complete {
            self.seats[rank as usize] = None;
            self.event(Event::Freed(rank, why.clone()));
            self.freed.insert(rank, why);
        } else if seat.ended {
            // It has said that it would go.
        } else if self.over {
            self.event(Event::Lost(rank, why));
            self.first.get_or_insert(failure);
            self.end_if_all_are_gone();
        } else {
            self.fail(failure);
        }
    }

    /// Ends the session when every client has ended, or is lost.
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
        self.relaying = Relaying::default();
        self.ended = true;
    }

    /// The seat of the client that a connection is.
    fn seat(&self, state: State) -> Option<&Seat> {
        let State::Client(rank) = state else { return None };
        self.seats.get(rank as usize)?.as_ref()
    }

    fn seat_of(&mut self, state: State) -> Option<&mut Seat> {
        let State::Client(rank) = state else { return None };
        self.seats.get_mut(rank as usize)?.as_mut()
    }

    /// Where a client stands.
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
        // Ends: each round broadcasts a label. Without patience all of them are due at once.
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

    /// Whom the session waits for, and where it stands. Of one that has ended, nobody.
    pub fn waits(&self) -> Waits {
        let (missing, stage) = self.relaying.waits().unwrap_or_else(|| (self.missing(), self.stage()));
        let lost = self.freed.iter().map(|(rank, why)| (*rank, why.clone())).collect();
        Waits { missing, lost, joined: self.complete, stage }
    }

    /// Where the session stands: at the label that it waits for, or after the last one.
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

    /// The clients that the session waits for: those that have not joined, or have no FINI; of those that are not done, all whose turn it is, or else those without the next label.
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

//! The collecting server of IMPI without I/O. Its connections send anything, in any pieces and order, are lost, or send
//! nothing.
//!
//! Input: two bytes of settings, then steps, each a byte that chooses the step and the bytes of its choices. This
//! module is not part of the targets' library, because the project's main package, which replays that library, knows
//! nothing of IMPI; `crates/gpc-impi/tests/fuzz_corpus.rs` replays this one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::server::{Check, ConnId, Event, Failure, Input as Happens, Output, Rank, Server, Settings};
use gpc_impi::wire::{Command, Frame, Key, Label, Methods, Reader, coll, command};

use super::input::Input;

/// Maximum number of steps of one input: each step checks all connections.
const STEPS: usize = 400;

/// The key of the server.
pub const KEY: [u8; 8] = *b"a key...";

/// Labels of clients: known ones, unknown ones, and zero.
const LABELS: [u32; 16] = [
    0x1000,
    0x1100,
    0x1200,
    0x1300,
    0x1400,
    0x2000,
    0x2100,
    0x2200,
    0x2300,
    0x2400,
    0x3000,
    0x3100,
    0x0900,
    0x4750_4302,
    u32::MAX,
    0,
];

/// A connection seen from outside.
#[derive(Default)]
struct Seen {
    rank: Option<Rank>,
    /// All bytes that the server has sent to it.
    received: Vec<u8>,
    /// Number of bytes received from it.
    said: usize,
}

struct Driven {
    server: Server,
    settings: Settings,
    now: Duration,
    conns: BTreeMap<u64, Seen>,
    next: u64,
    /// The labels that clients have sent: the number of bytes, and whether they were broadcast.
    sent: BTreeMap<(Label, Rank), (usize, bool)>,
    complete: bool,
    over: bool,
    ended: Option<Result<(), Failure>>,
}

/// Drives a server through the steps.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let settings = settings(&mut input);
    let mut driven = Driven {
        server: Server::new(settings.clone()).expect("settings that a session can have"),
        settings,
        now: Duration::ZERO,
        conns: BTreeMap::new(),
        next: 0,
        sent: BTreeMap::new(),
        complete: false,
        over: false,
        ended: None,
    };
    for _ in 0..STEPS {
        if input.is_empty() || driven.ended.is_some() {
            break;
        }
        driven.step(&mut input);
    }
    driven.finish();
}

fn settings(input: &mut Input<'_>) -> Settings {
    let (clients, options) = (1 + input.byte() % 5, input.byte());
    let key = (options & 3 != 0).then(|| Key::from_bytes(KEY));
    let mut settings = Settings::new(clients.into(), Methods { none: options & 3 != 1, key });
    settings.check = [Check::Off, Check::Warn, Check::Refuse, Check::Warn][usize::from(options >> 2 & 3)];
    (settings.limit, settings.greeting) = (Duration::from_secs(60), Duration::from_secs(10));
    (settings.bytes_max, settings.broadcast_max) = (2000, if options & 16 == 0 { 8000 } else { 100 });
    settings
}

/// Makes a message of a client: a valid command, or nearly one.
fn said(input: &mut Input<'_>) -> Bytes {
    match input.byte() % 16 {
        0 => command(Command::Auth, &[u32::from(input.byte() % 4)]),
        1 => Bytes::copy_from_slice(&KEY),
        2 => command(Command::Impi, &[u32::from(input.byte() % 6)]),
        // The whole greeting at once.
        3 | 4 => {
            let impi = command(Command::Impi, &[u32::from(input.byte() % 5)]);
            let proof = if input.flag() { &KEY[..] } else { &[] };
            [&command(Command::Auth, &[1 + u32::from(!proof.is_empty())])[..], proof, &impi].concat().into()
        }
        5..=9 => {
            let (label, count) = (Label(input.pick(&LABELS)), input.byte());
            let values: Vec<u8> =
                (0..count % 9).flat_map(|_| u32::from(input.byte()).to_be_bytes()).collect();
            coll(label, None, [&values[..]])
        }
        10 => coll(Label(input.pick(&LABELS)), None, [&vec![7; usize::from(input.word() % 2048)][..]]),
        11 => command(Command::Done, &[]),
        12 => command(Command::Fini, &[]),
        13 => [command(Command::Done, &[]), command(Command::Fini, &[])].concat().into(),
        14 => command(Command::Other(input.byte().into()), &[0; 5][..usize::from(input.byte() % 5)]),
        _ => {
            let count = input.byte();
            Bytes::copy_from_slice(input.bytes(usize::from(count % 40)))
        }
    }
}

impl Driven {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=2 => {
                self.next += 1;
                self.conns.insert(self.next, Seen::default());
                self.handle(Happens::Connected(ConnId(self.next), "some\nwhere"));
            }
            3..=12 => {
                let Some(conn) = self.pick(input) else { return };
                let (bytes, cuts) = (said(input), input.byte());
                let piece = if cuts & 3 == 0 { usize::from(cuts >> 2) + 1 } else { bytes.len().max(1) };
                for piece in bytes.chunks(piece) {
                    if let Some(seen) = self.conns.get_mut(&conn) {
                        seen.said += piece.len();
                        self.handle(Happens::Received(ConnId(conn), piece));
                    }
                }
            }
            13 => {
                let Some(conn) = self.pick(input) else { return };
                self.conns.remove(&conn);
                self.handle(Happens::Lost(ConnId(conn), "it\u{202e} is\n gone"));
            }
            14 => {
                let Some(conn) = self.pick(input) else { return };
                self.handle(Happens::Closed(ConnId(conn)));
            }
            _ if input.byte().is_multiple_of(8) => self.handle(Happens::Crowded),
            _ => {
                self.now += Duration::from_millis(u64::from(input.word()) % 4096);
                self.handle(Happens::Tick);
            }
        }
    }

    /// Chooses an open connection.
    fn pick(&self, input: &mut Input<'_>) -> Option<u64> {
        let number = input.below(self.conns.len());
        self.conns.keys().nth(number).copied()
    }

    fn handle(&mut self, happens: Happens<'_>) {
        self.server.handle(self.now, happens);
        while let Some(output) = self.server.next_output() {
            assert!(self.ended.is_none(), "{output:?} after the end");
            match output {
                // The server sends nothing to a lost connection.
                Output::Send(conn, bytes) => {
                    self.conns.get_mut(&conn.0).expect("it is there").received.extend_from_slice(&bytes);
                }
                Output::Close(conn) => assert!(self.conns.remove(&conn.0).is_some(), "{conn:?} is not there"),
                Output::Event(event) => self.told(event),
                Output::Ended(ended) => self.ended = Some(ended),
            }
        }
        self.check();
    }

    fn told(&mut self, event: Event) {
        let text = event.to_string();
        assert!(text.len() < 1000 && !text.contains(['\n', '\u{202e}']), "{text:?}");
        match event {
            Event::Joined(conn, rank) => {
                let others = self.conns.values().filter(|seen| seen.rank == Some(rank));
                assert!(others.count() == 0 && !self.complete && rank < self.settings.clients);
                self.conns.get_mut(&conn.0).expect("it is there").rank = Some(rank);
            }
            Event::Freed(rank, _) => {
                assert!(!self.complete);
                self.sent.retain(|(_, by), _| *by != rank);
                // The connection is closed next, or is lost already.
                self.conns
                    .values_mut()
                    .filter(|seen| seen.rank == Some(rank))
                    .for_each(|seen| seen.rank = None);
            }
            Event::Complete => self.complete = true,
            Event::Sent(rank, label, len) => {
                assert!(label != Label::NONE && self.sent.insert((label, rank), (len, false)).is_none());
            }
            Event::Answered(label, mask, len) => {
                assert!(self.complete && !self.over);
                let of = |rank| self.sent.get(&(label, rank));
                let ranks: Vec<Rank> =
                    (0..self.settings.clients).filter(|rank| of(*rank).is_some()).collect();
                assert_eq!(mask, ranks.iter().map(|rank| 1 << rank).sum::<u32>());
                assert_eq!(len, ranks.iter().filter_map(|rank| of(*rank)).map(|(len, _)| len).sum::<usize>());
                assert!(len <= self.settings.broadcast_max);
                let told = |rank: &Rank| of(*rank).is_some_and(|(_, told)| *told);
                assert!(ranks.is_empty() || !ranks.iter().all(told), "{label} again, with nothing new");
                self.sent.range_mut((label, 0)..=(label, Rank::MAX)).for_each(|(_, (_, told))| *told = true);
            }
            Event::AllDone => {
                assert!(
                    self.sent.values().all(|(_, told)| *told),
                    "{:?}: some were never broadcast",
                    self.sent
                );
                self.over = true;
            }
            _ => {}
        }
    }

    fn check(&self) {
        if self.ended.is_some() {
            assert!(self.conns.is_empty() && self.server.held() == 0 && self.server.deadline().is_none());
            return;
        }
        assert!(self.server.deadline().is_none_or(|at| at > self.now), "something is due");
        let said: usize = self.conns.values().map(|seen| seen.said).sum();
        // The values of a lost client may be held too.
        let clients = self.settings.clients as usize;
        let bound = if self.complete { clients * self.settings.bytes_max } else { said };
        assert!(self.server.held() <= bound, "{} bytes are held", self.server.held());
        let mut broadcast: Option<&[u8]> = None;
        for seen in self.conns.values() {
            let rest = seen.received.get(8..).unwrap_or_default();
            match seen.rank {
                Some(_) if self.complete => {
                    assert_eq!(*broadcast.get_or_insert(rest), rest, "clients get the same");
                }
                _ => assert!(rest.is_empty() && matches!(seen.received.len(), 0 | 8)),
            }
        }
        broadcast.into_iter().for_each(|bytes| self.read(bytes));
    }

    /// Checks the stream that clients get: IMPI, labels (repeated only with the values of more clients), and DONE when
    /// all clients are done.
    fn read(&self, mut bytes: &[u8]) {
        let (mut reader, mut masks, mut done) = (Reader::new(), BTreeMap::new(), false);
        let mut first = true;
        while !bytes.is_empty() {
            let frame = reader.take(&mut bytes, |_| usize::MAX).expect("lengths that can be");
            let Some(Frame::Command(what, payload)) = frame else { panic!("{frame:?}") };
            assert!(!done, "{what} after DONE");
            let words = payload.as_chunks::<4>().0;
            match what {
                Command::Impi => assert!(first && words == [self.settings.clients.to_be_bytes()]),
                Command::Coll => {
                    let [label, mask, ..] = words else { panic!("{payload:?}") };
                    let mask = u32::from_be_bytes(*mask);
                    let before = masks.insert(*label, mask);
                    assert!(!first && before.is_none_or(|before| before != mask && before & !mask == 0));
                }
                Command::Done => done = payload.is_empty(),
                other => panic!("{other} is nothing that a client gets"),
            }
            first = false;
        }
        assert_eq!(done, self.over);
    }

    /// Checks that the session ends: by its limit, or when all connections have ended.
    fn finish(&mut self) {
        self.now += Duration::from_secs(3600);
        self.handle(Happens::Tick);
        assert!(self.ended.is_some() || self.over, "it is late");
        for conn in self.conns.keys().copied().collect::<Vec<u64>>() {
            if self.conns.remove(&conn).is_some() {
                self.handle(Happens::Lost(ConnId(conn), ""));
            }
        }
        let ended = self.ended.take().expect("nobody is there");
        assert!(ended.is_err() || self.over);
    }
}

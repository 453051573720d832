//! A server with connections in memory, and records of its outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::server::{ConnId, Event, Failure, Input, Output, Server, Settings};
use gpc_impi::wire::{Command, Label, Methods, coll, command};

/// A server, and all its outputs.
pub(crate) struct Driven {
    pub(crate) server: Server,
    pub(crate) now: Duration,
    /// Bytes sent on each connection.
    pub(crate) sent: BTreeMap<u64, Vec<u8>>,
    /// Connections that the server has closed.
    pub(crate) closed: BTreeSet<u64>,
    pub(crate) events: Vec<Event>,
    pub(crate) ended: Option<Result<(), Failure>>,
    /// Outputs of the last input, in order.
    pub(crate) last: Vec<Output>,
}

/// Settings for clients without authentication.
pub(crate) fn open(clients: u32) -> Settings {
    Settings::new(clients, Methods { none: true, key: None })
}

/// The first bytes of a client: AUTH with this mask, the key if there is one, and its rank.
pub(crate) fn greeting(mask: u32, key: Option<[u8; 8]>, rank: u32) -> Vec<u8> {
    let key = key.map_or(Vec::new(), Vec::from);
    [&command(Command::Auth, &[mask])[..], &key, &command(Command::Impi, &[rank])].concat()
}

/// A COLL of a client.
pub(crate) fn said(label: Label, values: &[u8]) -> Bytes {
    coll(label, None, [values])
}

/// A COLL of a client with 4-byte values.
pub(crate) fn numbers(label: Label, values: &[u32]) -> Bytes {
    said(label, &values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>())
}

/// DONE or FINI.
pub(crate) fn bare(what: Command) -> Bytes {
    command(what, &[])
}

impl Driven {
    pub(crate) fn new(settings: Settings) -> Driven {
        Driven {
            server: Server::new(settings).unwrap(),
            now: Duration::ZERO,
            sent: BTreeMap::new(),
            closed: BTreeSet::new(),
            events: Vec::new(),
            ended: None,
            last: Vec::new(),
        }
    }

    /// A server with all clients joined, each on the connection with the number of its rank. The answers so far are
    /// consumed.
    pub(crate) fn joined(settings: Settings) -> Driven {
        let clients = settings.clients;
        let mut driven = Driven::new(settings);
        (0..clients).for_each(|rank| driven.join(rank.into(), rank));
        (0..clients).for_each(|rank| assert_eq!(driven.take(rank.into()).len(), 20));
        driven
    }

    pub(crate) fn connect(&mut self, conn: u64) {
        self.handle(Input::Connected(ConnId(conn), "127.0.0.1:1"));
    }

    /// A connection joins as the client of this rank.
    pub(crate) fn join(&mut self, conn: u64, rank: u32) {
        self.connect(conn);
        self.say(conn, &greeting(1, None, rank));
    }

    pub(crate) fn say(&mut self, conn: u64, bytes: &[u8]) {
        self.handle(Input::Received(ConnId(conn), bytes));
    }

    pub(crate) fn lose(&mut self, conn: u64) {
        self.handle(Input::Lost(ConnId(conn), "its connection has ended"));
    }

    /// The peer closes its sending side.
    pub(crate) fn close_side(&mut self, conn: u64) {
        self.handle(Input::Closed(ConnId(conn)));
    }

    /// The system has no room for another connection.
    pub(crate) fn crowd(&mut self) {
        self.handle(Input::Crowded);
    }

    /// Advances the time.
    pub(crate) fn tick(&mut self, now: Duration) {
        self.now = now;
        self.handle(Input::Tick);
    }

    /// Bytes sent on a connection since the last call.
    pub(crate) fn take(&mut self, conn: u64) -> Vec<u8> {
        self.sent.remove(&conn).unwrap_or_default()
    }

    /// The failure of the session.
    #[track_caller]
    pub(crate) fn failure(&self) -> String {
        match &self.ended {
            Some(Err(failure)) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// All events, one per line.
    pub(crate) fn told(&self) -> String {
        self.events.iter().map(|event| format!("{event}\n")).collect()
    }

    fn handle(&mut self, input: Input<'_>) {
        self.server.handle(self.now, input);
        self.last.clear();
        while let Some(output) = self.server.next_output() {
            assert!(self.ended.is_none(), "{output:?} comes after the end");
            match &output {
                Output::Send(conn, bytes) => {
                    assert!(!self.closed.contains(&conn.0), "{conn:?} was closed");
                    self.sent.entry(conn.0).or_default().extend_from_slice(bytes);
                }
                Output::Close(conn) => assert!(self.closed.insert(conn.0), "{conn:?} was closed before"),
                Output::Event(event) => self.events.push(event.clone()),
                Output::Ended(ended) => self.ended = Some(ended.clone()),
            }
            self.last.push(output);
        }
        assert_eq!(self.ended.is_some(), self.server.has_ended());
        assert!(self.server.deadline().is_none_or(|at| at > self.now), "something is due");
        if self.ended.is_some() {
            assert_eq!((self.server.held(), self.server.deadline()), (0, None));
        }
    }
}

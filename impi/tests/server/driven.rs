//! A server whose connections are in memory: what is sent on each of them, and what is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use gpc_impi::server::{ConnId, Event, Failure, Input, Output, Server, Settings};
use gpc_impi::wire::{Command, Label, Methods, coll, command};

/// A server, and all that it has put out.
pub(crate) struct Driven {
    pub(crate) server: Server,
    pub(crate) now: Duration,
    /// By connection, what was sent on it.
    pub(crate) sent: BTreeMap<u64, Vec<u8>>,
    /// Connections that the server wants closed.
    pub(crate) closed: BTreeSet<u64>,
    pub(crate) events: Vec<Event>,
    pub(crate) ended: Option<Result<(), Failure>>,
    /// What the last input has led to, in order.
    pub(crate) last: Vec<Output>,
}

/// Settings for clients that prove nothing.
pub(crate) fn open(clients: u32) -> Settings {
    Settings::new(clients, Methods { none: true, key: None })
}

/// What a client says first: AUTH by this mask, the key if there is one, and its rank.
pub(crate) fn greeting(mask: u32, key: Option<[u8; 8]>, rank: u32) -> Vec<u8> {
    let key = key.map_or(Vec::new(), Vec::from);
    [&command(Command::Auth, &[mask])[..], &key, &command(Command::Impi, &[rank])].concat()
}

/// A COLL of a client.
pub(crate) fn said(label: Label, values: &[u8]) -> Bytes {
    coll(label, None, [values])
}

/// A COLL of a client whose values are numbers of 4 bytes.
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

    /// All of so many clients have joined, on connections of their ranks' numbers; what they were answered is taken.
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

    /// A connection becomes the client of this rank.
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

    /// Nothing more comes on a connection.
    pub(crate) fn close_side(&mut self, conn: u64) {
        self.handle(Input::Closed(ConnId(conn)));
    }

    /// The system has no room for one more.
    pub(crate) fn crowd(&mut self) {
        self.handle(Input::Crowded);
    }

    /// Time passes until then.
    pub(crate) fn tick(&mut self, now: Duration) {
        self.now = now;
        self.handle(Input::Tick);
    }

    /// What was sent on a connection since it was asked last.
    pub(crate) fn take(&mut self, conn: u64) -> Vec<u8> {
        self.sent.remove(&conn).unwrap_or_default()
    }

    /// Why the session has failed.
    #[track_caller]
    pub(crate) fn failure(&self) -> String {
        match &self.ended {
            Some(Err(failure)) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// All that was told, a line each.
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

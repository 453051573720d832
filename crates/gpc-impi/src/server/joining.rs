//! From an accepted connection to a client: AUTH, the key, and IMPI.
//!
//! Source: IMPI, "Startup": the commands AUTH and IMPI.

use std::time::Duration;

use super::machine::{Conn, Output, State};
use super::seat::Seat;
use super::{ConnId, Event, Rank, Server};
use crate::wire::{Command, Key, Method, Reader, command, server_auth};

/// Most connections without a rank: enough for all clients to connect at once, twice.
const STRANGERS_MAX: usize = 64;

impl Server {
    pub(super) fn connected(&mut self, now: Duration, id: ConnId, from: &str) {
        self.event(Event::Connected(id, chained_gpc::Shown(from).to_string()));
        let until = now.saturating_add(self.settings.greeting);
        self.conns.insert(
            id,
            Conn {
                reader: Reader::new(),
                state: State::Auth,
                has_spoken: false,
                proved: None,
                until,
                received: 0,
            },
        );
        if self.complete {
            return self.refuse(id, "all clients have joined".into());
        }
        if self.strangers().count() > STRANGERS_MAX {
            let why = format!("more than {STRANGERS_MAX} connections have not said who they are");
            // If all others are authenticated by the key, the new one is closed.
            let leaves = self.least(|stranger| stranger != id).unwrap_or(id);
            self.refuse(leaves, why);
        }
    }

    /// Closes a connection without a rank, to make room: one that is not authenticated by the key.
    pub(super) fn make_room(&mut self) {
        if let Some(id) = self.least(|_| true) {
            self.refuse(id, "others wait to be accepted, and the system has no room for them".into());
        }
    }

    /// The connection without a rank that is closed to make room: a silent one before one that has sent bytes, then the
    /// oldest. Connections authenticated by the key are exempt, so that clients without the key cannot displace them.
    fn least(&self, among: impl Fn(ConnId) -> bool) -> Option<ConnId> {
        let strangers = self.strangers().filter(|(id, conn)| among(*id) && conn.proved != Some(Method::Key));
        strangers.min_by_key(|(id, conn)| (conn.has_spoken, conn.until, *id)).map(|(id, _)| id)
    }

    pub(super) fn auth(&mut self, id: ConnId, payload: &[u8]) -> Result<(), String> {
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
            Method::None => {
                (conn.state, conn.proved) = (State::Impi, Some(method));
                self.event(Event::Proved(id, method));
            }
            Method::Key => {
                conn.state = State::Key;
                conn.reader.expect_raw(8);
            }
        }
        Ok(())
    }

    pub(super) fn key(&mut self, id: ConnId, key: &[u8]) -> Result<(), String> {
        let key = Key::from_bytes(key.try_into().map_err(|_| length("the key", 8, key.len()))?);
        if self.settings.methods.key.as_ref() != Some(&key) {
            return Err("the key is another one".into());
        }
        if let Some(conn) = self.conns.get_mut(&id) {
            (conn.state, conn.proved) = (State::Impi, Some(Method::Key));
            self.event(Event::Proved(id, Method::Key));
        }
        Ok(())
    }

    pub(super) fn join(&mut self, id: ConnId, payload: &[u8]) -> Result<(), String> {
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
        self.freed.remove(&rank);
        self.event(Event::Joined(id, rank));
        if self.seats.iter().all(Option::is_some) {
            self.all_have_joined();
        }
        Ok(())
    }

    fn all_have_joined(&mut self) {
        self.complete = true;
        self.event(Event::Complete);
        self.send_all(&command(Command::Impi, &[self.settings.clients]));
        let strangers: Vec<ConnId> = self.strangers().map(|(id, _)| id).collect();
        strangers.into_iter().for_each(|id| self.refuse(id, "all clients have joined".into()));
        self.answer();
    }
}

/// Error for a payload of the wrong length.
pub(super) fn length(what: &str, expected: usize, found: usize) -> String {
    format!("{what} with {found} bytes, and it has {expected}")
}

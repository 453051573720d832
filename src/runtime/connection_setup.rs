//! Opens connections to peers, and accepts those of peers. The first bytes on them are handled in `greeting`.

use std::io;

use gpc_trees::Id;
use mio::Token;
use tracing::warn;

use super::connection::Connection;
use super::connections::{Connections, interest};
use super::descriptors::are_short;
use super::{Address, LinkKind};
use crate::chain::Time;
use crate::link::Phase;
use crate::link::peering::{LinkKey, Transport};
use crate::transport::{ByteStream as _, HostSocket, Socket};
use crate::wire::CauseKind;
use crate::wire::head::GoodbyeReason;

/// Maximum number of connections accepted in one turn, before existing links are served.
const ACCEPT_BUDGET: usize = 64;

impl Connections {
    /// Accepts pending connections.
    pub(super) fn accept(&mut self, now: Time) {
        self.descriptors.learn();
        for listener in 0..self.accepting.listeners.len() {
            self.accept_at(now, listener);
        }
    }

    fn accept_at(&mut self, now: Time, listener: usize) {
        for _ in 0..ACCEPT_BUDGET {
            if self.is_full() {
                break;
            }
            match self.accepting.listeners[listener].accept(self.local.kind == LinkKind::Shm) {
                Ok(socket) => self.serve(now, socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(id = self.links.me, %error, "cannot accept connections for the moment");
                    return self.note_accept_shortage(now);
                }
            }
        }
        // More connections may be pending, and the system reports them only once. By the next attempt links may have
        // been closed.
        self.accepting.again = Some(now);
    }

    /// Accepts the connections that peers have opened over the network of the program.
    pub(super) fn accept_from_host(&mut self, now: Time) {
        let Some(host) = self.accepting.host.clone() else { return };
        // Bounded: each peer has few connections, and each is accepted once.
        while let Some(socket) = HostSocket::accept(&host) {
            self.serve(now, Socket::Host(socket));
        }
    }

    /// Awaits the hello on an accepted connection, if its user is allowed.
    fn serve(&mut self, now: Time, socket: Socket) {
        let (trusted, (transport, source)) = (self.local.users.check(&socket), socket.origin());
        match (self.add(socket, Phase::Greeting), trusted) {
            (Ok(key), Ok(())) => {
                self.links.add_incoming(now, key, transport, source);
                self.settle(now);
            }
            // No more bytes are read from this connection.
            (Ok(key), Err(error)) => {
                warn!(id = self.links.me, %error, "a connection is refused");
                self.links.close_with_goodbye(now, key, GoodbyeReason::Refused, error.to_string());
            }
            (Err(error), _) => warn!(id = self.links.me, %error, "cannot serve a connection"),
        }
    }

    /// Opens a link to a peer that has none.
    pub(super) fn connect(&mut self, now: Time, to: Id) {
        let Some(address) = self.links.peering.book.address(to) else {
            let why = "no address is known for it: add it to the peers";
            return self.links.fail_outgoing(now, to, CauseKind::Unreachable, why);
        };
        let socket = match (&address, &self.accepting.host) {
            (Address::Host, Some(host)) => Ok(Socket::Host(HostSocket::open(host, to))),
            _ => self.local.connect(&address, self.links.peering.permits(transport_to(&address))),
        };
        // Of one that is connected at once no event may report it.
        let at_once = socket.as_ref().is_ok_and(|socket| socket.connects_at_once());
        match socket.and_then(|socket| self.add(socket, Phase::Connecting(to))) {
            Ok(key) => {
                self.links.add_outgoing(now, key, to);
                if at_once {
                    self.greet(now, key);
                }
            }
            Err(error) if are_short(&error) => self.note_connect_shortage(to),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.links.fail_outgoing(now, to, CauseKind::NotAuthorised, &error.to_string());
            }
            Err(error) => self.links.fail_outgoing(now, to, CauseKind::Unreachable, &error.to_string()),
        }
    }

    fn add(&mut self, mut socket: Socket, phase: Phase) -> io::Result<LinkKey> {
        let key = self.links.table.next_key();
        if let Some(keepalive) = self.local.keepalive {
            socket.keep_alive(keepalive);
        }
        let is_writable_watched = !socket.reports_each_read();
        socket.set_token(key.0);
        if let Some(source) = socket.source() {
            self.registry.register(source, Token(key.0), interest(is_writable_watched))?;
        }
        let mut connection = Connection::new(socket, phase, self.extents.clone());
        (connection.is_writable_watched, connection.used) = (is_writable_watched, self.turn);
        let memory = self.memory.of_link(self.links.me);
        connection.link.inbox.set_budgets(self.spare.within(&memory), &self.memory.pieces);
        connection.link.outbox.set_budgets(self.links.me, &memory, &self.memory.pieces);
        self.links.table.put(connection);
        self.note_connection();
        Ok(key)
    }
}

/// The transport to an address, unless a Unix socket of this host leads there.
fn transport_to(address: &Address) -> Transport {
    match address {
        Address::Tcp(address) if !address.ip().to_canonical().is_loopback() => Transport::Network,
        Address::Tcp(_) => Transport::Loopback,
        Address::Unix(_) | Address::Abstract(_) | Address::Host => Transport::User,
    }
}

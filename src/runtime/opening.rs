//! How connections come to be: those that others open are accepted, those to others are opened. What is said on them first, `greeting` sees to.

use std::io;

use gpc_trees::Id;
use mio::Token;
use tracing::warn;

use super::descriptors::are_short;
use super::link::{Link, Phase};
use super::links::{GREETING_LIMIT, Links, interest};
use super::peer::{LinkKey, State};
use super::socket::Socket;
use super::users::Users;
use super::{Address, LinkKind, near};
use crate::chain::Time;
use crate::wire::CauseKind;
use crate::wire::head::GoodbyeReason;

/// Connections accepted in one turn, before the links there are get theirs.
const ACCEPT_BUDGET: usize = 64;

/// Connections that have not said hello yet: more than all nodes of a large machine at once, few enough not to use up the descriptors.
const GREETINGS_MAX: usize = 16_384;

/// What a node talks over with those of its own host.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) kind: LinkKind,
    /// Where the node itself listens.
    pub(super) mine: Option<Address>,
    pub(super) users: Users,
}

impl Local {
    fn connect(&self, to: &Address) -> io::Result<Socket> {
        let rings = self.kind == LinkKind::Shm;
        if self.kind != LinkKind::Tcp
            && let Some(socket) = near::connect(to, self.mine.as_ref(), rings, &self.users)
        {
            return Ok(socket);
        }
        let socket = Socket::connect(to, rings)?;
        self.users.check(&socket)?;
        Ok(socket)
    }
}

impl Links {
    /// Accepts connections that wait.
    pub(super) fn accept(&mut self, now: Time) {
        self.descriptors.learn();
        for listener in 0..self.listeners.len() {
            self.accept_at(now, listener);
        }
    }

    fn accept_at(&mut self, now: Time, listener: usize) {
        for _ in 0..ACCEPT_BUDGET {
            if self.is_full() {
                break;
            }
            match self.listeners[listener].accept(self.local.kind == LinkKind::Shm) {
                Ok(_) if self.due.len() >= GREETINGS_MAX && !self.close_silent() => {
                    warn!(
                        id = self.me,
                        "a connection is dropped: {GREETINGS_MAX} others have not said hello yet"
                    );
                }
                Ok(socket) => self.serve(now, socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(id = self.me, %error, "cannot accept connections for the moment");
                    return self.none_to_accept(now);
                }
            }
        }
        // More may wait, and the system says so only once. By then there may be room.
        self.accept_again = Some(now);
    }

    /// Awaits the hello of someone who has connected, if that is to be believed.
    fn serve(&mut self, now: Time, socket: Socket) {
        let trusted = self.local.users.check(&socket);
        match (self.add(now, socket, Phase::Accepted), trusted) {
            (Ok(_), Ok(())) => {}
            // From now on nothing is read.
            (Ok(key), Err(error)) => self.refuse(now, key, GoodbyeReason::Refused, error.to_string()),
            (Err(error), _) => warn!(id = self.me, %error, "cannot serve a connection"),
        }
    }

    /// Opens a link to a peer that has none.
    pub(super) fn connect(&mut self, now: Time, to: Id) {
        let Some(address) = self.addresses.address(to) else {
            return self.lose(to, "no address is known for it: add it to the peers");
        };
        let socket = self.local.connect(&address);
        // A Unix socket is connected at once, and no event may come to say so.
        let at_once = !matches!(socket, Ok(Socket::Tcp(_)));
        let link = socket.and_then(|socket| self.add(now, socket, Phase::Connecting(to)));
        match link {
            Ok(key) => {
                if let Some(peer) = self.peers.get_mut(&to) {
                    peer.state = State::Connecting(key);
                }
                if at_once {
                    self.greet(key, to);
                }
            }
            Err(error) if are_short(&error) => self.none_to_connect(to),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.fail_to_connect_for(to, CauseKind::NotAuthorised, &error.to_string());
            }
            Err(error) => self.fail_to_connect(to, &error.to_string()),
        }
    }

    /// Our attempt has failed, at whatever step: the address belongs into the reason, since that may be what is wrong.
    pub(super) fn fail_to_connect(&mut self, to: Id, why: &str) {
        self.fail_to_connect_for(to, CauseKind::Unreachable, why);
    }

    fn fail_to_connect_for(&mut self, to: Id, kind: CauseKind, why: &str) {
        let why = match self.addresses.address(to) {
            Some(address) => format!("cannot connect to {address}: {why}"),
            None => why.into(),
        };
        self.lose_for(to, kind, &why);
    }

    fn add(&mut self, now: Time, mut socket: Socket, phase: Phase) -> io::Result<LinkKey> {
        let key = self.links.next_key();
        let told_of_room = !socket.tells_of_each_read();
        self.registry.register(&mut socket, Token(key.0), interest(told_of_room))?;
        let mut link = Link::new(socket, phase, self.extents.clone());
        (link.told_of_room, link.used) = (told_of_room, self.turn);
        let memory = self.memory.of_link(self.me);
        link.inbox.use_memory(self.spare.within(&memory), &self.memory.pieces);
        link.outbox.use_memory(self.me, &memory, &self.memory.pieces);
        self.links.put(link);
        self.give_until(key, Some(now.plus(GREETING_LIMIT)));
        self.one_more();
        Ok(key)
    }
}

//! Where others than started processes connect: commands of the same user at a Unix socket, and in port mode processes at a TCP port.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use chained_gpc::runtime::loopback;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::peer::user_of;
use crate::names::Member;

/// Most connections of commands at a time.
pub(super) const TOOLS_MAX: usize = 64;

/// Most connections at the port that have not said which process they are, and how long each has for that: each process connects once, and says so at once. Where there are more, the one that has waited longest makes room.
pub(super) const UNKNOWN_MAX: usize = 256;
pub(super) const UNKNOWN_LIMIT: Duration = Duration::from_secs(10);

/// Who has connected to the port.
pub(super) enum Visitor {
    /// A process of this user.
    Own(OwnedFd),
    /// Somebody else, whose connection is closed; what is to be said of that, once.
    Stranger(Option<String>),
}

/// What is said of the first connection of somebody else.
fn warning(user: Option<u32>) -> String {
    let who = match user {
        Some(user) => format!("user {user}"),
        None => "somebody whose user the system does not tell".into(),
    };
    format!(
        "a connection of {who} to the port of PMI was closed, and others will be without a word: it is for processes of user {}",
        geteuid().as_raw()
    )
}

/// The listeners.
#[derive(Debug, Default)]
pub(super) struct Doors {
    tools: Option<UnixListener>,
    port: Option<TcpListener>,
    invited: BTreeMap<String, Member>,
    /// Whether it was said that others than this user connect to the port.
    warned: bool,
}

impl Doors {
    /// With a socket for commands, and a port where processes ask for one.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(tools: Option<UnixListener>, port: bool) -> io::Result<Doors> {
        if let Some(tools) = &tools {
            tools.set_nonblocking(true)?;
        }
        let port = match port {
            true => {
                let listener = TcpListener::bind((loopback(), 0))?;
                listener.set_nonblocking(true)?;
                Some(listener)
            }
            false => None,
        };
        Ok(Doors { tools, port, invited: BTreeMap::new(), warned: false })
    }

    pub(super) fn tools(&self) -> Option<RawFd> {
        self.tools.as_ref().map(|listener| listener.as_raw_fd())
    }

    pub(super) fn port(&self) -> Option<RawFd> {
        self.port.as_ref().map(|listener| listener.as_raw_fd())
    }

    /// Where a process connects, and the number by which it is known there.
    ///
    /// # Errors
    /// The system's, when there are no random bytes.
    pub(super) fn invite(&mut self, member: Member) -> io::Result<Option<(String, String)>> {
        let Some(listener) = &self.port else { return Ok(None) };
        let address = address_for_clients(listener.local_addr()?);
        // Ends: two processes hardly ever draw the same number.
        loop {
            let mut bytes = [0; 4];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            // Clients take it for a signed number of 32 bits.
            let secret = (u32::from_le_bytes(bytes) >> 1).to_string();
            if !self.invited.contains_key(&secret) {
                self.invited.insert(secret.clone(), member);
                return Ok(Some((address, secret)));
            }
        }
    }

    /// Which process shows this number. It is worth nothing afterwards.
    pub(super) fn welcome(&mut self, secret: &str) -> Option<Member> {
        self.invited.remove(secret)
    }

    /// A command of the same user that has connected; `None` when there is none.
    pub(super) fn tool(&self) -> Option<OwnedFd> {
        let listener = self.tools.as_ref()?;
        // Ends: with those who have connected.
        loop {
            let (stream, _) = listener.accept().ok()?;
            let same = socket_peercred(&stream).is_ok_and(|peer| peer.uid == geteuid());
            if same && stream.set_nonblocking(true).is_ok() {
                return Some(stream.into());
            }
        }
    }

    /// A process that has connected to the port; `None` when there is none.
    pub(super) fn process(&mut self) -> Option<Visitor> {
        let listener = self.port.as_ref()?;
        let (stream, peer) = listener.accept().ok()?;
        let user = listener.local_addr().ok().and_then(|own| user_of(peer, own));
        // What another user sends is not read: it takes no place, and guesses no number.
        if user != Some(geteuid().as_raw()) {
            return Some(Visitor::Stranger(
                (!std::mem::replace(&mut self.warned, true)).then(|| warning(user)),
            ));
        }
        if stream.set_nonblocking(true).is_err() {
            return Some(Visitor::Stranger(None));
        }
        // Small answers leave at once; a link without it serves all the same.
        let _ = stream.set_nodelay(true);
        Some(Visitor::Own(stream.into()))
    }
}

/// An address as `PMI_PORT` has it: clients cut it at its first colon, so `::1` is given by its name.
fn address_for_clients(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.to_string(),
        SocketAddr::V6(address) => format!("localhost:{}", address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a host with `::1` alone a process got `[::1]:5000`, of which clients take `[` for the host.
    #[test]
    fn clients_are_given_an_address_with_one_colon() {
        for (address, given) in [("127.0.0.1:5000", "127.0.0.1:5000"), ("[::1]:5000", "localhost:5000")] {
            assert_eq!(address_for_clients(address.parse().unwrap()), given);
        }
    }
}

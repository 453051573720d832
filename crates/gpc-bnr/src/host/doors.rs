//! Listeners: a Unix socket for commands of the same user, and in port mode a TCP port for processes.

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

/// Most unidentified connections at the port, and the time limit for each. A process connects once and identifies
/// itself at once. If there are too many, the one that has waited longest is closed.
pub(super) const UNKNOWN_MAX: usize = 256;
pub(super) const UNKNOWN_LIMIT: Duration = Duration::from_secs(10);

/// A connection at the port.
pub(super) enum Visitor {
    /// From a process of this user.
    Own(OwnedFd),
    /// From another user. It is closed; the text is a warning, returned once.
    Stranger(Option<String>),
}

/// The warning about the first connection of another user.
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
    /// Whether the warning about other users has been given.
    warned: bool,
}

impl Doors {
    /// Opens the port if requested, and takes the socket for commands.
    ///
    /// # Errors
    /// System errors.
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

    /// The port's address for a process, and the secret that identifies it there.
    ///
    /// # Errors
    /// A system error: there are no random bytes.
    pub(super) fn invite(&mut self, member: Member) -> io::Result<Option<(String, String)>> {
        let Some(listener) = &self.port else { return Ok(None) };
        let address = address_for_clients(listener.local_addr()?);
        // Terminates: a collision of secrets is very unlikely.
        loop {
            let mut bytes = [0; 4];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            // Clients parse it as a signed 32-bit number.
            let secret = (u32::from_le_bytes(bytes) >> 1).to_string();
            if !self.invited.contains_key(&secret) {
                self.invited.insert(secret.clone(), member);
                return Ok(Some((address, secret)));
            }
        }
    }

    /// The process with this secret. A secret works once.
    pub(super) fn welcome(&mut self, secret: &str) -> Option<Member> {
        self.invited.remove(secret)
    }

    /// Accepts a command of the same user; `None` if no connection is pending.
    pub(super) fn tool(&self) -> Option<OwnedFd> {
        let listener = self.tools.as_ref()?;
        // Terminates when no connection waits.
        loop {
            let (stream, _) = listener.accept().ok()?;
            let same = socket_peercred(&stream).is_ok_and(|peer| peer.uid == geteuid());
            if same && stream.set_nonblocking(true).is_ok() {
                return Some(stream.into());
            }
        }
    }

    /// Accepts a connection at the port; `None` if no connection is pending.
    pub(super) fn process(&mut self) -> Option<Visitor> {
        let listener = self.port.as_ref()?;
        let (stream, peer) = listener.accept().ok()?;
        let user = listener.local_addr().ok().and_then(|own| user_of(peer, own));
        // Data of another user is not read: the connection takes no slot and cannot guess secrets.
        if user != Some(geteuid().as_raw()) {
            return Some(Visitor::Stranger(
                (!std::mem::replace(&mut self.warned, true)).then(|| warning(user)),
            ));
        }
        if stream.set_nonblocking(true).is_err() {
            return Some(Visitor::Stranger(None));
        }
        // Small answers are sent at once. The option is not essential.
        let _ = stream.set_nodelay(true);
        Some(Visitor::Own(stream.into()))
    }
}

/// An address for `PMI_PORT`. Clients cut it at its first colon, so `::1` is given as a host name.
fn address_for_clients(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.to_string(),
        SocketAddr::V6(address) => format!("localhost:{}", address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a host with `::1` alone, a process got `[::1]:5000`, and clients took `[` for the host.
    #[test]
    fn clients_are_given_an_address_with_one_colon() {
        for (address, given) in [("127.0.0.1:5000", "127.0.0.1:5000"), ("[::1]:5000", "localhost:5000")] {
            assert_eq!(address_for_clients(address.parse().unwrap()), given);
        }
    }
}

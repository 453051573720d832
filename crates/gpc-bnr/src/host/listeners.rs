//! Listeners: a Unix socket for commands of the same user, and in port mode a TCP port for processes.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use chained_gpc::runtime::loopback;
use rustix::net::listen;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::peer::{Peer, Users};
use crate::names::{GroupId, Member};

/// Most connections of commands at a time.
pub(super) const TOOLS_MAX: usize = 64;

/// Most unidentified connections at the port, and the time limit for each. A process connects once and identifies
/// itself at once. If there are too many, the one that has waited longest is closed.
pub(super) const UNIDENTIFIED_MAX: usize = 256;
pub(super) const UNIDENTIFIED_LIMIT: Duration = Duration::from_secs(10);

/// Most connections at the port that wait to be accepted: the system's usual limit (`net.core.somaxconn`). If there
/// are more, the system ignores a connection, and its process tries again after 1 s. That happened to the processes of
/// a large host, and when another user connected often. To accept as many takes about 0.1 s.
const BACKLOG: i32 = 4096;

/// Most connections accepted at the port per iteration of the loop, about 1 ms. Far fewer than [`UNIDENTIFIED_MAX`]:
/// each connection is read before others can take its slot.
const ACCEPTS_MAX: usize = 64;

/// Connections accepted at the port.
#[derive(Debug, Default)]
pub(super) struct AcceptedConnections {
    /// Those of this user. Those of other users are closed, and so are those that the other end has closed.
    pub(super) own: Vec<OwnedFd>,
    /// A warning about another user, given once.
    pub(super) warning: Option<String>,
    /// Whether more may be pending.
    pub(super) more: bool,
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

/// The port for processes.
#[derive(Debug)]
struct Port {
    listener: TcpListener,
    address: SocketAddr,
    users: Users,
}

impl Port {
    fn open() -> io::Result<Port> {
        let listener = TcpListener::bind((loopback(), 0))?;
        listener.set_nonblocking(true)?;
        // The listener has a shorter queue: a second call sets the length.
        listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Port { listener, address, users: Users::with_listener(address) })
    }

    /// Accepts pending connections. Returns whether there may be more.
    fn accept(&self) -> (Vec<(TcpStream, SocketAddr)>, bool) {
        let mut accepted = Vec::new();
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok(connection) => accepted.push(connection),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                // No descriptor is free, so the next attempt waits.
                Err(_) => return (accepted, false),
            }
        }
        (accepted, true)
    }
}

/// The listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    tools: Option<UnixListener>,
    port: Option<Port>,
    secrets: BTreeMap<String, Member>,
    /// Whether the warning about other users has been given.
    warned: bool,
}

impl Listeners {
    /// Opens the port if requested, and takes the socket for commands.
    ///
    /// # Errors
    /// System errors.
    pub(super) fn open(tools: Option<UnixListener>, port: bool) -> io::Result<Listeners> {
        if let Some(tools) = &tools {
            tools.set_nonblocking(true)?;
        }
        let port = port.then(Port::open).transpose()?;
        Ok(Listeners { tools, port, secrets: BTreeMap::new(), warned: false })
    }

    pub(super) fn tools(&self) -> Option<RawFd> {
        self.tools.as_ref().map(|listener| listener.as_raw_fd())
    }

    pub(super) fn port(&self) -> Option<RawFd> {
        self.port.as_ref().map(|port| port.listener.as_raw_fd())
    }

    #[cfg(test)]
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(|port| port.address)
    }

    /// The port's address for a process, and the secret that identifies it there.
    ///
    /// # Errors
    /// A system error: there are no random bytes.
    pub(super) fn issue_secret(&mut self, member: Member) -> io::Result<Option<(String, String)>> {
        let Some(port) = &self.port else { return Ok(None) };
        let address = address_for_clients(port.address);
        // Terminates: a collision of secrets is very unlikely.
        loop {
            let mut bytes = [0; 4];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            // Clients parse it as a signed 32-bit number.
            let secret = (u32::from_le_bytes(bytes) >> 1).to_string();
            if !self.secrets.contains_key(&secret) {
                self.secrets.insert(secret.clone(), member);
                return Ok(Some((address, secret)));
            }
        }
    }

    /// The process with this secret. A secret works once.
    pub(super) fn take_secret(&mut self, secret: &str) -> Option<Member> {
        self.secrets.remove(secret)
    }

    /// Removes the secrets of a group's processes that have not connected.
    pub(super) fn forget(&mut self, group: GroupId) {
        self.secrets.retain(|_, member| member.group != group);
    }

    /// Number of secrets that no process has used.
    #[cfg(feature = "snapshot")]
    pub(super) fn secrets(&self) -> usize {
        self.secrets.len()
    }

    /// Accepts a command of the same user; `None` if no connection is pending.
    pub(super) fn accept_tool(&self) -> Option<OwnedFd> {
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

    /// Accepts connections at the port.
    pub(super) fn accept_processes(&mut self) -> AcceptedConnections {
        let Some(port) = &self.port else { return AcceptedConnections::default() };
        let (accepted, more) = port.accept();
        let peers: Vec<SocketAddr> = accepted.iter().map(|(_, peer)| *peer).collect();
        let users = port.users.of(port.address, &peers);
        let mut connections = AcceptedConnections { more, ..AcceptedConnections::default() };
        for ((stream, _), peer) in accepted.into_iter().zip(users) {
            // Data of another user is not read: the connection takes no slot and cannot guess secrets.
            let user = match peer {
                Peer::Ended => continue,
                Peer::User(user) => Some(user),
                Peer::Unknown => None,
            };
            if user != Some(geteuid().as_raw()) {
                if !std::mem::replace(&mut self.warned, true) {
                    connections.warning = Some(warning(user));
                }
            } else if stream.set_nonblocking(true).is_ok() {
                // Small answers are sent at once. The option is not essential.
                let _ = stream.set_nodelay(true);
                connections.own.push(stream.into());
            }
        }
        connections
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

    /// 100 connections a second of another user, each closed at once, locked the processes out of their port. Each cost
    /// a search of all sockets, so the listener's queue of 128 connections overflowed. The message did not name the
    /// user.
    #[test]
    fn a_process_is_accepted_behind_connections_that_were_closed_at_once() {
        let mut listeners = Listeners::open(None, true).unwrap();
        let address = listeners.port.as_ref().unwrap().address;
        // Fewer than the shortest queue of a system, 128.
        for _ in 0..100 {
            drop(TcpStream::connect(address).unwrap());
        }
        let process = TcpStream::connect(address).unwrap();
        let turns: Vec<AcceptedConnections> =
            std::iter::repeat_with(|| listeners.accept_processes()).take(2).collect();
        assert_eq!(turns.iter().map(|turn| turn.own.len()).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(turns.iter().map(|turn| turn.more).collect::<Vec<_>>(), [true, false]);
        assert!(turns.iter().all(|turn| turn.warning.is_none()), "{turns:?}");
        drop(process);
    }
}

//! How a node connects to peers: the kind of links within its host, and the checks of the other side.

use std::io;

use super::keepalive::Keepalive;
use super::socket::Socket;
use super::users::Users;
use super::{Address, LinkKind, near};

/// How a node links with nodes of its own host, and how the system watches its connections to other hosts.
#[derive(Debug)]
pub(super) struct ConnectOptions {
    pub(super) kind: LinkKind,
    /// `None` if silent peers are waited for.
    pub(super) keepalive: Option<Keepalive>,
    /// The address at which the node itself listens.
    pub(super) mine: Option<Address>,
    pub(super) users: Users,
}

impl ConnectOptions {
    /// Opens a connection. `permitted` decides whether it may be a TCP connection, if the address leads to one.
    pub(super) fn connect(&self, to: &Address, permitted: Result<(), &'static str>) -> io::Result<Socket> {
        let rings = self.kind == LinkKind::Shm;
        if self.kind != LinkKind::Tcp
            && let Some(socket) = near::connect(to, self.mine.as_ref(), rings, &self.users)
        {
            return Ok(socket);
        }
        permitted.map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
        let socket = Socket::connect(to, rings)?;
        self.users.check(&socket)?;
        Ok(socket)
    }
}

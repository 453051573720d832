//! Options of a node's connections: the kind of links within its host, keepalive, and the allowed users.

use std::io;
use std::sync::Arc;

use super::auto_tree::AutoTree;
use super::users::Users;
use super::{LinkKind, same_host};
use crate::transport::{Address, Keepalive, Socket};

/// Options of a node's connections to peers.
#[derive(Debug)]
pub(super) struct ConnectOptions {
    /// The kind of links to nodes of the same host.
    pub(super) kind: LinkKind,
    /// Keepalive of TCP connections; `None` if a peer may be silent without limit.
    pub(super) keepalive: Option<Keepalive>,
    /// The address at which the node itself listens.
    pub(super) mine: Option<Address>,
    /// The users whose processes the node links with.
    pub(super) users: Users,
    /// Learns on which hosts peers are.
    pub(super) auto_tree: Arc<AutoTree>,
}

impl ConnectOptions {
    /// Opens a connection. `permitted` decides whether it may be a TCP connection, if the address leads to one.
    pub(super) fn connect(&self, to: &Address, permitted: Result<(), &'static str>) -> io::Result<Socket> {
        let rings = self.kind == LinkKind::Shm;
        if self.kind != LinkKind::Tcp
            && let Some(socket) = same_host::connect(to, self.mine.as_ref(), rings, &self.users)
        {
            return Ok(socket);
        }
        permitted.map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
        let socket = Socket::connect(to, rings)?;
        self.users.check(&socket)?;
        Ok(socket)
    }
}

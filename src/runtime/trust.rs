//! Whom a node trusts: what its builder is told, and what a link has proved.

use super::socket::Socket;
use crate::peering::{PrivateKey, Secret};

/// Settings of a node; by default there is no secret, and none is needed on this host.
#[derive(Clone, Default, Debug)]
pub(super) struct Trust {
    pub(super) secret: Option<Secret>,
    pub(super) key: Option<PrivateKey>,
    pub(super) no_encryption: bool,
    pub(super) insecure: bool,
}

/// What the other side of a link has proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// Nothing: TCP without a secret.
    None,
    /// That its process is of a user that this node links with: the system says so.
    User,
    /// That it has the secret of the job; its id is its own word.
    Secret,
    /// That it also has the key that is listed for its id.
    Key,
}

impl Proof {
    /// What a connection proves by itself. Of a Unix socket whose user is none of those that this node links with nothing is read, so that it does not matter what is said of it here.
    #[cfg(target_os = "linux")]
    pub(super) fn of(socket: &Socket) -> Proof {
        if socket.unix().is_some() { Proof::User } else { Proof::None }
    }

    /// Where the system is not asked, nothing is proved.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: &Socket) -> Proof {
        Proof::None
    }
}

//! The listener and the key of a process, before its node starts with them.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use gpc_trees::Id;

use super::BootstrapError;
use super::entry::Entry;
use super::place::{self, Place};
use super::trust::Trust;
use crate::link::peering::{PrivateKey, PublicKey};
use crate::runtime::{Address, Builder, LinkKind, Listener, Peers};

/// The listener and the key of a process.
pub(super) struct Endpoint {
    listener: Listener,
    key: Option<PrivateKey>,
}

impl Endpoint {
    /// Listens where the other processes reach this one, and returns the entry that this process publishes.
    pub(super) fn listen(
        id: Id,
        one_host: Option<bool>,
        wanted: Option<IpAddr>,
        (link, left): (LinkKind, Duration),
    ) -> Result<(Entry, Endpoint), BootstrapError> {
        let listener = place::listen(id, one_host, wanted, (link, left))?;
        let address = listener.address().map_err(|error| BootstrapError::System {
            doing: "cannot tell where this process listens",
            error,
        })?;
        let Place { host, reach } = Place::this_host();
        let (key, own) = Endpoint::drawn(listener, &address)?;
        Ok((Entry { host, reach, key, addresses: vec![address] }, own))
    }

    /// Draws a key if others reach this process over TCP. Over Unix sockets the system identifies the other side.
    pub(super) fn drawn(
        listener: Listener,
        reached: &Address,
    ) -> Result<(Option<PublicKey>, Endpoint), BootstrapError> {
        let key = match reached {
            Address::Tcp(_) if cfg!(feature = "noise") => Some(
                PrivateKey::random()
                    .map_err(|error| BootstrapError::System { doing: "cannot draw a key", error })?,
            ),
            _ => None,
        };
        #[cfg(feature = "noise")]
        let public = key.as_ref().map(PrivateKey::public);
        #[cfg(not(feature = "noise"))]
        let public = None;
        Ok((public, Endpoint { listener, key }))
    }

    /// Starts the node with the listener and the key.
    pub(super) fn start<N>(
        self,
        builder: Builder,
        trust: &Trust,
        peers: Peers,
        start: impl FnOnce(Builder) -> io::Result<N>,
    ) -> Result<N, BootstrapError> {
        let builder = self.builder(builder, trust, peers);
        start(builder).map_err(|error| BootstrapError::System { doing: "cannot start the node", error })
    }

    fn builder(self, builder: Builder, trust: &Trust, peers: Peers) -> Builder {
        let mut builder = builder.peers(peers).job(trust.job).listener(self.listener);
        if trust.first_run {
            builder = builder.first_run();
        }
        if let Some(secret) = trust.secret.as_ref().filter(|_| cfg!(feature = "noise")) {
            builder = builder.secret(secret.clone());
        }
        if let Some(key) = self.key {
            builder = builder.key(key);
        }
        builder
    }
}

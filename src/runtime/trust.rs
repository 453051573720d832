//! What a node's builder is told of whom to trust.

use crate::peering::{PrivateKey, Secret};

/// Settings of a node; by default there is no secret, and none is needed on this host.
#[derive(Clone, Default, Debug)]
pub(super) struct Trust {
    pub(super) secret: Option<Secret>,
    pub(super) key: Option<PrivateKey>,
    pub(super) no_encryption: bool,
    pub(super) insecure: bool,
}

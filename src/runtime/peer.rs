//! Another node, as an application describes it: its id, its address and its key.

use gpc_trees::Id;

use super::Address;
use crate::link::peering::PublicKey;

/// Another node: its id, its address and its key; see [`Node::learn`](crate::Node::learn).
///
/// Made with [`new`](Self::new), since later versions may add fields.
///
/// ```
/// use chained_gpc::Peer;
///
/// let peer = Peer::new(7, "127.0.0.1:7007".parse()?);
/// assert_eq!((peer.id, peer.address.to_string()), (7, "127.0.0.1:7007".to_string()));
/// # Ok::<(), chained_gpc::runtime::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// Its id.
    pub id: Id,
    /// Its address.
    pub address: Address,
    /// The key that authenticates it; none by default. See [`Peers::set_key`](super::Peers::set_key).
    pub key: Option<PublicKey>,
}

impl Peer {
    /// Creates a peer with this id and address.
    pub fn new(id: Id, address: Address) -> Peer {
        Peer { id, address, key: None }
    }

    /// Sets the key that authenticates the peer.
    pub fn known_by(self, key: PublicKey) -> Peer {
        Peer { key: Some(key), ..self }
    }
}

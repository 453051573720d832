//! Kinds of loss of a link.

/// How a link that was up was lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Loss {
    /// The peer has left in order: its node was shut down, and sent a goodbye.
    Left,
    /// The connection broke, or ended without a goodbye: the process of the peer has died, or its host or the network
    /// has failed. Or the peer has sent invalid bytes.
    #[default]
    Broken,
    /// The peer was silent for longer than the [heartbeat](crate::runtime::Builder::heartbeat) allows.
    Silent,
    /// Another connection has replaced it: of another run of the id, whose incarnation is in the next event, or of the
    /// same run, which has reconnected.
    Replaced,
    /// The application has ordered this node to [forget](crate::Node::forget) the peer.
    Forgotten,
    /// One side has closed this link in order, and is still running. Either file descriptors were short and no call
    /// used the link, or the peer was ordered to forget this node.
    Closed,
}

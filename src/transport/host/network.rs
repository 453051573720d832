//! The interface that a program implements to carry messages of its nodes over its own network.

use std::io::IoSlice;
use std::sync::Arc;

use gpc_trees::Id;

use super::port::HostPort;

/// Minimum of [`message_max`](HostNetwork::message_max), bytes: the header, and enough for progress.
pub(crate) const MESSAGE_MIN: usize = 64;

/// A network that the program of a node already has, such as its active messages or MPI: it carries messages between
/// ids that it knows. The address of these ids is [`Address::Host`](crate::Address::Host).
///
/// The node splits its traffic into messages of at most [`message_max`](Self::message_max) bytes, and passes them to
/// [`send`](Self::send). At the other side the program passes each message to [`HostPort::deliver`]. The network keeps
/// the messages of each pair of ids in order, and loses none unless it reports [`HostPort::peer_lost`]. It must report
/// the true sender of each message: links over it are neither authenticated nor encrypted, whatever
/// [secret](crate::Builder::secret) there is.
///
/// A whole network, over the channels of the standard library:
///
/// ```
/// use std::io::IoSlice;
/// use std::sync::mpsc::{Sender, channel};
/// use std::sync::{Arc, OnceLock};
///
/// use chained_gpc::runtime::AddressRow;
/// use chained_gpc::{Call, Functions, HostNetwork, HostPort, Id, Node, NotSent, Peers};
///
/// struct Channels {
///     me: Id,
///     to: Vec<Sender<(Id, Vec<u8>)>>,
///     port: OnceLock<HostPort>,
/// }
///
/// impl HostNetwork for Channels {
///     fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent> {
///         let message = parts.iter().flat_map(|part| part.iter().copied()).collect();
///         self.to[to as usize].send((self.me, message)).map_err(|_| NotSent::Lost("it has left".into()))
///     }
///
///     fn starts(&self, port: HostPort) {
///         self.port.get_or_init(|| port);
///     }
/// }
///
/// let functions = Functions::new();
/// let who = functions.func("who", |request, reply| {
///     reply.data = vec![request.me() as u8];
///     Ok(())
/// })?;
/// let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
/// let mut nodes = Vec::new();
/// for (me, receiver) in (0..).zip(receivers) {
///     let network = Arc::new(Channels { me, to: senders.clone(), port: OnceLock::new() });
///     let peers = Peers::from(AddressRow::host(0..3));
///     nodes.push(Node::builder(me).functions(&functions).peers(peers).host(network.clone()).start()?);
///     std::thread::spawn(move || {
///         let port = network.port.get().expect("the node has started");
///         while let Ok((from, message)) = receiver.recv() {
///             // An error means that the node has ended.
///             if port.deliver(from, &message).is_err() {
///                 break;
///             }
///         }
///     });
/// }
/// let outcome = nodes[0].call(Call::new(who).ids(0..3))?.wait()?;
/// let ids: Vec<u8> = outcome.replies()?.iter().map(|reply| reply.data[0]).collect();
/// assert_eq!(ids, [0, 1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait HostNetwork: Send + Sync + 'static {
    /// Sends one message, whose bytes are those of `parts` in this order. The parts are valid during the call. It is
    /// called on the thread that drives the node, and must not wait; it may call [`HostPort::deliver`] of other nodes.
    ///
    /// # Errors
    /// [`NotSent::WouldBlock`] if the message cannot be taken now: nothing of it is sent. The program calls
    /// [`HostPort::writable`] when there is room again, and the node then sends the rest. [`NotSent::Lost`] if the peer
    /// cannot be reached any more.
    fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> Result<(), NotSent>;

    /// The length of the longest message that [`send`](Self::send) takes, bytes: at least 64. 64 KiB by default.
    fn message_max(&self) -> usize {
        64 << 10
    }

    /// The node starts: `port` is where the program delivers the messages for it. Called once, before the first
    /// [`send`](Self::send).
    fn starts(&self, port: HostPort);
}

/// Why a message was not sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotSent {
    /// There is no room now.
    #[error("the network takes no message now")]
    WouldBlock,
    /// The peer cannot be reached; the text says why, for people.
    #[error("{0}")]
    Lost(String),
}

/// A network in a struct that implements `Debug`.
#[derive(Clone)]
pub(crate) struct Network(pub(crate) Arc<dyn HostNetwork>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostNetwork")
    }
}

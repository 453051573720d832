//! The side of the started process in a [launch](super::Launch): how it takes its socket, its orders and its control
//! link.
//!
//! Standard input is its listening socket, standard output the control link to its parent, which carries its orders.
//! The parent is trusted to be the same program, but may die at any moment, and a user may run the hidden flag by hand.
//! So everything is checked, bounded and limited in time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gpc_trees::Id;
use zeroize::Zeroizing;

use super::orders::END as ORDERS_END;
use super::{NodeSettings, Orders, OrdersError};
use chained_gpc::link::peering::Secret;
use chained_gpc::runtime::{Builder, Functions, Listener, Node, Peers};
use chained_gpc::{Clock, TimeLimit};

/// Maximum length of orders, bytes: 4,096 lines of an id and the longest address of a socket, with a margin.
const ORDERS_MAX: usize = 1 << 20;

/// Time limit of reading the orders. All but the longest are in the link before the process starts.
const ORDERS_LIMIT: Duration = Duration::from_secs(30);

/// What a started process receives from its [launch](super::Launch).
#[derive(Debug)]
#[non_exhaustive]
pub struct Launched {
    /// Its id.
    pub id: Id,
    /// Its listening socket.
    pub listener: Listener,
    /// The addresses of all nodes.
    pub peers: Peers,
    /// Its settings.
    pub settings: NodeSettings,
    /// The secret of the launch, which authenticates its nodes over TCP.
    pub secret: Option<Secret>,
    /// The link to the parent. Standard output stays open as well, since the parent takes the end of the link for the
    /// end of the process.
    pub control: UnixStream,
}

/// Why a process cannot run as the node that it was started as.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchedError {
    /// Standard output is not a control link.
    #[error("standard output is no control link: this process was not started by a launch")]
    ByHand,
    /// The parent has died, or has closed the link.
    #[error("the process that started this node has gone")]
    ParentGone,
    /// The parent has not sent the orders in time.
    #[error("the process that started this node did not say within {} s where the others are", ORDERS_LIMIT.as_secs())]
    Late,
    /// The orders exceed their maximum length.
    #[error("the orders are longer than {ORDERS_MAX} bytes")]
    TooLong,
    /// The orders are not UTF-8.
    #[error("the orders are not UTF-8")]
    NotText,
    /// The orders are invalid.
    #[error("the orders of the process that started this node: {0}")]
    Orders(#[from] OrdersError),
    /// The orders have no address for this id.
    #[error("no address is known for id {0} itself")]
    NotListed(Id),
    /// Standard input is not the listening socket.
    #[error("the listening socket of id {id}: {error}")]
    Socket {
        /// The id.
        id: Id,
        /// What is wrong.
        error: io::Error,
    },
    /// A system call on the control link has failed.
    #[error("the control link: {0}")]
    Link(#[source] io::Error),
}

/// Returns the id of a process that a [launch](super::Launch) has started: the argument after [those of the
/// plan](super::Plan::arguments), if it is the last. `None` for any other process.
pub fn own_id(arguments: impl IntoIterator<Item = OsString>, plan: &[&str]) -> Option<Id> {
    let mut arguments = arguments.into_iter().skip(1);
    for &known in plan {
        arguments.next().filter(|argument| argument == known)?;
    }
    let id = arguments.next()?;
    // Further arguments mean that a user has started the process by hand.
    arguments.next().is_none().then(|| id.to_str()?.parse().ok())?
}

impl Launched {
    /// Takes the socket, the orders and the control link that the parent passes to the process of this [id](own_id).
    /// Standard input is empty afterwards. Waits at most 30 s for the orders, which are present from the start unless
    /// they are long.
    ///
    /// # Errors
    /// See [`LaunchedError`].
    pub fn take(id: Id) -> Result<Launched, LaunchedError> {
        take(id)
    }

    /// Returns a builder of its node that lacks only the functions, and the link whose end is the node's end, for
    /// [`Builder::serve`]. An id of a launch is never restarted, so it is the id's [first run](Builder::first_run).
    pub fn into_node(self) -> (Builder, UnixStream) {
        let Launched { id, listener, peers, settings, secret, control } = self;
        let builder = Node::builder(id).peers(peers).listener(listener).first_run();
        let builder = secret.into_iter().fold(builder, Builder::secret);
        (settings.apply(builder), control)
    }

    /// Runs the node on this thread until the parent ends it or dies. Functions that still run then end with the
    /// process.
    ///
    /// # Errors
    /// As for [`Builder::serve`].
    pub fn serve(self, functions: &Functions) -> io::Result<()> {
        let (builder, control) = self.into_node();
        builder.functions(functions).serve(control)
    }
}

fn take(id: Id) -> Result<Launched, LaunchedError> {
    let link = io::stdout().as_fd().try_clone_to_owned().map_err(LaunchedError::Link)?;
    let mut control = UnixStream::from(link);
    let orders: Orders = read_orders(&mut control, &Clock::system().limit(ORDERS_LIMIT))?.parse()?;
    let peers = orders.peers();
    let address = peers.address(id).ok_or(LaunchedError::NotListed(id))?;
    let socket = |error| LaunchedError::Socket { id, error };
    let fd = io::stdin().as_fd().try_clone_to_owned().map_err(socket)?;
    let listener = Listener::from_fd(fd, &address).map_err(socket)?;
    // Replaces standard input, so that the socket is closed when the listener is dropped.
    let nothing = File::open("/dev/null").map_err(socket)?;
    rustix::stdio::dup2_stdin(nothing).map_err(|error| socket(error.into()))?;
    let Orders { settings, secret, .. } = orders;
    Ok(Launched { id, listener, peers, settings, secret, control })
}

/// Reads up to the line that ends the orders. They contain the secret, so the buffers are zeroized.
fn read_orders(link: &mut UnixStream, limit: &TimeLimit) -> Result<Zeroizing<String>, LaunchedError> {
    let mut chunk = Zeroizing::new([0; 8192]);
    let mut orders = Zeroizing::new(Vec::with_capacity(chunk.len()));
    loop {
        let left = limit.left().ok_or(LaunchedError::Late)?;
        let read = link.set_read_timeout(Some(left)).and_then(|()| link.read(&mut *chunk));
        match read {
            Ok(0) => return Err(LaunchedError::ParentGone),
            Ok(count) => orders.extend_from_slice(&chunk[..count]),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(LaunchedError::Late),
                ErrorKind::ConnectionReset => return Err(LaunchedError::ParentGone),
                // ENOTSOCK and similar errors: a terminal, a file, a pipe.
                _ => return Err(LaunchedError::ByHand),
            },
        }
        if orders.strip_suffix(ORDERS_END.as_bytes()).is_some_and(ends_line) {
            let text = std::str::from_utf8(&orders).map_err(|_| LaunchedError::NotText)?;
            return Ok(Zeroizing::new(text.to_owned()));
        }
        if orders.len() > ORDERS_MAX {
            return Err(LaunchedError::TooLong);
        }
    }
}

fn ends_line(lines: &[u8]) -> bool {
    lines.is_empty() || lines.ends_with(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn orders_of(parts: &[&[u8]], close: bool) -> Result<Zeroizing<String>, LaunchedError> {
        let (mut parent, mut child) = UnixStream::pair().unwrap();
        for part in parts {
            parent.write_all(part).unwrap();
        }
        if close {
            drop(parent);
            return read_orders(&mut child, &Clock::system().limit(ORDERS_LIMIT));
        }
        let orders = read_orders(&mut child, &Clock::system().limit(ORDERS_LIMIT));
        drop(parent);
        orders
    }

    #[test]
    fn orders_are_read_to_their_end() {
        assert_eq!(**orders_of(&[b"names 1 2 a\n", b"end\n"], false).unwrap(), *"names 1 2 a\nend\n");
        assert_eq!(**orders_of(&[b"names 1 2 a", b"\ne", b"nd\n"], false).unwrap(), *"names 1 2 a\nend\n");
        assert_eq!(**orders_of(&[b"end\n"], false).unwrap(), *"end\n");
    }

    #[test]
    fn what_is_no_orders_is_refused() {
        assert!(matches!(orders_of(&[b"names 1 2 a\n"], true), Err(LaunchedError::ParentGone)));
        assert!(matches!(orders_of(&[b"names 1 2 friend\n"], true), Err(LaunchedError::ParentGone)));
        assert!(matches!(orders_of(&[b"\xff\nend\n"], true), Err(LaunchedError::NotText)));
        let (_parent, mut child) = UnixStream::pair().unwrap();
        assert!(matches!(
            read_orders(&mut child, &Clock::system().limit(Duration::ZERO)),
            Err(LaunchedError::Late)
        ));
    }

    #[test]
    fn orders_without_an_end_costs_no_more_than_its_bound() {
        let (mut parent, mut child) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || while parent.write_all(&[b'#'; 8192]).is_ok() {});
        let read = read_orders(&mut child, &Clock::system().limit(ORDERS_LIMIT));
        assert!(matches!(read, Err(LaunchedError::TooLong)));
        drop(child);
        writer.join().unwrap();
    }

    #[test]
    fn only_what_a_launch_writes_is_taken_for_it() {
        let id = |line: &str| own_id(line.split(' ').map(OsString::from), &["node", "--launched", "--id"]);
        assert_eq!(id("gpc node --launched --id 7"), Some(7));
        for line in [
            "gpc",
            "gpc call --launched --id 7",
            "gpc node --launched",
            "gpc node --launched --id",
            "gpc node --launched --id x",
            "gpc node --id 7 --launched",
            "gpc node --launched --id 7 --help",
        ] {
            assert_eq!(id(line), None, "{line}");
        }
    }
}

//! Listening sockets: bound here or taken over from another process, and what they accept.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net as unix;
use std::path::Path;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Type};

use super::address::Address;
use super::shm::RingSocket;
use super::socket::Socket;
use super::tcp;
use super::unix::{abstract_address, abstract_name};

/// Maximum number of connections that wait to be accepted: every node of a large machine may connect to one at once.
const BACKLOG: i32 = 4096;

/// Time limit of a check whether a process listens at a Unix socket.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

impl Address {
    /// Whether a process listens there, as far as a connection attempt of up to `limit` shows. Nothing is sent.
    pub fn is_answered(&self, limit: Duration) -> bool {
        let connect = || {
            let (domain, to) = match self {
                Address::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
                Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
                Address::Abstract(name) => (Domain::UNIX, SockAddr::unix(format!("\0{name}"))?),
                Address::Host => return Err(nowhere()),
            };
            socket2::Socket::new(domain, Type::STREAM, None)?.connect_timeout(&to, limit)
        };
        // A Unix socket with a full queue would block, so a process listens there.
        connect().err().is_none_or(|error: io::Error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A listening socket that is bound but not yet part of a node; it can be passed to another process.
///
/// ```
/// use chained_gpc::{Listener, Node, Peers};
///
/// // Port 0 lets the system choose one.
/// let listener = Listener::bind(&"127.0.0.1:0".parse()?)?;
/// let peers: Peers = [(7, listener.address()?)].into_iter().collect();
/// let node = Node::builder(7).listener(listener).start()?;
/// assert_eq!(node.address().cloned(), peers.address(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// Unix, at a path or abstract.
    Unix(unix::UnixListener),
}

impl Listener {
    /// Listens at an address; TCP port 0 lets the system choose one.
    ///
    /// # Errors
    /// The system's, with the address in words.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        let bound = match address {
            Address::Tcp(address) => bind_tcp(*address).map(Listener::Tcp),
            Address::Unix(path) => bind_path(path).map(Listener::Unix),
            Address::Abstract(name) => abstract_address(name)
                .and_then(|name| unix::UnixListener::bind_addr(&name))
                .map(Listener::Unix),
            Address::Host => Err(nowhere()),
        };
        bound.map_err(|error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}")))
    }

    /// Takes over a listening socket that another process has bound at this address.
    ///
    /// # Errors
    /// If the socket does not listen at this address.
    pub fn from_fd(fd: OwnedFd, address: &Address) -> io::Result<Listener> {
        let listener = match address {
            Address::Tcp(_) => Listener::Tcp(std::net::TcpListener::from(fd)),
            Address::Unix(_) | Address::Abstract(_) => Listener::Unix(unix::UnixListener::from(fd)),
            Address::Host => return Err(nowhere()),
        };
        match listener.address()? {
            there if there == *address => Ok(listener),
            there => Err(io::Error::other(format!("the socket is at {there} and should be at {address}"))),
        }
    }

    /// The address at which it listens, with the port that the system has chosen.
    ///
    /// # Errors
    /// The system's, or if a Unix socket has no name.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(listener) => {
                let address = listener.local_addr()?;
                let named = address.as_pathname().map(|path| Address::Unix(path.into()));
                named
                    .or_else(|| abstract_name(&address))
                    .ok_or_else(|| io::Error::other("the Unix socket has no name"))
            }
        }
    }

    pub(crate) fn into_accepting(self) -> io::Result<Accepting> {
        match self {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Accepting::Tcp(TcpListener::from_std(listener)))
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Accepting::Unix(UnixListener::from_std(listener)))
            }
        }
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        match listener {
            Listener::Tcp(listener) => listener.into(),
            Listener::Unix(listener) => listener.into(),
        }
    }
}

/// A listener in an event loop.
#[derive(Debug)]
pub(crate) enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    /// Accepts the next connection; over Unix sockets its peer may offer rings.
    pub(crate) fn accept(&self, rings: bool) -> io::Result<Socket> {
        match self {
            Accepting::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                tcp::prepare(&socket)?;
                Ok(Socket::Tcp(socket))
            }
            Accepting::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok(match rings {
                    true => Socket::Ring(Box::new(RingSocket::accepted(stream))),
                    false => Socket::Unix(stream),
                })
            }
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Accepting::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Accepting::Unix(listener) => registry.register(listener, token, Interest::READABLE),
        }
    }
}

/// The network of the program has no listener.
fn nowhere() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "no socket listens there: the program delivers what comes")
}

fn bind_tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted node can bind its port again, though connections of its last run are still closing.
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Binds a Unix socket at a path. The socket file of a dead process is replaced; one with a listening process is not.
fn bind_path(path: &Path) -> io::Result<unix::UnixListener> {
    match unix::UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !is_socket(path)? || Address::Unix(path.into()).is_answered(PROBE_LIMIT) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            unix::UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// A plain file refuses connections as well, but must not be deleted.
fn is_socket(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    Ok(std::fs::symlink_metadata(path)?.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_passes_on_as_what_it_is() {
        let abstract_name = format!("unix:@gpc-test-{}", std::process::id());
        for address in ["127.0.0.1:0", &abstract_name] {
            let listener = Listener::bind(&address.parse().unwrap()).unwrap();
            let address = listener.address().unwrap();
            let fd = OwnedFd::from(listener);
            let again = Listener::from_fd(fd.try_clone().unwrap(), &address).unwrap();
            assert_eq!(again.address().unwrap(), address);
            let other = match address {
                Address::Tcp(_) => "127.0.0.1:1",
                _ => "unix:@other",
            };
            let error = Listener::from_fd(fd, &other.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains("should be at"), "{error}");
        }
        let (one, _two) = unix::UnixStream::pair().unwrap();
        assert!(Listener::from_fd(one.into(), &"127.0.0.1:1".parse().unwrap()).is_err());
    }

    #[test]
    fn a_dead_process_s_socket_file_is_replaced_and_a_living_one_s_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("node.sock"));
        let first = Listener::bind(&address).unwrap();
        let error = Listener::bind(&address).unwrap_err();
        assert!(error.to_string().starts_with("cannot listen at unix:"), "{error}");
        let plain = Address::Unix(folder.path().join("plain"));
        std::fs::write(folder.path().join("plain"), "kept").unwrap();
        assert!(Listener::bind(&plain).is_err());
        assert_eq!(std::fs::read_to_string(folder.path().join("plain")).unwrap(), "kept");
        drop(first);
        assert_eq!(Listener::bind(&address).unwrap().address().unwrap(), address);
    }
}

//! Sockets of all kinds behind one interface: TCP without delay, encrypted TCP, Unix sockets, and Unix sockets with
//! rings in shared memory.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net as unix;
use std::path::Path;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use super::Address;
use super::sealed::SealedSocket;
use super::sending::{send, send_parts};
use super::shm::RingSocket;
use crate::link::peering::{Session, Source as Whence, Transport};

/// Maximum number of connections that wait to be accepted: every node of a large machine may connect to one at once.
const BACKLOG: i32 = 4096;

/// Time limit of a check whether a process listens at a Unix socket.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Number of the longest segments of long data in a Unix socket's buffer: 1 MiB in all. The default buffer holds less
/// than one segment, so that each segment wakes both sides twice. With this buffer a chain of 8 processes forwards 64
/// MiB in 0.85 of the time.
const UNIX_SEGMENTS: usize = 4;

/// Default limit of bytes that TCP buffers beyond those in flight, until long data change it. Without a limit TCP
/// buffers up to 4 MiB, and later messages wait behind them, on a slow link for a minute. The socket becomes writable
/// when half of them have been sent.
const UNSENT: usize = 128 << 10;

/// The poll event of a socket whose other end is closed, even if bytes are still unread.
#[cfg(target_os = "linux")]
const ENDED: PollFlags = PollFlags::RDHUP;

/// These systems report only the end of both directions; the end of one is found by reading.
#[cfg(not(target_os = "linux"))]
const ENDED: PollFlags = PollFlags::HUP;

/// A socket that is connected, or is connecting.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed to keep the other variants small.
    Ring(Box<RingSocket>),
    /// TCP, encrypted.
    Sealed(Box<SealedSocket>),
}

impl Socket {
    /// Starts to connect; the socket becomes writable when it is connected or has failed. Over Unix sockets it may
    /// offer rings to the peer.
    pub(super) fn connect(address: &Address, rings: bool) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) => {
                let socket = TcpStream::connect(*address)?;
                socket.set_nodelay(true)?;
                limit_unsent(&socket, UNSENT);
                Ok(Socket::Tcp(socket))
            }
            local => {
                let stream = unix_address(local).and_then(|address| UnixStream::connect_addr(&address))?;
                Ok(match rings {
                    true => Socket::Ring(Box::new(RingSocket::connecting(stream))),
                    false => Socket::Unix(stream),
                })
            }
        }
    }

    /// The TCP socket, if it has one or is one.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(socket) => Some(socket),
            Socket::Sealed(socket) => Some(socket.stream()),
            Socket::Unix(_) | Socket::Ring(_) => None,
        }
    }

    /// The Unix socket, if it has one or is one.
    #[cfg(target_os = "linux")]
    pub(super) fn unix(&self) -> Option<&UnixStream> {
        match self {
            Socket::Tcp(_) | Socket::Sealed(_) => None,
            Socket::Unix(socket) => Some(socket),
            Socket::Ring(socket) => Some(socket.stream()),
        }
    }

    /// The shared-memory side, if it may have one.
    pub(super) fn ring(&self) -> Option<&RingSocket> {
        match self {
            Socket::Ring(socket) => Some(socket),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Sealed(_) => None,
        }
    }

    /// The same, mutable.
    pub(super) fn ring_mut(&mut self) -> Option<&mut RingSocket> {
        match self {
            Socket::Ring(socket) => Some(socket),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Sealed(_) => None,
        }
    }

    /// The name of the transport, for people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Socket::Tcp(_) => "TCP",
            Socket::Sealed(_) => "encrypted TCP",
            Socket::Ring(socket) if socket.has_rings() => "rings in shared memory",
            Socket::Unix(_) | Socket::Ring(_) => "a Unix socket",
        }
    }

    /// Whether the system reports each read of the peer to a writer, which would wake the writer for every message.
    pub(super) fn tells_of_each_read(&self) -> bool {
        match self {
            Socket::Tcp(_) | Socket::Sealed(_) => false,
            Socket::Unix(_) => true,
            // With rings, the reader notifies the writer when it has freed space.
            Socket::Ring(socket) => !socket.has_rings(),
        }
    }

    /// Prepares for long data in segments of this many bytes: bounds the buffer to about one segment, since a small
    /// message may have to wait behind it.
    pub(super) fn prepare_for_bulk(&self, segment: usize) {
        match self {
            // The socket becomes writable when half of the limit has been sent: then a quarter of a segment is still
            // buffered for the wire.
            Socket::Tcp(socket) => limit_unsent(socket, segment / 2),
            Socket::Sealed(socket) => limit_unsent(socket.stream(), segment / 2),
            Socket::Unix(socket) => limit_buffer(socket, segment),
            Socket::Ring(socket) => limit_buffer(socket.stream(), segment),
        }
    }

    /// Whether the socket has room; for TCP, whether few or no bytes are still unsent. If not, the system reports when
    /// it has.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Socket::Tcp(socket) => is_writable(socket),
            Socket::Sealed(socket) => !socket.is_holding() && is_writable(socket.stream()),
            // The bytes that these sockets hold are at the reader already.
            Socket::Unix(socket) => is_writable(socket),
            Socket::Ring(socket) if socket.has_rings() => true,
            Socket::Ring(socket) => is_writable(socket.stream()),
        }
    }

    /// The error of a failed connection attempt, if there is one.
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Socket::Tcp(socket) => socket.take_error(),
            Socket::Sealed(socket) => socket.stream().take_error(),
            Socket::Unix(socket) => socket.take_error(),
            Socket::Ring(socket) => socket.stream().take_error(),
        }
    }

    /// Whether the other end is closed, though received bytes may still be unread.
    pub(super) fn is_ended(&self) -> bool {
        let socket = match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Sealed(socket) => socket.stream().as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Ring(socket) => socket.stream().as_fd(),
        };
        let mut asked = [PollFd::from_borrowed_fd(socket, ENDED)];
        let answered = poll(&mut asked, Some(&Timespec::default()));
        answered.is_ok_and(|count| count > 0) && !asked[0].revents().is_empty()
    }

    /// Whether written bytes wait inside this socket for the system to take them.
    #[inline]
    pub(super) fn is_holding(&self) -> bool {
        match self {
            Socket::Sealed(socket) => socket.is_holding(),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Ring(_) => false,
        }
    }

    /// Encrypts all later bytes of the connection. Sessions exist only over TCP.
    pub(super) fn sealed(self, session: Box<dyn Session>) -> Socket {
        match self {
            Socket::Tcp(stream) => Socket::Sealed(Box::new(SealedSocket::new(stream, session))),
            other => other,
        }
    }

    /// Whether bytes have arrived that could not be read yet.
    #[inline]
    pub(super) fn take_heard(&mut self) -> bool {
        match self {
            Socket::Sealed(socket) => socket.take_heard(),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Ring(_) => false,
        }
    }

    /// Releases memory that is not in use.
    pub(super) fn release_spare_memory(&mut self) {
        if let Socket::Sealed(socket) = self {
            socket.release_spare_memory();
        }
    }

    /// The transport of the connection, and its source address as a number.
    pub(super) fn transport(&self) -> (Transport, Option<Whence>) {
        let Socket::Tcp(stream) = self else { return (Transport::User, None) };
        // A peer that has gone has no address: its bytes are rejected like those of strangers.
        let Ok(address) = stream.peer_addr() else { return (Transport::Network, None) };
        let ip = address.ip().to_canonical();
        let bits = match ip {
            IpAddr::V4(ip) => ip.to_bits().into(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        (if ip.is_loopback() { Transport::Loopback } else { Transport::Network }, Some(bits))
    }

    /// The address of the other end, for people.
    pub(super) fn whence(&self) -> String {
        let address = match self {
            Socket::Tcp(stream) => stream.peer_addr(),
            Socket::Sealed(socket) => socket.stream().peer_addr(),
            Socket::Unix(_) | Socket::Ring(_) => return "a Unix socket".into(),
        };
        address.map_or_else(|_| "an address that is gone".into(), |address| address.to_string())
    }

    /// Whether it is connected by now.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().is_ok(),
            Socket::Sealed(socket) => socket.stream().peer_addr().is_ok(),
            Socket::Unix(socket) => socket.peer_addr().is_ok(),
            Socket::Ring(socket) => socket.stream().peer_addr().is_ok(),
        }
    }
}

/// Limits the bytes that TCP buffers beyond those in flight. A system without such a limit keeps its default.
fn limit_unsent(socket: &TcpStream, bytes: usize) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(u32::try_from(bytes).unwrap_or(u32::MAX));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (socket, bytes);
}

fn limit_buffer(socket: &UnixStream, segment: usize) {
    // The system may allow less; then long data take longer.
    let _ = SockRef::from(socket).set_send_buffer_size(UNIX_SEGMENTS * segment);
}

fn is_writable(socket: &impl AsFd) -> bool {
    let mut sockets = [PollFd::new(socket, PollFlags::OUT)];
    // If the poll fails, a write reports the error.
    poll(&mut sockets, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
            Socket::Ring(socket) => socket.read(buffer),
            Socket::Sealed(socket) => socket.read(buffer),
        }
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read_vectored(parts),
            Socket::Unix(socket) => socket.read_vectored(parts),
            Socket::Ring(socket) => socket.read_vectored(parts),
            Socket::Sealed(socket) => socket.read_vectored(parts),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => send(socket, bytes),
            Socket::Unix(socket) => send(socket, bytes),
            Socket::Ring(socket) => socket.write(bytes),
            Socket::Sealed(socket) => socket.write(bytes),
        }
    }

    /// A single part takes the path of a plain write.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [part] = parts {
            return self.write(part);
        }
        match self {
            Socket::Tcp(socket) => send_parts(socket, parts),
            Socket::Unix(socket) => send_parts(socket, parts),
            Socket::Ring(socket) => socket.write_vectored(parts),
            Socket::Sealed(socket) => socket.write_vectored(parts),
        }
    }

    /// Writes the bytes that the socket itself holds.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Sealed(socket) => socket.flush(),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Ring(_) => Ok(()),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.register(registry, token, interest),
            Socket::Unix(socket) => socket.register(registry, token, interest),
            Socket::Ring(socket) => socket.stream_mut().register(registry, token, interest),
            Socket::Sealed(socket) => socket.stream_mut().register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.reregister(registry, token, interest),
            Socket::Unix(socket) => socket.reregister(registry, token, interest),
            Socket::Ring(socket) => socket.stream_mut().reregister(registry, token, interest),
            Socket::Sealed(socket) => socket.stream_mut().reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.deregister(registry),
            Socket::Unix(socket) => socket.deregister(registry),
            Socket::Ring(socket) => socket.stream_mut().deregister(registry),
            Socket::Sealed(socket) => socket.stream_mut().deregister(registry),
        }
    }
}

impl Address {
    /// Whether a process listens there, as far as a connection attempt of up to `limit` tells. Nothing is sent.
    pub fn is_answered(&self, limit: Duration) -> bool {
        let connect = || {
            let (domain, to) = match self {
                Address::Tcp(address) => (Domain::for_address(*address), SockAddr::from(*address)),
                Address::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
                Address::Abstract(name) => (Domain::UNIX, SockAddr::unix(format!("\0{name}"))?),
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

    pub(super) fn into_accepting(self) -> io::Result<Accepting> {
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
pub(super) enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    /// Accepts the next connection; over Unix sockets its peer may offer rings.
    pub(super) fn accept(&self, rings: bool) -> io::Result<Socket> {
        match self {
            Accepting::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                limit_unsent(&socket, UNSENT);
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

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Accepting::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Accepting::Unix(listener) => registry.register(listener, token, Interest::READABLE),
        }
    }
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

fn unix_address(address: &Address) -> io::Result<unix::SocketAddr> {
    match address {
        Address::Unix(path) => unix::SocketAddr::from_pathname(path),
        Address::Abstract(name) => abstract_address(name),
        Address::Tcp(_) => Err(io::Error::other("a TCP address is no Unix socket")),
    }
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &str) -> io::Result<unix::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    unix::SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(name: &str) -> io::Result<unix::SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("unix:@{name} is for Linux only: use unix:PATH")))
}

#[cfg(target_os = "linux")]
fn abstract_name(address: &unix::SocketAddr) -> Option<Address> {
    use std::os::linux::net::SocketAddrExt;
    address.as_abstract_name().map(|name| Address::Abstract(String::from_utf8_lossy(name).into_owned()))
}

#[cfg(not(target_os = "linux"))]
fn abstract_name(_: &unix::SocketAddr) -> Option<Address> {
    None
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

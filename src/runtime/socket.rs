//! Sockets of both kinds behind one face: TCP without delay, and Unix sockets.

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net as unix;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, SockAddr, Type};

use super::Address;

/// Connections that wait to be accepted: every node of a large machine may connect to one at once.
const BACKLOG: i32 = 4096;

/// A connected socket, or one that is connecting.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Begins to connect; the socket becomes writable when it is connected or has failed.
    pub(super) fn connect(address: &Address) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) => {
                let socket = TcpStream::connect(*address)?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
            local => {
                unix_address(local).and_then(|address| UnixStream::connect_addr(&address)).map(Socket::Unix)
            }
        }
    }

    /// Whether connecting has failed, and why.
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Socket::Tcp(socket) => socket.take_error(),
            Socket::Unix(socket) => socket.take_error(),
        }
    }

    /// Whether it is connected by now.
    pub(super) fn is_connected(&self) -> bool {
        match self {
            Socket::Tcp(socket) => socket.peer_addr().is_ok(),
            Socket::Unix(socket) => socket.peer_addr().is_ok(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write_vectored(parts),
            Socket::Unix(socket) => socket.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.register(registry, token, interest),
            Socket::Unix(socket) => socket.register(registry, token, interest),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.reregister(registry, token, interest),
            Socket::Unix(socket) => socket.reregister(registry, token, interest),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.deregister(registry),
            Socket::Unix(socket) => socket.deregister(registry),
        }
    }
}

/// A socket that peers connect to, bound but not yet part of a node: it can be handed to another process.
#[derive(Debug)]
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
            local => unix_address(local)
                .and_then(|address| unix::UnixListener::bind_addr(&address))
                .map(Listener::Unix),
        };
        bound.map_err(|error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}")))
    }

    /// Where it listens, with the port that the system chose.
    ///
    /// # Errors
    /// The system's, or when a Unix socket has no name.
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

/// A listener in an event loop.
#[derive(Debug)]
pub(super) enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    pub(super) fn accept(&self) -> io::Result<Socket> {
        match self {
            Accepting::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket))
            }
            Accepting::Unix(listener) => listener.accept().map(|(socket, _)| Socket::Unix(socket)),
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
    // A node that is started again finds its port free, though connections of its last run linger.
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
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

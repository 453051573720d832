//! Unix sockets: their addresses, their buffers, and the user at the other end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net as unix;

use mio::event::Source;
use mio::net::UnixStream;
use socket2::SockRef;

use super::address::Address;
use super::byte_stream::{ByteStream, SharedMemory};
use crate::link::peering::{Source as PeerAddress, Transport as Between};

/// Number of the longest segments of long data in a Unix socket's buffer: 1 MiB in all. The default buffer holds less
/// than one segment, so that each segment wakes both sides twice. With this buffer a chain of 8 processes forwards 64
/// MiB in 0.85 of the time.
const SEGMENTS: usize = 4;

impl ByteStream for UnixStream {
    fn name(&self) -> &'static str {
        "a Unix socket"
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(self)
    }

    fn origin(&self) -> (Between, Option<PeerAddress>) {
        (Between::User, None)
    }

    fn peer_name(&self) -> String {
        "a Unix socket".into()
    }

    fn reports_each_read(&self) -> bool {
        true
    }

    fn prepare_for_bulk(&self, segment: usize) {
        // The system may allow less; then long data take longer.
        let _ = SockRef::from(self).set_send_buffer_size(SEGMENTS * segment);
    }

    fn peer_user(&self) -> io::Result<Option<u32>> {
        peer_user(self)
    }
}

impl SharedMemory for UnixStream {}

/// Opens a connection, which is connected at once.
pub(super) fn connect(address: &Address) -> io::Result<UnixStream> {
    unix_address(address).and_then(|address| UnixStream::connect_addr(&address))
}

fn unix_address(address: &Address) -> io::Result<unix::SocketAddr> {
    match address {
        Address::Unix(path) => unix::SocketAddr::from_pathname(path),
        Address::Abstract(name) => abstract_address(name),
        Address::Tcp(_) | Address::Host => Err(io::Error::other(format!("{address} is no Unix socket"))),
    }
}

#[cfg(target_os = "linux")]
pub(super) fn abstract_address(name: &str) -> io::Result<unix::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    unix::SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn abstract_address(name: &str) -> io::Result<unix::SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("unix:@{name} is for Linux only: use unix:PATH")))
}

#[cfg(target_os = "linux")]
pub(super) fn abstract_name(address: &unix::SocketAddr) -> Option<Address> {
    use std::os::linux::net::SocketAddrExt;
    address.as_abstract_name().map(|name| Address::Abstract(String::from_utf8_lossy(name).into_owned()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn abstract_name(_: &unix::SocketAddr) -> Option<Address> {
    None
}

/// The user of the process at the other end.
#[cfg(target_os = "linux")]
fn peer_user(stream: &UnixStream) -> io::Result<Option<u32>> {
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => Ok(Some(peer.uid.as_raw())),
        // A process of another PID namespace has the number 0 here, which the library does not take.
        Err(error) if error.raw_os_error() == 0 => {
            let text = "the process at the other end is in another PID namespace, so its user is not known: use TCP between containers, even of one host";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
        Err(error) => Err(error.into()),
    }
}

/// Systems without this check have no abstract names, and the mode of a path determines which users may connect.
#[cfg(not(target_os = "linux"))]
fn peer_user(_: &UnixStream) -> io::Result<Option<u32>> {
    Ok(None)
}

//! The interface of a link to its transport. Only the transports know which kind a connection is.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use mio::event::Source;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::keepalive::Keepalive;
use crate::link::peering::{Source as PeerAddress, Transport as Between};
use crate::wire::body::Extent;

/// The poll event of a socket whose other end is closed, even if bytes are still unread.
#[cfg(target_os = "linux")]
const ENDED: PollFlags = PollFlags::RDHUP;

/// These systems report only the end of both directions; the end of one is found by reading.
#[cfg(not(target_os = "linux"))]
const ENDED: PollFlags = PollFlags::HUP;

/// A connection that carries the bytes of one link in both directions, in order. No method blocks.
pub(crate) trait ByteStream: Read + Write + Debug {
    /// Name of the transport, for messages.
    fn name(&self) -> &'static str;

    /// The socket to poll; `None` if the transport has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The same, for the event loop. A transport without a socket reports its events by the token that
    /// [`set_token`](Self::set_token) sets.
    fn source(&mut self) -> Option<&mut dyn Source>;

    /// Sets the token of the connection in the event loop.
    fn set_token(&mut self, _token: usize) {}

    /// Whether a connection that has been opened is connected. If not, an event reports when it is.
    fn connects_at_once(&self) -> bool {
        true
    }

    /// The error of a failed connection attempt, if there is one.
    fn connect_error(&self) -> io::Result<Option<io::Error>> {
        self.descriptor().map_or(Ok(None), |socket| SockRef::from(&socket).take_error())
    }

    /// Whether it is connected by now.
    fn is_connected(&self) -> bool {
        self.descriptor().is_none_or(|socket| SockRef::from(&socket).peer_addr().is_ok())
    }

    /// Whether the other end is closed, though received bytes may still be unread.
    fn is_ended(&self) -> bool {
        self.descriptor().is_some_and(|socket| is_reported(socket, ENDED).unwrap_or(false))
    }

    /// The kind of path to the peer, and the source address as a number.
    fn origin(&self) -> (Between, Option<PeerAddress>) {
        // A peer that has gone has no address: its bytes are rejected like those of strangers.
        let Some(Ok(address)) = self.descriptor().map(peer_address) else { return (Between::Network, None) };
        let ip = address.ip().to_canonical();
        let bits = match ip {
            IpAddr::V4(ip) => ip.to_bits().into(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        (if ip.is_loopback() { Between::Loopback } else { Between::Network }, Some(bits))
    }

    /// The address of the peer, for messages.
    fn peer_name(&self) -> String {
        match self.descriptor().map(peer_address) {
            Some(Ok(address)) => address.to_string(),
            _ => "an address that is gone".into(),
        }
    }

    /// The user of the peer's process; `None` if the system does not report it.
    ///
    /// # Errors
    /// If the system reports users, but not this one.
    fn peer_user(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Makes the system probe the connection while it is idle.
    fn keep_alive(&self, _keepalive: Keepalive) {}

    /// Allows a pause in which the peer reads nothing.
    fn allow_pause(&self, _keepalive: Keepalive, _pause: Duration) {}

    /// Whether the system reports each read of the peer, which would wake this side for every message that it sends.
    fn reports_each_read(&self) -> bool {
        false
    }

    /// Whether there is room for bytes; over a network, whether few or no bytes are still unsent. If not, the system
    /// reports when there is.
    fn has_room(&self) -> bool {
        // If the poll fails, a write reports the error.
        self.descriptor().is_none_or(|socket| is_reported(socket, PollFlags::OUT).unwrap_or(true))
    }

    /// Prepares for long data in segments of this many bytes: bounds what is buffered to about one segment, since a
    /// small message may have to wait behind it.
    fn prepare_for_bulk(&self, segment: usize);

    /// Whether written bytes wait here for the system: [`flush`](Write::flush) writes them.
    fn has_unsent_bytes(&self) -> bool {
        false
    }

    /// Returns true once after bytes have arrived that could not be read yet.
    fn take_received(&mut self) -> bool {
        false
    }

    /// Releases memory that is not in use.
    fn release_spare_memory(&mut self) {}
}

/// The interface of transports with memory that both processes share. The defaults are for transports without.
pub(crate) trait SharedMemory {
    /// Whether this side offers memory with its first bytes.
    fn offers_memory(&self) -> bool {
        false
    }

    /// Whether the peer's first bytes have brought memory that can be used.
    fn has_memory(&self) -> bool {
        false
    }

    /// Switches to shared memory after the hellos: later bytes go through it, and long data by descriptor if
    /// `by_descriptor` is set. Returns false if there is no memory.
    fn use_memory(&mut self, _by_descriptor: bool) -> bool {
        false
    }

    /// Releases offered memory after the hellos: it is not used.
    fn use_no_memory(&mut self) {}

    /// Whether the connection can be polled without a system call, since its bytes go through memory. Then the reader
    /// makes room, and there is no wire.
    fn is_polled(&self) -> bool {
        false
    }

    /// Whether there are bytes to read, or room for bytes that found none.
    fn is_ready(&self) -> bool {
        false
    }

    /// Whether there is room again for bytes that found none.
    fn has_room_again(&self) -> bool {
        false
    }

    /// Makes the peer notify this side through the socket.
    fn request_notifications(&self) {}

    /// Makes the peer stop notifications.
    fn stop_notifications(&self) {}

    /// Handles a notification of the peer, or the end of the connection.
    fn handle_notification(&mut self, _closed: bool) {}

    /// Passing of long data by descriptor; `None` if the link does not use it.
    fn descriptors(&mut self) -> Option<&mut dyn Descriptors> {
        None
    }
}

/// Passes sealed memory by descriptor, beside the bytes.
pub(crate) trait Descriptors {
    /// Whether a descriptor may be passed now. If not, the peer notifies this side when it has taken some.
    ///
    /// # Errors
    /// If the peer has broken the shared memory.
    fn find_room(&mut self) -> io::Result<bool>;

    /// Passes sealed memory; its frame ends the next `queued` bytes to be written. Returns false if the data must go
    /// through the ring.
    fn hand_over(&mut self, extent: &Extent, queued: usize) -> bool;

    /// Stops waiting for room: nothing is queued.
    fn stop_waiting(&mut self);

    /// Takes the next sealed memory of this length that the peer has passed.
    ///
    /// # Errors
    /// If there is none, or it does not have the required form.
    fn take(&mut self, length: usize, node: &super::Extents) -> io::Result<Extent>;
}

/// Whether the system reports an event of a socket now.
fn is_reported(socket: BorrowedFd<'_>, event: PollFlags) -> io::Result<bool> {
    let mut asked = [PollFd::from_borrowed_fd(socket, event)];
    let count = poll(&mut asked, Some(&Timespec::default()))?;
    Ok(count > 0 && !asked[0].revents().is_empty())
}

fn peer_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let address = SockRef::from(&socket).peer_addr()?;
    address.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

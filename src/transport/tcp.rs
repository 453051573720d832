//! TCP without delay, and with few bytes in the system's buffers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::TcpStream;
#[cfg(any(target_os = "linux", target_os = "android"))]
use socket2::SockRef;

use super::byte_stream::{ByteStream, SharedMemory};
use super::keepalive::Keepalive;

/// Default limit of bytes that TCP buffers beyond those in flight, until long data change it. Without a limit TCP
/// buffers up to 4 MiB, and later messages wait behind them, on a slow link for a minute. The socket becomes writable
/// when half of them have been sent.
const UNSENT: usize = 128 << 10;

impl ByteStream for TcpStream {
    fn name(&self) -> &'static str {
        "TCP"
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(self)
    }

    fn connects_at_once(&self) -> bool {
        false
    }

    /// The socket becomes writable when half of the limit has been sent: then a quarter of a segment is still buffered
    /// for the wire.
    fn prepare_for_bulk(&self, segment: usize) {
        limit_unsent(self, segment / 2);
    }

    fn keep_alive(&self, keepalive: Keepalive) {
        keepalive.watch(self);
    }

    fn allow_pause(&self, keepalive: Keepalive, pause: Duration) {
        keepalive.allow_pause(self, pause);
    }
}

impl SharedMemory for TcpStream {}

/// Starts to connect; the socket becomes writable when it is connected or has failed.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address)?;
    prepare(&socket)?;
    Ok(socket)
}

/// Prepares a new connection.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    limit_unsent(socket, UNSENT);
    Ok(())
}

/// Limits the bytes that TCP buffers beyond those in flight. A system without such a limit keeps its default.
fn limit_unsent(socket: &TcpStream, bytes: usize) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = SockRef::from(socket).set_tcp_notsent_lowat(u32::try_from(bytes).unwrap_or(u32::MAX));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (socket, bytes);
}

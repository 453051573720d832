//! The connection of a link over any transport.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};

use super::address::Address;
use super::byte_stream::{ByteStream, Descriptors, SharedMemory};
use super::host::HostSocket;
use super::keepalive::Keepalive;
use super::nosignal::{send, send_parts};
use super::sealed::SealedSocket;
use super::shm::RingSocket;
use super::{tcp, unix};
use crate::link::peering::{Session, Source as PeerAddress, Transport as Between};

/// A socket that is connected, or is connecting. An enum, since the hot path asks it for every message.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Boxed to keep the other variants small.
    Ring(Box<RingSocket>),
    /// TCP, encrypted.
    Sealed(Box<SealedSocket>),
    /// Messages over the network of the program.
    Host(HostSocket),
}

/// Dispatches to the transport.
macro_rules! each {
    ($socket:expr, $it:ident => $answer:expr) => {
        match $socket {
            Socket::Tcp($it) => $answer,
            Socket::Unix($it) => $answer,
            Socket::Ring($it) => $answer,
            Socket::Sealed($it) => $answer,
            Socket::Host($it) => $answer,
        }
    };
}

impl Socket {
    /// Starts to connect; the socket becomes writable when it is connected or has failed. Over Unix sockets it may
    /// offer rings to the peer.
    pub(crate) fn connect(address: &Address, rings: bool) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) => tcp::connect(*address).map(Socket::Tcp),
            Address::Host => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "its address is `host`, and this node has no network of its program: set one when it is built",
            )),
            local if rings => {
                unix::connect(local).map(|stream| Socket::Ring(Box::new(RingSocket::connecting(stream))))
            }
            local => unix::connect(local).map(Socket::Unix),
        }
    }

    /// Encrypts all later bytes of the connection. Sessions exist only over TCP.
    pub(crate) fn sealed(self, session: Box<dyn Session>) -> Socket {
        match self {
            Socket::Tcp(stream) => Socket::Sealed(Box::new(SealedSocket::new(stream, session))),
            other => other,
        }
    }
}

impl ByteStream for Socket {
    fn name(&self) -> &'static str {
        each!(self, socket => socket.name())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        each!(self, socket => socket.descriptor())
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        each!(self, socket => socket.source())
    }

    fn set_token(&mut self, token: usize) {
        each!(self, socket => socket.set_token(token));
    }

    fn connects_at_once(&self) -> bool {
        each!(self, socket => socket.connects_at_once())
    }

    fn is_ended(&self) -> bool {
        each!(self, socket => socket.is_ended())
    }

    fn origin(&self) -> (Between, Option<PeerAddress>) {
        each!(self, socket => socket.origin())
    }

    fn peer_name(&self) -> String {
        each!(self, socket => socket.peer_name())
    }

    fn peer_user(&self) -> io::Result<Option<u32>> {
        each!(self, socket => socket.peer_user())
    }

    fn keep_alive(&self, keepalive: Keepalive) {
        each!(self, socket => socket.keep_alive(keepalive));
    }

    fn allow_pause(&self, keepalive: Keepalive, pause: Duration) {
        each!(self, socket => socket.allow_pause(keepalive, pause));
    }

    fn reports_each_read(&self) -> bool {
        each!(self, socket => socket.reports_each_read())
    }

    fn has_room(&self) -> bool {
        each!(self, socket => socket.has_room())
    }

    fn prepare_for_bulk(&self, segment: usize) {
        each!(self, socket => socket.prepare_for_bulk(segment));
    }

    #[inline]
    fn has_unsent_bytes(&self) -> bool {
        each!(self, socket => socket.has_unsent_bytes())
    }

    #[inline]
    fn take_received(&mut self) -> bool {
        each!(self, socket => socket.take_received())
    }

    fn release_spare_memory(&mut self) {
        each!(self, socket => socket.release_spare_memory());
    }
}

impl SharedMemory for Socket {
    fn offers_memory(&self) -> bool {
        each!(self, socket => socket.offers_memory())
    }

    fn has_memory(&self) -> bool {
        each!(self, socket => socket.has_memory())
    }

    fn use_memory(&mut self, by_descriptor: bool) -> bool {
        each!(self, socket => socket.use_memory(by_descriptor))
    }

    fn use_no_memory(&mut self) {
        each!(self, socket => socket.use_no_memory());
    }

    #[inline]
    fn is_polled(&self) -> bool {
        each!(self, socket => socket.is_polled())
    }

    #[inline]
    fn is_ready(&self) -> bool {
        each!(self, socket => socket.is_ready())
    }

    #[inline]
    fn has_room_again(&self) -> bool {
        each!(self, socket => socket.has_room_again())
    }

    fn request_notifications(&self) {
        each!(self, socket => socket.request_notifications());
    }

    fn stop_notifications(&self) {
        each!(self, socket => socket.stop_notifications());
    }

    fn handle_notification(&mut self, closed: bool) {
        each!(self, socket => socket.handle_notification(closed));
    }

    #[inline]
    fn descriptors(&mut self) -> Option<&mut dyn Descriptors> {
        each!(self, socket => socket.descriptors())
    }
}

impl Read for Socket {
    #[inline(always)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        each!(self, socket => socket.read(buffer))
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        each!(self, socket => socket.read_vectored(parts))
    }
}

impl Write for Socket {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => send(socket, bytes),
            Socket::Unix(socket) => send(socket, bytes),
            Socket::Ring(socket) => socket.write(bytes),
            Socket::Sealed(socket) => socket.write(bytes),
            Socket::Host(socket) => socket.write(bytes),
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
            Socket::Host(socket) => socket.write_vectored(parts),
        }
    }

    /// Writes the bytes that the socket itself holds.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Sealed(socket) => socket.flush(),
            Socket::Host(socket) => socket.flush(),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Ring(_) => Ok(()),
        }
    }
}

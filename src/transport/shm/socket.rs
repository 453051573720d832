//! A Unix socket that can switch to two rings in shared memory. Then it carries only notifications and descriptors, and
//! reports the end of the peer.
//!
//! The connecting side creates the memory, and sends its descriptor with its first bytes. The accepting side maps it,
//! and confirms that in its hello. From then on bytes go through the rings, and each byte on the socket is a
//! notification. If any step fails, the link uses the socket. Source: docs/wire.md, "Shared rings".

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::replace;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use mio::event::Source;
use mio::net::UnixStream;
use rustix::io::ioctl_fionread;
use rustix::net::{SendFlags, send};
use tracing::{debug, warn};

use super::descriptor_passing::{DescriptorPassing, WAITING_MAX};
use super::extents::{Extents, descriptor};
use super::mapping::{Direction, Mapping, RingMemory};
use super::ring::{Reader, RingError, Writer};
use super::scm_rights;
use crate::link::peering::{Source as PeerAddress, Transport as Between};
use crate::transport::byte_stream::{ByteStream, Descriptors, SharedMemory};
use crate::transport::nosignal::send_parts;
use crate::wire::body::Extent;

/// Number of socket events after which pending notifications are read. Events are edge-triggered: each notification
/// causes a new one even if earlier ones are unread. At two notifications for each event, the unread ones fill a
/// quarter of a socket of the usual size.
const NOTIFICATIONS_MAX: u32 = 32;

/// A Unix socket, optionally with rings.
#[derive(Debug)]
pub(crate) struct RingSocket {
    stream: UnixStream,
    state: State,
}

#[derive(Debug)]
enum State {
    /// All bytes go through the socket.
    Plain,
    /// The connecting side, before its first bytes, which carry the memory. The memory is created only then: a node
    /// that connects to a thousand others at once needs one more descriptor, not a thousand.
    Offering,
    /// The memory was sent; the peer has not confirmed it.
    Offered(Mapping),
    /// The accepting side, before the first bytes, which may carry memory.
    Expecting,
    /// The memory was received and mapped.
    Received(Mapping),
    /// Bytes go through the rings.
    Rings(Rings),
}

#[derive(Debug)]
struct Rings {
    reader: Reader<RingMemory>,
    writer: Writer<RingMemory>,
    /// Number of events since notifications were last read.
    notifications: u32,
    /// Whether the peer has closed the socket: the bytes in the ring are its last.
    is_closed: bool,
    /// Descriptor passing, if both sides support it.
    passing: Option<DescriptorPassing>,
    /// Protocol error on the socket, for the next read.
    error: Option<io::Error>,
}

impl RingSocket {
    /// A socket that this side connects. It offers memory if the system provides it.
    pub(crate) fn connecting(stream: UnixStream) -> RingSocket {
        RingSocket { stream, state: State::Offering }
    }

    /// A socket that a peer has connected.
    pub(crate) fn accepted(stream: UnixStream) -> RingSocket {
        RingSocket { stream, state: State::Expecting }
    }

    /// Writes the first bytes of a connection, with memory if the system provides it.
    fn offer(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let offered = Mapping::create().and_then(|(memory, mapping)| {
            scm_rights::send(&self.stream, parts, memory.as_fd()).map(|count| (count, mapping))
        });
        match offered {
            Ok((count, mapping)) => {
                self.state = State::Offered(mapping);
                Ok(count)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Err(error)
            }
            Err(error) => {
                debug!(%error, "cannot create shared memory: the link uses its socket");
                self.state = State::Plain;
                send_parts(&self.stream, parts)
            }
        }
    }

    /// Reads the first bytes of a connection, and the memory that they may carry.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut descriptors = Vec::new();
        let received =
            scm_rights::receive(&self.stream, buffer, &mut descriptors).map(|received| received.bytes);
        let Some(memory) = descriptors.pop() else { return received };
        let opened = match (&self.state, descriptors.is_empty()) {
            (State::Expecting, true) => Mapping::open(&memory),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "more than one descriptor arrived")),
        };
        self.state = opened.map_or_else(
            |error| {
                warn!(%error, "rejected the shared memory of a peer: the link uses its socket");
                State::Plain
            },
            State::Received,
        );
        received
    }
}

impl ByteStream for RingSocket {
    fn name(&self) -> &'static str {
        if self.is_polled() { "rings in shared memory" } else { self.stream.name() }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(&mut self.stream)
    }

    fn origin(&self) -> (Between, Option<PeerAddress>) {
        self.stream.origin()
    }

    fn peer_name(&self) -> String {
        self.stream.peer_name()
    }

    fn peer_user(&self) -> io::Result<Option<u32>> {
        self.stream.peer_user()
    }

    /// With rings, the reader notifies the writer only after it has freed half of the ring.
    fn reports_each_read(&self) -> bool {
        !self.is_polled()
    }

    fn has_room(&self) -> bool {
        self.is_polled() || self.stream.has_room()
    }

    fn prepare_for_bulk(&self, segment: usize) {
        self.stream.prepare_for_bulk(segment);
    }
}

impl SharedMemory for RingSocket {
    fn offers_memory(&self) -> bool {
        matches!(self.state, State::Offering | State::Offered(_))
    }

    fn has_memory(&self) -> bool {
        matches!(self.state, State::Received(_))
    }

    fn use_memory(&mut self, by_descriptor: bool) -> bool {
        let (mapping, written, read) = match replace(&mut self.state, State::Plain) {
            State::Offered(mapping) => (mapping, Direction::ToAcceptor, Direction::ToConnector),
            State::Received(mapping) => (mapping, Direction::ToConnector, Direction::ToAcceptor),
            other => {
                self.state = other;
                return false;
            }
        };
        let mapping = Arc::new(mapping);
        let writer = Writer::new(RingMemory::new(mapping.clone(), written));
        let reader = Reader::new(RingMemory::new(mapping, read));
        let passing = by_descriptor.then(DescriptorPassing::default);
        self.state =
            State::Rings(Rings { reader, writer, notifications: 0, is_closed: false, passing, error: None });
        true
    }

    fn use_no_memory(&mut self) {
        self.state = State::Plain;
    }

    #[inline]
    fn is_polled(&self) -> bool {
        matches!(self.state, State::Rings(_))
    }

    #[inline]
    fn is_ready(&self) -> bool {
        match &self.state {
            State::Rings(rings) => rings.reader.has_bytes() || rings.writer.has_room_again(),
            _ => false,
        }
    }

    #[inline]
    fn has_room_again(&self) -> bool {
        matches!(&self.state, State::Rings(rings) if rings.writer.has_room_again())
    }

    fn request_notifications(&self) {
        if let State::Rings(rings) = &self.state {
            rings.reader.request_notifications();
        }
    }

    fn stop_notifications(&self) {
        if let State::Rings(rings) = &self.state {
            rings.reader.stop_notifications();
        }
    }

    fn handle_notification(&mut self, is_closed: bool) {
        if let State::Rings(rings) = &mut self.state {
            rings.handle_bytes(&mut self.stream, is_closed);
        }
    }

    fn descriptors(&mut self) -> Option<&mut dyn Descriptors> {
        match &self.state {
            State::Rings(Rings { passing: Some(_), .. }) => Some(self),
            _ => None,
        }
    }
}

impl Descriptors for RingSocket {
    fn find_room(&mut self) -> io::Result<bool> {
        let State::Rings(Rings { writer, passing: Some(passing), .. }) = &mut self.state else {
            return Ok(false);
        };
        Ok(passing.find_room(writer.consumed_by_reader().map_err(broken)?)
            || passing.find_room(writer.request_read_notification().map_err(broken)?))
    }

    fn hand_over(&mut self, extent: &Extent, queued: usize) -> bool {
        let State::Rings(Rings { writer, passing: Some(passing), .. }) = &mut self.state else {
            return false;
        };
        let Some(descriptor) = descriptor(&**extent) else { return false };
        let end = writer.produced() + queued as u64;
        let sent = passing.send_descriptor(&self.stream, descriptor, extent.length(), end);
        sent.inspect_err(|error| debug!(%error, "cannot pass a descriptor: the data go through the ring"))
            .is_ok()
    }

    fn stop_waiting(&mut self) {
        if let State::Rings(rings) = &mut self.state {
            rings.writer.stop_waiting();
        }
    }

    fn take(&mut self, length: usize, node: &Extents) -> io::Result<Extent> {
        let State::Rings(Rings { passing: Some(passing), notifications, .. }) = &mut self.state else {
            return Err(io::Error::new(ErrorKind::InvalidData, "the link takes no descriptors"));
        };
        node.release_reserve();
        let descriptor = passing.take(&self.stream)?;
        *notifications = 0;
        node.take(descriptor, length)
    }
}

impl Read for RingSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Rings(rings) => rings.read(&self.stream, buffer),
            State::Expecting | State::Received(_) => self.receive(buffer),
            State::Plain | State::Offering | State::Offered(_) => self.stream.read(buffer),
        }
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.state {
            State::Rings(rings) => rings.read_parts(&self.stream, parts),
            State::Expecting | State::Received(_) => {
                let first = parts.iter_mut().find(|part| !part.is_empty());
                first.map_or(Ok(0), |part| self.receive(part))
            }
            State::Plain | State::Offering | State::Offered(_) => self.stream.read_vectored(parts),
        }
    }
}

impl Write for RingSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.state {
            State::Rings(rings) => rings.write(&self.stream, parts),
            State::Offering => self.offer(parts),
            _ => send_parts(&self.stream, parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Rings {
    fn read(&mut self, stream: &UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match self.reader.read(buffer).map_err(broken)? {
            // All bytes that the peer wrote before it closed the socket have been read.
            0 if self.is_closed => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => {
                if self.reader.must_notify() {
                    // If this fails, the peer has ended, which the socket reports.
                    let _ = notify_peer(stream);
                }
                Ok(count)
            }
        }
    }

    /// Fills the parts in order, as far as there are bytes.
    fn read_parts(&mut self, stream: &UnixStream, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut all = 0;
        for part in parts.iter_mut().filter(|part| !part.is_empty()) {
            match self.read(stream, part) {
                Ok(count) => {
                    all += count;
                    if count < part.len() {
                        break;
                    }
                }
                // The next read returns the error.
                Err(_) if all > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn write(&mut self, stream: &UnixStream, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = self.writer.write(parts).map_err(broken)?;
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.writer.must_notify() {
            // The bytes are in the ring. If this fails, the peer has ended, which the socket reports.
            let _ = notify_peer(stream);
        }
        Ok(count)
    }

    /// Whether the socket holds more bytes than a correct peer sends, so that it is read before [`NOTIFICATIONS_MAX`].
    /// A needless read could take a descriptor for which this process has no room.
    fn has_excess_bytes(&self, stream: &UnixStream) -> bool {
        // Without bytes or room in the ring, a notification is stale, or announces a descriptor whose frame follows.
        let unfounded = !self.reader.has_bytes() && !self.writer.has_room_again();
        // Descriptors that were read before count as well.
        let waiting_max = self.passing.as_ref().map(|passing| WAITING_MAX.saturating_sub(passing.waiting()));
        unfounded
            && waiting_max.is_some_and(|waiting_max| {
                ioctl_fionread(stream).is_ok_and(|bytes| bytes > waiting_max as u64)
            })
    }

    fn handle_bytes(&mut self, stream: &mut UnixStream, is_closed: bool) {
        self.is_closed |= is_closed;
        self.notifications += 1;
        if self.is_closed || (self.notifications < NOTIFICATIONS_MAX && !self.has_excess_bytes(stream)) {
            return;
        }
        self.notifications = 0;
        // Without descriptor passing, received descriptors are closed.
        let mut ignored = DescriptorPassing::default();
        match self.passing.as_mut().unwrap_or(&mut ignored).read_notifications(&*stream) {
            Ok(is_closed) => self.is_closed |= is_closed,
            Err(error) if self.passing.is_some() => self.error = Some(error),
            Err(_) => {}
        }
    }
}

fn notify_peer(stream: &UnixStream) -> io::Result<()> {
    match send(stream, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        // The socket is full of unread notifications: one more changes nothing.
        Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn broken(error: RingError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};

    use super::*;

    /// Two ends with rings and descriptor passing.
    fn pair() -> [RingSocket; 2] {
        let (one, two) = UnixStream::pair().unwrap();
        let mut pair = [RingSocket::connecting(one), RingSocket::accepted(two)];
        assert_eq!(pair[0].write(b"hello").unwrap(), 5);
        assert_eq!(pair[1].read(&mut [0; 9]).unwrap(), 5);
        assert!(pair.iter_mut().all(|socket| socket.use_memory(true)));
        pair
    }

    /// Passes descriptors that no frame announces. Returns whether the other end reads its socket at the next event.
    fn finds_room([from, to]: &mut [RingSocket; 2], descriptors: usize) -> bool {
        let descriptor: OwnedFd = std::io::pipe().unwrap().0.into();
        for _ in 0..descriptors {
            scm_rights::send(&from.stream, &[IoSlice::new(&[1])], descriptor.as_fd()).unwrap();
        }
        to.handle_notification(false);
        ioctl_fionread(&to.stream).unwrap() == 0
    }

    /// A peer that passed descriptors without their frames could have twice as many open here as may be on their way.
    #[test]
    fn descriptors_that_were_read_before_count_as_well() {
        let mut sockets = pair();
        assert!(!finds_room(&mut sockets, WAITING_MAX), "so many may be on their way");
        assert!(finds_room(&mut sockets, 1));
        assert_eq!(sockets[1].read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::Other);
        let mut sockets = pair();
        let half = WAITING_MAX / 2;
        assert!(!finds_room(&mut sockets, half));
        // After many events the socket is read in any case.
        (1..NOTIFICATIONS_MAX).for_each(|_| sockets[1].handle_notification(false));
        assert_eq!(ioctl_fionread(&sockets[1].stream).unwrap(), 0);
        assert!(!finds_room(&mut sockets, half));
        assert!(finds_room(&mut sockets, 1));
        assert_eq!(sockets[1].read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::Other);
    }
}

//! A Unix socket that may bring two rings with it, and then stays for their bells, and to tell that the peer has gone.
//!
//! The side that connects makes the memory and sends its descriptor with its first bytes; the other side maps it and
//! says so in its hello. From then on bytes go through the rings, and every byte on the socket is a bell. Whatever is
//! missing or wrong, the socket stays what it was. Source: docs/wire.md, "Shared rings".

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::replace;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use mio::event::Source;
use mio::net::UnixStream;
use rustix::io::ioctl_fionread;
use rustix::net::{SendFlags, send};
use tracing::{debug, warn};

use super::extents::{Extents, descriptor};
use super::handover;
use super::lane::{CAME_MAX, Lane};
use super::mapping::{Half, Mapping, Which};
use super::ring::{Broken, Reader, Writer};
use crate::link::peering::{Source as PeerAddress, Transport as Between};
use crate::transport::byte_stream::{ByteStream, Descriptors, SharedMemory};
use crate::transport::sending::send_parts;
use crate::wire::body::Extent;

/// Times that a socket says that a bell came before the bells are read, where there is something that they rang for:
/// each says so anew, so that none need be; a quarter of what a socket of the usual size holds, with two to a time.
const UNREAD_MAX: u32 = 32;

/// A Unix socket, perhaps with rings.
#[derive(Debug)]
pub(crate) struct RingSocket {
    stream: UnixStream,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Bytes go through the socket, for good.
    Plain,
    /// Connected: memory goes out with the first bytes. It is made only then, so that a node which connects to a
    /// thousand others at once holds one descriptor more, and not a thousand.
    Offering,
    /// The memory was sent; whether the peer takes it is not known.
    Offered(Mapping),
    /// Accepted: the first bytes may bring memory.
    Expecting,
    /// They have.
    Brought(Mapping),
    /// Bytes go through the rings.
    Rings(Rings),
}

#[derive(Debug)]
struct Rings {
    reader: Reader<Half>,
    writer: Writer<Half>,
    /// Times that bells have come since they were last read.
    unread: u32,
    /// Whether the peer has closed the socket: what is in the ring is its last.
    closed: bool,
    /// Descriptors, where both sides take data by them.
    lane: Option<Lane>,
    /// What came on the socket and must not.
    wrong: Option<io::Error>,
}

impl RingSocket {
    /// A socket that this side connects, to offer memory if the system has any.
    pub(crate) fn connecting(stream: UnixStream) -> RingSocket {
        RingSocket { stream, state: State::Offering }
    }

    /// A socket that the peer has connected.
    pub(crate) fn accepted(stream: UnixStream) -> RingSocket {
        RingSocket { stream, state: State::Expecting }
    }

    /// Writes the first bytes of a connection, and memory with them, if the system has any and lets it go.
    fn offer(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let offered = Mapping::create().and_then(|(memory, mapping)| {
            handover::send(&self.stream, parts, memory.as_fd()).map(|count| (count, mapping))
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
                debug!(%error, "no shared memory for a link: it uses its socket");
                self.state = State::Plain;
                send_parts(&self.stream, parts)
            }
        }
    }

    /// Reads the first bytes of a connection, and the memory that may come with them.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut descriptors = Vec::new();
        let received =
            handover::receive(&self.stream, buffer, &mut descriptors).map(|received| received.bytes);
        let Some(memory) = descriptors.pop() else { return received };
        let opened = match (&self.state, descriptors.is_empty()) {
            (State::Expecting, true) => Mapping::open(&memory),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "more than one descriptor came")),
        };
        self.state = opened.map_or_else(
            |error| {
                warn!(%error, "the shared memory of a peer is refused: the link uses its socket");
                State::Plain
            },
            State::Brought,
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

    fn whence(&self) -> String {
        self.stream.whence()
    }

    fn peer_user(&self) -> io::Result<Option<u32>> {
        self.stream.peer_user()
    }

    /// With rings, the reader notifies the writer when it has freed space.
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
        matches!(self.state, State::Brought(_))
    }

    fn use_memory(&mut self, by_descriptor: bool) -> bool {
        let (mapping, written, read) = match replace(&mut self.state, State::Plain) {
            State::Offered(mapping) => (mapping, Which::First, Which::Second),
            State::Brought(mapping) => (mapping, Which::Second, Which::First),
            other => {
                self.state = other;
                return false;
            }
        };
        let mapping = Arc::new(mapping);
        let writer = Writer::new(Half::new(mapping.clone(), written));
        let reader = Reader::new(Half::new(mapping, read));
        let lane = by_descriptor.then(Lane::default);
        self.state = State::Rings(Rings { reader, writer, unread: 0, closed: false, lane, wrong: None });
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
    fn has_come(&self) -> bool {
        match &self.state {
            State::Rings(rings) => rings.reader.has_bytes() || rings.writer.has_room_again(),
            _ => false,
        }
    }

    #[inline]
    fn has_room_again(&self) -> bool {
        matches!(&self.state, State::Rings(rings) if rings.writer.has_room_again())
    }

    fn sleep(&self) {
        if let State::Rings(rings) = &self.state {
            rings.reader.sleep();
        }
    }

    fn wake(&self) {
        if let State::Rings(rings) = &self.state {
            rings.reader.wake();
        }
    }

    fn notified(&mut self, closed: bool) {
        if let State::Rings(rings) = &mut self.state {
            rings.rung(&mut self.stream, closed);
        }
    }

    fn descriptors(&mut self) -> Option<&mut dyn Descriptors> {
        match &self.state {
            State::Rings(Rings { lane: Some(_), .. }) => Some(self),
            _ => None,
        }
    }
}

impl Descriptors for RingSocket {
    fn find_room(&mut self) -> io::Result<bool> {
        let State::Rings(Rings { writer, lane: Some(lane), .. }) = &mut self.state else { return Ok(false) };
        Ok(lane.find_room(writer.read_by_now().map_err(broken)?)
            || lane.find_room(writer.wait_for_reader().map_err(broken)?))
    }

    fn hand_over(&mut self, extent: &Extent, queued: usize) -> bool {
        let State::Rings(Rings { writer, lane: Some(lane), .. }) = &mut self.state else { return false };
        let Some(descriptor) = descriptor(&**extent) else { return false };
        let end = writer.produced() + queued as u64;
        let given = lane.give(&self.stream, descriptor, extent.length(), end);
        given.inspect_err(|error| debug!(%error, "data go through a ring, not by descriptor")).is_ok()
    }

    fn stop_waiting(&mut self) {
        if let State::Rings(rings) = &mut self.state {
            rings.writer.stop_waiting();
        }
    }

    fn take(&mut self, length: usize, node: &Extents) -> io::Result<Extent> {
        let State::Rings(Rings { lane: Some(lane), unread, .. }) = &mut self.state else {
            return Err(io::Error::new(ErrorKind::InvalidData, "the link takes no descriptors"));
        };
        node.give_place();
        let descriptor = lane.take(&self.stream)?;
        *unread = 0;
        node.take(descriptor, length)
    }
}

impl Read for RingSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Rings(rings) => rings.read(&self.stream, buffer),
            State::Expecting | State::Brought(_) => self.receive(buffer),
            State::Plain | State::Offering | State::Offered(_) => self.stream.read(buffer),
        }
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.state {
            State::Rings(rings) => rings.read_parts(&self.stream, parts),
            State::Expecting | State::Brought(_) => {
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
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        match self.reader.read(buffer).map_err(broken)? {
            // What the peer wrote before it closed the socket was there before that was known.
            0 if self.closed => Ok(0),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => {
                if self.reader.must_ring() {
                    // A peer that has gone needs no bell, and the socket tells.
                    let _ = ring_bell(stream);
                }
                Ok(count)
            }
        }
    }

    /// Fills the parts one after the other, as far as there are bytes.
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
                // What is wrong still is with the next read.
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
        if self.writer.must_ring() {
            // The bytes are in the ring, whatever becomes of the bell: of a peer that has gone the socket tells.
            let _ = ring_bell(stream);
        }
        Ok(count)
    }

    /// Whether more lies on the socket than may, so that it is to be looked at though the system has said so few times
    /// that something came. Taken out in vain, a descriptor would need room that this process may not have.
    fn has_too_many(&self, stream: &UnixStream) -> bool {
        // Nothing is there to be rung for where the node has seen it by itself already; or where a descriptor has come,
        // whose frame follows.
        let unfounded = !self.reader.has_bytes() && !self.writer.has_room_again();
        // With those that were read before, which were no more than may wait by themselves.
        let most = self.lane.as_ref().map(|lane| CAME_MAX.saturating_sub(lane.waiting()));
        unfounded && most.is_some_and(|most| ioctl_fionread(stream).is_ok_and(|bytes| bytes > most as u64))
    }

    fn rung(&mut self, stream: &mut UnixStream, closed: bool) {
        self.closed |= closed;
        self.unread += 1;
        if self.closed || (self.unread < UNREAD_MAX && !self.has_too_many(stream)) {
            return;
        }
        self.unread = 0;
        // Of one that takes no descriptors they are closed as they come.
        let mut none = Lane::default();
        match self.lane.as_mut().unwrap_or(&mut none).read_bells(&*stream) {
            Ok(closed) => self.closed |= closed,
            Err(error) if self.lane.is_some() => self.wrong = Some(error),
            Err(_) => {}
        }
    }
}

fn ring_bell(stream: &UnixStream) -> io::Result<()> {
    match send(stream, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
        // So many bells wait there that it does not look at them: one more changes nothing.
        Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn broken(error: Broken) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};

    use super::*;

    /// Two ends whose bytes go through rings, and that take descriptors.
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
            handover::send(&from.stream, &[IoSlice::new(&[1])], descriptor.as_fd()).unwrap();
        }
        to.notified(false);
        ioctl_fionread(&to.stream).unwrap() == 0
    }

    /// A peer that passed descriptors without their frames could have twice as many open here as may be on their way.
    #[test]
    fn descriptors_that_were_read_before_count_as_well() {
        let mut sockets = pair();
        assert!(!finds_room(&mut sockets, CAME_MAX), "so many may be on their way");
        assert!(finds_room(&mut sockets, 1));
        assert_eq!(sockets[1].read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::Other);
        let mut sockets = pair();
        let half = CAME_MAX / 2;
        assert!(!finds_room(&mut sockets, half));
        // After many events the socket is read in any case.
        (1..UNREAD_MAX).for_each(|_| sockets[1].notified(false));
        assert_eq!(ioctl_fionread(&sockets[1].stream).unwrap(), 0);
        assert!(!finds_room(&mut sockets, half));
        assert!(finds_room(&mut sockets, 1));
        assert_eq!(sockets[1].read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::Other);
    }
}

//! Descriptor passing on one link, over its Unix socket beside the rings: received descriptors that wait for their
//! frames, and sent ones that the peer has not taken.
//!
//! A descriptor is sent before its frame is in the ring, so it has arrived when the frame is read. A frame that
//! announces a descriptor and lacks it is a protocol error. At most as many descriptors wait as a correct peer can
//! send. Source: docs/wire.md, "Data by descriptor".

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::scm_rights;
use crate::wire::frame::{EXTENT_MIN, WINDOW};

/// Number of bytes in flight from which on no further descriptor is sent: a window of a call, however slow the
/// receiver is.
const IN_FLIGHT_MAX: usize = WINDOW as usize;

/// Maximum number of descriptors that wait for their frames: as many as a correct peer can send before the first frame
/// is read.
pub(super) const WAITING_MAX: usize = 2 * IN_FLIGHT_MAX / EXTENT_MIN;

/// Maximum number of consecutive reads: more than the notifications of a correct peer need.
const READS_MAX: usize = 4;

/// Number of bytes of one read.
const READ_LEN: usize = 512;

/// Descriptors of one link.
#[derive(Debug, Default)]
pub(super) struct DescriptorPassing {
    received: VecDeque<OwnedFd>,
    /// For each sent descriptor that the peer may not have taken: the end of its frame in the ring, and the length of
    /// its data.
    in_flight: VecDeque<(u64, usize)>,
    in_flight_bytes: usize,
}

impl DescriptorPassing {
    /// Whether another descriptor may be sent, after the peer has read the ring up to `read`.
    pub(super) fn find_room(&mut self, read: u64) -> bool {
        while let Some((end, bytes)) = self.in_flight.front()
            && *end <= read
        {
            self.in_flight_bytes -= bytes;
            self.in_flight.pop_front();
        }
        self.in_flight_bytes < IN_FLIGHT_MAX
    }

    /// Sends the descriptor of `bytes` bytes, whose frame will end at `end` in the ring.
    ///
    /// # Errors
    /// The system's; then nothing was sent, and the data must go through the ring.
    pub(super) fn send_descriptor(
        &mut self,
        socket: impl AsFd,
        descriptor: BorrowedFd<'_>,
        bytes: usize,
        end: u64,
    ) -> io::Result<()> {
        scm_rights::send(socket, &[IoSlice::new(&[1])], descriptor)?;
        self.in_flight.push_back((end, bytes));
        self.in_flight_bytes += bytes;
        Ok(())
    }

    /// Takes the descriptor of the next frame.
    ///
    /// # Errors
    /// If the descriptor is missing, or a message brought several.
    pub(super) fn take(&mut self, socket: impl AsFd) -> io::Result<OwnedFd> {
        for _ in 0..READS_MAX {
            if let Some(descriptor) = self.received.pop_front() {
                return Ok(descriptor);
            }
            match self.read_once(&socket) {
                Ok(0) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                done => done?,
            };
        }
        self.received.pop_front().ok_or_else(|| io::Error::other("no descriptor arrived with it"))
    }

    /// Number of descriptors that wait for their frames.
    pub(super) fn waiting(&self) -> usize {
        self.received.len()
    }

    /// Reads pending notifications and descriptors; returns whether the peer has closed the socket.
    ///
    /// # Errors
    /// If more descriptors arrived than may wait.
    pub(super) fn read_notifications(&mut self, socket: impl AsFd) -> io::Result<bool> {
        for _ in 0..READS_MAX + WAITING_MAX {
            if self.received.len() > WAITING_MAX {
                return Err(io::Error::other("more descriptors arrived than were announced"));
            }
            let before = self.received.len();
            match self.read_once(&socket) {
                Ok(0) => return Ok(true),
                // A read ends after a descriptor, even if more bytes follow.
                Ok(count) if count < READ_LEN && self.received.len() == before => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(error),
                // Other errors occur again at the next event, or the socket is reported as closed.
                Err(_) => break,
            }
        }
        Ok(false)
    }

    /// Reads once, up to the first descriptor.
    fn read_once(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let (mut buffer, mut descriptors) = ([0; READ_LEN], Vec::new());
        let received = scm_rights::receive(socket, &mut buffer, &mut descriptors)?;
        let rejected = |why| Err(io::Error::new(ErrorKind::InvalidData, why));
        if received.is_truncated {
            return rejected(
                "a descriptor was lost: this process has none free, or too many arrived at once",
            );
        }
        if descriptors.len() > 1 {
            return rejected("several descriptors arrived at once");
        }
        self.received.extend(descriptors);
        Ok(received.bytes)
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (one, two) = UnixStream::pair().unwrap();
        two.set_nonblocking(true).unwrap();
        (one, two)
    }

    /// The reading end of a pipe that contains this number.
    fn numbered(number: u8) -> OwnedFd {
        let (end, mut other) = std::io::pipe().unwrap();
        other.write_all(&[number]).unwrap();
        end.into()
    }

    fn number(descriptor: OwnedFd) -> u8 {
        let mut number = [0];
        File::from(descriptor).read_exact(&mut number).unwrap();
        number[0]
    }

    #[test]
    fn descriptors_arrive_in_order_between_notifications() {
        let ((mut one, two), mut from, mut to) =
            (pair(), DescriptorPassing::default(), DescriptorPassing::default());
        for round in 0..30u8 {
            (0..round % 4).for_each(|_| assert_eq!(one.write(&[1]).unwrap(), 1));
            from.send_descriptor(&one, numbered(round).as_fd(), 1, 0).unwrap();
            (0..round % 3).for_each(|_| assert_eq!(one.write(&[1]).unwrap(), 1));
            if round % 5 == 0 {
                assert!(!to.read_notifications(&two).unwrap());
            }
            if round % 2 == 1 {
                assert_eq!([(); 2].map(|()| number(to.take(&two).unwrap())), [round - 1, round]);
            }
        }
        let error = to.take(&two).unwrap_err();
        assert!(error.to_string().contains("no descriptor"), "{error}");
        drop(one);
        assert!(to.read_notifications(&two).unwrap() && to.take(&two).is_err());
    }

    #[test]
    fn bytes_in_flight_are_limited_until_the_peer_reads() {
        let ((one, _two), mut passing) = (pair(), DescriptorPassing::default());
        let piece = IN_FLIGHT_MAX / 4;
        for place in 1..=4 {
            assert!(passing.find_room(0));
            passing.send_descriptor(&one, numbered(0).as_fd(), piece, 100 * place).unwrap();
        }
        assert!(!passing.find_room(99));
        assert!(passing.find_room(100) && passing.find_room(100));
        passing.send_descriptor(&one, numbered(0).as_fd(), 4 * piece, 500).unwrap();
        assert!(!passing.find_room(499));
        assert!(passing.find_room(500));
        assert_eq!((passing.in_flight_bytes, passing.in_flight.len()), (0, 0));
    }

    #[test]
    fn several_descriptors_at_once_or_too_many_are_rejected() {
        let send = |count: usize| {
            let ((one, two), ends) = (pair(), [0; 4].map(numbered));
            let borrowed: Vec<BorrowedFd<'_>> = ends[..count].iter().map(AsFd::as_fd).collect();
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
            assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&borrowed)));
            let flags = rustix::net::SendFlags::empty();
            rustix::net::sendmsg(&one, &[IoSlice::new(&[1])], &mut control, flags).unwrap();
            (DescriptorPassing::default().take(&two), one)
        };
        assert!(send(1).0.is_ok());
        for count in [2, 4] {
            assert_eq!(send(count).0.unwrap_err().kind(), ErrorKind::InvalidData, "{count}");
        }
        let ((one, two), mut from, mut to) =
            (pair(), DescriptorPassing::default(), DescriptorPassing::default());
        for _ in 0..=WAITING_MAX {
            from.send_descriptor(&one, numbered(0).as_fd(), 1, 0).unwrap();
        }
        assert!(to.read_notifications(&two).is_err());
        assert!(to.received.len() <= WAITING_MAX + 1);
    }

    #[test]
    fn a_full_socket_takes_no_descriptor_and_none_is_counted() {
        let ((one, _two), mut passing) = (pair(), DescriptorPassing::default());
        let piece = numbered(0);
        let error = loop {
            if let Err(error) = passing.send_descriptor(&one, piece.as_fd(), 1, 0) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(passing.in_flight_bytes, passing.in_flight.len());
    }
}

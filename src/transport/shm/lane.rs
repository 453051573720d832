//! The descriptors of one link on their way over its Unix socket, beside the rings: those that have come and wait for
//! their frame, and those that the peer has not taken yet.
//!
//! A descriptor is on the socket before the frame that speaks of it is in the ring. So who reads the frame finds the
//! descriptor there: nobody waits for one, and a frame without one is a lie. Must never keep more of them than an
//! honest peer can have sent. Source: docs/wire.md, "Data by descriptor".

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::handover;
use crate::wire::frame::{EXTENT_MIN, WINDOW};

/// Bytes of data that are handed over and not taken: as a window of a call, whatever receiver is slow.
const UNDER_WAY_MAX: usize = WINDOW as usize;

/// Descriptors that wait for their frames: as many as an honest peer can have sent before the first of them is read.
pub(super) const CAME_MAX: usize = 2 * UNDER_WAY_MAX / EXTENT_MIN;

/// Reads of bells in a row: more than an honest peer can have rung.
const BELL_READS: usize = 4;

/// Bells read at once.
const BELLS: usize = 512;

/// The descriptors of one link.
#[derive(Debug, Default)]
pub(super) struct Lane {
    came: VecDeque<OwnedFd>,
    /// Of each that was handed over and may not be taken: where in the ring its frame ends, and its bytes.
    given: VecDeque<(u64, usize)>,
    under_way: usize,
}

impl Lane {
    /// Whether the peer has taken so many that another may go, now that it has read the ring up to there.
    pub(super) fn find_room(&mut self, read: u64) -> bool {
        while let Some((end, bytes)) = self.given.front()
            && *end <= read
        {
            self.under_way -= bytes;
            self.given.pop_front();
        }
        self.under_way < UNDER_WAY_MAX
    }

    /// Hands over the descriptor of so many bytes, whose frame will end at this place in the ring.
    ///
    /// # Errors
    /// The system's; then nothing was sent, and the data have to go another way.
    pub(super) fn give(
        &mut self,
        socket: impl AsFd,
        descriptor: BorrowedFd<'_>,
        bytes: usize,
        end: u64,
    ) -> io::Result<()> {
        handover::send(socket, &[IoSlice::new(&[1])], descriptor)?;
        self.given.push_back((end, bytes));
        self.under_way += bytes;
        Ok(())
    }

    /// The next descriptor, whose frame has come.
    ///
    /// # Errors
    /// When there is none, or anything else than one by one.
    pub(super) fn take(&mut self, socket: impl AsFd) -> io::Result<OwnedFd> {
        for _ in 0..BELL_READS {
            if let Some(descriptor) = self.came.pop_front() {
                return Ok(descriptor);
            }
            match self.read_once(&socket) {
                Ok(0) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                done => done?,
            };
        }
        self.came.pop_front().ok_or_else(|| io::Error::other("no descriptor came with it"))
    }

    /// Descriptors that have come and wait for their frames.
    pub(super) fn waiting(&self) -> usize {
        self.came.len()
    }

    /// Reads the bells that there are, and keeps the descriptors among them; says whether the peer has closed the
    /// socket.
    ///
    /// # Errors
    /// When more descriptors came than may wait.
    pub(super) fn read_bells(&mut self, socket: impl AsFd) -> io::Result<bool> {
        for _ in 0..BELL_READS + CAME_MAX {
            if self.came.len() > CAME_MAX {
                return Err(io::Error::other("more descriptors came than it speaks of"));
            }
            let before = self.came.len();
            match self.read_once(&socket) {
                Ok(0) => return Ok(true),
                // A read ends behind a descriptor, though more may follow.
                Ok(count) if count < BELLS && self.came.len() == before => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(error),
                // What went wrong is told again with the next event, or is told as closed.
                Err(_) => break,
            }
        }
        Ok(false)
    }

    /// One read, which ends behind a descriptor.
    fn read_once(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let (mut bells, mut descriptors) = ([0; BELLS], Vec::new());
        let received = handover::receive(socket, &mut bells, &mut descriptors)?;
        let refused = |why| Err(io::Error::new(ErrorKind::InvalidData, why));
        if received.lost {
            return refused(
                "a descriptor is lost: this process has no room for it, or too many came at once",
            );
        }
        if descriptors.len() > 1 {
            return refused("descriptors came that are not one by one");
        }
        self.came.extend(descriptors);
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

    /// A pipe's end from which this number comes.
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
    fn descriptors_come_in_order_however_the_bells_between_are_read() {
        let ((mut one, two), mut from, mut to) = (pair(), Lane::default(), Lane::default());
        for round in 0..30u8 {
            (0..round % 4).for_each(|_| assert_eq!(one.write(&[1]).unwrap(), 1));
            from.give(&one, numbered(round).as_fd(), 1, 0).unwrap();
            (0..round % 3).for_each(|_| assert_eq!(one.write(&[1]).unwrap(), 1));
            if round % 5 == 0 {
                assert!(!to.read_bells(&two).unwrap());
            }
            if round % 2 == 1 {
                assert_eq!([(); 2].map(|()| number(to.take(&two).unwrap())), [round - 1, round]);
            }
        }
        let error = to.take(&two).unwrap_err();
        assert!(error.to_string().contains("no descriptor"), "{error}");
        drop(one);
        assert!(to.read_bells(&two).unwrap() && to.take(&two).is_err());
    }

    #[test]
    fn so_many_bytes_are_under_way_as_the_peer_has_not_read_of() {
        let ((one, _two), mut lane) = (pair(), Lane::default());
        let piece = UNDER_WAY_MAX / 4;
        for place in 1..=4 {
            assert!(lane.find_room(0));
            lane.give(&one, numbered(0).as_fd(), piece, 100 * place).unwrap();
        }
        assert!(!lane.find_room(99));
        assert!(lane.find_room(100) && lane.find_room(100));
        lane.give(&one, numbered(0).as_fd(), 4 * piece, 500).unwrap();
        assert!(!lane.find_room(499));
        assert!(lane.find_room(500));
        assert_eq!((lane.under_way, lane.given.len()), (0, 0));
    }

    #[test]
    fn what_does_not_come_one_by_one_or_without_end_is_refused() {
        let send = |count: usize| {
            let ((one, two), ends) = (pair(), [0; 4].map(numbered));
            let borrowed: Vec<BorrowedFd<'_>> = ends[..count].iter().map(AsFd::as_fd).collect();
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
            assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&borrowed)));
            let flags = rustix::net::SendFlags::empty();
            rustix::net::sendmsg(&one, &[IoSlice::new(&[1])], &mut control, flags).unwrap();
            (Lane::default().take(&two), one)
        };
        assert!(send(1).0.is_ok());
        for count in [2, 4] {
            assert_eq!(send(count).0.unwrap_err().kind(), ErrorKind::InvalidData, "{count}");
        }
        let ((one, two), mut from, mut to) = (pair(), Lane::default(), Lane::default());
        for _ in 0..=CAME_MAX {
            from.give(&one, numbered(0).as_fd(), 1, 0).unwrap();
        }
        assert!(to.read_bells(&two).is_err());
        assert!(to.came.len() <= CAME_MAX + 1);
    }

    #[test]
    fn a_full_socket_takes_no_descriptor_and_none_is_counted() {
        let ((one, _two), mut lane) = (pair(), Lane::default());
        let piece = numbered(0);
        let error = loop {
            if let Err(error) = lane.give(&one, piece.as_fd(), 1, 0) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert_eq!(lane.under_way, lane.given.len());
    }
}

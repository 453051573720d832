//! The descriptors of one link on their way over its Unix socket, beside the rings: those that have come and wait for their frame, and those that the peer has not taken yet.
//!
//! A descriptor is on the socket before the frame that speaks of it is in the ring. So who reads the frame finds the descriptor there: nobody waits for one, and a frame without one is a lie.
//! Must never keep more of them than an honest peer can have sent. Source: docs/wire.md, "Data by descriptor".

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::handover;
use crate::wire::frame::{EXTENT_MIN, WINDOW};

/// Bytes of data that are handed over and not taken: as a window of a call, whatever receiver is slow.
const UNDER_WAY_MAX: usize = WINDOW as usize;

/// Descriptors that wait for their frames: as many as an honest peer can have sent before the first of them is read.
const CAME_MAX: usize = 2 * UNDER_WAY_MAX / EXTENT_MIN;

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
    pub(super) fn has_room(&mut self, read: u64) -> bool {
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

    /// Reads the bells that there are, and keeps the descriptors among them; says whether the peer has closed the socket.
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

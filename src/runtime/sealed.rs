//! A TCP socket whose bytes are sealed: records of the session that the proof has made, as many bytes in each as there are to send.
//!
//! Source: docs/wire.md, "Records". What is written is sealed at once, and waits here until the socket takes it; what was read is opened where a whole record has come, to where it is read if there is room.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use mio::net::TcpStream;

use crate::peering::{LENGTH_BYTES, RECORD_MAX, Session, TAG};

/// Bytes of a record's own data at most.
const PLAIN_MAX: usize = RECORD_MAX - TAG;

/// Bytes that are read from the socket at a time: at first, and at most. Two of the longest records; where small messages come, as idle links are many, far less.
const READ: (usize, usize) = (4 << 10, 2 * (LENGTH_BYTES + RECORD_MAX));

/// Bytes that one write seals at most: about as many as a segment has.
const WRITE: usize = 4 * PLAIN_MAX;

/// Bytes of which only a part is in use: memory that is made once is not made zero again.
#[derive(Debug, Default)]
struct Bytes {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Bytes {
    fn used(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Room for so many bytes behind those in use.
    fn room(&mut self, count: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.bytes.len() - self.end < count {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < count {
                self.bytes.resize(self.end + count, 0);
            }
        }
        &mut self.bytes[self.end..self.end + count]
    }

    /// Gives the memory back, if nothing is in use.
    fn release(&mut self) {
        if self.start == self.end {
            *self = Bytes::default();
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct SealedSocket {
    stream: TcpStream,
    session: Box<dyn Session>,
    /// From the socket, and not opened yet.
    came: Bytes,
    /// How many bytes are asked of the socket next.
    read: usize,
    /// Opened, and not read yet.
    plain: Bytes,
    /// Sealed, and not taken by the socket yet.
    sealed: Bytes,
    /// Parts that go into one record.
    gathered: Vec<u8>,
    /// Whether the socket has given anything since this was last looked at: of a record that is not whole nobody else sees anything.
    heard: bool,
}

impl SealedSocket {
    pub(super) fn new(stream: TcpStream, session: Box<dyn Session>) -> SealedSocket {
        let bytes = Bytes::default;
        let (came, plain, sealed) = (bytes(), bytes(), bytes());
        SealedSocket {
            stream,
            session,
            came,
            read: READ.0,
            plain,
            sealed,
            gathered: Vec::new(),
            heard: false,
        }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Whether what was sealed waits for the socket.
    pub(super) fn is_holding(&self) -> bool {
        !self.sealed.used().is_empty()
    }

    /// Whether anything has come since this was last asked.
    pub(super) fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    /// Gives back memory that nothing needs now.
    pub(super) fn release_room(&mut self) {
        for bytes in [&mut self.came, &mut self.plain, &mut self.sealed] {
            bytes.release();
        }
        self.gathered = Vec::new();
        self.read = READ.0;
    }

    /// Writes what was sealed before.
    fn write_held(&mut self) -> io::Result<()> {
        while self.is_holding() {
            match self.stream.write(self.sealed.used()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sealed.start += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes of the record that has come next, if it is whole.
    fn next_record(&self) -> Option<usize> {
        let came = self.came.used();
        let length = usize::from(u16::from_le_bytes(*came.first_chunk()?));
        (came.len() >= LENGTH_BYTES + length).then_some(length)
    }

    /// Opens the next record into the buffer if it has room, else beside it; says how many bytes are in the buffer. None where no record is whole.
    fn open_next(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(length) = self.next_record() else { return Ok(None) };
        // One without bytes of its own is no news, and could come for ever.
        if length <= TAG {
            return Err(broken("a sealed record without bytes came"));
        }
        let record = &self.came.bytes[self.came.start + LENGTH_BYTES..][..length];
        let wrong = |_| broken("a sealed record was changed, or is not the next one");
        let direct = buffer.len() >= length;
        let opened = match direct {
            true => self.session.open(record, buffer).map_err(wrong)?,
            false => self.session.open(record, self.plain.room(length)).map_err(wrong)?,
        };
        self.came.start += LENGTH_BYTES + length;
        if !direct {
            self.plain.end += opened;
        }
        Ok(Some(if direct { opened } else { 0 }))
    }

    /// Reads what the socket has.
    fn receive(&mut self) -> io::Result<usize> {
        // Room follows what has come, not what a record says of itself.
        let count = self.read;
        let read = self.stream.read(self.came.room(count))?;
        self.came.end += read;
        self.heard |= read > 0;
        if read == count {
            self.read = (2 * self.read).min(READ.1);
        }
        Ok(read)
    }

    /// Fills a buffer with what has come, over records.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // Ends: each round fills something, opens a record, or reads; and the socket has no more at last.
        loop {
            let left = self.plain.used();
            let count = left.len().min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&left[..count]);
            self.plain.start += count;
            filled += count;
            if filled == buffer.len() {
                return Ok(filled);
            }
            match self.open_next(&mut buffer[filled..])? {
                Some(count) => filled += count,
                None => match self.receive() {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // What was filled comes first; that there is no more is said the next time.
                    Ok(0) | Err(_) if filled > 0 => return Ok(filled),
                    Ok(0) => return Ok(0),
                    Ok(_) => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Seals bytes behind what waits.
    fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        let length = plain.len() + TAG;
        let room = self.sealed.room(LENGTH_BYTES + length);
        let (announced, record) = room.split_at_mut(LENGTH_BYTES);
        let bytes = u16::try_from(length).map_err(|_| broken("a record would be too long"))?;
        announced.copy_from_slice(&bytes.to_le_bytes());
        self.session.seal(plain, record).map_err(|_| broken("a record could not be sealed"))?;
        self.sealed.end += LENGTH_BYTES + length;
        Ok(())
    }

    /// Seals parts as few records; says how many bytes.
    fn seal_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [part] = parts {
            let part = &part[..part.len().min(WRITE)];
            part.chunks(PLAIN_MAX).try_for_each(|chunk| self.seal(chunk))?;
            return Ok(part.len());
        }
        let (mut gathered, mut written) = (std::mem::take(&mut self.gathered), 0);
        for part in parts {
            let mut part = &part[..part.len().min(WRITE - written)];
            written += part.len();
            while !part.is_empty() {
                let (now, later) = part.split_at(part.len().min(PLAIN_MAX - gathered.len()));
                gathered.extend_from_slice(now);
                part = later;
                if gathered.len() == PLAIN_MAX {
                    self.seal(&gathered)?;
                    gathered.clear();
                }
            }
        }
        if !gathered.is_empty() {
            self.seal(&gathered)?;
            gathered.clear();
        }
        self.gathered = gathered;
        Ok(written)
    }
}

#[cold]
fn broken(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

impl Read for SealedSocket {
    /// Fills as much of the buffer as has come: who gets less than there is room for has got all.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill(buffer)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut filled = 0;
        for part in parts {
            match self.fill(part) {
                Ok(count) => {
                    filled += count;
                    if count < part.len() {
                        break;
                    }
                }
                // A record that is wrong ends the link now: nothing more may come to say so.
                Err(error) if filled > 0 && error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Write for SealedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Takes bytes only when nothing waits, so that no more waits here than one write has brought.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_held()?;
        let written = self.seal_parts(parts)?;
        let sealed = self.sealed.used().len();
        match self.write_held() {
            // Where a part has left, the next write says it.
            Err(error) if error.kind() != ErrorKind::WouldBlock && self.sealed.used().len() == sealed => {
                Err(error)
            }
            _ => Ok(written),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_held()
    }
}

#[cfg(test)]
mod tests;

//! An encrypted TCP socket: its bytes are records of the session that the proof has established. A record has as many
//! bytes as one write provides, up to a maximum.
//!
//! Source: docs/wire.md, "Records". A write encrypts at once, and the records wait here until the socket takes them. A
//! complete received record is decrypted into the reader's buffer if it fits there.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::TcpStream;

use super::byte_stream::{ByteStream, SharedMemory};
use super::keepalive::Keepalive;
use super::nosignal::send;
use crate::link::peering::{LENGTH_BYTES, RECORD_MAX, Session, TAG};

/// Maximum length of a record's plain text, bytes.
const PLAIN_MAX: usize = RECORD_MAX - TAG;

/// Number of bytes of one read from the socket: initially, and at most. The maximum is two of the longest records.
/// Links with small messages, such as many idle links, need far less.
const READ: (usize, usize) = (4 << 10, 2 * (LENGTH_BYTES + RECORD_MAX));

/// Maximum number of bytes that one write encrypts: about a segment.
const WRITE: usize = 4 * PLAIN_MAX;

/// A buffer of which only a part is in use. Its memory is zeroed only once.
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

    /// Returns `count` free bytes after those in use.
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

    /// Releases the memory, if no byte is in use.
    fn release(&mut self) {
        if self.start == self.end {
            *self = Bytes::default();
        }
    }
}

/// An encrypted TCP socket.
#[derive(Debug)]
pub(crate) struct SealedSocket {
    stream: TcpStream,
    session: Box<dyn Session>,
    /// Received bytes, not decrypted yet.
    received: Bytes,
    /// Number of bytes of the next read from the socket.
    read: usize,
    /// Decrypted bytes, not read yet.
    plain: Bytes,
    /// Encrypted bytes, not written yet.
    sealed: Bytes,
    /// Small parts that are gathered into one record.
    gathered: Vec<u8>,
    /// Whether bytes have arrived since the last check. Bytes of an incomplete record are visible only here.
    has_received: bool,
}

impl SealedSocket {
    pub(super) fn new(stream: TcpStream, session: Box<dyn Session>) -> SealedSocket {
        let bytes = Bytes::default;
        let (received, plain, sealed) = (bytes(), bytes(), bytes());
        SealedSocket {
            stream,
            session,
            received,
            read: READ.0,
            plain,
            sealed,
            gathered: Vec::new(),
            has_received: false,
        }
    }

    /// Writes the records that wait.
    fn write_held(&mut self) -> io::Result<()> {
        while self.has_unsent_bytes() {
            match send(&self.stream, self.sealed.used()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sealed.start += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Length of the next received record, if it is complete.
    fn next_record(&self) -> Option<usize> {
        let received = self.received.used();
        let length = usize::from(u16::from_le_bytes(*received.first_chunk()?));
        (received.len() >= LENGTH_BYTES + length).then_some(length)
    }

    /// Decrypts the next record into the buffer if it fits, otherwise into `plain`; returns the number of bytes in the
    /// buffer. `None` if no record is complete.
    fn open_next(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(length) = self.next_record() else { return Ok(None) };
        // A record without plain text carries nothing, and could be repeated for ever.
        if length <= TAG {
            return Err(broken("an empty sealed record arrived"));
        }
        let record = &self.received.bytes[self.received.start + LENGTH_BYTES..][..length];
        let wrong = |_| broken("a sealed record was changed, or is not the next one");
        let direct = buffer.len() >= length;
        let opened = match direct {
            true => self.session.open(record, buffer).map_err(wrong)?,
            false => self.session.open(record, self.plain.room(length)).map_err(wrong)?,
        };
        self.received.start += LENGTH_BYTES + length;
        if !direct {
            self.plain.end += opened;
        }
        Ok(Some(if direct { opened } else { 0 }))
    }

    /// Reads from the socket.
    fn receive(&mut self) -> io::Result<usize> {
        // The size follows the bytes received, not the length that a record announces.
        let count = self.read;
        let read = self.stream.read(self.received.room(count))?;
        self.received.end += read;
        self.has_received |= read > 0;
        if read == count {
            self.read = (2 * self.read).min(READ.1);
        }
        Ok(read)
    }

    /// Fills a buffer with received bytes, over several records.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // Terminates: each iteration fills bytes, decrypts a record, or reads, until the socket is empty.
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
                    // The bytes filled so far are returned first; the next call reports the error or the end.
                    Ok(0) | Err(_) if filled > 0 => return Ok(filled),
                    Ok(0) => return Ok(0),
                    Ok(_) => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Encrypts bytes, and appends them to the records that wait.
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

    /// Encrypts parts into few records; returns the number of bytes.
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

impl ByteStream for SealedSocket {
    fn name(&self) -> &'static str {
        "encrypted TCP"
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(&mut self.stream)
    }

    fn keep_alive(&self, keepalive: Keepalive) {
        self.stream.keep_alive(keepalive);
    }

    fn allow_pause(&self, keepalive: Keepalive, pause: Duration) {
        self.stream.allow_pause(keepalive, pause);
    }

    fn has_room(&self) -> bool {
        !self.has_unsent_bytes() && self.stream.has_room()
    }

    fn prepare_for_bulk(&self, segment: usize) {
        self.stream.prepare_for_bulk(segment);
    }

    /// Whether encrypted bytes wait for the socket.
    fn has_unsent_bytes(&self) -> bool {
        !self.sealed.used().is_empty()
    }

    fn take_received(&mut self) -> bool {
        std::mem::take(&mut self.has_received)
    }

    fn release_spare_memory(&mut self) {
        for bytes in [&mut self.received, &mut self.plain, &mut self.sealed] {
            bytes.release();
        }
        self.gathered = Vec::new();
        self.read = READ.0;
    }
}

impl SharedMemory for SealedSocket {}

#[cold]
fn broken(why: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

impl Read for SealedSocket {
    /// Fills as much of the buffer as possible: if it is not full, all received bytes have been read.
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
                // An invalid record must end the link now: no later event may report it.
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

    /// Accepts bytes only if no record waits, so that at most one write's records wait here.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_held()?;
        let written = self.seal_parts(parts)?;
        let sealed = self.sealed.used().len();
        match self.write_held() {
            // If a part has been sent, the next write returns the error.
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

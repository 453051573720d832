//! The socket to a PMI server: bytes out and in, each with a time limit.
#![allow(clippy::disallowed_methods, reason = "a server is waited for by the clock, each wait with a limit")]

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::launchers;
use crate::runtime::Resolver;

/// Longest single wait of the system's: what is longer is waited for in parts.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Bytes that are read at a time.
const CHUNK: usize = 4096;

/// A socket whose other end is the server.
///
/// Unless [finished](Self::finished), it stays open as long as the process lives, also when it is dropped: a server kills a process that closes its end without a word, and then nobody reads why it failed.
#[derive(Debug)]
pub(super) struct Link {
    socket: Option<OwnedFd>,
    closes: bool,
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.closes {
            std::mem::forget(self.socket.take());
        }
    }
}

impl Link {
    /// The socket that the launcher has handed over as this descriptor.
    pub(super) fn inherited(number: RawFd) -> io::Result<Link> {
        launchers::take_socket(number).map(Link::of)
    }

    /// A connection to `HOST:PORT`, each of whose addresses gets its share of what the look-up leaves of the limit.
    pub(super) fn connect(server: &str, limit: Duration) -> io::Result<Link> {
        let begun = Instant::now();
        let addresses = Resolver::system().addresses(server, limit)?;
        let left = limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        let share = left / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut refused = io::Error::new(ErrorKind::NotFound, "its name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, share.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(Link::of(stream.into())),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn of(socket: OwnedFd) -> Link {
        Link { socket: Some(socket), closes: false }
    }

    /// From now on the socket is closed when this is dropped: the server knows that nothing more comes.
    pub(super) fn finished(&mut self) {
        self.closes = true;
    }

    /// A link that is closed when it is dropped, for servers of tests.
    #[cfg(test)]
    pub(super) fn closing(socket: OwnedFd) -> Link {
        Link { socket: Some(socket), closes: true }
    }

    fn socket(&self) -> io::Result<BorrowedFd<'_>> {
        // It is there until this is dropped.
        self.socket.as_ref().map(OwnedFd::as_fd).ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// Sends all of it until then.
    pub(super) fn say(&self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        // Ends: each turn sends something, or the time passes.
        while !bytes.is_empty() {
            match send(self.socket()?, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent.min(bytes.len())..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, until)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// What has come, at least one byte; an error when the server has closed its end, or nothing comes until then.
    pub(super) fn hear(&self, until: Instant) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; CHUNK];
        // Ends: the time passes.
        loop {
            match recv(self.socket()?, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((read, _)) => {
                    bytes.truncate(read);
                    return Ok(bytes);
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, until)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait(&self, flags: PollFlags, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let left = Timespec::try_from(left.min(WAIT_MAX)).map_err(io::Error::other)?;
        match poll(&mut [PollFd::from_borrowed_fd(self.socket()?, flags)], Some(&left)) {
            // Whoever waits asks the time again.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

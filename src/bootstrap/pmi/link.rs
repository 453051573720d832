//! The socket to a PMI server: sends and receives bytes, each with a time limit.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::TimeLimit;
use crate::launchers;
use crate::runtime::Resolver;

/// Maximum time of a single system wait; a longer wait is split.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Maximum number of bytes of one read.
const CHUNK: usize = 4096;

/// A socket that is connected to the server.
///
/// Unless [finished](Self::finished), the socket stays open as long as the process lives, even if this value is
/// dropped. A server kills a process that closes its end without `finalize`, and the message about the failure would be
/// lost.
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
    /// The socket that the launcher has passed as this descriptor.
    pub(super) fn inherited(number: RawFd) -> io::Result<Link> {
        launchers::take_socket(number).map(Link::of)
    }

    /// Connects to `HOST:PORT`. The time that the look-up leaves is divided equally among the addresses.
    pub(super) fn connect(server: &str, limit: &TimeLimit) -> io::Result<Link> {
        let left = || limit.left().unwrap_or_default();
        let addresses = Resolver::system().addresses(server, left())?;
        let share = left() / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut refused = io::Error::new(ErrorKind::NotFound, "its name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, share.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(Link::of(stream.into())),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    pub(super) fn of(socket: OwnedFd) -> Link {
        Link { socket: Some(socket), closes: false }
    }

    /// Lets the drop close the socket, since the server expects no more requests.
    pub(super) fn finished(&mut self) {
        self.closes = true;
    }

    /// A link that is closed when it is dropped, for the servers of tests.
    #[cfg(test)]
    pub(super) fn closing(socket: OwnedFd) -> Link {
        Link { socket: Some(socket), closes: true }
    }

    fn socket(&self) -> io::Result<BorrowedFd<'_>> {
        // The socket is present until the drop.
        self.socket.as_ref().map(OwnedFd::as_fd).ok_or_else(|| ErrorKind::NotConnected.into())
    }

    /// Sends all bytes within the limit.
    pub(super) fn say(&self, mut bytes: &[u8], limit: &TimeLimit) -> io::Result<()> {
        // Terminates: each iteration sends bytes, or the time limit passes.
        while !bytes.is_empty() {
            match send(self.socket()?, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent.min(bytes.len())..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, limit)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives at least one byte; an error if the server has closed its end, or nothing arrives within the limit.
    pub(super) fn hear(&self, limit: &TimeLimit) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; CHUNK];
        // Terminates: the time limit passes.
        loop {
            match recv(self.socket()?, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((read, _)) => {
                    bytes.truncate(read);
                    return Ok(bytes);
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, limit)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait(&self, flags: PollFlags, limit: &TimeLimit) -> io::Result<()> {
        let left = limit.left().ok_or(ErrorKind::TimedOut)?;
        let left = Timespec::try_from(left.min(WAIT_MAX)).map_err(io::Error::other)?;
        match poll(&mut [PollFd::from_borrowed_fd(self.socket()?, flags)], Some(&left)) {
            // The caller's loop checks the time again.
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

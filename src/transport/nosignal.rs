//! Writes to sockets without a signal: a peer that has gone is an error, also in a program that has not ignored
//! `SIGPIPE`. Programs in Rust ignore it by default, and those in C do not.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Maximum number of parts that the system takes at once (`UIO_MAXIOV`); the rest is written next time.
const PARTS_MAX: usize = 1024;

/// Writes bytes; returns how many.
pub(super) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// Writes parts as one; returns the number of bytes.
pub(super) fn send_parts(socket: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let parts = &parts[..parts.len().min(PARTS_MAX)];
    Ok(sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn parts_arrive_in_order_however_many_they_are() {
        let (one, mut other) = UnixStream::pair().unwrap();
        assert_eq!(send(&one, b"a").unwrap(), 1);
        assert_eq!(send_parts(&one, &[IoSlice::new(b"bc"), IoSlice::new(b"d")]).unwrap(), 3);
        let many = vec![IoSlice::new(b"x"); PARTS_MAX + 1];
        assert_eq!(send_parts(&one, &many).unwrap(), PARTS_MAX);
        drop(one);
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        assert_eq!((&all[..4], all.len()), (&b"abcd"[..], 4 + PARTS_MAX));
    }

    #[test]
    fn a_peer_that_has_gone_is_an_error() {
        let (one, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(send(&one, b"a").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let parts = [IoSlice::new(b"a"), IoSlice::new(b"b")];
        assert_eq!(send_parts(&one, &parts).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

//! Sends and receives bytes and descriptors over a non-blocking Unix stream socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors in one message: Linux allows 253.
pub(super) const PASSED_MAX: usize = 252;

/// Sends some of the bytes; the descriptors travel with the first of them. Returns the number of bytes sent, or `None`
/// if the socket is full.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let passed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    if !passed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&passed)) {
        return Err(Errno::TOOMANYREFS.into());
    }
    // Terminates: a signal interrupts the call before anything is sent, and signals are finite.
    loop {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(sent) => return Ok(Some(sent)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives some bytes and the descriptors that come with them. The descriptors close on exec. Returns the number of
/// bytes: 0 at the end of the stream, `None` if none has arrived.
pub(super) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    mut take: impl FnMut(OwnedFd),
) -> io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    // Terminates: as in `send`.
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
            Ok(received) => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                        descriptors.for_each(&mut take);
                    }
                }
                if received.flags.contains(ReturnFlags::CTRUNC) {
                    let message = "descriptors were lost: this process may not open as many; raise its limit (ulimit -n)";
                    return Err(io::Error::other(message));
                }
                return Ok(Some(received.bytes));
            }
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

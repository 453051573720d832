//! Descriptors in the messages of a Unix socket (`SCM_RIGHTS`). No received descriptor stays open unused.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors taken from one message: one is expected, and a second one shows an error. The system
/// closes further ones.
const DESCRIPTORS_MAX: usize = 2;

/// Writes bytes, with a descriptor at the first of them; returns the number of bytes.
///
/// # Errors
/// The system's; then nothing was sent.
pub(super) fn send(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    Ok(sendmsg(socket, parts, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Result of a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Number of bytes.
    pub(super) bytes: usize,
    /// Whether descriptors were lost, since this process could not take them.
    pub(super) is_truncated: bool,
}

/// Reads bytes and their descriptors. Programs that this process starts do not inherit the descriptors.
///
/// # Errors
/// The system's.
pub(super) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut parts, &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(taken) = message {
            descriptors.extend(taken);
        }
    }
    Ok(Received { bytes: received.bytes, is_truncated: received.flags.contains(ReturnFlags::CTRUNC) })
}

//! Sends a descriptor along with the bytes of a Unix socket, and takes those that come. Must never leave one open that
//! nobody wants.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors taken from one message: one is wanted, a second shows that something is wrong, and what goes beyond the
/// system closes.
const TAKEN_MAX: usize = 2;

/// Writes bytes, with a descriptor at the first of them; how many bytes.
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

/// What came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// How many bytes.
    pub(super) bytes: usize,
    /// Whether there were descriptors that this process could not take.
    pub(super) lost: bool,
}

/// Reads bytes, and takes the descriptors that come with them. The descriptors are not inherited by programs that this
/// one starts.
///
/// # Errors
/// The system's.
pub(super) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TAKEN_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut parts, &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(taken) = message {
            descriptors.extend(taken);
        }
    }
    Ok(Received { bytes: received.bytes, lost: received.flags.contains(ReturnFlags::CTRUNC) })
}

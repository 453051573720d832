//! Takes ownership of a descriptor that a launcher passes to a process by its number, in a variable.
//!
//! The number must be trusted, since the compiler cannot check the ownership. So this module checks that the descriptor
//! is an open socket, and that it has not been taken before.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, FdFlags, fcntl_setfd};

/// The descriptors that have been taken: few, one for each launcher.
static TAKEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Lower numbers are standard input, output and error, which have other owners.
const FIRST: RawFd = 3;

/// Takes the socket that a launcher has passed as this descriptor. The caller owns it from now on, and started
/// processes do not inherit it. Each number can be taken once.
///
/// # Errors
/// If the number is not an open socket, or was taken before.
pub(crate) fn take_socket(number: RawFd) -> io::Result<OwnedFd> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.contains(&number) {
        return Err(io::Error::other("it was taken before: a process asks its launcher once"));
    }
    check(number)?;
    taken.push(number);
    // SAFETY: the number is an open socket. The launcher has opened it for the library that talks to it, which is this
    // one. No code of this program has created it, so nothing else owns it, and it is taken once.
    #[allow(unsafe_code)]
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Takes the socket that the launcher of this process has passed; the environment variable `variable` has its number.
/// Returns `None` if the variable is not set. The caller owns the socket from now on, and started processes do not
/// inherit it. Each number can be taken once.
///
/// # Errors
/// If the variable is not a number, the number is not an open socket, or it was taken before.
pub fn inherited_socket(variable: &str) -> io::Result<Option<OwnedFd>> {
    let Some(value) = std::env::var_os(variable) else { return Ok(None) };
    let number = value.to_str().and_then(|text| text.parse().ok());
    let number = number
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is no number of a descriptor"))?;
    take_socket(number).map(Some)
}

/// Sets close-on-exec on the socket of this number, if one is open, so that started processes do not inherit it.
///
/// # Errors
/// The system's.
pub(super) fn close_on_exec(number: RawFd) -> io::Result<()> {
    // The lock keeps other threads from taking and closing the socket meanwhile.
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.contains(&number) || check(number).is_err() {
        return Ok(());
    }
    // SAFETY: the number is an open socket, and nothing closes it during this call: it belongs to a launcher, and only
    // `take_socket` gives it an owner.
    #[allow(unsafe_code)]
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_setfd(socket, FdFlags::CLOEXEC)?)
}

/// Sets close-on-exec on all inherited descriptors except standard input, output and error. A started program that
/// inherits such a descriptor would hold it open, and a process that waits for its end would wait for that program as
/// well. Must be called at the start of a process, while it has one thread.
///
/// # Errors
/// The system's.
pub fn inherit_nothing() -> io::Result<()> {
    // The lock keeps other threads from taking and closing a socket meanwhile.
    let _taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in fs::read_dir("/proc/self/fd")? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if number < FIRST {
            continue;
        }
        // SAFETY: the descriptor was open when it was listed, and is borrowed only for this call. If another thread
        // closes it after all, the call has no effect, or it sets close-on-exec on the descriptor that replaces it, as
        // the standard library does when it opens one.
        #[allow(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        match fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
            // The listing of this folder has a descriptor of its own, which may be closed already.
            Ok(()) | Err(Errno::BADF) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Checks that the number is an open socket.
fn check(number: RawFd) -> io::Result<()> {
    let error = |kind, text: &str| io::Error::new(kind, text);
    if number < FIRST {
        return Err(error(io::ErrorKind::InvalidInput, "it is no descriptor that a launcher hands over"));
    }
    match fs::metadata(format!("/proc/self/fd/{number}")) {
        Ok(there) if there.file_type().is_socket() => Ok(()),
        Ok(_) => Err(error(io::ErrorKind::InvalidInput, "it is no socket")),
        Err(_) => Err(error(io::ErrorKind::NotFound, "nothing is open there")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};
    use std::os::unix::net::UnixStream;

    use rustix::io::fcntl_getfd;

    use super::*;

    #[test]
    fn a_socket_is_taken_once_and_is_not_inherited() {
        let (mut server, client) = UnixStream::pair().unwrap();
        fcntl_setfd(&client, FdFlags::empty()).unwrap();
        close_on_exec(client.as_raw_fd()).unwrap();
        assert!(fcntl_getfd(&client).unwrap().contains(FdFlags::CLOEXEC));
        fcntl_setfd(&client, FdFlags::empty()).unwrap();
        let number = client.into_raw_fd();
        let taken = take_socket(number).unwrap();
        assert!(fcntl_getfd(&taken).unwrap().contains(FdFlags::CLOEXEC));
        let again = take_socket(number).unwrap_err().to_string();
        assert!(again.contains("taken before"), "{again}");
        let mut client = UnixStream::from(taken);
        client.write_all(b"hello").unwrap();
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn a_variable_has_the_number_or_is_not_there() {
        assert!(inherited_socket("GPC_THERE_IS_NO_SUCH_VARIABLE").unwrap().is_none());
        let error = inherited_socket("PATH").unwrap_err().to_string();
        assert!(error.contains("no number"), "{error}");
    }

    #[test]
    fn nothing_but_the_first_three_is_inherited() {
        let (_server, client) = UnixStream::pair().unwrap();
        fcntl_setfd(&client, FdFlags::empty()).unwrap();
        let stdin = fcntl_getfd(io::stdin()).unwrap();
        inherit_nothing().unwrap();
        assert!(fcntl_getfd(&client).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(fcntl_getfd(io::stdin()).unwrap(), stdin);
    }

    #[test]
    fn what_is_no_socket_is_refused() {
        let file = fs::File::open("/dev/null").unwrap();
        for (number, why) in [
            (-1, "no descriptor"),
            (2, "no descriptor"),
            (file.as_raw_fd(), "no socket"),
            (999_999, "nothing is open"),
        ] {
            let error = take_socket(number).unwrap_err().to_string();
            assert!(error.contains(why), "{number}: {error}");
            assert!(close_on_exec(number).is_ok());
        }
    }
}

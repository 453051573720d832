//! Finds the domains of this user on this machine: a folder has the socket of each head, `PID-DOMAIN.sock`.
//!
//! A process that reaches a socket can end the processes of the domain. So only its owner may enter the folder, and a
//! folder that another user may have made is not used.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{geteuid, getpid};

/// Mode of the folder.
const MODE: u32 = 0o700;

/// Maximum number of names that are checked: more than the domains that a machine can run.
const LOOKED_AT: usize = 100_000;

/// Longest file name that may be that of a socket.
const NAME_MAX: usize = 100;

/// Socket of a head that answers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Head {
    /// Name of the domain.
    pub(super) domain: String,
    /// Process number of the head.
    pub(super) pid: u32,
    /// Path of the socket.
    pub(super) path: PathBuf,
}

/// Socket of this process; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    path: PathBuf,
}

/// Listens under a name that tools ignore, since the name of the domain is not known before [`Listening::name`].
///
/// # Errors
/// If the folder cannot be made or other users can enter it, or the system provides no socket; the message names the
/// folder.
pub(super) fn listen() -> io::Result<(UnixListener, Listening)> {
    listen_in(&folders()[0])
}

fn listen_in(folder: &Path) -> io::Result<(UnixListener, Listening)> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    make(folder).map_err(told)?;
    // Removes the sockets of killed runs, which would otherwise stay until a tool runs.
    let _ = running_in(folder);
    let path = folder.join(format!("{}.new", getpid().as_raw_nonzero()));
    // Left by an earlier process with the same number.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(told)?;
    Ok((listener, Listening { path }))
}

impl Listening {
    /// Makes the socket visible to tools. It already listens, so a socket that does not answer is an abandoned one.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn name(&mut self, domain: &str) -> io::Result<()> {
        let path = self.path.with_file_name(format!("{}-{domain}.sock", getpid().as_raw_nonzero()));
        fs::rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The socket may already be gone, which is no error.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the running heads of all folders, and removes abandoned sockets.
pub(super) fn running() -> Vec<Head> {
    let mut heads: Vec<Head> = folders()
        .iter()
        .filter(|folder| check(folder).is_ok())
        .flat_map(|folder| running_in(folder))
        .collect();
    heads.sort();
    heads
}

fn running_in(folder: &Path) -> Vec<Head> {
    let Ok(names) = fs::read_dir(folder) else { return Vec::new() };
    let mut heads = Vec::new();
    for entry in names.take(LOOKED_AT).flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.len() <= NAME_MAX) else { continue };
        let path = entry.path();
        match (parts(name), name.ends_with(".new")) {
            (Some((pid, domain)), _) if is_answered(&path) => {
                heads.push(Head { domain: domain.to_owned(), pid, path });
            }
            (Some(_), _) => remove_left(&path),
            // A socket that is about to listen is at most a moment old.
            (None, true) if is_old(&path) && !is_answered(&path) => remove_left(&path),
            (None, _) => {}
        }
    }
    heads
}

/// Returns the process number and the domain in a socket's name.
fn parts(name: &str) -> Option<(u32, &str)> {
    let (pid, domain) = name.strip_suffix(".sock")?.split_once('-')?;
    let hex = !domain.is_empty() && domain.bytes().all(|byte| byte.is_ascii_hexdigit());
    pid.parse().ok().filter(|_| hex).map(|pid| (pid, domain))
}

/// Whether a process listens there, without waiting for a head that is stopped.
fn is_answered(path: &Path) -> bool {
    let reached = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)
    };
    // If the queue of connections is full, a process listens.
    !matches!(
        reached(),
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT | rustix::io::Errno::NOTSOCK)
    )
}

/// Whether a file is at least a minute old.
fn is_old(path: &Path) -> bool {
    let age = fs::symlink_metadata(path).and_then(|found| found.modified());
    age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age.as_secs() >= 60))
}

/// Removes the socket of a process that is gone. Any other file with such a name stays.
fn remove_left(path: &Path) {
    use std::os::unix::fs::FileTypeExt as _;
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        // A socket that cannot be removed does no harm.
        let _ = fs::remove_file(path);
    }
}

/// Returns the folders of sockets; new sockets go to the first one.
fn folders() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|own| own.is_absolute() && own.is_dir()).map(|own| own.join("gpc-bnr"));
    let shared = PathBuf::from(format!("/tmp/gpc-bnr-{}", geteuid().as_raw()));
    own.into_iter().chain([shared]).collect()
}

/// Makes the folder if it does not exist, and checks it.
fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => check(folder),
    }
}

/// Checks that a folder is one, that it belongs to this user, and that no other user can enter it.
fn check(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    let wrong = match found.is_dir() {
        false => "it is no folder",
        true if found.uid() != geteuid().as_raw() => "it is another user's",
        true if found.mode() & 0o077 != 0 => "others than its owner may enter it: chmod 700",
        true => return Ok(()),
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, wrong))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const DOMAIN: &str = "0123456789abcdef";

    #[test]
    fn a_head_is_found_by_its_name_as_long_as_it_listens() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("gpc-bnr");
        let (listener, mut listening) = listen_in(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, MODE);
        assert_eq!(running_in(&folder), []);
        listening.name(DOMAIN).unwrap();
        let heads = running_in(&folder);
        assert_eq!(heads.len(), 1);
        assert_eq!((heads[0].domain.as_str(), heads[0].pid), (DOMAIN, std::process::id()));
        drop(listener);
        assert_eq!(running_in(&folder), []);
        drop(listening);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    /// Sockets of killed runs stayed in the folder until the next `gpc ps`, however many runs followed.
    #[test]
    fn a_run_removes_what_killed_ones_have_left() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("gpc-bnr");
        make(&folder).unwrap();
        drop(UnixListener::bind(folder.join("17-abc.sock")).unwrap());
        let held = UnixListener::bind(folder.join("18-abc.sock")).unwrap();
        let (_listener, listening) = listen_in(&folder).unwrap();
        assert!(!folder.join("17-abc.sock").exists() && folder.join("18-abc.sock").exists());
        drop((held, listening));
    }

    #[test]
    fn what_a_killed_head_has_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        drop(UnixListener::bind(at("17-abc.sock")).unwrap());
        drop(UnixListener::bind(at("17.new")).unwrap());
        drop(UnixListener::bind(at("mine.sock")).unwrap());
        fs::write(at("18-abc.sock"), "a file").unwrap();
        symlink("nowhere", at("19-abc.sock")).unwrap();
        let held = UnixListener::bind(at("20-abc.sock")).unwrap();
        let heads = running_in(place.path());
        assert_eq!(heads.iter().map(|head| head.pid).collect::<Vec<_>>(), [20]);
        let mut left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        // A file made within the last minute may be about to listen.
        assert_eq!(left, ["17.new", "18-abc.sock", "19-abc.sock", "20-abc.sock", "mine.sock"]);
        drop(held);
    }

    /// A head that is stopped accepts no connection, and a tool would have waited for it.
    #[test]
    fn a_head_with_many_who_wait_is_there_and_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("21-abc.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let turns = 5000;
        assert_eq!((0..turns).filter(|_| is_answered(&path)).count(), turns);
        assert!(path.exists());
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("gpc-bnr");
        symlink(place.path(), &folder).unwrap();
        assert!(listen_in(&folder).unwrap_err().to_string().ends_with("it is no folder"));
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let error = listen_in(&folder).unwrap_err().to_string();
        assert!(error.starts_with(&folder.display().to_string()) && error.contains("chmod 700"), "{error}");
    }
}

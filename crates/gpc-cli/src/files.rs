//! Reads and writes files that a user names, within bounds, and with the name in every error.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use indicatif::HumanBytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, OFlags, access};
use rustix::io::Errno;
use signal_hook::consts::SIGXFSZ;

use super::inherited;
use chained_gpc::runtime::{Peers, request_data_max};

/// The program of this name in the folders of `search`, which has the form of `PATH`.
pub(super) fn in_path(name: &OsStr, search: &OsStr) -> Option<PathBuf> {
    let programs = env::split_paths(search).map(|folder| folder.join(name));
    programs.into_iter().find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
}

/// Bounds of reading a file: size and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Maximum size.
    pub(super) bytes: u64,
    /// Reason for the maximum, and what to do.
    pub(super) long: &'static str,
    /// Time limit for the end of a pipe, a FIFO or a device. A regular file is read up to the length that it had when
    /// it was opened.
    pub(super) wait: Duration,
    /// What to do if the time limit is too short.
    pub(super) late: &'static str,
}

/// Bounds of text: more than a tree of a million positions or the addresses of a million nodes. A minute is long for a
/// program that writes such text to a pipe.
const TEXT: Bounds = Bounds {
    bytes: 64 << 20,
    long: "name another file",
    wait: Duration::from_secs(60),
    late: "write it to a file first",
};

/// Maximum size of data: more than any service accepts.
const BYTES_MAX: u64 = 4 << 30;

/// Time limit for the end of a filter's input, or of a registrant's data: the command that writes it may have to wait
/// for tasks first.
const BYTES_WAIT: Duration = Duration::from_secs(60 * 60);

/// Bytes read at a time from a pipe or a device: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

/// Reads a text file; `-` is standard input. Errors name the kind of file by `what`, such as `peers file`.
///
/// # Errors
/// If the file cannot be read, is longer than 64 MiB or not UTF-8; the message names the file.
pub(super) fn read_text(path: &Path, what: &str) -> Result<String, String> {
    let bytes = read(path, what, TEXT)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(path, what, &format!("it is no text: byte {at} is not UTF-8"))
    })
}

/// Reads a file of any bytes; `-` is standard input.
///
/// # Errors
/// If the file cannot be read, or is longer than 4 GiB or than this process may hold; the message names the file.
pub(super) fn read_bytes(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let bytes = BYTES_MAX.min(request_data_max(NonZeroU32::MIN));
    let long = "this process may hold no more of it: give less at a time";
    read(path, what, Bounds { bytes, long, wait: BYTES_WAIT, late: "write it to a file first" })
}

/// Reads a file within bounds; `-` is standard input.
///
/// # Errors
/// If the file cannot be read or is out of bounds; the message names the file.
pub(super) fn read(path: &Path, what: &str, bounds: Bounds) -> Result<Vec<u8>, String> {
    let file = match path == Path::new("-") {
        true => inherited::input(),
        false => {
            // A FIFO without a writer then opens at once, and a terminal does not become the controlling one.
            let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
            OpenOptions::new().read(true).custom_flags(flags).open(path)
        }
    };
    let bytes = file.and_then(|file| read_open(file, bounds));
    bytes.map_err(|error| unreadable(path, what, &error.to_string()))
}

/// Returns the name of a file for messages.
pub(super) fn shown(path: &Path) -> Cow<'_, str> {
    match path == Path::new("-") {
        true => "standard input".into(),
        false => path.to_string_lossy(),
    }
}

/// Returns the message that a file cannot be read.
pub(super) fn unreadable(path: &Path, what: &str, why: &str) -> String {
    match path == Path::new("-") {
        true => format!("cannot read the {what} from standard input: {why}"),
        false => format!("cannot read the {what} {}: {why}", path.display()),
    }
}

fn read_open(mut file: File, bounds: Bounds) -> io::Result<Vec<u8>> {
    let there = file.metadata()?;
    let left = match there.is_file() {
        true => there.len().saturating_sub(file.stream_position()?),
        false => 0,
    };
    // Files in `/proc` have the length 0.
    if left == 0 {
        return read_stream(&file, bounds);
    }
    if left > bounds.bytes {
        return Err(too_long(bounds));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(left).map_err(|_| too_long(bounds))?)?;
    file.take(left).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file without a length of its own.
fn read_stream(mut file: &File, bounds: Bounds) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK];
    // Ends: the time is bounded.
    loop {
        let left = bounds.wait.saturating_sub(begun.elapsed());
        if left.is_zero() {
            let (waited, late) = (bounds.wait.as_secs(), bounds.late);
            return Err(io::Error::other(format!("its end did not come within {waited} s: {late}")));
        }
        if !is_ready(file, left)? {
            continue;
        }
        match file.read(&mut chunk) {
            Ok(0) => return Ok(bytes),
            Ok(count) if (bytes.len() + count) as u64 > bounds.bytes => return Err(too_long(bounds)),
            Ok(count) => {
                bytes.try_reserve(count)?;
                bytes.extend_from_slice(&chunk[..count]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether data or the end of the file arrives within a time limit.
fn is_ready(file: &File, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn too_long(bounds: Bounds) -> io::Error {
    io::Error::other(format!("it is longer than {}: {}", HumanBytes(bounds.bytes), bounds.long))
}

/// Reads a peers file.
///
/// # Errors
/// If the file cannot be read, has a fault (the message names its line), or names no node; the message names the file.
pub(super) fn read_peers(path: &Path) -> Result<Peers, String> {
    let text = read_text(path, "peers file")?;
    let peers: Peers = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    match peers.is_empty() {
        true => Err(format!("{}: it names no node: write a line `ID ADDRESS` for each", path.display())),
        false => Ok(peers),
    }
}

/// Turns a write beyond the limit of `ulimit -f` into an error; by default it ends the process.
pub(super) fn outlive_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Writes a text file as a whole, or leaves it unchanged. The text goes to a new file in the same folder, which
/// replaces the old file when it is complete. So a full disk or a killed process destroys nothing. A path that is not a
/// regular file, such as `/dev/stdout`, is written directly.
///
/// # Errors
/// If the file cannot be written; the message names the path, and the old file is unchanged.
pub(super) fn write_text(path: &Path, text: &str) -> Result<(), String> {
    write_with(path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn write_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    outlive_size_limit()?;
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| write(&mut file))
        }
        // If the path is a symbolic link, its target is replaced.
        there => replace(&path.canonicalize().unwrap_or_else(|_| path.into()), there.ok(), write),
    }
}

fn replace(
    path: &Path,
    old: Option<fs::Metadata>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let beside = beside(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    let written = write(&mut file)
        .and_then(|()| old.map_or(Ok(()), |old| file.set_permissions(old.permissions())))
        // Some systems report a full disk only here.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The error of the write is the one to report.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Returns a name in the folder of a file that no other process uses: it contains the number of this process.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it is no name of a file"))?;
    Ok(path.with_file_name(format!(".{}.{}.new", name.to_string_lossy(), std::process::id())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.txt");
        let shown = path.display();
        assert!(
            read_peers(&path)
                .unwrap_err()
                .starts_with(&format!("cannot read the peers file {shown}: No such file"))
        );
        fs::write(&path, "0 127.0.0.1:7000\n1 nowhere\n").unwrap();
        assert!(read_peers(&path).unwrap_err().starts_with(&format!("{shown}: peers file, line 2: ")));
        fs::write(&path, "0 127.0.0.1:7000\n").unwrap();
        assert_eq!(read_peers(&path).unwrap().len(), 1);
        fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path, "text").unwrap_err().ends_with(": it is no text: byte 0 is not UTF-8"));
        assert!(read_text(folder.path(), "text").unwrap_err().contains("Is a directory"));
    }

    /// `gpc call digest -n 2 --data /dev/zero` read 22 GB, until the system killed it; a FIFO without a writer held the
    /// command up forever.
    #[test]
    fn what_has_no_end_is_read_within_bounds() {
        let bounds = Bounds {
            bytes: 3 * CHUNK as u64,
            long: "give less",
            wait: Duration::from_secs(60),
            late: "wait",
        };
        let error = read(Path::new("/dev/zero"), "data", bounds).unwrap_err();
        assert_eq!(error, "cannot read the data /dev/zero: it is longer than 192.00 KiB: give less");
        assert_eq!(read(Path::new("/dev/null"), "data", bounds), Ok(Vec::new()));
        assert!(!read(Path::new("/proc/self/status"), "data", bounds).unwrap().is_empty(), "its length is 0");
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let short = Bounds { wait: Duration::from_millis(20), ..bounds };
        let late = |error: String| error.ends_with(": its end did not come within 0 s: wait");
        assert!(read(&fifo, "data", short).is_err_and(late), "without a writer");
        let mut writer = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        writer.write_all(b"half").unwrap();
        assert!(read(&fifo, "data", short).is_err_and(late), "with a writer that does not end");
        let path = folder.path().join("long");
        fs::write(&path, vec![7; 3 * CHUNK]).unwrap();
        assert_eq!(read(&path, "data", bounds).map(|bytes| bytes.len()), Ok(3 * CHUNK));
        // Rejected by its length, before anything is read.
        File::create(&path).unwrap().set_len(1 << 33).unwrap();
        assert!(read(&path, "data", bounds).unwrap_err().contains("longer than 192.00 KiB"));
    }

    /// A call over an empty peers file went to its root alone, and reported that all was done.
    #[test]
    fn a_peers_file_names_a_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.txt");
        for empty in ["", "\n\n", "# 0 127.0.0.1:7000\n"] {
            fs::write(&path, empty).unwrap();
            let error = read_peers(&path).unwrap_err();
            assert!(error.ends_with("it names no node: write a line `ID ADDRESS` for each"), "{error}");
        }
    }

    /// The disk was full when the results of a new measurement were written, and the earlier results were lost, too.
    #[test]
    fn what_cannot_be_written_whole_leaves_the_old_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("before.json");
        let here = || fs::read_dir(folder.path()).unwrap().count();
        let full = |file: &mut File| {
            file.write_all(b"half of it")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        assert!(write_with(&path, full).is_err());
        assert_eq!(here(), 0);
        write_text(&path, "the old one").unwrap();
        assert!(write_with(&path, full).is_err());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), here()), ("the old one", 1));
        let error = write_text(&folder.path().join("no/where"), "").unwrap_err();
        assert!(error.starts_with("cannot write ") && error.contains("no/where: No such file"), "{error}");
    }

    #[test]
    fn a_file_keeps_its_place_and_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("results"), folder.path().join("latest"));
        write_text(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_text(&link, "two").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        write_text(Path::new("/dev/null"), "what is no file is not replaced").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}

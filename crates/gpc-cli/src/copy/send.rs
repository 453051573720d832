//! Sends files to the hosts, piece by piece. Several pieces are under way at once, so that the next one fills the tree
//! while the last hosts still receive the one before.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use chained_gpc::runtime::{CallHandle, FuncHandle};
use chained_gpc::{Call, CallTree};
use indicatif::ProgressBar;

use super::hosts::{Hosts, token};
use super::piece::{Destination, Piece, digest};
use super::receive::{TAKE, has_no_length};
use crate::Failure;
use crate::refused::Refused;

/// Length of a piece, bytes. A chain of dozens of hosts has fewer bytes in transit.
const PIECE: u64 = 16 << 20;

/// Pieces under way at once: this process holds as many in memory.
const UNDER_WAY: usize = 3;

/// A file to send.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    name: OsString,
    pub(super) total: u64,
    mode: u32,
    /// Names the copy.
    token: u64,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened, or is not a regular file.
    pub(super) fn open(path: &Path) -> Result<Source, Refused> {
        let cannot = |error| Refused::File(format!("cannot read {}: {error}", path.display()));
        // A FIFO would wait for a writer.
        let known = path.metadata().map_err(cannot)?;
        if !known.is_file() {
            let is = if known.is_dir() { "a folder: pack it with tar first" } else { "not a regular file" };
            return Err(Refused::File(format!("cannot copy {}: it is {is}", path.display())));
        }
        let file = File::open(path).map_err(cannot)?;
        let known = file.metadata().map_err(cannot)?;
        if known.len() == 0 && file.read_at(&mut [0], 0).map_err(cannot)? > 0 {
            return Err(Refused::File(has_no_length(path)));
        }
        let name = path.file_name().map(OsString::from).unwrap_or_default();
        let token = token().map_err(Refused::File)?;
        let (path, total, mode) = (path.to_owned(), known.len(), known.mode() & 0o777);
        Ok(Source { path, file, name, total, mode, token })
    }

    /// As a copy of this name.
    pub(super) fn named(self, token: u64) -> Source {
        Source { token, ..self }
    }

    /// Reads a piece; an empty file has one piece.
    fn read(&self, offset: u64) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; (self.total - offset).min(PIECE) as usize];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| {
            let path = self.path.display();
            format!("cannot read {path}, which had {} bytes, at byte {offset}: {error}", self.total)
        })?;
        Ok(bytes)
    }
}

/// The offsets of the pieces of a file.
fn offsets(total: u64) -> impl Iterator<Item = u64> {
    (0..total.div_ceil(PIECE).max(1)).map(|place| place * PIECE)
}

/// Sends files to all hosts that have not failed. Returns whether all were sent, and no signal has come.
///
/// # Errors
/// If a file cannot be read, or a call fails as a whole.
pub(super) fn send(
    hosts: &mut Hosts<'_>,
    sources: &[Source],
    (to, destination): (&Path, Destination),
    tree: &CallTree,
    progress: &ProgressBar,
) -> Result<bool, Failure> {
    let func = FuncHandle::named(TAKE);
    let mut under_way: VecDeque<(CallHandle, u64)> = VecDeque::new();
    for source in sources {
        for offset in offsets(source.total) {
            if under_way.len() >= UNDER_WAY && !take_oldest(hosts, &mut under_way, progress)? {
                return Ok(false);
            }
            let bytes = source.read(offset)?;
            let length = bytes.len() as u64;
            let Source { total, mode, name, token, .. } = source;
            let (token, total, mode, digest) = (*token, *total, *mode, digest(&bytes));
            let piece = Piece { token, offset, total, mode, destination, digest, name, to };
            let call = Call::new(func).tree(tree.clone()).header(piece.header()).data(bytes);
            match hosts.call(call.no_reply().forward_first(), hosts.left())? {
                Some(handle) => under_way.push_back((handle, length)),
                // All have failed.
                None => return Ok(true),
            }
        }
    }
    while !under_way.is_empty() {
        if !take_oldest(hosts, &mut under_way, progress)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Waits for the oldest piece. Returns false if a signal has come.
fn take_oldest(
    hosts: &mut Hosts<'_>,
    under_way: &mut VecDeque<(CallHandle, u64)>,
    progress: &ProgressBar,
) -> Result<bool, Failure> {
    let Some((handle, length)) = under_way.pop_front() else { return Ok(true) };
    let ended = hosts.wait(handle)?;
    progress.inc(length);
    Ok(ended.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_file_and_an_empty_one_has_one() {
        let all = |total| offsets(total).collect::<Vec<_>>();
        assert_eq!(all(0), [0]);
        assert_eq!(all(1), [0]);
        assert_eq!(all(PIECE), [0]);
        assert_eq!(all(PIECE + 1), [0, PIECE]);
        assert_eq!(all(3 * PIECE), [0, PIECE, 2 * PIECE]);
    }

    #[test]
    fn a_file_is_opened_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "text").unwrap();
        let source = Source::open(&path).unwrap();
        assert_eq!((source.total, source.name.to_str()), (4, Some("f")));
        assert_eq!(source.read(1).unwrap(), b"ext");
        // It became shorter.
        std::fs::write(&path, "t").unwrap();
        assert!(source.read(1).unwrap_err().to_string().contains("which had 4 bytes"));
        let refused = |path: &Path| Source::open(path).unwrap_err().to_string();
        assert!(refused(folder.path()).contains("it is a folder"));
        assert!(refused(Path::new("/proc/self/stat")).contains("how long it is"));
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
        assert!(refused(&folder.path().join("none")).contains("cannot read"));
    }
}

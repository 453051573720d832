//! Files with a token, readable only by their owner, and removed by the process that made them.
//!
//! A killed process leaves its folder, which the next process removes. The lock of a folder shows whether its process
//! is alive: the system releases the lock with the process, and a lock, unlike a process number, is not reused.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use chained_gpc::Job;
use chained_gpc::bootstrap::write_token;
use gpc_rendezvous::token::ServiceToken;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, open, statat, unlinkat,
};
use rustix::process::geteuid;

use super::token;
use crate::Failure;

/// Mode of a folder that only its owner can enter.
const MODE: u32 = 0o700;

/// Prefix of folder names; 32 hexadecimal digits follow.
const PREFIX: &str = "gpc-rendezvous-";

/// Name of the file in a folder.
const TOKEN: &str = "token";

/// Maximum number of names that are checked for abandoned folders, and of names that are tried for a new one.
const LOOKED_AT: usize = 100_000;
const TRIED: usize = 8;

/// A file with a token.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    /// What is removed at the end.
    made: CreatedPath,
}

#[derive(Debug)]
enum CreatedPath {
    /// The file and its folder.
    Folder {
        path: PathBuf,
        /// Open and locked as long as this process uses the folder.
        _locked: OwnedFd,
    },
    File,
    /// Nothing: the file existed before, or is to stay.
    Nothing,
}

impl TokenFile {
    /// Writes a token to a new file in a new folder. Both are removed at the end.
    pub(super) fn somewhere(token: &ServiceToken) -> Result<TokenFile, Failure> {
        let (folder, locked) = new_folder(&place())?;
        let path = folder.join(TOKEN);
        let file = TokenFile { path, made: CreatedPath::Folder { path: folder, _locked: locked } };
        write_token(&file.path, &token::as_secret(token)?)?;
        Ok(file)
    }

    /// Writes a token to this file, which is removed at the end unless it is to stay. A file that already has the same
    /// token, as another run may have left it, stays.
    pub(super) fn at(path: &Path, token: &ServiceToken, stays: bool) -> Result<TokenFile, Failure> {
        if path.exists() && token::read(path).is_ok_and(|there| there == *token) {
            return Ok(TokenFile { path: path.to_owned(), made: CreatedPath::Nothing });
        }
        write_token(path, &token::as_secret(token)?)?;
        let made = if stays { CreatedPath::Nothing } else { CreatedPath::File };
        Ok(TokenFile { path: path.to_owned(), made })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // The file may already be gone, which is no error.
        if !matches!(self.made, CreatedPath::Nothing) {
            let _ = fs::remove_file(&self.path);
        }
        if let CreatedPath::Folder { path, .. } = &self.made {
            let _ = fs::remove_dir(path);
        }
    }
}

/// Returns the folder for new folders.
fn place() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|own| own.is_dir());
    own.unwrap_or_else(std::env::temp_dir)
}

/// Creates a new folder, and returns it with its lock.
fn new_folder(place: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    for _ in 0..TRIED {
        // A random name that cannot exist yet.
        let folder = place.join(format!("{PREFIX}{}", Job::random()));
        let made = DirBuilder::new().mode(MODE).create(&folder).and_then(|()| {
            let opened = open_folder(&folder)?;
            // On a file system without locks no other process gets one either, and the folder stays.
            let _ = flock(&opened, FlockOperation::LockExclusive);
            Ok(opened)
        });
        let opened =
            made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
        // Another process may have found the folder before it was locked, and removed it.
        if folder.is_dir() {
            return Ok((folder, opened));
        }
    }
    Err(io::Error::other(format!("{}: new folders are removed at once by others", place.display())))
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?)
}

/// Removes the folders that killed processes of this user left.
pub(super) fn remove_left() {
    remove_left_at(&place());
}

fn remove_left_at(place: &Path) {
    let Ok(names) = fs::read_dir(place) else { return };
    for entry in names.take(LOOKED_AT).flatten() {
        let name = entry.file_name();
        let drawn = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if drawn.is_some_and(is_drawn) {
            // A folder that cannot be removed does no harm: only its owner can enter it.
            let _ = remove_folder(&entry.path());
        }
    }
}

/// Whether the text is a number as [`Job::random`] draws it.
fn is_drawn(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Removes a folder if it belongs to this user, only its owner can enter it, its process is gone, and it contains
/// nothing but a token.
fn remove_folder(path: &Path) -> io::Result<()> {
    let folder = open_folder(path)?;
    let found = fstat(&folder)?;
    if found.st_uid != geteuid().as_raw() || found.st_mode & 0o7777 != MODE {
        return Ok(());
    }
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        if ![".", "..", TOKEN].iter().any(|name| name.as_bytes() == entry.file_name().to_bytes()) {
            return Ok(());
        }
    }
    let token = statat(&folder, TOKEN, AtFlags::SYMLINK_NOFOLLOW);
    if token.is_ok_and(|token| FileType::from_raw_mode(token.st_mode) == FileType::RegularFile) {
        unlinkat(&folder, TOKEN, AtFlags::empty())?;
    }
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_token_is_for_its_owner_alone_and_goes_with_it() {
        let token = ServiceToken::of(&chained_gpc::Secret::random().unwrap());
        let file = TokenFile::somewhere(&token).unwrap();
        let path = file.path().to_owned();
        let folder = path.parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, MODE);
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), token.to_text().as_str());
        drop(file);
        assert!(!path.exists() && !folder.exists());
    }

    #[test]
    fn a_file_that_another_run_has_left_is_used_and_no_other_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let tokens = [(); 2].map(|()| ServiceToken::of(&chained_gpc::Secret::random().unwrap()));
        let first = TokenFile::at(&path, &tokens[0], false).unwrap();
        drop(TokenFile::at(&path, &tokens[0], false).unwrap());
        let error = TokenFile::at(&path, &tokens[1], false).unwrap_err().to_string();
        assert!(error.contains("which is not replaced") && path.exists(), "{error}");
        drop(first);
        assert!(!path.exists());
    }

    /// The folder of a process killed by `kill -9` was never removed.
    #[test]
    fn what_a_killed_process_has_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let make = |name: &str, mode: u32| {
            DirBuilder::new().mode(mode).create(at(name)).unwrap();
            fs::write(at(name).join(TOKEN), "x").unwrap();
        };
        let digits = |digit: &str| format!("{PREFIX}{}", digit.repeat(32));
        make(&digits("0"), MODE);
        // Another name, another mode, other content, a symbolic link.
        let stay = [&digits("1")[..40], &digits("A"), "mine", &digits("2"), &digits("3"), &digits("4")];
        for name in &stay[..5] {
            make(name, if *name == digits("2") { 0o755 } else { MODE });
        }
        fs::write(at(&digits("3")).join("more"), "x").unwrap();
        std::os::unix::fs::symlink(at("mine"), at(&digits("4"))).unwrap();
        let (held, locked) = new_folder(place.path()).unwrap();
        remove_left_at(place.path());
        assert!(!at(&digits("0")).exists());
        for name in stay {
            assert!(at(name).join(TOKEN).exists(), "{name}");
        }
        assert!(held.exists());
        drop(locked);
        remove_left_at(place.path());
        assert!(!held.exists());
    }
}

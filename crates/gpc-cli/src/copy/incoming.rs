//! A file that comes in: written beside its place without a name, and put there when it is complete.
//!
//! Until then the old file stays as it is. If the process dies, nothing is left, where the file system has files
//! without names; elsewhere the file has a name that begins with a dot.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};

use crate::unnamed::unnamed;

/// Where a process finds its open files by name.
const OPEN_FILES: &str = "/proc/self/fd";

/// A file that comes in. Unless it is [put into place](Self::put), dropping it removes it.
#[derive(Debug)]
pub(super) struct Incoming {
    file: File,
    target: PathBuf,
    /// Its name until it is in its place.
    meanwhile: PathBuf,
    has_name: bool,
}

impl Incoming {
    /// Creates it in the folder of its target. `mark` makes its name unique for the time until it is in its place.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(target: &Path, mode: u32, mark: u64) -> io::Result<Incoming> {
        target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let hidden = format!(".gpc-{mark:016x}");
        let (meanwhile, target, mode) = (folder.join(hidden), target.to_owned(), mode & 0o777);
        if fs::exists(OPEN_FILES).unwrap_or(false)
            && let Some(file) = unnamed(folder, mode)?
        {
            return Ok(Incoming { file, target, meanwhile, has_name: false });
        }
        let file = File::options().write(true).create_new(true).mode(mode).open(&meanwhile)?;
        Ok(Incoming { file, target, meanwhile, has_name: true })
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Replaces the file at its place by this one.
    ///
    /// # Errors
    /// The system's; then the old file stays.
    pub(super) fn put(mut self) -> io::Result<()> {
        // What the file system has only promised to write may fail now, and the old file still stands.
        self.file.sync_all()?;
        if !self.has_name {
            let own = format!("{OPEN_FILES}/{}", self.file.as_raw_fd());
            linkat(CWD, own, CWD, &self.meanwhile, AtFlags::SYMLINK_FOLLOW)?;
            self.has_name = true;
        }
        fs::rename(&self.meanwhile, &self.target)?;
        self.has_name = false;
        Ok(())
    }

    /// Where it goes.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.has_name {
            // What cannot be removed stays, with a name that tells what it is.
            let _ = fs::remove_file(&self.meanwhile);
        }
    }
}

/// Where a file of this name goes: into the destination if that is a folder, or in its place.
///
/// # Errors
/// If the destination must be a folder, and is not.
pub(super) fn target(to: &Path, name: &std::ffi::OsStr, into: bool) -> Result<PathBuf, String> {
    match (to.is_dir(), into) {
        (true, _) => Ok(to.join(name)),
        (false, false) => Ok(to.to_owned()),
        (false, true) => Err(format!("{} is not a folder: create it first", to.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        fs::write(&target, "old").unwrap();
        let incoming = Incoming::create(&target, 0o640, 1).unwrap();
        incoming.write(b"w", 2).unwrap();
        incoming.write(b"ne", 0).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        incoming.put().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777 & !0o640, 0);
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn nothing_is_left_of_a_file_that_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        drop(Incoming::create(&target, 0o600, 1).unwrap());
        // A folder at its place: it cannot be put there.
        let incoming = Incoming::create(&target, 0o600, 1).unwrap();
        fs::create_dir(&target).unwrap();
        assert!(incoming.put().is_err());
        assert_eq!(names(folder.path()), ["a"]);
        assert!(Incoming::create(&folder.path().join("none/a"), 0o600, 1).is_err());
        assert!(Incoming::create(Path::new("/"), 0o600, 1).is_err());
    }

    #[test]
    fn a_folder_takes_the_file_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let to = |to: &Path, into| target(to, OsStr::new("f"), into);
        assert_eq!(to(folder.path(), false), Ok(folder.path().join("f")));
        assert_eq!(to(folder.path(), true), Ok(folder.path().join("f")));
        let other = folder.path().join("other");
        assert_eq!(to(&other, false), Ok(other.clone()));
        assert!(to(&other, true).unwrap_err().contains("is not a folder"));
    }
}

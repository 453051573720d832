//! The session folder of a server: private, with a short path, and removed after every end.
//!
//! The helper holds a lock (`flock`) on its folder. The system releases the lock with the helper, so a folder without a
//! lock is a leftover of a helper that was killed, or was created again by a process that outlived its helper.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;

/// Prefix of the names of session folders.
const PREFIX: &str = "gpc-pmix-";

/// Where session folders are: in memory where possible, since Open MPI has shared memory segments there. Short, since
/// the path of a socket has at most 107 bytes.
const PARENTS: [&str; 2] = ["/dev/shm", "/tmp"];

/// Names that are tried. A name is taken only by a leftover of another user with the same process number.
const ATTEMPTS: u32 = 100;

/// Entries of the parent that are looked at for leftovers. In a larger one the rest stays until the next start.
const ENTRIES_MAX: usize = 100_000;

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct SessionFolder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl SessionFolder {
    /// Creates a folder for this process.
    pub(super) fn create() -> io::Result<SessionFolder> {
        let [first, second] = PARENTS.map(Path::new);
        SessionFolder::create_in(first).or_else(|_| SessionFolder::create_in(second))
    }

    fn create_in(parent: &Path) -> io::Result<SessionFolder> {
        for attempt in 0..ATTEMPTS {
            let path = parent.join(format!("{PREFIX}{:x}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Between both steps, another helper may take the folder for a leftover.
            if let Some(lock) = lock(&path)
                && is_still(&path, &lock)
            {
                return Ok(SessionFolder { path, _lock: lock });
            }
        }
        let all = format!("{}/{PREFIX}*", parent.display());
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("no name for a session folder is free: remove {all}"),
        ))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folders of a job with these ranks here.
    pub(super) fn create_job(&self, number: u32, ranks: &[u32]) -> io::Result<JobFolders> {
        let folders = JobFolders {
            top: self.path.join(number.to_string()),
            segments: self.path.join(format!("{number}{SEGMENTS}")),
        };
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        let job = [&folders.top, &folders.job(), &folders.segments].map(|path| builder.create(path));
        let processes = ranks.iter().map(|&rank| builder.create(folders.process(rank)));
        if let Err(error) = job.into_iter().chain(processes).collect::<io::Result<()>>() {
            folders.remove();
            return Err(error);
        }
        Ok(folders)
    }
}

/// End of the name of a job's folder for shared memory.
///
/// libpmix removes the files that a process has named when its connection closes. Open MPI 4 removes its segment later,
/// and warns if it is not there. libpmix splits names at commas, so that it finds no file in this folder.
const SEGMENTS: &str = ",segments";

/// The folders of a job on this node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JobFolders {
    /// The job's temporary folder. Open MPI lets libpmix remove it when the first process ends.
    pub(super) top: PathBuf,
    /// The folder for shared memory, which stays until the job ends.
    pub(super) segments: PathBuf,
}

impl JobFolders {
    /// The folder of the job's files.
    pub(super) fn job(&self) -> PathBuf {
        self.top.join("job")
    }

    /// The folder of a process.
    pub(super) fn process(&self, rank: u32) -> PathBuf {
        self.job().join(rank.to_string())
    }

    /// Removes both. What cannot be removed now goes with the session folder.
    pub(super) fn remove(&self) {
        for folder in [&self.top, &self.segments] {
            remove(folder);
        }
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        // What cannot be removed now is removed as a leftover.
        remove(&self.path);
    }
}

/// Attempts to remove a folder. A process that still runs may create or remove files in it at the same time.
const REMOVE_ATTEMPTS: u32 = 20;

/// Removes a folder as far as possible.
pub(super) fn remove(folder: &Path) {
    for _ in 0..REMOVE_ATTEMPTS {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => return,
        }
    }
}

/// Removes the session folders of helpers that were killed.
///
/// A node calls this after its helper has ended; a helper calls it when it starts. Folders of running helpers and of
/// other users stay.
pub fn remove_leftovers() {
    PARENTS.iter().for_each(|parent| remove_leftovers_in(Path::new(parent)));
}

fn remove_leftovers_in(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().take(ENTRIES_MAX).flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let path = entry.path();
        // A folder that another process has just removed may have a successor of the same name.
        if is_named
            && let Some(lock) = lock(&path)
            && is_still(&path, &lock)
        {
            // What cannot be removed stays for the next helper.
            remove(&path);
            drop(lock);
        }
    }
}

/// Locks a folder of this user; `None` if it is not one, or another process has locked it.
fn lock(path: &Path) -> Option<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits();
    let folder = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path).ok()?;
    let is_own = folder.metadata().ok()?.uid() == geteuid().as_raw();
    (is_own && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()).then_some(folder)
}

/// Whether the path still names this folder.
fn is_still(path: &Path, folder: &File) -> bool {
    match (fs::symlink_metadata(path), folder.metadata()) {
        (Ok(there), Ok(here)) => (there.dev(), there.ino()) == (here.dev(), here.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let entries = fs::read_dir(parent).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_is_private_and_goes_with_its_server() {
        let parent = tempfile::tempdir().unwrap();
        let folder = SessionFolder::create_in(parent.path()).unwrap();
        let job = folder.create_job(3, &[0, 5]).unwrap();
        for path in [folder.path(), &job.top, &job.job(), &job.process(5), &job.segments] {
            assert_eq!(
                fs::metadata(path).unwrap().permissions().mode() & 0o7777,
                0o700,
                "{}",
                path.display()
            );
        }
        fs::write(job.process(5).join("file"), "x").unwrap();
        job.remove();
        assert_eq!(names(folder.path()), [""; 0]);
        folder.create_job(4, &[1]).unwrap();
        drop(folder);
        assert_eq!(names(parent.path()), [""; 0]);
    }

    #[test]
    fn only_leftovers_of_helpers_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let living = SessionFolder::create_in(parent.path()).unwrap();
        fs::create_dir_all(parent.path().join("gpc-pmix-dead/0/1")).unwrap();
        fs::create_dir(parent.path().join("other")).unwrap();
        fs::write(parent.path().join("gpc-pmix-file"), "x").unwrap();
        std::os::unix::fs::symlink(parent.path().join("other"), parent.path().join("gpc-pmix-link")).unwrap();
        remove_leftovers_in(parent.path());
        let own = living.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut left = vec![own, "gpc-pmix-file".into(), "gpc-pmix-link".into(), "other".into()];
        left.sort();
        assert_eq!(names(parent.path()), left);
        // A second server of this process gets a name of its own.
        let second = SessionFolder::create_in(parent.path()).unwrap();
        assert_ne!(living.path(), second.path());
    }

    #[test]
    fn without_a_free_name_the_error_says_what_to_remove() {
        let parent = tempfile::tempdir().unwrap();
        for attempt in 0..ATTEMPTS {
            fs::create_dir(parent.path().join(format!("{PREFIX}{:x}-{attempt}", std::process::id())))
                .unwrap();
        }
        let error = SessionFolder::create_in(parent.path()).unwrap_err().to_string();
        assert!(error.contains("gpc-pmix-*"), "{error}");
    }
}

//! Files that output goes to, a name for each process: opened at the first line, and at most [`OPEN_MAX`] at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpc_bnr::names::Member;

use super::pattern::{Pattern, Writer};
use super::places::Places;

/// Maximum number of open files of each output: a fraction of the 1,024 descriptors that a process may have.
const OPEN_MAX: usize = 128;

/// Files of one output.
#[derive(Debug)]
pub(super) struct OutputFiles {
    pattern: Pattern,
    places: Arc<Places>,
    /// Paths of the processes that have written.
    paths: BTreeMap<Member, PathBuf>,
    /// Open files, each with the time of its last use.
    open: BTreeMap<PathBuf, (File, u64)>,
    /// Files that this command has begun: it replaces what was there before, and adds to its own.
    begun: BTreeSet<PathBuf>,
    uses: u64,
}

impl OutputFiles {
    pub(super) fn new(pattern: Pattern, places: Arc<Places>) -> OutputFiles {
        let (paths, open, begun) = Default::default();
        OutputFiles { pattern, places, paths, open, begun, uses: 0 }
    }

    /// Writes output of a process to its file.
    ///
    /// # Errors
    /// The system's error, with the path.
    pub(super) fn write(&mut self, member: Member, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(member);
        self.write_to(&path, bytes).map_err(|error| with_path(&path, &error))
    }

    fn write_to(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.uses += 1;
        if let Some((file, used)) = self.open.get_mut(path) {
            *used = self.uses;
            return file.write_all(bytes);
        }
        self.make_room();
        let mut file = self.opened(path)?;
        let written = file.write_all(bytes);
        self.open.insert(path.to_owned(), (file, self.uses));
        written
    }

    fn path(&mut self, member: Member) -> PathBuf {
        if let Some(path) = self.paths.get(&member) {
            return path.clone();
        }
        let place = self.pattern.has_place().then(|| self.places.of(member));
        let (host, pid) = place.as_ref().map_or((OsStr::new(""), 0), |place| (&*place.host, place.pid));
        let path = self.pattern.path(Writer { member, host, pid });
        self.paths.insert(member, path.clone());
        path
    }

    /// Closes the file that was used least recently, if there are too many.
    fn make_room(&mut self) {
        if self.open.len() < OPEN_MAX {
            return;
        }
        let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(path, _)| path.clone());
        if let Some(path) = oldest {
            self.open.remove(&path);
        }
    }

    fn opened(&mut self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        // What a device or a FIFO has cannot be removed.
        if self.begun.insert(path.to_owned()) && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

/// An error that names the file.
fn with_path(path: &Path, error: &io::Error) -> io::Error {
    // A closed pipe in the place of a file is a failure, unlike that of standard output.
    let kind = match error.kind() {
        io::ErrorKind::BrokenPipe => io::ErrorKind::Other,
        kind => kind,
    };
    io::Error::new(kind, format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gpc_bnr::names::GroupId;

    use super::super::places::Place;
    use super::*;

    fn files(place: &Path, pattern: &str) -> OutputFiles {
        let pattern = Pattern::parse(place.join(pattern).as_os_str()).unwrap();
        let places = Places::default();
        let place =
            |rank| (Member { group: GroupId(1), rank }, Place { pid: 9, host: OsStr::new("c1").into() });
        places.add((0..3).map(place));
        OutputFiles::new(pattern, Arc::new(places))
    }

    fn write(files: &mut OutputFiles, rank: u32, text: &str) {
        let member = Member { group: GroupId(1), rank };
        files.write(member, text.as_bytes()).unwrap();
    }

    #[test]
    fn each_rank_has_a_file_and_few_are_open() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("out.3"), "of an earlier run").unwrap();
        let mut files = files(place.path(), "out.%r");
        let ranks = OPEN_MAX as u32 + 20;
        for turn in 0..2 {
            (0..ranks).for_each(|rank| write(&mut files, rank, &format!("{rank} {turn}\n")));
        }
        assert_eq!(files.open.len(), OPEN_MAX);
        for rank in 0..ranks {
            let text = fs::read_to_string(place.path().join(format!("out.{rank}"))).unwrap();
            assert_eq!(text, format!("{rank} 0\n{rank} 1\n"));
        }
    }

    #[test]
    fn processes_may_share_a_file_and_an_error_names_it() {
        let place = tempfile::tempdir().unwrap();
        let mut all = files(place.path(), "all.%h");
        (0..3).for_each(|rank| write(&mut all, rank, &format!("{rank}\n")));
        assert_eq!(fs::read_to_string(place.path().join("all.c1")).unwrap(), "0\n1\n2\n");
        let mut none = files(place.path(), "none/%r");
        let error = none.write(Member { group: GroupId(1), rank: 4 }, b"text").unwrap_err();
        assert!(error.to_string().contains("none/4: No such file"), "{error}");
    }
}

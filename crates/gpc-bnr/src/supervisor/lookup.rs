//! Search of `PATH` for programs. The result is reused for all processes of the same program.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

/// Most programs remembered. A group has one or a few.
const REMEMBERED: usize = 16;

/// The search path if no `PATH` is set.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Programs that were found.
#[derive(Default)]
pub(super) struct Lookup {
    own: Option<Vec<u8>>,
    found: Vec<CachedPath>,
}

struct CachedPath {
    program: Vec<u8>,
    path: Vec<u8>,
    wdir: Option<Vec<u8>>,
    is: PathBuf,
}

impl Lookup {
    /// Uses the `PATH` of this process by default.
    pub(super) fn new() -> Lookup {
        Lookup { own: std::env::var_os("PATH").map(OsStringExt::into_vec), found: Vec::new() }
    }

    /// The path of a program for its start in `wdir`. It contains a slash, so it is not searched again.
    ///
    /// # Errors
    /// A system error: not found, or found and not executable.
    pub(super) fn find(
        &mut self,
        program: &[u8],
        path: Option<&[u8]>,
        wdir: Option<&[u8]>,
    ) -> Result<PathBuf, Errno> {
        if program.contains(&b'/') {
            return Ok(PathBuf::from(OsStr::from_bytes(program)));
        }
        let path = path.or(self.own.as_deref()).unwrap_or(DEFAULT_PATH);
        let known = |found: &CachedPath| {
            found.program == program && found.path == path && found.wdir.as_deref() == wdir
        };
        if let Some(at) = self.found.iter().position(known) {
            let found = &self.found[at];
            if executable(&found.is, wdir).is_ok() {
                return Ok(found.is.clone());
            }
            // The file is gone; the program may be elsewhere now.
            self.found.remove(at);
        }
        let is = search(program, path, wdir)?;
        let found =
            CachedPath { program: program.into(), path: path.into(), wdir: wdir.map(<[u8]>::to_vec), is };
        let is = found.is.clone();
        if self.found.len() >= REMEMBERED {
            self.found.remove(0);
        }
        self.found.push(found);
        Ok(is)
    }
}

fn search(program: &[u8], path: &[u8], wdir: Option<&[u8]>) -> Result<PathBuf, Errno> {
    let mut why = Errno::NOENT;
    if program.is_empty() {
        return Err(why);
    }
    for folder in path.split(|byte| *byte == b':') {
        // An empty entry is the directory that the process runs in.
        let folder = if folder.is_empty() { b".".as_slice() } else { folder };
        let candidate = Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(program));
        match executable(&candidate, wdir) {
            Ok(()) => return Ok(candidate),
            Err(Errno::NOENT) => {}
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Checks that a file is executable. A relative path begins at `wdir`.
fn executable(program: &Path, wdir: Option<&[u8]>) -> Result<(), Errno> {
    let seen = match wdir {
        Some(wdir) => Path::new(OsStr::from_bytes(wdir)).join(program),
        None => program.into(),
    };
    // A directory has execute permission but is not a program.
    if !seen.is_file() {
        return Err(Errno::NOENT);
    }
    access(&seen, Access::EXEC_OK)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A directory with programs, and with a file that is not executable.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        for (name, mode) in [("one", 0o755), ("plain", 0o644), ("in/two", 0o755)] {
            fs::write(folder.path().join(name), "#!/bin/sh\n").unwrap();
            fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    fn bytes(path: &Path) -> Vec<u8> {
        path.as_os_str().as_bytes().to_vec()
    }

    #[test]
    fn a_name_is_searched_in_order_and_a_path_is_not() {
        let folder = folder();
        let here = bytes(folder.path());
        let path = [b"/nowhere:".as_slice(), &here, b":", &here, b"/in"].concat();
        let mut lookup = Lookup::new();
        assert_eq!(lookup.find(b"one", Some(&path), None), Ok(folder.path().join("one")));
        assert_eq!(lookup.find(b"two", Some(&path), None), Ok(folder.path().join("in/two")));
        assert_eq!(lookup.find(b"./none", Some(&path), None), Ok("./none".into()));
        assert_eq!(lookup.find(b"three", Some(&path), None), Err(Errno::NOENT));
        assert_eq!(lookup.find(b"plain", Some(&path), None), Err(Errno::ACCESS));
        // A directory is not a program.
        assert_eq!(lookup.find(b"in", Some(&path), None), Err(Errno::NOENT));
        assert_eq!(lookup.find(b"", Some(&path), None), Err(Errno::NOENT));
    }

    #[test]
    fn a_relative_folder_begins_where_the_process_runs() {
        let folder = folder();
        let wdir = bytes(folder.path());
        let mut lookup = Lookup::new();
        assert_eq!(lookup.find(b"two", Some(b"in"), Some(&wdir)), Ok("in/two".into()));
        assert_eq!(lookup.find(b"one", Some(b"/nowhere:"), Some(&wdir)), Ok("./one".into()));
        assert_eq!(lookup.find(b"two", Some(b"in"), None), Err(Errno::NOENT));
    }

    /// A program that was found in one working directory was started in another one.
    #[test]
    fn what_is_found_in_one_folder_is_not_used_in_another() {
        let (one, other) = (folder(), folder());
        fs::create_dir(other.path().join("first")).unwrap();
        fs::copy(other.path().join("in/two"), other.path().join("first/two")).unwrap();
        let mut lookup = Lookup::new();
        for (folder, found) in [(&one, "in/two"), (&other, "first/two"), (&one, "in/two")] {
            let wdir = bytes(folder.path());
            assert_eq!(lookup.find(b"two", Some(b"first:in"), Some(&wdir)), Ok(found.into()));
        }
    }

    #[test]
    fn what_is_found_is_remembered_as_long_as_it_is_there() {
        let folder = folder();
        let here = bytes(folder.path());
        let mut lookup = Lookup::new();
        let one = folder.path().join("one");
        assert_eq!(lookup.find(b"one", Some(&here), None), Ok(one.clone()));
        assert_eq!(lookup.found.len(), 1);
        assert_eq!(lookup.find(b"one", Some(&here), None), Ok(one.clone()));
        assert_eq!(lookup.found.len(), 1);
        fs::remove_file(&one).unwrap();
        assert_eq!(lookup.find(b"one", Some(&here), None), Err(Errno::NOENT));
        for number in 0..2 * REMEMBERED {
            let name = format!("one{number}");
            fs::copy(folder.path().join("in/two"), folder.path().join(&name)).unwrap();
            lookup.find(name.as_bytes(), Some(&here), None).unwrap();
        }
        assert_eq!(lookup.found.len(), REMEMBERED);
    }
}

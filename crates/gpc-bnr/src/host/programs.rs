//! Programs that other nodes have sent to this one: files without names, which the processes execute by the descriptors
//! that this node has open. They are gone with the node's part in the domain, however it ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::spec::Spec;
use crate::start_error::StartError;

/// Most programs of a domain. A job has one or a few.
pub const PROGRAMS_MAX: usize = 64;

/// This node has no part in the domain, or another node leads it.
pub(super) const NO_PART: &str =
    "this host has no part in the job that the sender leads, or the job has ended";

/// The domain has [`PROGRAMS_MAX`] programs.
pub(super) const MANY: &str =
    "the job has 64 programs here already: start fewer different ones, or copy them by `gpc copy`";

/// The programs of a domain, which threads share.
#[derive(Clone, Default, Debug)]
pub(super) struct SharedPrograms(Arc<Mutex<Programs>>);

impl SharedPrograms {
    pub(super) fn lock(&self) -> MutexGuard<'_, Programs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a program, or replaces it.
    ///
    /// # Errors
    /// The domain has too many.
    pub(super) fn insert(&self, number: u64, file: Arc<File>) -> Result<(), &'static str> {
        self.lock().insert(number, file)
    }
}

/// The programs of a domain.
#[derive(Default, Debug)]
pub(super) struct Programs {
    files: BTreeMap<u64, Arc<File>>,
}

impl Programs {
    /// Adds a program, or replaces it.
    ///
    /// # Errors
    /// The domain has [`PROGRAMS_MAX`] others.
    fn insert(&mut self, number: u64, file: Arc<File>) -> Result<(), &'static str> {
        if self.files.len() >= PROGRAMS_MAX && !self.files.contains_key(&number) {
            return Err(MANY);
        }
        self.files.insert(number, file);
        Ok(())
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The path by which processes of this user execute the program of a spec; `None` if the spec names no such
    /// program.
    ///
    /// # Errors
    /// The program has not been sent.
    pub(super) fn image(&self, spec: &Spec) -> Result<Option<PathBuf>, StartError> {
        let Some(number) = spec.hint("image") else { return Ok(None) };
        let number = str::from_utf8(number).ok().and_then(|number| number.parse::<u64>().ok());
        let Some(file) = number.and_then(|number| self.files.get(&number)) else {
            let errno = Errno::NOENT.raw_os_error();
            return Err(StartError::new(
                errno,
                StartError::NOT_FOUND,
                "the program was not sent to this host",
            ));
        };
        Ok(Some(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, Arc<File>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        fs::write(&path, text).unwrap();
        let file = File::open(&path).unwrap();
        fs::remove_file(path).unwrap();
        (folder, Arc::new(file))
    }

    fn of(image: &str) -> Spec {
        Spec { info: vec![("image".into(), image.into())], ..Spec::default() }
    }

    #[test]
    fn a_program_has_a_path_as_long_as_it_is_there() {
        let mut programs = Programs::default();
        let (_one, first) = file("one");
        let (_other, second) = file("other");
        programs.insert(7, Arc::clone(&first)).unwrap();
        let read =
            |programs: &Programs| fs::read_to_string(programs.image(&of("7")).unwrap().unwrap()).unwrap();
        assert_eq!((read(&programs), programs.image(&Spec::default())), ("one".to_owned(), Ok(None)));
        programs.insert(7, second).unwrap();
        assert_eq!((read(&programs), Arc::strong_count(&first)), ("other".to_owned(), 1));
        for absent in ["8", "", "x", "-7"] {
            assert_eq!(programs.image(&of(absent)).unwrap_err().status, StartError::NOT_FOUND, "{absent}");
        }
    }

    #[test]
    fn a_domain_has_so_many_programs() {
        let mut programs = Programs::default();
        let (_folder, file) = file("one");
        let mut insert = |number| programs.insert(number, Arc::clone(&file));
        assert!((0..PROGRAMS_MAX as u64).all(|number| insert(number).is_ok()));
        assert!(MANY.contains(&format!(" {PROGRAMS_MAX} ")));
        assert_eq!((insert(PROGRAMS_MAX as u64), insert(0)), (Err(MANY), Ok(())));
        assert_eq!(Arc::strong_count(&file), 1 + PROGRAMS_MAX);
    }
}

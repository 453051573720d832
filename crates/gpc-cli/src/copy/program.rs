//! A program that comes in for a job: a file without a name in the memory of this host. The job's part here owns it, so
//! it is gone when that ends, or the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Weak};

use rustix::fs::{FallocateFlags, StatVfsMountFlags, fallocate, fstatvfs};

use crate::unnamed::unnamed;

/// The folder of memory. Its files are seen by this user alone, since they have no names.
pub(super) const MEMORY: &str = "/dev/shm";

/// Rights of a program.
const MODE: u32 = 0o700;

/// Gives a file to a job of this name, under a number; false if this process has no part in such a job.
pub(crate) type GiveProgram = Arc<dyn Fn(&str, u64, Arc<File>) -> bool + Send + Sync>;

/// The job has ended.
pub(super) const ENDED: &str = "this host has no part in the job, or not any more";

/// A program that comes in.
pub(super) struct Program {
    /// The job has it.
    file: Weak<File>,
    job: String,
    number: u64,
    give: GiveProgram,
}

impl Program {
    /// Creates the file with its length, and gives it to its job.
    ///
    /// # Errors
    /// The system's, such as too little memory for files; or the job has ended.
    pub(super) fn create(job: &str, number: u64, length: u64, give: &GiveProgram) -> Result<Program, String> {
        let file = in_memory(length)
            .map_err(|error| format!("cannot hold {length} bytes of a program in {MEMORY}: {error}"))?;
        let file = Arc::new(file);
        let weak = Arc::downgrade(&file);
        match give(job, number, file) {
            true => Ok(Program { file: weak, job: job.to_owned(), number, give: Arc::clone(give) }),
            false => Err(ENDED.into()),
        }
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// The system's, or the job has ended.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), String> {
        let written = self.file()?.write_all_at(bytes, offset);
        written.map_err(|error| format!("cannot write to {MEMORY}: {error}"))
    }

    /// Gives the complete file to the job. The system executes no file that is open for writing, so the job gets one
    /// that is open for reading.
    ///
    /// # Errors
    /// The system's, or the job has ended.
    pub(super) fn put(self) -> Result<(), String> {
        let file = self.file()?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let complete = File::open(own).map_err(|error| format!("cannot open the program again: {error}"))?;
        match (self.give)(&self.job, self.number, Arc::new(complete)) {
            true => Ok(()),
            false => Err(ENDED.into()),
        }
    }

    /// Whether the job has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.file.strong_count() == 0
    }

    fn file(&self) -> Result<Arc<File>, String> {
        self.file.upgrade().ok_or_else(|| ENDED.into())
    }
}

/// Creates a file without a name in memory, and reserves the memory.
fn in_memory(length: u64) -> io::Result<File> {
    let why = |text: &str| io::Error::new(io::ErrorKind::Unsupported, text);
    let file = unnamed(Path::new(MEMORY), MODE)?.ok_or_else(|| {
        why("it has no files without names: mount a tmpfs there, or copy the program by `gpc copy`")
    })?;
    if fstatvfs(&file)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(why(
            "it is mounted with noexec: mount it again without, or copy the program by `gpc copy`",
        ));
    }
    if length > 0 {
        fallocate(&file, FallocateFlags::empty(), 0, length)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A job, and the files that it has.
    fn job() -> (GiveProgram, Arc<Mutex<Option<Arc<File>>>>) {
        let held = Arc::new(Mutex::new(None));
        let give: GiveProgram = {
            let held = Arc::clone(&held);
            Arc::new(move |job, number, file| {
                *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
                job == "job" && number == 7
            })
        };
        (give, held)
    }

    #[test]
    fn a_program_is_executed_without_a_name_and_is_gone_with_its_job() {
        let (give, held) = job();
        let script = b"#!/bin/sh\necho $1 of the script\n";
        let program = Program::create("job", 7, script.len() as u64, &give).unwrap();
        program.write(&script[9..], 9).unwrap();
        program.write(&script[..9], 0).unwrap();
        let file = held.lock().unwrap().clone().unwrap();
        assert_eq!(file.metadata().unwrap().permissions(), Permissions::from_mode(0o100_700));
        drop(file);
        program.put().unwrap();
        let file = held.lock().unwrap().clone().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let out = Command::new(path).arg("words").output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), "words of the script\n");
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0, "it has no name");
    }

    #[test]
    fn a_job_that_has_ended_takes_no_more_of_it() {
        let (give, held) = job();
        assert_eq!(Program::create("other", 7, 1, &give).err(), Some(ENDED.to_owned()));
        let program = Program::create("job", 7, 1, &give).unwrap();
        assert!(!program.is_gone());
        *held.lock().unwrap() = None;
        assert!(program.is_gone());
        assert_eq!(program.write(b"a", 0), Err(ENDED.to_owned()));
        assert_eq!(program.put(), Err(ENDED.to_owned()));
    }

    #[test]
    fn too_long_a_program_is_refused_before_it_comes() {
        let (give, held) = job();
        let refused = Program::create("job", 7, 1 << 50, &give).err().unwrap();
        assert!(
            refused.starts_with("cannot hold 1125899906842624 bytes of a program in /dev/shm: "),
            "{refused}"
        );
        assert!(held.lock().unwrap().is_none());
    }
}

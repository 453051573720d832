//! A program that arrives for a job: a file without a name in the memory of this host. The job's part here owns it, so
//! it is gone when that ends, or the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Weak};

use chained_gpc::Id;
use rustix::fs::{StatVfs, StatVfsMountFlags, fstatvfs};

use crate::unnamed::unnamed;

/// The folder of memory. Its files are seen by this user alone, since they have no names.
pub(super) const MEMORY: &str = "/dev/shm";

/// Rights of a program.
const MODE: u32 = 0o700;

/// Gives a file to a job under a number. The job has a name and the node that sends the file. An error says why the job
/// does not take it.
pub(crate) type GiveProgram =
    Arc<dyn Fn((&str, Id), u64, Arc<File>) -> Result<(), &'static str> + Send + Sync>;

/// The job has ended.
pub(super) const ENDED: &str = "the job has ended on this host";

/// What to do if the memory cannot hold a program.
const REMEDY: &str =
    "enlarge it, as by `mount -o remount,size=90% /dev/shm`, or copy the program by `gpc copy`";

/// A program that arrives.
pub(super) struct Program {
    /// The job owns it.
    file: Weak<File>,
    job: String,
    sender: Id,
    number: u64,
    give: GiveProgram,
}

impl Program {
    /// Creates an empty file, and gives it to its job. Only bytes that arrive take memory, so a sender reserves none by
    /// the length that it announces.
    ///
    /// # Errors
    /// The system's; less memory is free than the length; or the job does not take the file.
    pub(super) fn create(
        (job, sender): (&str, Id),
        number: u64,
        length: u64,
        give: &GiveProgram,
    ) -> Result<Program, String> {
        let cannot = |why: String| format!("cannot hold {length} bytes of a program in {MEMORY}: {why}");
        let (file, free) = in_memory().map_err(|error| cannot(error.to_string()))?;
        let file = Arc::new(file);
        let weak = Arc::downgrade(&file);
        give((job, sender), number, file)?;
        if length > free {
            // Without the number, so that hosts with different ones have one line together.
            return Err(cannot(format!("less is free there: {REMEDY}")));
        }
        Ok(Program { file: weak, job: job.to_owned(), sender, number, give: Arc::clone(give) })
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// The system's, or the job has ended.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), String> {
        let written = self.file()?.write_all_at(bytes, offset);
        written.map_err(|error| format!("cannot write the program to {MEMORY}: {error}: {REMEDY}"))
    }

    /// Gives the complete file to the job. The system executes no file that is open for writing, so the job gets one
    /// that is open for reading.
    ///
    /// # Errors
    /// The system's, or the job has ended.
    pub(super) fn put(self) -> Result<(), String> {
        let file = self.file()?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let complete = File::open(own).map_err(|error| {
            format!("cannot open the program in {MEMORY} to execute it: {error}: copy it by `gpc copy`")
        })?;
        Ok((self.give)((&self.job, self.sender), self.number, Arc::new(complete))?)
    }

    /// Whether the job has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.file.strong_count() == 0
    }

    fn file(&self) -> Result<Arc<File>, String> {
        self.file.upgrade().ok_or_else(|| ENDED.into())
    }
}

/// Creates a file without a name in memory. Returns it, and how many bytes are free.
fn in_memory() -> io::Result<(File, u64)> {
    let why = |text: &str| io::Error::new(io::ErrorKind::Unsupported, text);
    let file = unnamed(Path::new(MEMORY), MODE)?.ok_or_else(|| {
        why("it has no files without names: mount a tmpfs there, or copy the program by `gpc copy`")
    })?;
    let found = fstatvfs(&file)?;
    if found.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(why(
            "it is mounted with noexec: mount it again without, or copy the program by `gpc copy`",
        ));
    }
    Ok((file, free(&found)))
}

/// Number of free bytes. A file system in memory without a bound reports no blocks at all: there it is the length of
/// the longest file.
fn free(found: &StatVfs) -> u64 {
    match found.f_blocks {
        0 => i64::MAX.cast_unsigned(),
        _ => found.f_bavail.saturating_mul(found.f_frsize),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::process::Command;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A job, and the files that it has.
    fn job() -> (GiveProgram, Arc<Mutex<Option<Arc<File>>>>) {
        let held = Arc::new(Mutex::new(None));
        let give: GiveProgram = {
            let held = Arc::clone(&held);
            Arc::new(move |job, number, file| {
                if job != ("job", 3) || number != 7 {
                    return Err("no such job");
                }
                *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
                Ok(())
            })
        };
        (give, held)
    }

    #[test]
    fn a_program_is_executed_without_a_name_and_is_gone_with_its_job() {
        let (give, held) = job();
        let script = b"#!/bin/sh\necho $1 of the script\n";
        let program = Program::create(("job", 3), 7, script.len() as u64, &give).unwrap();
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
        for other in [("other", 3), ("job", 4)] {
            assert_eq!(Program::create(other, 7, 1, &give).err(), Some("no such job".to_owned()));
        }
        let program = Program::create(("job", 3), 7, 1, &give).unwrap();
        assert!(!program.is_gone());
        *held.lock().unwrap() = None;
        assert!(program.is_gone());
        assert_eq!(program.write(b"a", 0), Err(ENDED.to_owned()));
        assert_eq!(program.put(), Err(ENDED.to_owned()));
    }

    #[test]
    fn too_long_a_program_is_refused_before_it_comes() {
        let (give, _held) = job();
        let refused = Program::create(("job", 3), 7, u64::MAX, &give).err().unwrap();
        assert!(
            refused.starts_with("cannot hold 18446744073709551615 bytes of a program in /dev/shm: ")
                && refused.ends_with("or copy the program by `gpc copy`"),
            "{refused}"
        );
        // The job is checked first.
        let refused = Program::create(("other", 3), 7, u64::MAX, &give).err().unwrap();
        assert_eq!(refused, "no such job");
    }

    /// A sender that announced a length and sent nothing took the memory of the host.
    #[test]
    fn a_length_alone_takes_no_memory() {
        let (give, held) = job();
        let program = Program::create(("job", 3), 7, 1 << 20, &give).unwrap();
        let blocks = || held.lock().unwrap().as_ref().unwrap().metadata().unwrap().blocks();
        assert_eq!(blocks(), 0);
        program.write(b"a", (1 << 20) - 1).unwrap();
        assert!((1..100).contains(&blocks()));
    }

    #[test]
    fn memory_without_a_bound_holds_the_longest_file() {
        let found = in_memory().unwrap().0;
        let mut found = fstatvfs(&found).unwrap();
        (found.f_blocks, found.f_bavail, found.f_frsize) = (9, 2, 4096);
        assert_eq!(free(&found), 8192);
        (found.f_blocks, found.f_bavail) = (0, 0);
        assert_eq!(free(&found), i64::MAX.cast_unsigned());
    }
}

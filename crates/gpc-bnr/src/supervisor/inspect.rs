//! Checks a program before its start and after a failed start. The checks cover its directory, its file, and whatever
//! executes the file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use chained_gpc::Shown;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::elf::{self, Elf};
use crate::start_error::StartError;

/// Bytes of a script's first line that the system reads.
const FIRST_LINE: usize = 256;

/// Kinds of program files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Text without `#!`: a shell script, as `execvp` treats it.
    Plain,
    /// Any other file: the system executes or refuses it.
    Executable,
}

/// What a program file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Inspected {
    pub(super) kind: Kind,
    /// Whether an interpreter executes it.
    pub(super) is_script: bool,
    /// The libraries that it is linked with, and their folders.
    pub(super) elf: Elf,
}

/// Checks the working directory of a process.
///
/// # Errors
/// It is missing, is not a directory, or may not be entered.
pub(super) fn folder(wdir: Option<&[u8]>) -> Result<(), StartError> {
    let Some(wdir) = wdir else { return Ok(()) };
    let path = Path::new(OsStr::from_bytes(wdir));
    let entered = match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(Errno::NOTDIR),
        Ok(_) => access(path, Access::EXEC_OK),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    };
    entered.map_err(|errno| {
        let what = format!("cannot enter the folder {}", shown(wdir));
        StartError::new(errno.raw_os_error(), StartError::NOT_EXECUTED, &what)
    })
}

/// The error of a program that was not found or may not be executed.
pub(super) fn missing(program: &[u8], errno: Errno) -> StartError {
    let (status, what) = match errno {
        Errno::NOENT if program.contains(&b'/') => (StartError::NOT_FOUND, "there is no such program"),
        Errno::NOENT => (StartError::NOT_FOUND, "there is no such program in PATH"),
        _ => (StartError::NOT_EXECUTED, "the program cannot be executed"),
    };
    StartError::new(errno.raw_os_error(), status, what)
}

/// Checks a program file, at the path by which its process starts it.
///
/// # Errors
/// The file, its interpreter or its loader is missing or not executable.
pub(super) fn file(program: &[u8], found: &Path, wdir: Option<&[u8]>) -> Result<Inspected, StartError> {
    let seen = seen_from(wdir, found);
    executable(&seen).map_err(|errno| missing(program, errno))?;
    // A file that may be executed but not read cannot be checked further.
    let mut inspected = Inspected { kind: Kind::Executable, is_script: false, elf: Elf::default() };
    let Ok(file) = File::open(&seen) else { return Ok(inspected) };
    let mut line = [0; FIRST_LINE];
    let count = file.read_at(&mut line, 0).unwrap_or(0);
    let start = &line[..count];
    if let Some(rest) = start.strip_prefix(b"#!") {
        script(&seen, rest, wdir)?;
        inspected.is_script = true;
    } else if start.starts_with(b"\x7fELF") {
        let elf = elf::read(&file);
        if let Some(loader) = &elf.loader {
            let what = format!("it needs the dynamic loader {}", shown(loader));
            executes(loader, wdir, &what)?;
        }
        inspected.elf = elf;
    } else if !start.split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&0)) {
        inspected.kind = Kind::Plain;
    }
    Ok(inspected)
}

/// Checks the interpreter of a script. `rest` is the first line after `#!`.
fn script(script: &Path, rest: &[u8], wdir: Option<&[u8]>) -> Result<(), StartError> {
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    let Some(interpreter) = words.find(|word| !word.is_empty()) else { return Ok(()) };
    let script = shown(script.as_os_str().as_bytes());
    let what = format!("the script {script} needs the interpreter {}", shown(interpreter));
    executes(interpreter, wdir, &what)
}

/// Checks the file that executes another one.
fn executes(path: &[u8], wdir: Option<&[u8]>, what: &str) -> Result<(), StartError> {
    executable(&seen_from(wdir, Path::new(OsStr::from_bytes(path))))
        .map_err(|errno| StartError::new(errno.raw_os_error(), StartError::NOT_EXECUTED, what))
}

/// A path as seen from the working directory of the process.
pub(super) fn seen_from(wdir: Option<&[u8]>, path: &Path) -> PathBuf {
    wdir.map_or_else(|| path.into(), |wdir| Path::new(OsStr::from_bytes(wdir)).join(path))
}

/// Checks that a path is an executable file.
///
/// # Errors
/// A system error; `EACCES` for a directory, as the system returns it.
pub(super) fn executable(path: &Path) -> Result<(), Errno> {
    let found = fs::metadata(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if !found.is_file() {
        return Err(Errno::ACCESS);
    }
    access(path, Access::EXEC_OK)
}

fn shown(bytes: &[u8]) -> String {
    Shown(&String::from_utf8_lossy(bytes)).to_string()
}

#[cfg(test)]
mod tests;

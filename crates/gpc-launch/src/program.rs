//! The path and the name of this program, for starting it again.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The executable of this process, which the system keeps open.
const HELD: &str = "/proc/self/exe";

/// Returns the path by which this process starts its own program again: the very file that it runs, even if an upgrade
/// has replaced or removed it. If the system does not keep it open, the path of the file.
///
/// # Errors
/// The system's, if it does not report the path.
pub fn this_program() -> io::Result<PathBuf> {
    let held = Path::new(HELD);
    if held.exists() { Ok(held.into()) } else { env::current_exe() }
}

/// Returns the path of this program's file, by which other hosts find it. If the file was removed or replaced, that is
/// the path that it had.
///
/// # Errors
/// The system's, if it does not report the path.
pub fn program_file() -> io::Result<PathBuf> {
    let path = env::current_exe()?;
    Ok(if path.exists() { path } else { unmarked(&path).unwrap_or(path) })
}

/// Returns a path without the mark by which Linux reports that the file was removed; `None` without the mark.
fn unmarked(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes().strip_suffix(b" (deleted)")?;
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Returns the name under which a program is started: this process's own name for [`this_program`], the path of any
/// other.
pub fn name_of(program: &Path) -> OsString {
    let own = env::args_os().next().filter(|_| program == Path::new(HELD));
    own.unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_its_own_name_and_others_have_their_paths() {
        let program = this_program().unwrap();
        let own = env::args_os().next().unwrap();
        assert!(name_of(&program) == own || program == env::current_exe().unwrap());
        assert_eq!(name_of(Path::new("/bin/sh")), "/bin/sh");
        assert_eq!(program_file().unwrap(), env::current_exe().unwrap());
    }

    #[test]
    fn the_mark_of_a_removed_file_is_not_a_part_of_its_path() {
        assert_eq!(unmarked(Path::new("/usr/bin/gpc (deleted)")), Some("/usr/bin/gpc".into()));
        assert_eq!(unmarked(Path::new("/usr/bin/gpc")), None);
    }
}

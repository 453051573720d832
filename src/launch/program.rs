//! This program, for those that start it again.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The file that a process runs, which the system holds open for it.
const HELD: &str = "/proc/self/exe";

/// Path by which this process starts its own program again: the very file that it runs, also after that was replaced or removed, as by an upgrade. The path of the file where the system does not hold it open.
///
/// # Errors
/// The system's: it does not tell the path.
pub fn this_program() -> io::Result<PathBuf> {
    let held = Path::new(HELD);
    if held.exists() { Ok(held.into()) } else { env::current_exe() }
}

/// Name by which a program is started: the one of this process for [`this_program`], the path of any other.
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
    }
}

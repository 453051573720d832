//! The path and the name of this program, for starting it again.

use std::env;
use std::ffi::OsString;
use std::io;
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
    }
}

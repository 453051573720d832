//! Programs of `--bcast`: found on this machine, and executed as copies that have numbers.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gpc_bnr::Spec;
use gpc_bnr::host::PROGRAMS_MAX;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::copy::token;
use crate::files::{in_path, shown};
use crate::refused::Refused;

/// Finds the programs of specs on this machine, gives each a number, and makes the specs execute the copies.
///
/// # Errors
/// If a program is missing or cannot be executed.
pub(super) fn numbered(specs: &mut [Spec]) -> Result<Vec<(PathBuf, u64)>, Refused> {
    let search = env::var_os("PATH").unwrap_or_default();
    let mut numbers = BTreeMap::<PathBuf, u64>::new();
    for spec in specs {
        let path = find(OsStr::from_bytes(&spec.program), &search)?;
        let number = match numbers.get(&path) {
            Some(number) => *number,
            None => token().map_err(Refused::File)?,
        };
        numbers.insert(path, number);
        spec.info.push(("image".into(), number.to_string().into_bytes()));
    }
    if numbers.len() > PROGRAMS_MAX {
        return Err(format!("--bcast sends at most {PROGRAMS_MAX} programs, not {}", numbers.len()).into());
    }
    Ok(numbers.into_iter().collect())
}

/// Finds a program on this machine, as a shell does.
fn find(name: &OsStr, search: &OsStr) -> Result<PathBuf, Refused> {
    let refused =
        |why: &str| Refused::File(format!("--bcast: cannot send {}: {why}", shown(Path::new(name))));
    let path = match name.as_bytes().contains(&b'/') {
        true => PathBuf::from(name),
        false => in_path(name, search).ok_or_else(|| refused("this machine has no such program in PATH"))?,
    };
    match (path.is_dir(), access(&path, Access::EXEC_OK)) {
        (true, _) => Err(refused("it is a folder")),
        (false, Ok(())) => Ok(path),
        (false, Err(Errno::NOENT)) => Err(refused("this machine has no such program")),
        (false, Err(error)) => Err(refused(&std::io::Error::from(error).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it_and_sent_once() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("p", 0o755), ("other", 0o755), ("text", 0o644)] {
            let path = folder.path().join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(folder.path().join("folder")).unwrap();
        let search = env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        let found = |name: &Path| find(name.as_os_str(), &search).map_err(|error| error.to_string());
        assert_eq!(found(Path::new("p")), Ok(folder.path().join("p")));
        assert_eq!(found(&folder.path().join("p")), Ok(folder.path().join("p")));
        for (name, why) in [("folder", "a folder"), ("text", "Permission denied"), ("q", "no such program")] {
            assert!(found(&folder.path().join(name)).unwrap_err().contains(why), "{name}");
            assert!(found(Path::new(name)).unwrap_err().contains("no such program in PATH"), "{name}");
        }
        let spec = |name: &str| {
            let program = folder.path().join(name).into_os_string().into_encoded_bytes();
            Spec { program, ..Spec::default() }
        };
        let mut specs = [spec("p"), spec("other"), spec("p")];
        let sent = numbered(&mut specs).unwrap();
        let images: Vec<&[u8]> = specs.iter().map(|spec| spec.info[0].1.as_slice()).collect();
        assert!(images[0] == images[2] && images[0] != images[1], "{images:?}");
        assert_eq!(sent.len(), 2);
        assert!(numbered(&mut [spec("text")]).is_err());
    }
}

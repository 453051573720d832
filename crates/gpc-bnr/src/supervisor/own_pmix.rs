//! The libpmix that a program brings along: that of Open MPI from PyPI, conda or a prefix of its own. A server of the
//! same version knows what its processes ask for.
//!
//! Only files of this host count, in the folders that the program itself loads libraries from.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf};

/// The library's file.
const FILE: &str = "libpmix.so.2";

/// The folder below that of the MPI library where Open MPI has the libraries that it brings along.
const BELOW: &str = "openmpi";

/// Most folders that are looked at.
const FOLDERS_MAX: usize = 64;

/// The libpmix in the folders from which a program at this path loads its libraries, or its MPI library does. An
/// interpreter loads the MPI library of its own prefix later.
pub(super) fn own_pmix(program: &Path, elf: &Elf) -> Option<PathBuf> {
    let program = std::path::absolute(program).ok()?;
    let here = program.parent()?;
    let of_prefix = here.parent().into_iter().flat_map(|prefix| ["lib", "lib64"].map(|lib| prefix.join(lib)));
    let folders = named(here, elf).chain(of_prefix);
    folders.take(FOLDERS_MAX).find_map(|folder| in_folder(&folder, &elf.needed))
}

fn in_folder(folder: &Path, needed: &[Vec<u8>]) -> Option<PathBuf> {
    let is_mpi = |name: &&Vec<u8>| name.starts_with(b"libmpi") || name.starts_with(b"liboshmem");
    let near = [folder.to_owned(), folder.join(BELOW)].into_iter().find_map(|folder| file_in(&folder));
    near.or_else(|| {
        needed.iter().filter(is_mpi).find_map(|name| {
            let library = elf::read(&opened(&folder.join(OsStr::from_bytes(name)))?);
            named(folder, &library).take(FOLDERS_MAX).find_map(|folder| file_in(&folder))
        })
    })
}

fn file_in(folder: &Path) -> Option<PathBuf> {
    let path = folder.join(FILE);
    fs::metadata(&path).is_ok_and(|found| found.is_file()).then_some(path)
}

/// The folders that a file in a folder names. Those relative to the folder of a process are left out.
fn named<'a>(here: &'a Path, elf: &'a Elf) -> impl Iterator<Item = PathBuf> + 'a {
    elf.folders.iter().filter_map(move |folder| {
        let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|origin| folder.strip_prefix(*origin));
        let path = match rest {
            Some(rest) => here.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
            None => PathBuf::from(OsStr::from_bytes(folder)),
        };
        path.is_absolute().then_some(path)
    })
}

/// Opens a file to read it. To open a pipe or a device may wait, or do something.
pub(super) fn opened(path: &Path) -> Option<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(folders: &[&str]) -> Elf {
        let folders = folders.iter().map(|folder| folder.as_bytes().to_vec()).collect();
        Elf { loader: None, needed: vec![b"libmpi.so.40".to_vec()], folders }
    }

    fn place(root: &Path, path: &str) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn the_library_beside_the_mpi_library_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let expected = place(root, "v/lib/openmpi/libpmix.so.2");
        let lib = root.join("v/lib");
        let of = |program: &str, folders: &[&str]| own_pmix(&root.join(program), &elf(folders));
        // A program of its compiler, and interpreters of its prefix.
        assert_eq!(of("work/hello", &["/none", lib.to_str().unwrap()]), Some(expected.clone()));
        assert_eq!(of("v/bin/python3", &[]), Some(expected));
        assert_eq!(of("work/hello", &[]), None);
        assert_eq!(of("v/x", &["", "lib", "openmpi"]), None, "relative to the folder of a process");
        let second = place(root, "w/lib64/libpmix.so.2");
        assert_eq!(of("w/bin/x", &["$ORIGIN/../lib"]), Some(second.clone()));
        let seen = of("w/libexec/x", &["${ORIGIN}/../lib64"]);
        assert_eq!(seen.and_then(|path| fs::canonicalize(path).ok()), fs::canonicalize(second).ok());
    }

    #[test]
    fn a_folder_is_no_library_and_a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib");
        fs::create_dir_all(lib.join(FILE)).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        let pipe = lib.join("libmpi.so.40");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(own_pmix(&folder.path().join("bin/x"), &elf(&[])), None);
    }
}

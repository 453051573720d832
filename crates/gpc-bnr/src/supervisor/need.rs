//! Whether a program needs a PMIx server: by the libraries that it is linked with, by its kind, and by the programs
//! that its arguments name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf};
use super::inspect::{Inspected, Kind, executable, seen_from};
use super::own_pmix::{opened, own_pmix};
use crate::open_mpi;
use crate::spec::PmixNeed;

/// Programs that run others, or load libraries that they are not linked with. A version may follow, as in `python3.12`.
const LOADERS: [&str; 23] = [
    "R", "Rscript", "ash", "bash", "busybox", "csh", "dash", "env", "fish", "java", "julia", "ksh", "lua",
    "node", "octave", "perl", "pypy", "python", "ruby", "sh", "tclsh", "tcsh", "zsh",
];

/// Most arguments that are looked at: a launcher names its program among the first ones.
const ARGUMENTS_MAX: usize = 32;

/// What the check of a program has found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ProgramFacts {
    /// The library by which the program is one of Open MPI.
    pub(crate) open_mpi: Option<String>,
    /// The library by which the program is one of MPICH.
    pub(crate) mpich: Option<String>,
    /// Whether it needs a PMIx server.
    pub(crate) need: PmixNeed,
    /// The libpmix that it brings along, if it needs a server.
    pub(crate) own_pmix: Option<PathBuf>,
}

/// What is known of a program at this path, with these arguments.
pub(super) fn facts(
    inspected: &Inspected,
    found: &Path,
    args: &[Vec<u8>],
    wdir: Option<&[u8]>,
) -> ProgramFacts {
    let mut facts = of_libraries(&inspected.elf.needed);
    let is_loader = inspected.kind == Kind::Plain || inspected.is_script || is_loader(found);
    // An argument may be a program to run, or one to copy.
    let named = if facts.need == PmixNeed::No { named(args, wdir) } else { None };
    if is_loader || named.is_some() {
        facts.need = facts.need.max(PmixNeed::Maybe);
    }
    if facts.need != PmixNeed::No {
        let own = own_pmix(&seen_from(wdir, found), &inspected.elf);
        facts.own_pmix = own.or_else(|| named.and_then(|(path, elf)| own_pmix(&path, &elf)));
    }
    facts
}

/// The first argument that is the path of a program that surely needs a server.
fn named(args: &[Vec<u8>], wdir: Option<&[u8]>) -> Option<(PathBuf, Elf)> {
    let paths = args.iter().take(ARGUMENTS_MAX).filter(|arg| arg.contains(&b'/'));
    let mut paths = paths.map(|arg| seen_from(wdir, Path::new(OsStr::from_bytes(arg))));
    paths.find_map(|path| {
        executable(&path).ok()?;
        let elf = elf::read(&opened(&path)?);
        (of_libraries(&elf.needed).need == PmixNeed::Sure).then_some((path, elf))
    })
}

fn of_libraries(needed: &[Vec<u8>]) -> ProgramFacts {
    let open_mpi = open_mpi::library(needed);
    let starts = |prefix: &str| needed.iter().find(|name| name.starts_with(prefix.as_bytes()));
    let mpich = starts("libmpich.").or_else(|| starts("libmpifort.")).filter(|_| open_mpi.is_none());
    let need = match &open_mpi {
        Some(_) => PmixNeed::Sure,
        None if mpich.is_none() && starts("libpmix.").is_some() => PmixNeed::Sure,
        None => PmixNeed::No,
    };
    // Open MPI 1.10 has a library of this name as well, and is as little of one world with a later one.
    let mpich = mpich.or_else(|| starts("libmpi.so.").filter(|_| open_mpi.is_none()));
    let mpich = mpich.map(|name| String::from_utf8_lossy(name).into_owned());
    ProgramFacts { open_mpi, mpich, need, own_pmix: None }
}

fn is_loader(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
    let version = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    LOADERS.iter().any(|loader| name.strip_prefix(loader.as_bytes()).is_some_and(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn libraries_tell_who_needs_pmix() {
        let of = |given: &[&str]| of_libraries(&names(given));
        assert_eq!(of(&["libc.so.6"]), ProgramFacts::default());
        let open = of(&["libmpi.so.40", "libpmix.so.2"]);
        assert_eq!((open.need, open.open_mpi.as_deref()), (PmixNeed::Sure, Some("libmpi.so.40")));
        assert_eq!(of(&["liboshmem.so.40"]).need, PmixNeed::Sure);
        assert_eq!(of(&["libpmix.so.2"]).need, PmixNeed::Sure);
        let mpich = of(&["libmpich.so.12", "libpmix.so.2"]);
        assert_eq!((mpich.need, mpich.mpich.as_deref()), (PmixNeed::No, Some("libmpich.so.12")));
        let mpich = of(&["libmpi.so.12"]);
        assert_eq!((mpich.need, mpich.mpich.as_deref()), (PmixNeed::No, Some("libmpi.so.12")));
    }

    #[test]
    fn interpreters_may_load_a_library_later() {
        for name in ["python3", "python3.12", "/usr/bin/sh", "bash", "env", "julia-1.11"] {
            assert!(is_loader(Path::new(name)), "{name}");
        }
        for name in ["true", "shutdown", "pythonic", "", "rsh"] {
            assert!(!is_loader(Path::new(name)), "{name}");
        }
    }

    /// An argument that was a pipe without a writer stopped the node: to open it waits.
    #[test]
    fn an_argument_that_is_a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let program = Inspected { kind: Kind::Executable, is_script: false, elf: Elf::default() };
        let args = [pipe.as_os_str().as_bytes().to_vec()];
        assert_eq!(facts(&program, Path::new("/bin/cat"), &args, None).need, PmixNeed::No);
    }

    #[test]
    fn scripts_and_arguments_count() {
        let this = std::env::current_exe().unwrap();
        let inspected = |kind, is_script| Inspected { kind, is_script, elf: Elf::default() };
        let args = [this.as_os_str().as_bytes().to_vec(), b"/nowhere".to_vec()];
        let need = |inspected: &Inspected| facts(inspected, Path::new("/bin/timeout"), &args, None).need;
        assert_eq!(need(&inspected(Kind::Executable, false)), PmixNeed::No);
        assert_eq!(need(&inspected(Kind::Executable, true)), PmixNeed::Maybe);
        assert_eq!(need(&inspected(Kind::Plain, false)), PmixNeed::Maybe);
    }
}

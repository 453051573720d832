//! Detects programs of Open MPI by the libraries that they are linked with or have loaded. Such processes find each
//! other by PMIx alone.

use std::path::Path;

use chained_gpc::Shown;

use crate::start_error::StartError;

/// The system's error number: `EOPNOTSUPP` of Linux.
const NOT_SUPPORTED: i32 = 95;

/// The system's error number for programs of two MPIs in one group: `ELIBMAX` of Linux, too many shared libraries.
pub(crate) const MIXED: i32 = 82;

/// Language bindings of Open MPI: libraries with these names belong to Open MPI alone.
const BINDINGS: [&str; 4] = ["libmpi_mpifh", "libmpi_usempi", "liboshmem", "libmpi_java"];

/// The lowest version of `libmpi.so` that only Open MPI has. Version 12 is shared by MPICH, its derivatives, and Open
/// MPI 1.10.
const VERSION_MIN: u32 = 20;

/// The library that marks a program as Open MPI's, out of the names of its libraries. Tools of Open MPI, such as
/// `mpiexec`, have no MPI library and do not match.
pub(crate) fn library<'a>(names: impl IntoIterator<Item = &'a Vec<u8>>) -> Option<String> {
    let (mut mpi, mut runtime) = (None, false);
    for name in names {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if BINDINGS.iter().any(|binding| name.starts_with(binding)) || version(name) >= Some(VERSION_MIN) {
            return Some(name.to_owned());
        }
        runtime |= name.starts_with("libopen-pal.") || name.starts_with("libopen-rte.");
        if version(name).is_some() {
            mpi = Some(name.to_owned());
        }
    }
    mpi.filter(|_| runtime)
}

/// The version of `libmpi.so.VERSION`.
fn version(name: &str) -> Option<u32> {
    name.strip_prefix("libmpi.so.")?.split('.').next()?.parse().ok()
}

/// The same for a running process, from the text of its `/proc/PID/maps`.
pub(crate) fn library_in_maps(maps: &[u8]) -> Option<String> {
    let paths = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        let name = std::str::from_utf8(&line[start..]).ok()?;
        Some(Path::new(name).file_name()?.to_str()?.as_bytes().to_vec())
    });
    library(&paths.collect::<Vec<_>>())
}

/// The reason for not starting a program of Open MPI without a PMIx server.
pub(crate) fn refusal(library: &str, is_available: bool) -> StartError {
    let why = match is_available {
        true => "it is started with `--pmix never`: leave that option out",
        false => "this node has none: `gpc` was built without the feature `pmix`",
    };
    refused(format!("it is a program of Open MPI ({}), which needs a PMIx server; {why}", Shown(library)))
}

/// The reason for not starting programs of two MPIs as one group.
pub(crate) fn mixture(open_mpi: &str, mpich: &str) -> StartError {
    let (open_mpi, mpich) = (Shown(open_mpi), Shown(mpich));
    let why = format!(
        "programs of Open MPI ({open_mpi}) and of MPICH ({mpich}) cannot be one world: build all programs of the line with one MPI"
    );
    StartError { errno: MIXED, ..refused(why) }
}

fn refused(why: String) -> StartError {
    StartError { errno: NOT_SUPPORTED, status: StartError::REFUSED, host: String::new(), why }
}

/// Message about a process that has loaded Open MPI and has no PMIx server.
pub(crate) fn silent_message(library: &str, unavailable: Option<&str>) -> String {
    let why = unavailable.map_or_else(String::new, |why| format!(" ({})", Shown(why)));
    format!(
        "it has loaded Open MPI ({}) and has no PMIx server{why}: start it with `--pmix always` (Debian's package libpmix2 has the library), or use an MPI that speaks PMI-1 or PMI-2, such as MPICH",
        Shown(library)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Option<String> {
        library(&names.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>())
    }

    /// Programs of Open MPI ran as `0 of 1` each, with status 0. Programs of MPICH, whose library has the same name in
    /// another version, must run.
    #[test]
    fn open_mpi_is_told_from_other_mpis_by_its_libraries() {
        for names in [
            ["libmpi.so.40", "libc.so.6"],
            ["libm.so.6", "libmpi_mpifh.so.40"],
            ["libmpi.so.20.10.1", "libc.so.6"],
            ["liboshmem.so.40", "libc.so.6"],
            ["libmpi.so.12", "libopen-pal.so.13"],
        ] {
            assert!(of(&names).is_some(), "{names:?}");
        }
        for names in [
            ["libmpi.so.12", "libc.so.6"],
            ["libmpich.so.12", "libpmix.so.2"],
            ["libmpifort.so.12", "libmpi.so.12"],
            ["libopen-rte.so.40", "libopen-pal.so.40"],
            ["libmpi.so", "libmpi.so.x"],
        ] {
            assert_eq!(of(&names), None, "{names:?}");
        }
        assert_eq!(library(&[vec![0xff; 3]]), None);
    }

    #[test]
    fn a_loaded_library_is_found_in_the_maps() {
        let maps = b"\
55d0c0a00000-55d0c0a01000 r--p 00000000 08:01 42                         /usr/bin/python3.12
7f0000000000-7f0000001000 r-xp 00000000 08:01 43                         /usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40.30.4
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0                          [stack]
";
        assert_eq!(library_in_maps(maps).as_deref(), Some("libmpi.so.40.30.4"));
        assert_eq!(library_in_maps(b"\n\xff /\xff\n/\n-"), None);
        assert!(silent_message("\u{1b}x", Some("gone")).contains("\\u{1b}x"));
    }
}

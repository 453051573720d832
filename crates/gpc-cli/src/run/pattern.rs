//! Names of the files that output goes to: a pattern, in which `%r` and the like stand for the process.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use gpc_bnr::names::Member;

/// A pattern, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern(Vec<Part>);

/// A part of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(Vec<u8>),
    Rank,
    Group,
    Host,
    Process,
}

/// A pattern that is not one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum PatternError {
    #[error("`%{0}` stands for nothing: write %r (rank), %g (group), %h (host), %p (process id) or %%")]
    Unknown(char),
    #[error("a `%` at the end stands for nothing: write %%")]
    Open,
    #[error("there is no folder {}", .0.display())]
    NoFolder(PathBuf),
    #[error("the name of the file is empty")]
    Empty,
}

/// The process that a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Writer<'a> {
    pub(super) member: Member,
    pub(super) host: &'a OsStr,
    pub(super) pid: u32,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If a letter after a `%` is unknown, or the pattern is empty.
    pub(super) fn parse(text: &OsStr) -> Result<Pattern, PatternError> {
        let mut parts = Vec::new();
        let mut text_part = Vec::new();
        let mut bytes = text.as_bytes().iter();
        // Ends: each round takes a byte.
        while let Some(&byte) = bytes.next() {
            if byte != b'%' {
                text_part.push(byte);
                continue;
            }
            let part = match bytes.next() {
                Some(b'r') => Part::Rank,
                Some(b'g') => Part::Group,
                Some(b'h') => Part::Host,
                Some(b'p') => Part::Process,
                Some(b'%') => {
                    text_part.push(b'%');
                    continue;
                }
                Some(&other) => return Err(PatternError::Unknown(char::from(other))),
                None => return Err(PatternError::Open),
            };
            parts.extend([Part::Text(std::mem::take(&mut text_part)), part]);
        }
        parts.push(Part::Text(text_part));
        parts.retain(|part| *part != Part::Text(Vec::new()));
        if parts.is_empty() { Err(PatternError::Empty) } else { Ok(Pattern(parts)) }
    }

    /// Checks that the folder exists, if its name is the same for all processes.
    ///
    /// # Errors
    /// If there is no such folder.
    pub(super) fn check_folder(&self) -> Result<(), PatternError> {
        let Some(Part::Text(first)) = self.0.first() else { return Ok(()) };
        let later = self.0.iter().skip(1);
        if later.clone().any(|part| matches!(part, Part::Text(text) if text.contains(&b'/'))) {
            return Ok(());
        }
        let Some(end) = first.iter().rposition(|&byte| byte == b'/') else { return Ok(()) };
        let folder = Path::new(OsStr::from_bytes(&first[..=end]));
        if folder.is_dir() { Ok(()) } else { Err(PatternError::NoFolder(folder.to_owned())) }
    }

    /// Whether the names have process ids or host names.
    pub(super) fn has_place(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Process | Part::Host))
    }

    /// Returns the path for a process.
    pub(super) fn path(&self, writer: Writer<'_>) -> PathBuf {
        let mut path = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => path.extend_from_slice(text),
                Part::Rank => path.extend_from_slice(writer.member.rank.to_string().as_bytes()),
                Part::Group => path.extend_from_slice(writer.member.group.to_string().as_bytes()),
                Part::Host => path.extend(part_of_path(writer.host)),
                Part::Process => path.extend_from_slice(writer.pid.to_string().as_bytes()),
            }
        }
        OsString::from_vec(path).into()
    }
}

/// The name of a host as a part of a path. Another node may have reported it, so it neither leaves the folder nor names
/// a hidden file.
fn part_of_path(host: &OsStr) -> impl Iterator<Item = u8> {
    let safe = |(at, &byte): (usize, &u8)| match byte {
        b'.' if at == 0 => b'_',
        byte if byte == b'/' || !byte.is_ascii_graphic() => b'_',
        byte => byte,
    };
    host.as_bytes().iter().enumerate().map(safe)
}

#[cfg(test)]
mod tests {
    use gpc_bnr::names::GroupId;

    use super::*;

    fn path(pattern: &str) -> String {
        let member = Member { group: GroupId(2), rank: 7 };
        let writer = Writer { member, host: OsStr::new("c1"), pid: 99 };
        Pattern::parse(OsStr::new(pattern)).unwrap().path(writer).into_os_string().into_string().unwrap()
    }

    #[test]
    fn a_pattern_names_a_file_for_each_process() {
        assert_eq!(path("out.%r"), "out.7");
        assert_eq!(path("%h/%g.%r-%p%%"), "c1/g2.7-99%");
        assert_eq!(path("all"), "all");
        let of = |text: &str| Pattern::parse(OsStr::new(text)).map_err(|error| error.to_string());
        assert!(of("a%x").unwrap_err().starts_with("`%x` stands for nothing: write %r"));
        assert!(of("a%").unwrap_err().contains("write %%") && of("").is_err());
        assert!(of("%p").unwrap().has_place() && of("a%h").unwrap().has_place());
        assert!(!of("%%p%%h").unwrap().has_place() && !of("%r%g").unwrap().has_place());
    }

    /// A node of `--peers` that called itself `../.ssh/authorized_keys` replaced a file of the user.
    #[test]
    fn the_name_of_a_host_does_not_leave_the_folder() {
        let member = Member { group: GroupId(2), rank: 7 };
        for (host, name) in [
            ("../.ssh/keys", "out/_._.ssh_keys"),
            ("..", "out/_."),
            (".rc", "out/_rc"),
            ("a\n\0b", "out/a__b"),
        ] {
            let writer = Writer { member, host: OsStr::new(host), pid: 99 };
            let path = Pattern::parse(OsStr::new("out/%h")).unwrap().path(writer);
            assert_eq!(path, Path::new(name), "{host}");
        }
    }

    #[test]
    fn a_missing_folder_is_found_before_anything_runs() {
        let place = tempfile::tempdir().unwrap();
        let check = |name: &str| Pattern::parse(place.path().join(name).as_os_str()).unwrap().check_folder();
        assert_eq!((check("out.%r"), check("none.%r/out")), (Ok(()), Ok(())));
        assert!(check("none/out.%r").is_err_and(|error| error.to_string().ends_with("/none/")));
    }
}

//! Files with the secret of a job, the private half of a node's key or the token of a service: hexadecimal digits,
//! which only their owner can read.
//!
//! The first line names the kind of the file, since a secret and a key may both have 64 digits; a file of the other
//! kind is rejected. A token has no such line, so that programs without this library can read it. A secret may lack the
//! line: administrators generate secrets with other tools, and Kubernetes mounts them. A key must have it: only `gpc
//! secret --key` generates keys, so digits without the line are not a key.
//!
//! The checks apply to the file that was opened, through its descriptor, so that no process can replace it between
//! check and read. Symbolic links are followed, since Kubernetes mounts a Secret as one: the target must pass. A user
//! who can read a secret could take part in the job, and a user who can write it could choose the secret. So a file
//! must meet these conditions:
//!
//! - It is a regular file. A FIFO or a device is never waited for.
//! - Its owner is the user of this process, or root.
//! - Others may neither read nor write it. Its group may read it if the owner is root and this process is in the group:
//!   Kubernetes passes a Secret to a pod with an `fsGroup` in this way. Rights of access control lists appear as rights
//!   of the group.
//!
//! The rights of the parent folders are not checked. A user who can replace the file there can only supply one that
//! passes these checks; the only result is that links fail.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::OFlags;
use rustix::process::{getegid, geteuid, getgroups};
use zeroize::Zeroizing;

use crate::link::peering::{KeyError, PrivateKey, SECRET_MAX, Secret, SecretError};

/// The environment variable that names the file of the job's secret.
pub const SECRET_VARIABLE: &str = "GPC_SECRET_FILE";

/// The environment variable that names the file of the node's private key.
pub const KEY_VARIABLE: &str = "GPC_KEY_FILE";

/// Maximum length of a file, bytes: the longest secret, the first line, and white space around them.
const FILE_MAX: usize = 2 * SECRET_MAX + 128;

/// Mode of a new file: only its owner reads and writes it.
const MODE: u32 = 0o600;

/// A file of a secret, key or token that cannot be read or written. The error quotes none of its content.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct SecretFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub why: SecretFileFault,
}

/// What is wrong with a file of a secret, key or token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretFileFault {
    /// The system refuses to read or write it.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is a folder, a FIFO, a socket or a device.
    #[error("it is no regular file: write the secret to one")]
    NotRegular,
    /// It belongs to another user.
    #[error(
        "it belongs to user {owner}, who can change it, and not to user {me} or root: copy it to a file of your own, and `chmod 600` that"
    )]
    Owner {
        /// The id of its owner.
        owner: u32,
        /// The user id of this process.
        me: u32,
    },
    /// Others may read or write it.
    #[error("others may read or write it (its mode is {mode:04o}), so that it is no secret: `chmod 600 {}`, and draw another one if they may have read it", path.display())]
    Others {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It exceeds the maximum length.
    #[error("it is longer than {FILE_MAX} bytes, and so no secret")]
    Long,
    /// Its first line names another kind of file.
    #[error("it is the file of {is}, and not of {needed}: name the other file")]
    OtherKind {
        /// Its kind.
        is: FileKind,
        /// The expected kind.
        needed: FileKind,
    },
    /// It has digits without the first line of a key.
    #[error("its first line is not `{line}`, so that it may be something else: draw a key with `gpc secret --key FILE`; before the digits of an older file, which are a key for certain, write that line", line = KEY_LINE)]
    NoLine,
    /// The file exists already.
    #[error("there is such a file, which is not replaced: choose another name, or remove it")]
    Exists,
    /// It contains no valid secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// It contains no valid key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The first lines of files.
const SECRET_LINE: &str = "gpc job secret";
const KEY_LINE: &str = "gpc private key";

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FileKind {
    /// The secret of a job.
    Secret,
    /// The private half of a node's key.
    Key,
    /// The token of a service.
    Token,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Secret => "a job's secret",
            FileKind::Key => "a private key",
            FileKind::Token => "a service's token",
        })
    }
}

impl FileKind {
    /// Returns the digits of a file of this kind.
    fn digits(self, text: &str) -> Result<&str, SecretFileFault> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let named = match first.trim() {
            SECRET_LINE => Some(FileKind::Secret),
            KEY_LINE => Some(FileKind::Key),
            _ => None,
        };
        match (named, self) {
            (Some(is), needed) if is != needed => Err(SecretFileFault::OtherKind { is, needed }),
            (Some(_), _) => Ok(rest),
            (None, FileKind::Key) => Err(SecretFileFault::NoLine),
            (None, FileKind::Secret | FileKind::Token) => Ok(text),
        }
    }
}

/// Reads the secret of a job.
///
/// # Errors
/// If the file cannot be read, others may read or write it, it is the file of a key, or it has no secret of at least 32
/// bytes.
pub fn read_secret(path: &Path) -> Result<Secret, SecretFileError> {
    read(path, FileKind::Secret, Secret::from_str)
}

/// Reads the token of a service: digits like those of a secret, without a first line.
///
/// # Errors
/// If the file cannot be read, others may read or write it, it is the file of a secret or a key, or the token has fewer
/// than 32 bytes.
pub fn read_token(path: &Path) -> Result<Secret, SecretFileError> {
    read(path, FileKind::Token, Secret::from_str)
}

/// Reads the private half of a node's key.
///
/// # Errors
/// If the file cannot be read, others may read or write it, it has no first line of a key, or it has no valid key.
pub fn read_key(path: &Path) -> Result<PrivateKey, SecretFileError> {
    read(path, FileKind::Key, PrivateKey::from_str)
}

/// Writes a secret to a new file, which only its owner can read.
///
/// # Errors
/// If the file exists already, or cannot be written; then no new file is left.
pub fn write_secret(path: &Path, secret: &Secret) -> Result<(), SecretFileError> {
    write(path, &[SECRET_LINE, &secret.to_text()])
}

/// Writes the token of a service to a new file, which only its owner can read.
///
/// # Errors
/// If the file exists already, or cannot be written; then no new file is left.
pub fn write_token(path: &Path, token: &Secret) -> Result<(), SecretFileError> {
    write(path, &[&token.to_text()])
}

/// Writes the private half of a key to a new file, which only its owner can read.
///
/// # Errors
/// If the file exists already, or cannot be written; then no new file is left.
pub fn write_key(path: &Path, key: &PrivateKey) -> Result<(), SecretFileError> {
    write(path, &[KEY_LINE, &key.to_text()])
}

/// Returns `named`, or else the file that an environment variable names. An empty variable counts as unset.
pub fn named_or_variable(named: Option<&Path>, variable: &str) -> Option<PathBuf> {
    let by_variable = || std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named.map(Path::to_owned).or_else(by_variable)
}

fn read<T, E>(
    path: &Path,
    kind: FileKind,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, SecretFileError>
where
    SecretFileFault: From<E>,
{
    let read = || {
        // With `NONBLOCK`, opening a FIFO without a writer returns at once. With `NOCTTY`, a terminal does not become
        // the controlling terminal of this process.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Rights::of(&file)?.check(&Process::own()?, path)?;
        let mut content = Zeroizing::new([0; FILE_MAX + 1]);
        let length = fill(&mut file, &mut *content)?;
        if length > FILE_MAX {
            return Err(SecretFileFault::Long);
        }
        // A file that is not UTF-8 has no digits.
        let text = std::str::from_utf8(&content[..length]).unwrap_or_default();
        Ok(parse(kind.digits(text)?)?)
    };
    read().map_err(|why| SecretFileError { path: path.to_owned(), why })
}

/// Reads up to the end of the file, or until `room` is full.
fn fill(file: &mut File, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read(&mut room[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn write(path: &Path, lines: &[&str]) -> Result<(), SecretFileError> {
    let fault = |error: io::Error| {
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let why = if exists { SecretFileFault::Exists } else { error.into() };
        SecretFileError { path: path.to_owned(), why }
    };
    // `create_new` also fails if the path is a symbolic link.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path).map_err(fault)?;
    let mut text = Zeroizing::new(Vec::with_capacity(FILE_MAX));
    for line in lines {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    let written = file.write_all(&text).and_then(|()| file.sync_all());
    if written.is_err() {
        // The error of the write is the one that is reported.
        let _ = fs::remove_file(path);
    }
    written.map_err(fault)
}

/// The owner and the mode of a file.
#[derive(Clone, Copy, Debug)]
struct Rights {
    regular: bool,
    owner: u32,
    group: u32,
    mode: u32,
}

/// The user and groups of this process.
#[derive(Clone, Debug)]
struct Process {
    user: u32,
    groups: Vec<u32>,
}

impl Process {
    fn own() -> io::Result<Process> {
        let groups = getgroups()?.into_iter().chain([getegid()]).map(|group| group.as_raw());
        Ok(Process { user: geteuid().as_raw(), groups: groups.collect() })
    }
}

impl Rights {
    fn of(file: &File) -> io::Result<Rights> {
        let there = file.metadata()?;
        let mode = there.mode() & 0o7777;
        Ok(Rights { regular: there.is_file(), owner: there.uid(), group: there.gid(), mode })
    }

    /// Checks that a secret may be read from a file with these rights.
    fn check(self, process: &Process, path: &Path) -> Result<(), SecretFileFault> {
        let Rights { regular, owner, group, mode } = self;
        if !regular {
            return Err(SecretFileFault::NotRegular);
        }
        if owner != process.user && owner != ROOT {
            return Err(SecretFileFault::Owner { owner, me: process.user });
        }
        // If root's own file has root's own group, a right of the group is a mistake as well.
        let own = process.user == ROOT && group == ROOT;
        let handed = owner == ROOT && !own && mode & GROUP_WRITES == 0 && process.groups.contains(&group);
        if mode & OTHERS != 0 || (mode & GROUP != 0 && !handed) {
            return Err(SecretFileFault::Others { path: path.to_owned(), mode });
        }
        Ok(())
    }
}

/// The superuser, who can read every file anyway.
const ROOT: u32 = 0;

/// The rights of others, those of the group, and the group's right to write.
const OTHERS: u32 = 0o007;
const GROUP: u32 = 0o070;
const GROUP_WRITES: u32 = 0o020;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use proptest::prelude::*;

    use super::*;

    const DIGITS: &str = "5b1f0c2e9a7d4c3f8e6a1b2c3d4e5f605b1f0c2e9a7d4c3f8e6a1b2c3d4e5f60";

    fn file(folder: &tempfile::TempDir, content: &[u8], mode: u32) -> PathBuf {
        let path = folder.path().join("secret");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn read_error(path: &Path) -> String {
        let error = read_secret(path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
        error
    }

    #[test]
    fn secrets_and_keys_read_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, key) = (Secret::random().unwrap(), PrivateKey::random().unwrap());
        let (path, key_path) = (folder.path().join("secret"), folder.path().join("key"));
        write_secret(&path, &secret).unwrap();
        write_key(&key_path, &key).unwrap();
        assert_eq!((read_secret(&path).unwrap(), read_key(&key_path).unwrap()), (secret, key));
        for path in [&path, &key_path] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o600);
        }
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read_secret(&link).is_ok(), "a Secret is mounted as a link");
    }

    #[test]
    fn a_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, b"somebody's", 0o600);
        let (link, nowhere) = (folder.path().join("link"), folder.path().join("nowhere"));
        symlink(&nowhere, &link).unwrap();
        for path in [&path, &link] {
            let error = write_secret(path, &Secret::random().unwrap()).unwrap_err();
            assert!(error.to_string().contains("which is not replaced"), "{error}");
        }
        assert!(fs::read(&path).unwrap() == b"somebody's" && !nowhere.exists());
    }

    #[test]
    fn what_others_may_read_or_write_is_refused_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let others = [0o644, 0o640, 0o604, 0o602, 0o601, 0o620, 0o660, 0o666];
        for mode in others {
            let path = file(&folder, DIGITS.as_bytes(), mode);
            let error = read_error(&path);
            let remedy = format!("`chmod 600 {}`", path.display());
            assert!(error.contains(&remedy) && error.contains(&format!("{mode:04o}")), "{error}");
        }
        for mode in [0o600, 0o400, 0o700] {
            assert!(read_secret(&file(&folder, DIGITS.as_bytes(), mode)).is_ok(), "{mode:o}");
        }
    }

    #[test]
    fn whose_file_it_is_decides() {
        let process = Process { user: 1000, groups: vec![1000, 2000] };
        let check = |owner, group, mode| {
            let rights = Rights { regular: true, owner, group, mode };
            rights.check(&process, Path::new("f")).map_err(|fault| fault.to_string())
        };
        for (owner, group, mode) in [(1000, 9, 0o600), (0, 9, 0o400), (0, 2000, 0o440), (0, 1000, 0o640)] {
            assert_eq!(check(owner, group, mode), Ok(()), "{owner} {group} {mode:o}");
        }
        // A right of the user's own group is a mistake. A group of a file of root must contain this process, and must
        // not write.
        for (owner, group, mode) in
            [(1000, 1000, 0o640), (0, 9, 0o440), (0, 2000, 0o460), (0, 2000, 0o444), (0, 0, 0o644)]
        {
            assert!(
                check(owner, group, mode).unwrap_err().contains("chmod 600 f"),
                "{owner} {group} {mode:o}"
            );
        }
        let root = Process { user: 0, groups: vec![0, 2000] };
        let of_root = |group| {
            Rights { regular: true, owner: 0, group, mode: 0o440 }.check(&root, Path::new("f")).is_ok()
        };
        assert!(of_root(2000) && !of_root(0));
        let error = check(1001, 1000, 0o600).unwrap_err();
        assert!(error.contains("user 1001") && error.contains("user 1000 or root"), "{error}");
    }

    /// An open that waits blocks on a FIFO without a writer.
    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&fifo, folder.path(), Path::new("/dev/null"), Path::new("/dev/zero")] {
            assert!(read_error(path).ends_with("it is no regular file: write the secret to one"));
        }
        assert!(read_error(&folder.path().join("none")).contains("No such file"));
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let read = |content: &[u8]| read_error(&file(&folder, content, 0o600));
        assert!(read(b"").contains("at least 32 bytes"));
        assert!(read(&DIGITS.as_bytes()[2..]).contains("at least 32 bytes, and this one has 31"));
        let error = read(b"password1");
        assert!(error.contains("hexadecimal") && !error.contains("password1"), "{error}");
        assert!(read(b"\xff\xfe").contains("at least 32 bytes"));
        assert!(read(&[b'5'; FILE_MAX + 1]).contains("longer than"));
        assert!(read(&[b'5'; 1 << 20]).contains("longer than"));
        let path = file(&folder, &[b'5'; 2 * SECRET_MAX], 0o600);
        assert!(read_secret(&path).is_ok());
        let long = [KEY_LINE.as_bytes(), b"\n", &[b'5'; 100]].concat();
        let error = read_key(&file(&folder, &long, 0o600)).unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
    }

    /// A key file was taken for a secret, and a secret for a key: both have 64 digits. The nodes started, and refused
    /// each other.
    #[test]
    fn a_file_of_another_kind_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, key) = (folder.path().join("job.secret"), folder.path().join("node.key"));
        write_secret(&secret, &Secret::random().unwrap()).unwrap();
        write_key(&key, &PrivateKey::random().unwrap()).unwrap();
        let token = folder.path().join("token");
        write_token(&token, &Secret::random().unwrap()).unwrap();
        let said = |error: SecretFileError| error.why.to_string();
        let other = |is: &str, needed: &str| {
            format!("it is the file of {is}, and not of {needed}: name the other file")
        };
        assert_eq!(read_secret(&key).map_err(said), Err(other("a private key", "a job's secret")));
        assert_eq!(read_key(&secret).map_err(said), Err(other("a job's secret", "a private key")));
        assert_eq!(read_token(&secret).map_err(said), Err(other("a job's secret", "a service's token")));
        assert_eq!(read_token(&key).map_err(said), Err(other("a private key", "a service's token")));
        assert!(read_token(&token).is_ok());
        assert!(read_key(&token).is_err_and(|error| said(error).contains("`gpc private key`")));
    }

    /// Digits alone are a secret, which other tools generate. They are not a key, which only `gpc secret --key`
    /// generates.
    #[test]
    fn digits_without_a_line_are_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        for text in [
            format!("{DIGITS}\n"),
            format!("{SECRET_LINE}\n{DIGITS}"),
            format!(" {SECRET_LINE}\r\n {DIGITS} \n\n"),
        ] {
            let path = file(&folder, text.as_bytes(), 0o600);
            assert_eq!(*read_secret(&path).unwrap().to_text(), *DIGITS, "{text}");
            assert!(read_key(&path).is_err(), "{text}");
        }
        let path = file(&folder, format!("{KEY_LINE}\n{DIGITS}\n").as_bytes(), 0o600);
        assert_eq!(*read_key(&path).unwrap().to_text(), *DIGITS);
        assert!(read_secret(&file(&folder, SECRET_LINE.as_bytes(), 0o600)).is_err());
    }

    #[test]
    fn what_is_named_wins_over_the_environment() {
        let named = Path::new("named");
        assert_eq!(named_or_variable(Some(named), "PATH"), Some(named.to_owned()));
        assert_eq!(named_or_variable(None, "PATH"), std::env::var_os("PATH").map(PathBuf::from));
        assert_eq!(named_or_variable(None, "GPC_NO_SUCH_VARIABLE"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Exactly these files are read: nobody but the owner has a right, or root has handed it to a group of this
        /// process.
        #[test]
        fn a_file_is_read_exactly_if_its_rights_allow_it(
            mode in prop_oneof![0u32..0o10000, prop::sample::select(vec![0o600, 0o400, 0o440, 0o640, 0o460, 0o641])],
            owner in 0u32..3, group in 0u32..3, user in 0u32..2,
        ) {
            let process = Process { user, groups: vec![user, 2] };
            let checked = Rights { regular: true, owner, group, mode }.check(&process, Path::new("f"));
            let of_group = mode >> 3 & 7;
            let is_handed = owner == 0 && of_group & 2 == 0 && [user, 2].contains(&group) && (user, group) != (0, 0);
            let is_allowed = (owner == user || owner == 0) && mode & 7 == 0 && (of_group == 0 || is_handed);
            prop_assert_eq!(checked.is_ok(), is_allowed);
        }

        /// A valid file with some changes is read as its kind says, or refused.
        #[test]
        fn a_changed_file_is_read_by_its_first_line_or_refused(
            line in prop::sample::select(vec!["", "gpc job secret\n", "gpc private key\n", " gpc job secret \r\n", "gpc\n"]),
            digits in "[0-9a-f]{62,66}",
            space in "[ \r\n]{0,3}",
            change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut content = format!("{line}{digits}{space}").into_bytes();
            if let Some((at, byte)) = change {
                let at = at.index(content.len());
                content[at] = byte;
            }
            let folder = tempfile::tempdir().unwrap();
            let path = file(&folder, &content, 0o600);
            let text = String::from_utf8(content).unwrap_or_default();
            let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
            let (secret, key, token) = match first.trim() {
                "gpc job secret" => (rest.parse().ok(), None, None),
                "gpc private key" => (None, rest.parse().ok(), None),
                _ => (text.parse().ok(), None, text.parse().ok()),
            };
            prop_assert_eq!(read_secret(&path).ok(), secret);
            prop_assert_eq!(read_token(&path).ok(), token);
            prop_assert_eq!(read_key(&path).ok(), key);
        }
    }
}

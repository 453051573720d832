//! Reading and writing the files that a user names, bounded, with the name in every error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;

use chained_gpc::runtime::Peers;

/// Longest text file that is read: a tree of a million positions or the addresses of a million nodes, with room.
const TEXT_MAX: u64 = 64 << 20;

/// Reads a text file.
///
/// # Errors
/// When it cannot be read, is longer than 64 MiB or not UTF-8; the text begins with the path.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let read = || {
        let mut text = String::new();
        let read = File::open(path)?.take(TEXT_MAX + 1).read_to_string(&mut text)?;
        if read as u64 > TEXT_MAX {
            return Err(io::Error::other(format!("it is longer than {} MiB", TEXT_MAX >> 20)));
        }
        Ok(text)
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

/// Longest data that are read: more than any service takes, with room.
const BYTES_MAX: u64 = 4 << 30;

/// Reads a file of bytes of any kind; `-` is standard input.
///
/// # Errors
/// When it cannot be read, or is longer than 4 GiB; the text begins with the path.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        let read = from.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if read as u64 > BYTES_MAX {
            return Err(io::Error::other(format!("it is longer than {} GiB", BYTES_MAX >> 30)));
        }
        Ok(bytes)
    };
    let bytes = match path == Path::new("-") {
        true => read(&mut io::stdin().lock()),
        false => File::open(path).and_then(|mut file| read(&mut file)),
    };
    bytes.map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a peers file.
///
/// # Errors
/// When it cannot be read, has a fault, whose line is named, or names no node at all; the text begins with the path.
pub(super) fn read_peers(path: &Path) -> Result<Peers, String> {
    let peers: Peers = read_text(path)?.parse().map_err(|error| format!("{}: {error}", path.display()))?;
    match peers.is_empty() {
        true => Err(format!("{}: it names no node: write a line `ID ADDRESS` for each", path.display())),
        false => Ok(peers),
    }
}

/// Writes a text file: all of it, or nothing. The text goes to a new file beside it, which takes the old one's place when it is complete; so a disk that is full, or a process that is
/// killed, costs nobody what was there. What is no file, such as `/dev/stdout`, is written as it is.
///
/// # Errors
/// When it cannot be written; the text names the path, and the old file is as it was.
pub(super) fn write_text(path: &Path, text: &str) -> Result<(), String> {
    write_with(path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn write_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    // A file that grows over the limit of `ulimit -f` is an error to be told of from here on, not the end of the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|mut file| write(&mut file))
        }
        // Where the path is a link, what it leads to is replaced.
        there => replace(&path.canonicalize().unwrap_or_else(|_| path.into()), there.ok(), write),
    }
}

fn replace(
    path: &Path,
    old: Option<fs::Metadata>,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let beside = beside(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    let written = write(&mut file)
        .and_then(|()| old.map_or(Ok(()), |old| file.set_permissions(old.permissions())))
        // Some systems say only then that the disk is full.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What made it fail is what is said.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name beside a file that nobody else uses: that of this process is in it.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it is no name of a file"))?;
    Ok(path.with_file_name(format!(".{}.{}.new", name.to_string_lossy(), std::process::id())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.txt");
        let shown = path.display();
        assert!(read_peers(&path).unwrap_err().starts_with(&format!("{shown}: No such file")));
        fs::write(&path, "0 127.0.0.1:7000\n1 nowhere\n").unwrap();
        assert!(read_peers(&path).unwrap_err().starts_with(&format!("{shown}: peers file, line 2: ")));
        fs::write(&path, "0 127.0.0.1:7000\n").unwrap();
        assert_eq!(read_peers(&path).unwrap().len(), 1);
        fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path).unwrap_err().contains("UTF-8"));
        assert!(read_text(folder.path()).is_err());
    }

    /// A call over an empty peers file went to its root alone and said that all was done.
    #[test]
    fn a_peers_file_names_a_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.txt");
        for empty in ["", "\n\n", "# 0 127.0.0.1:7000\n"] {
            fs::write(&path, empty).unwrap();
            let error = read_peers(&path).unwrap_err();
            assert!(error.ends_with("it names no node: write a line `ID ADDRESS` for each"), "{error}");
        }
    }

    /// A disk that was full when the results of a new measurement were written cost the earlier ones, too.
    #[test]
    fn what_cannot_be_written_whole_leaves_the_old_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("before.json");
        let here = || fs::read_dir(folder.path()).unwrap().count();
        let full = |file: &mut File| {
            file.write_all(b"half of it")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        assert!(write_with(&path, full).is_err());
        assert_eq!(here(), 0);
        write_text(&path, "the old one").unwrap();
        assert!(write_with(&path, full).is_err());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), here()), ("the old one", 1));
        let error = write_text(&folder.path().join("no/where"), "").unwrap_err();
        assert!(error.starts_with("cannot write ") && error.contains("no/where: No such file"), "{error}");
    }

    #[test]
    fn a_file_keeps_its_place_and_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("results"), folder.path().join("latest"));
        write_text(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_text(&link, "two").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        write_text(Path::new("/dev/null"), "what is no file is not replaced").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}

//! Reading the files that a user names, bounded, with the name in every error.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::runtime::Peers;

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

/// Reads a peers file.
///
/// # Errors
/// When it cannot be read or has a fault, whose line is named; the text begins with the path.
pub(super) fn read_peers(path: &Path) -> Result<Peers, String> {
    read_text(path)?.parse().map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers.txt");
        let shown = path.display();
        assert!(read_peers(&path).unwrap_err().starts_with(&format!("{shown}: No such file")));
        std::fs::write(&path, "0 127.0.0.1:7000\n1 nowhere\n").unwrap();
        assert!(read_peers(&path).unwrap_err().starts_with(&format!("{shown}: peers file, line 2: ")));
        std::fs::write(&path, "0 127.0.0.1:7000\n").unwrap();
        assert_eq!(read_peers(&path).unwrap().len(), 1);
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path).unwrap_err().contains("UTF-8"));
        assert!(read_text(folder.path()).is_err());
    }
}

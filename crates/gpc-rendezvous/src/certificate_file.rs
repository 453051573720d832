//! Reads files of certificates and their keys, at most as much of them as certificates can have.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// Longest file, bytes. The certificates of all public authorities have a quarter of a megabyte.
const BYTES_MAX: u64 = 4 << 20;

/// Reads a file in PEM.
///
/// # Errors
/// The system refuses, or the file is too long, as a device may be.
pub(crate) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = File::open(file)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if length as u64 > BYTES_MAX {
        let why = format!("the file is longer than {BYTES_MAX} bytes: name a file in PEM");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

//! The output of one host until it is shown: in memory while it is short, then in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest::{Context, SHA256};

use crate::unnamed::unnamed;

/// Most bytes that stay in memory: those of the usual one-line answers of some thousand hosts are a few megabytes.
const SHORT: usize = 64 << 10;

/// SHA-256 of an output.
pub(super) type Digest = [u8; 32];

/// Some output.
pub(super) struct Spool {
    short: Vec<u8>,
    long: Option<File>,
    length: u64,
    sha: Context,
}

impl Default for Spool {
    fn default() -> Spool {
        Spool { short: Vec::new(), long: None, length: 0, sha: Context::new(&SHA256) }
    }
}

impl Spool {
    /// Adds bytes.
    ///
    /// # Errors
    /// If the file cannot be made or written: there is no room in the folder for temporary files.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sha.update(bytes);
        self.length += bytes.len() as u64;
        if let Some(file) = &mut self.long {
            return file.write_all(bytes).map_err(no_room);
        }
        self.short.extend_from_slice(bytes);
        if self.short.len() > SHORT {
            let mut file = temporary(&std::env::temp_dir()).map_err(no_room)?;
            file.write_all(&std::mem::take(&mut self.short)).map_err(no_room)?;
            self.long = Some(file);
        }
        Ok(())
    }

    /// Number of bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The digest of what has been added.
    pub(super) fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.copy_from_slice(self.sha.clone().finish().as_ref());
        digest
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// If the file cannot be read, or the output not be written.
    pub(super) fn write_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match &mut self.long {
            None => out.write_all(&self.short),
            Some(file) => {
                file.seek(SeekFrom::Start(0))?;
                io::copy(file, out)?;
                // Later additions follow what is there.
                file.seek(SeekFrom::End(0)).map(drop)
            }
        }
    }

    /// Up to `most` bytes from the start.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn start(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let Some(file) = &mut self.long else {
            let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.short.len());
            return Ok(self.short[..most].to_vec());
        };
        file.seek(SeekFrom::Start(0))?;
        let mut bytes = Vec::new();
        Read::by_ref(file).take(most).read_to_end(&mut bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(bytes)
    }
}

/// Creates a file that ends with this process.
fn temporary(folder: &Path) -> io::Result<File> {
    if let Some(file) = unnamed(folder, 0o600)? {
        return Ok(file);
    }
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("gpc-exec-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn no_room(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    io::Error::new(
        error.kind(),
        format!("cannot keep the output in {}: {error}; set TMPDIR to a folder with room", folder.display()),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Whether it is in memory or in a file makes no difference.
        #[test]
        fn what_is_added_is_there(parts in prop::collection::vec(0usize..40_000, 0..8), most in 0u64..200_000) {
            let (mut spool, mut all) = (Spool::default(), Vec::new());
            for (place, length) in parts.into_iter().enumerate() {
                let part: Vec<u8> = (0..length).map(|byte| (byte * 7 + place) as u8).collect();
                spool.add(&part).unwrap();
                all.extend_from_slice(&part);
                // What is added next follows either of them.
                for is_whole in [place % 2 == 0, place % 2 != 0] {
                    let mut written = Vec::new();
                    match is_whole {
                        true => spool.write_to(&mut written).unwrap(),
                        false => written = spool.start(most).unwrap(),
                    }
                    let length = if is_whole { all.len() } else { all.len().min(most as usize) };
                    prop_assert!(written == all[..length]);
                }
            }
            prop_assert_eq!(spool.length(), all.len() as u64);
            let expected = ring::digest::digest(&SHA256, &all);
            prop_assert_eq!(&spool.digest()[..], expected.as_ref());
        }
    }
}

//! Files for what a program keeps to itself, such as a token: the hint `private-file`.
//!
//! A file has no name. Its owner reads it at `/proc/PID/fd/N` of this node, so the data stand in no argument, variable
//! or folder, and nothing is left of them if the node is killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process;

use rustix::fs::{MemfdFlags, Mode, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use crate::spec::{PRIVATE_FILES_MAX, Spec};

/// The name of the files in `/proc`.
const NAME: &str = "gpc-private";

/// The files of a group's programs, by content.
#[derive(Default)]
pub(super) struct PrivateFiles(BTreeMap<Vec<u8>, OwnedFd>);

impl PrivateFiles {
    /// Creates the files that the hints of these specs describe.
    ///
    /// # Errors
    /// The system's error. `EMFILE` if the specs have more than [`PRIVATE_FILES_MAX`] files.
    pub(super) fn create(specs: &[Spec]) -> io::Result<PrivateFiles> {
        let mut files = BTreeMap::new();
        for (_, content) in specs.iter().flat_map(Spec::private_files) {
            if files.contains_key(content) {
                continue;
            }
            if files.len() == PRIVATE_FILES_MAX {
                return Err(Errno::MFILE.into());
            }
            files.insert(content.to_vec(), file(content)?);
        }
        Ok(PrivateFiles(files))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The variables of a spec that have the paths of its files.
    pub(super) fn variables(&self, spec: &Spec) -> Vec<(Vec<u8>, Vec<u8>)> {
        let path = |(name, content): (&[u8], &[u8])| {
            let number = self.0.get(content)?.as_raw_fd();
            Some((name.to_vec(), format!("/proc/{}/fd/{number}", process::id()).into_bytes()))
        };
        spec.private_files().filter_map(path).collect()
    }
}

/// A sealed file that only its owner can open.
fn file(content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3. Later ones may refuse files without the flag, since they could be executed.
        Err(Errno::INVAL) => memfd_create(NAME, flags)?,
        created => created?,
    };
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    file.write_all(content)?;
    // A program cannot change what another one reads.
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;

    use super::*;

    fn spec(pairs: &[&str]) -> Spec {
        let hint = |pair: &&str| ("private-file".to_owned(), pair.as_bytes().to_vec());
        Spec { info: pairs.iter().map(hint).collect(), ..Spec::default() }
    }

    fn path(variable: &(Vec<u8>, Vec<u8>)) -> PathBuf {
        String::from_utf8(variable.1.clone()).unwrap().into()
    }

    #[test]
    fn a_file_is_for_its_owner_alone_and_lasts_as_long_as_it_is_held() {
        let specs = [spec(&["TOKEN=a=b\n", "CA=pem"]), spec(&["OTHER=pem"]), spec(&["=x", "y"])];
        let files = PrivateFiles::create(&specs).unwrap();
        let variables = files.variables(&specs[0]);
        let names: Vec<&[u8]> = variables.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [b"TOKEN".as_slice(), b"CA"]);
        let token = path(&variables[0]);
        assert_eq!(fs::read_to_string(&token).unwrap(), "a=b\n");
        let found = fs::metadata(&token).unwrap();
        assert!(found.is_file() && found.mode() & 0o777 == 0o600);
        assert!(File::options().write(true).open(&token).and_then(|mut file| file.write_all(b"x")).is_err());
        // Equal contents share a file, and a hint without a name is ignored.
        assert_eq!(files.variables(&specs[1])[0].1, variables[1].1);
        assert_eq!(files.variables(&specs[2]), []);
        drop(files);
        // Another test may have opened a file of that number.
        assert!(fs::read_to_string(&token).map_or(true, |text| text != "a=b\n"));
    }

    #[test]
    fn a_group_has_a_bounded_number_of_files() {
        let pairs: Vec<String> =
            (0..=PRIVATE_FILES_MAX).map(|number| format!("F{number}={number}")).collect();
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        assert!(PrivateFiles::create(&[spec(&pairs[1..])]).is_ok());
        let error = PrivateFiles::create(&[spec(&pairs)]).err().unwrap();
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
}

//! Files with a token, for nobody else to read, which are gone with whoever has made them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use chained_gpc::Job;
use chained_gpc::bootstrap::write_secret;
use gpc_rendezvous::token::ServiceToken;

use super::{Failure, token};

/// Rights of a folder that its owner alone enters.
const MODE: u32 = 0o700;

/// A file with a token.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    /// What is removed at the end.
    made: Made,
}

#[derive(Debug)]
enum Made {
    /// The file, and the folder that it stands in.
    Folder(PathBuf),
    File,
    /// It was there.
    Nothing,
}

impl TokenFile {
    /// Writes a token to a new file in a new folder, both of which are removed at the end.
    pub(super) fn somewhere(token: &ServiceToken) -> Result<TokenFile, Failure> {
        let parent = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|parent| parent.is_dir());
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        // A name that nobody can have taken before.
        let folder = parent.join(format!("gpc-rendezvous-{}", Job::random()));
        let made = DirBuilder::new().mode(MODE).create(&folder);
        made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
        let file = TokenFile { path: folder.join("token"), made: Made::Folder(folder) };
        write_secret(&file.path, &token::as_secret(token)?)?;
        Ok(file)
    }

    /// Writes a token to this file, which is removed at the end. One that has the same token, as another run may have left it, stays.
    pub(super) fn at(path: &Path, token: &ServiceToken) -> Result<TokenFile, Failure> {
        if path.exists() && token::read(path).is_ok_and(|there| there == *token) {
            return Ok(TokenFile { path: path.to_owned(), made: Made::Nothing });
        }
        write_secret(path, &token::as_secret(token)?)?;
        Ok(TokenFile { path: path.to_owned(), made: Made::File })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // Nobody is left to be told that it is gone already.
        if !matches!(self.made, Made::Nothing) {
            let _ = fs::remove_file(&self.path);
        }
        if let Made::Folder(folder) = &self.made {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_token_is_for_its_owner_alone_and_goes_with_it() {
        let token = ServiceToken::of(&chained_gpc::Secret::random().unwrap());
        let file = TokenFile::somewhere(&token).unwrap();
        let path = file.path().to_owned();
        let folder = path.parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, MODE);
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), token.to_text().as_str());
        drop(file);
        assert!(!path.exists() && !folder.exists());
    }

    #[test]
    fn a_file_that_another_run_has_left_is_used_and_no_other_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let tokens = [(); 2].map(|()| ServiceToken::of(&chained_gpc::Secret::random().unwrap()));
        let first = TokenFile::at(&path, &tokens[0]).unwrap();
        drop(TokenFile::at(&path, &tokens[0]).unwrap());
        let error = TokenFile::at(&path, &tokens[1]).unwrap_err().to_string();
        assert!(error.contains("which is not replaced") && path.exists(), "{error}");
        drop(first);
        assert!(!path.exists());
    }
}

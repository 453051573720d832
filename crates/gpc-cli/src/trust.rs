//! Peers that a node links with, by the arguments, the environment and the peers file: checks them, and reads the
//! files.
//!
//! A secret is never an argument, since every user of a machine can read those.

use gpc_trees::Id;

use super::args::TrustArgs;
use super::refused::Refused;
use chained_gpc::bootstrap::{
    KEY_VARIABLE, SECRET_VARIABLE, SecretFileError, named_or_variable, read_key, read_secret,
};
use chained_gpc::runtime::{Address, Builder, Peers};
use chained_gpc::{PrivateKey, Secret};
use gpc_launch::Launch;

/// What a node proves to its peers, and what it requires of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Trust {
    secret: Option<Secret>,
    key: Option<PrivateKey>,
    no_encryption: bool,
    insecure: bool,
}

/// What to do about a missing secret.
const WITHOUT: &str = "give all nodes the same secret with --secret-file FILE, which `gpc secret FILE` makes";

impl Trust {
    /// Reads what the arguments say about the node of this id, and checks it against the peers.
    ///
    /// # Errors
    /// If a file cannot be used, the arguments conflict, or peers are beyond this machine and there is no secret.
    pub fn read(args: &TrustArgs, id: Id, peers: &Peers) -> Result<Trust, Refused> {
        let secret = named_or_variable(args.secret_file.as_deref(), SECRET_VARIABLE);
        let secret = secret.map(|path| read_secret(&path)).transpose().map_err(refused)?;
        let key = match &secret {
            Some(_) => named_or_variable(args.key_file.as_deref(), KEY_VARIABLE),
            None if args.key_file.is_some() => {
                return Err(
                    format!("--key-file proves nothing without the secret of the job: {WITHOUT}").into()
                );
            }
            None => None,
        };
        let key = key.map(|path| read_key(&path)).transpose().map_err(refused)?;
        if secret.is_some() {
            check_key(id, peers, key.as_ref())?;
        }
        let trust = Trust { secret, key, no_encryption: args.no_encrypt, insecure: args.insecure };
        let mut beyond = peers.iter().filter(|(other, address)| *other != id && !address.is_local());
        match beyond.next().filter(|_| trust.takes_anybody()) {
            Some((other, address)) => Err(format!(
                "id {other} is beyond this machine, at {address}, and without a secret nobody knows who answers there: {WITHOUT}, or accept that with --insecure"
            )
            .into()),
            None => Ok(trust),
        }
    }

    /// Returns the settings for the nodes of a launch.
    pub fn of_launch(launch: &Launch) -> Trust {
        Trust { secret: launch.secret().cloned(), ..Trust::default() }
    }

    /// Checks that a node may listen at this address.
    ///
    /// # Errors
    /// If other machines can reach it, and there is no secret.
    pub fn check_listen(&self, listen: &Address) -> Result<(), Refused> {
        match self.takes_anybody() && !listen.is_local() {
            true => Err(format!(
                "other machines can reach {listen}, and without a secret whoever connects can call functions here: {WITHOUT}. Or listen at a loopback address or a Unix socket, or accept that with --insecure"
            )
            .into()),
            false => Ok(()),
        }
    }

    /// Returns the secret of the job.
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Applies these settings to a node.
    pub fn apply(self, builder: Builder) -> Builder {
        let builder = self.secret.into_iter().fold(builder, Builder::secret);
        let builder = self.key.into_iter().fold(builder, Builder::key);
        let builder = if self.no_encryption { builder.no_encryption() } else { builder };
        if self.insecure { builder.insecure() } else { builder }
    }

    /// Whether no secret tells members from strangers, and `--insecure` does not accept that.
    fn takes_anybody(&self) -> bool {
        self.secret.is_none() && !self.insecure
    }
}

/// Checks that the key is the one that is listed for the id: with another key, all others refuse the node, and give no
/// reason.
fn check_key(id: Id, peers: &Peers, key: Option<&PrivateKey>) -> Result<(), Refused> {
    match (peers.key(id), key.map(PrivateKey::public)) {
        (Some(_), None) => Err(format!(
            "the peers file lists a key for id {id}: name the file of its private half with --key-file FILE"
        )
        .into()),
        (Some(listed), Some(own)) if listed != own => Err(Refused::File(format!(
            "the peers file lists the key {listed} for id {id}, and the private key here is that of {own}: correct one of them"
        ))),
        _ => Ok(()),
    }
}

fn refused(error: SecretFileError) -> Refused {
    Refused::File(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use chained_gpc::bootstrap::{write_key, write_secret};

    use super::*;

    const BEYOND: &str = "0 10.0.0.1:7000\n1 127.0.0.1:7001\n";
    const HERE: &str = "0 127.0.0.1:7000\n1 127.0.0.1:7001\n2 unix:@two\n";

    fn read(args: &TrustArgs, peers: &str) -> Result<Trust, String> {
        Trust::read(args, 1, &peers.parse().unwrap()).map_err(|refused| refused.to_string())
    }

    /// Creates a folder with a secret, a key, and arguments that name them.
    fn files() -> (tempfile::TempDir, TrustArgs, PrivateKey) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> Option<PathBuf> { Some(folder.path().join(name)) };
        let (secret_file, key_file) = (path("secret"), path("key"));
        let key = PrivateKey::random().unwrap();
        write_secret(secret_file.as_deref().unwrap(), &Secret::random().unwrap()).unwrap();
        write_key(key_file.as_deref().unwrap(), &key).unwrap();
        (folder, TrustArgs { secret_file, key_file, ..TrustArgs::default() }, key)
    }

    #[test]
    fn beyond_this_machine_a_secret_is_needed_or_accepted_to_be_missing() {
        let nothing = TrustArgs::default();
        assert_eq!(read(&nothing, HERE), Ok(Trust::default()));
        let error = read(&nothing, BEYOND).unwrap_err();
        assert!(error.contains("id 0 is beyond this machine, at 10.0.0.1:7000"), "{error}");
        assert!(error.contains("--secret-file") && error.contains("--insecure"), "{error}");
        assert!(read(&TrustArgs { insecure: true, ..nothing.clone() }, BEYOND).is_ok());
        let (_folder, args, _) = files();
        assert!(read(&args, BEYOND).is_ok());
        assert!(read(&nothing, "1 10.0.0.2:7001\n").is_ok(), "where it listens itself is another check");
    }

    #[test]
    fn listening_beyond_this_machine_is_checked_the_same_way() {
        let here: Address = "127.0.0.1:1".parse().unwrap();
        let beyond: Address = "0.0.0.0:1".parse().unwrap();
        let refuses = |trust: &Trust| trust.check_listen(&beyond).is_err();
        assert!(Trust::default().check_listen(&here).is_ok() && refuses(&Trust::default()));
        assert!(!refuses(&Trust { insecure: true, ..Trust::default() }));
        assert!(!refuses(&Trust { secret: Secret::random().ok(), ..Trust::default() }));
    }

    #[test]
    fn a_key_is_the_one_that_is_listed() {
        let (_folder, args, key) = files();
        let line = |key: String| format!("1 127.0.0.1:7001 {key}\n");
        assert!(read(&args, &line(key.public().to_string())).is_ok());
        let error = read(&args, &line("ab".repeat(32))).unwrap_err();
        assert!(error.contains(&key.public().to_string()) && error.contains("correct one"), "{error}");
        let without = TrustArgs { key_file: None, ..args.clone() };
        let error = read(&without, &line(key.public().to_string())).unwrap_err();
        assert!(error.contains("--key-file FILE"), "{error}");
        let alone = TrustArgs { secret_file: None, ..args };
        assert!(read(&alone, HERE).unwrap_err().contains("proves nothing without the secret"));
    }
}

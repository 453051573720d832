//! Environment variables that name the server, and the client of this process's cluster.

use std::ffi::OsString;
use std::path::Path;

use chained_gpc::bootstrap::{
    BootstrapError, SECRET_VARIABLE, SecretFileError, named_or_variable, read_secret,
};
use chained_gpc::{Secret, Shown};

use super::Setup;
use crate::server::Rank;
use crate::wire::{CLIENTS_MAX, KEY_VARIABLE, KeyError, Methods, NONE_VARIABLE};

/// Address of the server, `HOST:PORT`.
pub const SERVER_VARIABLE: &str = "GPC_IMPI_SERVER";

/// Rank of this process's cluster among the clients.
pub const RANK_VARIABLE: &str = "GPC_IMPI_RANK";

/// Why the environment variables are unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// Only one of the two variables is set.
    #[error(
        "{there} is set and {missing} is not: a cluster needs the server's address and its own rank; set both, or none"
    )]
    Incomplete {
        /// The variable that is set.
        there: &'static str,
        /// The missing variable.
        missing: &'static str,
    },
    /// The value is not Unicode.
    #[error("{0} is no text")]
    NoText(&'static str),
    /// The value is not a rank.
    #[error("{RANK_VARIABLE} is `{}`: a rank is a number from 0 to {most}", Shown(.0), most = CLIENTS_MAX - 1)]
    Rank(String),
    /// The value is not a key.
    #[error("{KEY_VARIABLE}: {0}")]
    Key(#[from] KeyError),
    /// There is no secret.
    #[error(
        "{SERVER_VARIABLE} is set, and no file of a secret is named, without which nobody knows whose processes those of other clusters are, and IMPI does not carry one: name the same one at every process of every cluster with {SECRET_VARIABLE} or --secret-file; `gpc secret FILE` writes it"
    )]
    NoSecret,
    /// The file of the secret cannot be used.
    #[error("the secret of the job: {0}")]
    Secret(#[from] SecretFileError),
    /// The bootstrap of this cluster's processes has failed.
    #[error(transparent)]
    Cluster(#[from] BootstrapError),
}

impl Setup {
    /// Reads the environment; `None` if it names no server. The secret is read from `secret_file`, or else from the
    /// file in `GPC_SECRET_FILE`.
    ///
    /// # Errors
    /// Returns an error if one of the two variables is missing, a value is invalid, or there is no readable file of the
    /// secret.
    pub fn from_env(secret_file: Option<&Path>) -> Result<Option<Setup>, EnvError> {
        let secret = || {
            let file = named_or_variable(secret_file, SECRET_VARIABLE);
            file.map(|file| read_secret(&file)).transpose()
        };
        setup(std::env::var_os, secret)
    }
}

fn setup(
    variable: impl Fn(&'static str) -> Option<OsString>,
    secret: impl FnOnce() -> Result<Option<Secret>, SecretFileError>,
) -> Result<Option<Setup>, EnvError> {
    let text = |name| {
        variable(name).map(|value| value.into_string().map_err(|_| EnvError::NoText(name))).transpose()
    };
    let (server, rank) = match (text(SERVER_VARIABLE)?, text(RANK_VARIABLE)?) {
        (None, None) => return Ok(None),
        (Some(server), Some(rank)) => (server, rank),
        (Some(_), None) => {
            return Err(EnvError::Incomplete { there: SERVER_VARIABLE, missing: RANK_VARIABLE });
        }
        (None, Some(_)) => {
            return Err(EnvError::Incomplete { there: RANK_VARIABLE, missing: SERVER_VARIABLE });
        }
    };
    let number = rank.trim().parse::<Rank>().ok().filter(|rank| *rank < CLIENTS_MAX);
    let rank = number.ok_or(EnvError::Rank(rank))?;
    let key = text(KEY_VARIABLE)?.map(|key| key.parse()).transpose()?;
    let methods = Methods { none: variable(NONE_VARIABLE).is_some(), key }.offered();
    let server = server.trim().to_owned();
    Ok(Some(Setup { server, rank, methods, secret: secret()?.ok_or(EnvError::NoSecret)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Setup>, String> {
        let value = |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        setup(value, || Ok(Secret::new(&[7; 32]).ok())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_and_a_rank_are_a_setup() {
        assert!(of(&[("IMPI_AUTH_KEY", "7")]).unwrap().is_none());
        let both = [("GPC_IMPI_SERVER", " 10.0.0.1:5678\n"), ("GPC_IMPI_RANK", "31")];
        let setup = of(&both).unwrap().unwrap();
        assert_eq!((setup.server.as_str(), setup.rank, setup.methods.mask()), ("10.0.0.1:5678", 31, 1));
        let key = of(&[&both[..], &[("IMPI_AUTH_KEY", "7")]].concat()).unwrap().unwrap();
        assert_eq!(key.methods.mask(), 2);
        let either = of(&[&both[..], &[("IMPI_AUTH_KEY", "7"), ("IMPI_AUTH_NONE", "")]].concat());
        assert_eq!(either.unwrap().unwrap().methods.mask(), 3);
    }

    #[test]
    fn what_is_missing_or_none_is_an_error() {
        let error = |variables: &[(&str, &str)]| of(variables).unwrap_err();
        assert!(
            error(&[("GPC_IMPI_SERVER", "a:1")])
                .starts_with("GPC_IMPI_SERVER is set and GPC_IMPI_RANK is not")
        );
        assert!(
            error(&[("GPC_IMPI_RANK", "0")]).starts_with("GPC_IMPI_RANK is set and GPC_IMPI_SERVER is not")
        );
        let both = |name: &str| Some(if name == "GPC_IMPI_RANK" { "0" } else { "1" }.into());
        let bare = setup(both, || Ok(None)).unwrap_err().to_string();
        assert!(bare.contains("no file of a secret is named") && bare.contains("GPC_SECRET_FILE"), "{bare}");
        for rank in ["", "32", "-1", "one"] {
            let said = error(&[("GPC_IMPI_SERVER", "a:1"), ("GPC_IMPI_RANK", rank)]);
            assert!(said.ends_with("a rank is a number from 0 to 31"), "{said}");
        }
        let said = error(&[("GPC_IMPI_SERVER", "a:1"), ("GPC_IMPI_RANK", "1"), ("IMPI_AUTH_KEY", "s3cret")]);
        assert!(
            said.starts_with("IMPI_AUTH_KEY: it is no decimal number") && !said.contains("s3cret"),
            "{said}"
        );
    }
}

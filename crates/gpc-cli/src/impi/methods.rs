//! Selects the authentication methods of an IMPI server or client: from the arguments, or else from the environment, as
//! other implementations do.
//!
//! No message contains the key.

use std::env;
use std::ffi::OsString;

use gpc_impi::wire::{KEY_VARIABLE as KEY, Key, Method, Methods, NONE_VARIABLE as NONE};

use crate::args::impi::AuthList;
use crate::refused::Refused;

/// Settings from the environment. The variables remain there, and processes of the same user can read them.
pub(super) struct Environment {
    none: bool,
    key: Option<OsString>,
}

impl Environment {
    /// Reads the environment of this process.
    pub(super) fn of_this_process() -> Environment {
        Environment { none: env::var_os(NONE).is_some(), key: env::var_os(KEY) }
    }

    fn key(&self) -> Result<Option<Key>, Refused> {
        let Some(key) = &self.key else { return Ok(None) };
        let key = key.to_str().and_then(|key| key.parse().ok());
        let wrong = || Refused::Usage(format!("{KEY}: it is no decimal number of 64 bits, such as 13577531"));
        key.map(Some).ok_or_else(wrong)
    }
}

/// Returns the methods that a server accepts. `loopback`: only processes of this machine can connect.
pub(super) fn of_server(
    list: Option<&AuthList>,
    environment: &Environment,
    loopback: bool,
) -> Result<Methods, Refused> {
    let methods = of_list(list, environment)?;
    match methods.mask() {
        0 if loopback => Ok(Methods { none: true, key: None }),
        0 => Err(Refused::Usage(format!(
            "whoever reaches this address could take part: set {KEY} to a number that the clients have, too, listen on 127.0.0.1, or say --auth none (or set {NONE}) where that is meant"
        ))),
        _ => Ok(methods),
    }
}

/// Returns the methods that a client offers; the server decides whether they are sufficient.
pub(super) fn of_client(list: Option<&AuthList>, environment: &Environment) -> Result<Methods, Refused> {
    Ok(match list {
        Some(_) => of_list(list, environment)?,
        None => of_list(list, environment)?.offered(),
    })
}

fn of_list(list: Option<&AuthList>, environment: &Environment) -> Result<Methods, Refused> {
    let Some(AuthList(list)) = list else {
        return Ok(Methods { none: environment.none, key: environment.key()? });
    };
    let key = match list.contains(&Method::Key) {
        true => Some(environment.key()?.ok_or_else(|| {
            Refused::Usage(format!("--auth key takes the key from {KEY} in the environment, which is not set: set it to a decimal number of 64 bits that all have"))
        })?),
        false => None,
    };
    Ok(Methods { none: list.contains(&Method::None), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(none: bool, key: Option<&str>) -> Environment {
        Environment { none, key: key.map(OsString::from) }
    }

    fn server(list: &str, environment: &Environment, loopback: bool) -> Result<(bool, bool), String> {
        let list = Some(list).filter(|list| !list.is_empty()).map(|list| list.parse().unwrap());
        let methods = of_server(list.as_ref(), environment, loopback);
        methods.map(|methods| (methods.none, methods.key.is_some())).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_come_before_the_environment() {
        let both = environment(true, Some("5"));
        assert_eq!(server("", &both, false), Ok((true, true)));
        assert_eq!(server("key", &both, false), Ok((false, true)));
        assert_eq!(server("none", &both, false), Ok((true, false)));
        assert_eq!(server("none,key", &both, false), Ok((true, true)));
        assert_eq!(server("", &environment(false, Some("5")), true), Ok((false, true)));
        assert_eq!(server("none", &environment(false, None), false), Ok((true, false)));
    }

    #[test]
    fn beyond_loopback_no_proof_must_be_asked_for() {
        let nothing = environment(false, None);
        assert_eq!(server("", &nothing, true), Ok((true, false)));
        assert_eq!(server("", &environment(true, None), false), Ok((true, false)));
        let error = server("", &nothing, false).unwrap_err();
        assert!(error.contains("IMPI_AUTH_KEY") && error.contains("--auth none"), "{error}");
    }

    #[test]
    fn a_client_offers_what_it_has() {
        let client = |none, key| {
            of_client(None, &environment(none, key)).map(|methods| methods.mask()).map_err(|_| "no key")
        };
        assert_eq!(
            [client(false, None), client(true, None), client(false, Some("5")), client(true, Some("5"))],
            [Ok(1), Ok(1), Ok(2), Ok(3)]
        );
        assert_eq!(client(true, Some("five")), Err("no key"));
    }

    #[test]
    fn a_key_that_is_none_is_not_shown() {
        let error = server("", &environment(true, Some("12345678x")), true).unwrap_err();
        assert!(error.contains("IMPI_AUTH_KEY") && !error.contains("1234567"), "{error}");
        let error = server("key", &environment(false, None), true).unwrap_err();
        assert!(error.contains("which is not set"), "{error}");
        // A key that is not needed is not read.
        assert_eq!(server("none", &environment(false, Some("x")), true), Ok((true, false)));
    }
}

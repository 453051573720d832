//! Sessions of IMPI: what their handles stand for, their waits, and their errors as statuses.

use std::env;
use std::ffi::c_int;
use std::io::ErrorKind;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use gpc_impi::client::SendError;
use gpc_impi::session::{ExchangeSession, SessionError};
use gpc_impi::wire::{KEY_VARIABLE, Label, NONE_VARIABLE};

use crate::error::{Error, Result};
use crate::handles::{Kind, Object};
use crate::status::*;

/// A session, which one thread uses at a time.
pub(crate) struct Session(Mutex<ExchangeSession>);

impl Object for Session {
    const KIND: Kind = Kind::Impi;
}

impl Session {
    pub(crate) fn new(session: ExchangeSession) -> Session {
        Session(Mutex::new(session))
    }

    /// Uses the session, unless another thread does.
    pub(crate) fn with(&self, use_it: impl FnOnce(&mut ExchangeSession) -> Result<c_int>) -> Result<c_int> {
        match self.0.try_lock() {
            Ok(mut session) => use_it(&mut session),
            Err(TryLockError::Poisoned(poisoned)) => use_it(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::new(CGPC_ERR_BUSY, "another thread uses this session of IMPI"))
            }
        }
    }
}

/// Whether a client takes part without a key, and the key of the environment.
pub(crate) fn environment(none: bool) -> Result<(bool, Option<String>)> {
    let key = env::var_os(KEY_VARIABLE).map(|key| key.into_string());
    let key = key.transpose().map_err(|_| Error::argument(format!("{KEY_VARIABLE} is no text")))?;
    Ok((none || env::var_os(NONE_VARIABLE).is_some(), key))
}

/// Why the session has failed, if it has.
pub(crate) fn fault(session: &ExchangeSession) -> Option<Error> {
    session.exchange().fault().map(|fault| Error::new(CGPC_ERR_SERVER, fault.to_string()))
}

/// Waits until something is reached: `CGPC_PENDING` at the limit.
pub(crate) fn wait(
    session: &mut ExchangeSession,
    limit_us: u64,
    is_reached: impl Fn(&ExchangeSession) -> bool,
) -> Result<c_int> {
    match session.wait(Duration::from_micros(limit_us), is_reached) {
        true => Ok(CGPC_OK),
        false => fault(session).map_or(Ok(CGPC_PENDING), Err),
    }
}

/// Sends the values of a label unless they were sent, and waits for the broadcast.
pub(crate) fn exchange(
    session: &mut ExchangeSession,
    label: Label,
    values: &[u8],
    limit_us: u64,
) -> Result<c_int> {
    if !session.exchange().has_sent(label) {
        session.send(label, values)?;
    }
    wait(session, limit_us, |session| {
        // A broadcast without this client's values came before them.
        session
            .exchange()
            .broadcast(label)
            .is_some_and(|(mask, _)| mask >> session.exchange().rank() & 1 == 1)
    })
}

/// Sends DONE unless it was sent, and waits for that of all.
pub(crate) fn done(session: &mut ExchangeSession, limit_us: u64) -> Result<c_int> {
    if !session.exchange().is_done() {
        session.done()?;
    }
    wait(session, limit_us, |session| session.exchange().are_all_done())
}

/// Sends FINI unless it was sent, and waits until it has left.
pub(crate) fn fini(session: &mut ExchangeSession, limit_us: u64) -> Result<c_int> {
    if !session.exchange().is_finished() {
        session.fini()?;
    }
    // A lost connection has nothing to send.
    wait(session, limit_us, |session| session.is_flushed() && session.exchange().fault().is_none())
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Error {
        let status = match &error {
            SessionError::Settings(_) => CGPC_ERR_ARGUMENT,
            // The text is no address. A name that cannot be looked up is a server that is not reached.
            SessionError::Address { cause, .. } if cause.kind() == ErrorKind::InvalidInput => {
                CGPC_ERR_ARGUMENT
            }
            SessionError::Socket(_) => CGPC_ERR_SYSTEM,
            _ => CGPC_ERR_SERVER,
        };
        Error::new(status, error.to_string())
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Error {
        let status = match &error {
            SendError::Failed(_) => CGPC_ERR_SERVER,
            SendError::NoLabel => CGPC_ERR_ARGUMENT,
            SendError::Length { .. } | SendError::Long { .. } => CGPC_ERR_LENGTH,
            _ => CGPC_ERR_STATE,
        };
        Error::new(status, error.to_string())
    }
}

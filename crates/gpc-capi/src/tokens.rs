//! Tokens of deferred replies.

use std::sync::{Mutex, PoisonError};

use chained_gpc::{Deferred, Reply, WithCode};

use crate::error::{Error, Result};
use crate::handles::{Kind, Object};
use crate::status::CGPC_ERR_STATE;

/// A token, until its reply is sent.
pub(crate) struct Token(Mutex<Option<Deferred>>);

impl Object for Token {
    const KIND: Kind = Kind::Token;
}

impl Token {
    pub(crate) fn new(deferred: Deferred) -> Token {
        Token(Mutex::new(Some(deferred)))
    }

    fn take(&self) -> Option<Deferred> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends the reply.
    pub(crate) fn reply(&self, reply: Reply) {
        if let Some(deferred) = self.take() {
            deferred.reply(reply);
        }
    }

    /// Fails the call at this id.
    pub(crate) fn fail(&self, code: i64, message: &str) {
        if let Some(deferred) = self.take() {
            deferred.fail(WithCode::new(code, message));
        }
    }

    /// Looks at the token.
    ///
    /// # Errors
    /// If the reply was sent.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Deferred) -> T) -> Result<T> {
        let deferred = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = || Error::new(CGPC_ERR_STATE, "the reply of this token was sent already");
        deferred.as_ref().map(look).ok_or_else(sent)
    }
}

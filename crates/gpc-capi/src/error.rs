//! Errors of the C interface: a status and what a program can ask about it; the last error of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::fmt;
use std::ops::{Deref, DerefMut};

use chained_gpc::bootstrap::{BootstrapError, SecretFileError};
use chained_gpc::runtime::AddressError;
use chained_gpc::trees::{NameError, UnknownTree};
use chained_gpc::wire::level::{LevelError, LevelLimit};
use chained_gpc::{
    AbsentPeers, CallError, CallFailure, Cause, FunctionsError, IdsError, MembershipError, PeersError,
    RepliesError, TreeError,
};

use crate::status::*;

/// An error. One pointer, so that results are small.
#[derive(Clone, Debug)]
pub(crate) struct Error(Box<Details>);

/// The status of an error, its message, and the cause if a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Details {
    pub(crate) status: c_int,
    pub(crate) cause: Option<Origin>,
    pub(crate) message: String,
}

/// Where and why a call failed. Of a refusal of a service, only the kind: the number of its fault.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Origin {
    pub(crate) id: u32,
    pub(crate) stage: u8,
    pub(crate) kind: u16,
    pub(crate) code: i64,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The last error of a thread, with its message as a C string.
#[derive(Default)]
pub(crate) struct LastError {
    pub(crate) status: c_int,
    pub(crate) cause: Option<Origin>,
    pub(crate) message: CString,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

impl Error {
    // Kept out of line, as those below: each exported function has several of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn new(status: c_int, message: impl Into<String>) -> Error {
        Error(Box::new(Details { status, cause: None, message: message.into() }))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn argument(message: impl Into<String>) -> Error {
        Error::new(CGPC_ERR_ARGUMENT, message)
    }

    pub(crate) fn of_cause(cause: &Cause) -> Error {
        let origin =
            Origin { id: cause.id, stage: cause.stage as u8, kind: cause.kind.number(), code: cause.code };
        let mut error = Error::new(CGPC_ERR_CALL, cause.to_string());
        error.cause = Some(origin);
        error
    }

    /// A panic inside the library.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Error::new(CGPC_ERR_INTERNAL, format!("a defect of this library: {}", text.unwrap_or("unknown")))
    }

    /// The message as a text of C.
    pub(crate) fn c_message(&self) -> CString {
        CString::new(self.message.replace('\0', "")).unwrap_or_default()
    }

    /// Makes this the last error of the thread, and returns its status.
    #[cold]
    #[inline(never)]
    pub(crate) fn record(self) -> c_int {
        let message = self.c_message();
        let Details { status, cause, .. } = *self.0;
        // While a thread ends, its last error may be gone; the status is still returned.
        let _ = LAST.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                *last = LastError { status, cause, message };
            }
        });
        status
    }
}

/// Makes this thread have no last error.
#[cfg(feature = "plugins")]
pub(crate) fn forget_last() {
    // As in `record`.
    let _ = LAST.try_with(|last| last.take());
}

/// Looks at the last error of this thread.
pub(crate) fn with_last<T>(look: impl FnOnce(&LastError) -> T) -> Result<T> {
    let gone = || Error::new(CGPC_ERR_STATE, "this thread ends");
    LAST.try_with(|last| last.try_borrow().map(|last| look(&last)).map_err(|_| gone()))
        .unwrap_or_else(|_| Err(gone()))
}

impl Deref for Error {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&CallFailure> for Error {
    fn from(failure: &CallFailure) -> Error {
        Error::of_cause(failure.cause())
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Error {
        let status = match &error {
            CallError::Failed(failure) => return Error::from(&**failure),
            CallError::Function(_) => CGPC_ERR_FUNCTION,
            CallError::Tree(_) => CGPC_ERR_TREE,
            CallError::Ids(_) | CallError::WatcherListed => CGPC_ERR_IDS,
            CallError::Header(_) | CallError::Parts { .. } => CGPC_ERR_LENGTH,
            CallError::Busy => CGPC_ERR_BUSY,
            CallError::Ended => CGPC_ERR_ENDED,
            CallError::Deadlock(_) | CallError::NotDriven => CGPC_ERR_DEADLOCK,
            CallError::Taken => CGPC_ERR_STATE,
            _ => CGPC_ERR_INTERNAL,
        };
        Error::new(status, in_c(error.to_string()))
    }
}

/// A message of the library with the names that its functions have in C.
fn in_c(message: String) -> String {
    let names = [("`CallHandle::on_end`", "cgpc_call_on_end"), ("PolledNode::wait", "cgpc_call_wait")];
    names.iter().fold(message, |message, (rust, c)| message.replace(rust, c))
}

impl From<MembershipError> for Error {
    fn from(error: MembershipError) -> Error {
        let status = match error {
            MembershipError::Own(_) => CGPC_ERR_ARGUMENT,
            MembershipError::Busy => CGPC_ERR_BUSY,
            _ => CGPC_ERR_ENDED,
        };
        Error::new(status, error.to_string())
    }
}

impl From<AbsentPeers> for Error {
    fn from(error: AbsentPeers) -> Error {
        let status = match error {
            AbsentPeers::Ids(_) => CGPC_ERR_IDS,
            AbsentPeers::Driver => CGPC_ERR_DEADLOCK,
            AbsentPeers::Ended => CGPC_ERR_ENDED,
            _ => CGPC_ERR_ABSENT,
        };
        Error::new(status, error.to_string())
    }
}

/// Conversions of errors that have one status each.
macro_rules! statuses {
    ($($error:ty => $status:ident,)+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::new($status, error.to_string())
            }
        })+
    };
}

statuses! {
    FunctionsError => CGPC_ERR_FUNCTION,
    TreeError => CGPC_ERR_TREE,
    UnknownTree => CGPC_ERR_TREE,
    NameError => CGPC_ERR_TREE,
    IdsError => CGPC_ERR_IDS,
    LevelError => CGPC_ERR_DATA,
    LevelLimit => CGPC_ERR_LENGTH,
    RepliesError => CGPC_ERR_DATA,
    BootstrapError => CGPC_ERR_BOOTSTRAP,
    SecretFileError => CGPC_ERR_ARGUMENT,
    AddressError => CGPC_ERR_ARGUMENT,
    PeersError => CGPC_ERR_ARGUMENT,
    std::io::Error => CGPC_ERR_SYSTEM,
}

#[cfg(test)]
mod tests {
    use chained_gpc::{CauseKind, Stage};

    use super::*;

    #[test]
    fn the_last_error_belongs_to_its_thread() {
        assert_eq!(Error::argument("a \0 zero").record(), CGPC_ERR_ARGUMENT);
        std::thread::scope(|scope| {
            scope.spawn(|| with_last(|last| assert_eq!(last.status, CGPC_OK)).unwrap());
        });
        let message = with_last(|last| last.message.clone()).unwrap();
        assert_eq!(message.to_str(), Ok("a  zero"));
    }

    #[test]
    fn a_failed_call_keeps_its_cause() {
        let cause = Cause::new(7, Stage::Func, CauseKind::Failed, "no").with_code(-3);
        let error = Error::of_cause(&cause);
        assert_eq!(error.cause, Some(Origin { id: 7, stage: 2, kind: 1, code: -3 }));
        assert_eq!((error.status, error.message.clone()), (CGPC_ERR_CALL, cause.to_string()));
    }

    /// A C program was told to use functions of Rust.
    #[test]
    fn messages_name_functions_of_c() {
        for error in [
            CallError::NotDriven,
            CallError::Deadlock(chained_gpc::runtime::Deadlock::Driver),
            CallError::Deadlock(chained_gpc::runtime::Deadlock::Workers),
        ] {
            let message = Error::from(error).message.clone();
            assert!(message.contains("cgpc_call_") && !message.contains("::"), "{message}");
        }
    }

    #[test]
    fn each_error_of_a_call_has_its_status() {
        for (error, status) in [
            (CallError::Busy, CGPC_ERR_BUSY),
            (CallError::Ended, CGPC_ERR_ENDED),
            (CallError::Taken, CGPC_ERR_STATE),
            (CallError::NotDriven, CGPC_ERR_DEADLOCK),
            (CallError::WatcherListed, CGPC_ERR_IDS),
            (CallError::Header(70_000), CGPC_ERR_LENGTH),
        ] {
            assert_eq!(Error::from(error.clone()).status, status, "{error}");
        }
    }

    #[test]
    fn a_panic_is_an_internal_error_with_its_words() {
        assert!(Error::of_panic(&"text").message.ends_with("text"));
        assert!(Error::of_panic(&String::from("owned")).message.ends_with("owned"));
        assert_eq!(Error::of_panic(&7).status, CGPC_ERR_INTERNAL);
    }
}

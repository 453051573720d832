//! Errors of functions: any error, optionally with a code of the application, and its conversion into a cause for the
//! caller.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::call_error::CallError;
use super::functions_error::FunctionsError;
use crate::wire::{CauseKind, Reason};

/// The error of a function: any error, or a text. [`WithCode`] adds a code.
pub type FunctionError = Box<dyn Error + Send + Sync>;

/// The result of a function.
pub type FunctionResult = Result<(), FunctionError>;

/// Maximum number of nested errors that are searched for a code: more than a program nests, and a bound for an error
/// that is its own source.
const SOURCES_MAX: usize = 32;

/// An error with a code of the application, which the caller gets as [`Cause::code`](crate::Cause::code).
///
/// Its message is that of its error. A function may return it directly, or below other errors that name it as their
/// [source](Error::source): the outermost code counts. A function that returns the error of a call that it made passes
/// on that call's code. Code 0 means no code.
///
/// ```
/// use std::fs;
/// use chained_gpc::{Functions, WithCode};
///
/// const NO_CONFIG: i64 = 17;
///
/// let functions = Functions::new();
/// let configure = functions.func("configure", |request, reply| {
///     // Any error is returned with `?`, and text with `into`.
///     let path = std::str::from_utf8(request.header())?;
///     if path.is_empty() {
///         return Err("no path".into());
///     }
///     // An error that the caller must distinguish gets a code.
///     reply.data = fs::read(path).map_err(|error| WithCode::new(NO_CONFIG, error))?;
///     Ok(())
/// })?;
/// # let _ = configure;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Debug)]
pub struct WithCode {
    code: i64,
    detail: Vec<u8>,
    error: FunctionError,
}

impl WithCode {
    /// Creates an error with a code, from an error or a text.
    pub fn new(code: i64, error: impl Into<FunctionError>) -> WithCode {
        WithCode { code, detail: Vec::new(), error: error.into() }
    }

    /// Adds bytes for programs, which the caller gets as [`Cause::detail`](crate::Cause::detail): at most
    /// [`DETAIL_MAX`](crate::wire::DETAIL_MAX), longer ones are left out.
    #[must_use]
    pub fn detail(self, detail: impl Into<Vec<u8>>) -> WithCode {
        WithCode { detail: detail.into(), ..self }
    }

    /// The code.
    pub fn code(&self) -> i64 {
        self.code
    }

    /// The error without its code.
    pub fn into_error(self) -> FunctionError {
        self.error
    }
}

impl fmt::Display for WithCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for WithCode {
    /// The source of its error, which it represents.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Runs code of the application: a panic is a failure like any other.
#[inline(always)]
pub(super) fn unwinding<T>(run: impl FnOnce() -> Result<T, FunctionError>) -> Result<T, Box<Reason>> {
    // The function owns its captured state, also after a panic; the reply that it was filling is dropped. The message
    // of an error is code of the application, too, and may panic.
    match catch_unwind(AssertUnwindSafe(|| run().map_err(|error| reason(&*error)))) {
        Ok(result) => result,
        Err(panic) => Err(panicked(&*panic)),
    }
}

/// The reason for a function that returned this error.
#[cold]
fn reason(error: &(dyn Error + Send + Sync + 'static)) -> Box<Reason> {
    let (code, detail) = marks_of(error);
    Box::new(Reason { kind: kind_of(error), code, message: error.to_string(), detail })
}

/// If a function returns a rejected wait unchanged, it keeps its kind; any other error is a failed function.
fn kind_of(error: &(dyn Error + 'static)) -> CauseKind {
    match error.downcast_ref::<CallError>() {
        Some(CallError::Deadlock(_) | CallError::NotDriven) => CauseKind::Deadlock,
        _ => CauseKind::Failed,
    }
}

/// The outermost code of an error and its sources, and the detail beside it; 0 and nothing if there is none.
fn marks_of(mut error: &(dyn Error + 'static)) -> (i64, Vec<u8>) {
    for _ in 0..SOURCES_MAX {
        if let Some(coded) = error.downcast_ref::<WithCode>() {
            return (coded.code, coded.detail.clone());
        }
        // Those of a call that the function made.
        if let Some(cause) = error.downcast_ref::<CallError>().and_then(CallError::cause) {
            return (cause.code, cause.detail.clone());
        }
        let Some(source) = error.source() else { break };
        error = source;
    }
    (0, Vec::new())
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Box<Reason> {
    let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = format!("it panicked: {}", words.unwrap_or_else(|| "without words".into()));
    Box::new(Reason::new(CauseKind::Panicked, message))
}

/// The reason for a token of a deferred reply that fails: as if the function had returned this error.
#[cold]
pub(super) fn failed(error: impl Into<FunctionError>) -> Box<Reason> {
    let error = error.into();
    unwinding(|| Err::<(), _>(error)).err().unwrap_or_else(|| "without words".into())
}

/// The reason why a function cannot run here.
#[cold]
pub(super) fn not_run(error: &FunctionsError) -> Box<Reason> {
    let kind = match error {
        FunctionsError::OtherKind { .. } => CauseKind::WrongFunction,
        _ => CauseKind::UnknownFunction,
    };
    Box::new(Reason::new(kind, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(run: fn() -> FunctionResult) -> Reason {
        *unwinding(run).unwrap_err()
    }

    /// An error that panicked when its message was requested left the reply behind, for the next call.
    #[test]
    fn a_panic_is_a_failure_wherever_it_comes_from() {
        struct Mute;
        impl fmt::Debug for Mute {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("no words")
            }
        }
        impl fmt::Display for Mute {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
        impl Error for Mute {}
        let panicked = |message: &str| Reason::new(CauseKind::Panicked, message);
        assert_eq!(reason(|| Err(Mute.into())), panicked("it panicked: no words"));
        assert_eq!(reason(|| panic!("{} words", 2)), panicked("it panicked: 2 words"));
        assert_eq!(*failed(Mute), panicked("it panicked: no words"));
        assert_eq!(reason(|| Err("plain".into())), "plain".into());
    }

    #[test]
    fn a_code_is_found_below_other_errors_and_the_outermost_counts() {
        #[derive(Debug, thiserror::Error)]
        #[error("while opening")]
        struct Opening(#[source] FunctionError);
        let coded = |code, message: &str| Reason { code, ..Reason::new(CauseKind::Failed, message) };
        assert_eq!(reason(|| Err(WithCode::new(-7, "no").into())), coded(-7, "no"));
        assert_eq!(*failed(WithCode::new(7, fmt::Error)), coded(7, &fmt::Error.to_string()));
        let opening = || Opening(WithCode::new(3, "inner").into());
        assert_eq!(*failed(opening()), coded(3, "while opening"));
        assert_eq!(*failed(WithCode::new(4, opening())), coded(4, "while opening"));
        assert_eq!(WithCode::new(4, opening()).into_error().to_string(), "while opening");
        let detailed = |code, detail: &[u8]| WithCode::new(code, Opening("inner".into())).detail(detail);
        let wanted = |code, detail: &[u8]| Reason { detail: detail.to_vec(), ..coded(code, "while opening") };
        assert_eq!(*failed(detailed(3, b"ab")), wanted(3, b"ab"));
        // Code and detail are those of one error.
        assert_eq!(*failed(Opening(detailed(5, b"c").into())), wanted(5, b"c"));
        assert_eq!(*failed(WithCode::new(6, detailed(5, b"c"))), wanted(6, b""));
    }

    /// An error that is its own source must not block the function's thread for ever.
    #[test]
    fn sources_that_go_round_have_an_end() {
        #[derive(Debug, thiserror::Error)]
        #[error("round")]
        struct Round(#[source] Box<Back>);
        #[derive(Debug, thiserror::Error)]
        #[error("back")]
        struct Back;
        assert_eq!(*failed(Round(Box::new(Back))), "round".into());
        #[derive(Debug)]
        struct Own;
        impl fmt::Display for Own {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("own")
            }
        }
        impl Error for Own {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        }
        assert_eq!(*failed(Own), "own".into());
    }
}

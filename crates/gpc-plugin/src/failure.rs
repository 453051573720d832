//! Failures of functions.

use std::ffi::CString;
use std::fmt;

/// The code of a function that has panicked: CGPC_ERR_EXCEPTION.
pub const PANICKED: i32 = -19;

/// Result of a function: `Ok`, or why the call fails at this id.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a call fails at this id: a code for programs, and a message for people. Text converts to a failure with code 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    /// Creates a failure. A code of 0 would be success, and becomes 1.
    pub fn new(code: i32, message: impl Into<String>) -> Failure {
        Failure { code: if code == 0 { 1 } else { code }, message: message.into() }
    }

    pub(crate) fn of_panic(panic: &(dyn std::any::Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Failure::new(PANICKED, format!("it panicked: {}", text.unwrap_or("without words")))
    }

    pub(crate) fn code(&self) -> i32 {
        self.code
    }

    /// The message for C.
    pub(crate) fn text(&self) -> CString {
        c_text(&self.message)
    }
}

/// A text for C, which ends at a zero byte.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<T: Into<String>> From<T> for Failure {
    fn from(message: T) -> Failure {
        Failure::new(1, message)
    }
}

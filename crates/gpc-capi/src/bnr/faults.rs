//! Faults of BNR as errors of this library, and errors as numbers of faults.

use gpc_bnr::client::ClientError;
use gpc_bnr::{Fault, FaultKind};

use crate::error::{Error, Origin};
use crate::status::*;

/// An error with this fault.
pub(crate) fn fault(kind: FaultKind, message: impl Into<String>) -> Error {
    Fault::new(kind, message).into()
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let mut error = Error::new(CGPC_ERR_FAULT, fault.message);
        error.cause = Some(Origin { kind: fault.kind.number() as u16, ..Origin::default() });
        error
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Error {
        fault(error.kind(), error.to_string())
    }
}

/// The error as a fault of BNR, and the fault's number.
pub(crate) fn as_fault(error: Error) -> (Error, u16) {
    let kind = match (error.status, error.cause) {
        (CGPC_ERR_FAULT, Some(cause)) => return (error, cause.kind),
        (CGPC_ERR_ARGUMENT, _) => FaultKind::BadRequest,
        (CGPC_ERR_FORKED, _) => FaultKind::Link,
        (CGPC_ERR_LENGTH | CGPC_ERR_TRUNCATED, _) => FaultKind::TooLarge,
        _ => FaultKind::System,
    };
    (fault(kind, error.message.clone()), kind.number() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_number_of_a_fault() {
        let number = |error| as_fault(error).1;
        assert_eq!(number(fault(FaultKind::MemberDied, "x")), 13);
        assert_eq!(number(Error::argument("x")), 1);
        assert_eq!(number(Error::new(CGPC_ERR_FORKED, "x")), 20);
        assert_eq!(number(Error::new(CGPC_ERR_TRUNCATED, "x")), 10);
        let (error, kind) = as_fault(Error::of_panic(&"why"));
        assert!(kind == 21 && error.status == CGPC_ERR_FAULT && error.message.ends_with("why"));
        assert_eq!(error.cause, Some(Origin { kind: 21, ..Origin::default() }));
    }
}

//! The statuses that functions of the C interface return. A number never changes its meaning.

use std::ffi::{CStr, c_int};

/// Success.
pub const CGPC_OK: c_int = 0;
/// Not an error: the call has not ended yet, or there is work to do before a sleep.
pub const CGPC_PENDING: c_int = 1;
/// Not an error: there is no such item. No event has occurred, the root has no parent, an id has no cause.
pub const CGPC_NONE: c_int = 2;
/// An argument is wrong: a null pointer, a handle that was freed or is of another type, text that cannot be read.
pub const CGPC_ERR_ARGUMENT: c_int = -1;
/// The operation does not fit the state: the context has not been started, or an outcome has been taken already.
pub const CGPC_ERR_STATE: c_int = -2;
/// The handle belongs to the process that forked this one. Only that process can use it.
pub const CGPC_ERR_FORKED: c_int = -3;
/// The buffer is too short. It has the first bytes, and the length is reported; nothing is lost.
pub const CGPC_ERR_TRUNCATED: c_int = -4;
/// The call started and failed: see the last error, and the outcome.
pub const CGPC_ERR_CALL: c_int = -5;
/// The function is unknown here, of another kind, or its name is taken. Nothing was sent.
pub const CGPC_ERR_FUNCTION: c_int = -6;
/// The tree is invalid or unknown. Nothing was sent.
pub const CGPC_ERR_TREE: c_int = -7;
/// The list of ids is invalid. Nothing was sent.
pub const CGPC_ERR_IDS: c_int = -8;
/// A length exceeds its limit. Nothing was sent.
pub const CGPC_ERR_LENGTH: c_int = -9;
/// The queue of calls is full, or another thread uses the same object. Try again later.
pub const CGPC_ERR_BUSY: c_int = -10;
/// The node has ended.
pub const CGPC_ERR_ENDED: c_int = -11;
/// The operation would wait for itself. Nothing was waited for.
pub const CGPC_ERR_DEADLOCK: c_int = -12;
/// The operating system rejected an operation.
pub const CGPC_ERR_SYSTEM: c_int = -13;
/// The processes could not find each other.
pub const CGPC_ERR_BOOTSTRAP: c_int = -14;
/// No launcher started this process.
pub const CGPC_ERR_NO_LAUNCHER: c_int = -15;
/// Peers are unknown, or were not reached within the time limit.
pub const CGPC_ERR_ABSENT: c_int = -16;
/// Data are not valid level-n data.
pub const CGPC_ERR_DATA: c_int = -17;
/// This build, or this kind of context, does not have the operation.
pub const CGPC_ERR_UNSUPPORTED: c_int = -18;
/// A C++ function threw an exception, which the wrapper of the header caught.
pub const CGPC_ERR_EXCEPTION: c_int = -19;
/// A defect of this library.
pub const CGPC_ERR_INTERNAL: c_int = -20;
/// A service refused the request, or the rendezvous cannot complete. The `kind` of the last error is the number of the
/// fault: see gpc_rendezvous.h and bnr.h.
pub const CGPC_ERR_FAULT: c_int = -21;
/// The server or service is not reached, is lost, or breaks its protocol.
pub const CGPC_ERR_SERVER: c_int = -22;

/// The text of a status.
pub(crate) fn text(status: c_int) -> &'static CStr {
    match status {
        CGPC_OK => c"success",
        CGPC_PENDING => c"not ended yet",
        CGPC_NONE => c"no such item",
        CGPC_ERR_ARGUMENT => c"wrong argument",
        CGPC_ERR_STATE => c"not possible in this state",
        CGPC_ERR_FORKED => c"the handle belongs to the process that forked this one",
        CGPC_ERR_TRUNCATED => c"the buffer is too short",
        CGPC_ERR_CALL => c"the call failed",
        CGPC_ERR_FUNCTION => c"unknown or unsuitable function",
        CGPC_ERR_TREE => c"invalid or unknown tree",
        CGPC_ERR_IDS => c"invalid list of ids",
        CGPC_ERR_LENGTH => c"a length exceeds its limit",
        CGPC_ERR_BUSY => c"busy",
        CGPC_ERR_ENDED => c"the node has ended",
        CGPC_ERR_DEADLOCK => c"the operation would wait for itself",
        CGPC_ERR_SYSTEM => c"the operating system rejected an operation",
        CGPC_ERR_BOOTSTRAP => c"the processes could not find each other",
        CGPC_ERR_NO_LAUNCHER => c"no launcher started this process",
        CGPC_ERR_ABSENT => c"peers are absent",
        CGPC_ERR_DATA => c"invalid level-n data",
        CGPC_ERR_UNSUPPORTED => c"not supported here",
        CGPC_ERR_EXCEPTION => c"a C++ function threw an exception",
        CGPC_ERR_FAULT => c"the service refused the request, or the rendezvous failed",
        CGPC_ERR_SERVER => c"the server is not reached, is lost, or breaks its protocol",
        CGPC_ERR_INTERNAL => c"internal error",
        _ => c"unknown status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_a_text_of_its_own() {
        let texts: std::collections::BTreeSet<_> = (-22..=2).map(text).collect();
        assert_eq!(texts.len(), 25);
        assert!(!texts.contains(text(3)) && text(-23) == text(c_int::MAX));
    }
}

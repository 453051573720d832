//! Worker classes of the functions of a call, which follow from its name.

use chained_gpc::wire::CallId;
use chained_gpc::wire::message::Classes;

/// Workers of the named executor that every node has beside its default workers.
pub(super) const EXECUTOR: usize = 1;

/// Worker class of a call's functions. Every other call of a root is a service call, which must not wait behind the
/// others.
pub(super) fn class_of(call: CallId) -> u8 {
    (call.sequence % 2) as u8
}

/// Worker classes of func and callback. In one call of four, callback runs in the other class.
pub(super) fn classes_of(call: CallId) -> Classes {
    let (func, other) = (class_of(call), (call.sequence >> 1 & call.sequence >> 2 & 1) as u8);
    Classes { func, callback: func ^ other }
}

pub(super) fn has_usual_classes(call: CallId) -> bool {
    classes_of(call) == Classes::default()
}

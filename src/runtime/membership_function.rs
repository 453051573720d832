//! The built-in function that receives a change of the membership, which a member announces by a call.
//!
//! Source: docs/wire.md, "The built-in functions".

use super::change::Change;
use super::request::{Deferred, Request};
use crate::wire::Shown;

/// The name of the function; applications cannot register this name.
pub(super) const NAME: &str = "gpc:membership";

/// The built-in function: passes the change to the event loop, which replies.
pub(super) fn change(request: &Request<'_>, answer: Deferred) {
    match Change::parse(request.header()) {
        Some(change) => request.change(change, answer),
        None => {
            let header = String::from_utf8_lossy(request.header());
            answer.fail(format!(
                "`{}` is not a change of the membership: `+ID ADDRESS`, `+ID ADDRESS KEY` or `-ID`",
                Shown(&header)
            ));
        }
    }
}

//! `fail`: fails at one id, to show the effect of a failure on a call.
//!
//! The header of the request is `ID`, `ID:func` or `ID:callback`; `ID` alone stands for func. Every other id replies
//! with a line `ID ok`, followed by the lines of its children. A leaf merges nothing, so `ID:callback` does not fail at
//! a leaf.

use std::fmt;
use std::str::FromStr;

use gpc_trees::Id;

use chained_gpc::runtime::{FunctionError, FunctionResult, Functions, FunctionsError, Phase};

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    functions
        .phased("fail", |phase, request, own| {
            let at = FailAt::from_header(request.header())?;
            match phase {
                Phase::Init => {
                    if request.parent().is_none() && !request.ids().contains(at.id) {
                        return Err(format!("fail: id {} is not called, so it cannot fail", at.id).into());
                    }
                    at.check(request.me(), FailPoint::Func)?;
                    own.data = format!("{} ok", request.me()).into_bytes();
                }
                Phase::Wait(child) => {
                    at.check(request.me(), FailPoint::Callback)?;
                    // A root that only watches has no line.
                    if !own.data.is_empty() {
                        own.data.push(b'\n');
                    }
                    own.data.extend_from_slice(child.data);
                }
            }
            Ok(())
        })
        .map(drop)
}

/// Step at which an id fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailPoint {
    /// While it executes.
    Func,
    /// While it merges the reply of its first child.
    Callback,
}

/// The id that fails, and the step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailAt {
    /// The id.
    pub id: Id,
    /// The step.
    pub at: FailPoint,
}

impl FailAt {
    fn from_header(header: &[u8]) -> Result<FailAt, FunctionError> {
        String::from_utf8_lossy(header).parse().map_err(FunctionError::from)
    }

    /// Fails if the header names this id and step.
    fn check(self, me: Id, at: FailPoint) -> FunctionResult {
        if self == (FailAt { id: me, at }) { Err("it was asked to fail here".into()) } else { Ok(()) }
    }
}

impl FromStr for FailAt {
    type Err = String;

    fn from_str(text: &str) -> Result<FailAt, String> {
        let bad = |why: &str| {
            let shown = text.chars().take(40).collect::<String>();
            format!(
                "fail: the header `{}` {why}; write ID, ID:func or ID:callback, as in --header 5:func",
                shown.escape_debug()
            )
        };
        let (id, at) = text.split_once(':').unwrap_or((text, "func"));
        let at = match at {
            "func" => FailPoint::Func,
            "callback" => FailPoint::Callback,
            _ => return Err(bad("names neither func nor callback after the colon")),
        };
        let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        let id = id.parse().ok().filter(|_| digits).ok_or_else(|| bad("does not begin with an id"))?;
        Ok(FailAt { id, at })
    }
}

impl fmt::Display for FailAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match self.at {
            FailPoint::Func => "func",
            FailPoint::Callback => "callback",
        };
        write!(f, "{}:{at}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_who_fails_and_where() {
        let at = |text: &str| text.parse::<FailAt>().unwrap();
        assert_eq!(at("5"), FailAt { id: 5, at: FailPoint::Func });
        assert_eq!(at("5:func").to_string(), "5:func");
        assert_eq!(at("0:callback").to_string(), "0:callback");
        for bad in ["", ":func", "5:", "5:Func", "5:func:x", "-1", "+1", "4294967296", "\u{7}"] {
            let error = bad.parse::<FailAt>().unwrap_err();
            assert!(error.contains("--header 5:func"), "{error}");
        }
        assert!(FailAt::from_header(b"\xff").is_err());
    }

    #[test]
    fn only_that_id_fails_and_only_there() {
        let at: FailAt = "5:callback".parse().unwrap();
        assert!(at.check(5, FailPoint::Callback).is_err());
        assert!(at.check(5, FailPoint::Func).is_ok());
        assert!(at.check(4, FailPoint::Callback).is_ok());
    }
}

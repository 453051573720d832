//! The id that a call waits for, as heartbeats and causes carry it (docs/wire.md, "STRAGGLERS" and "RESPONSE").

use std::fmt;
use std::time::Duration;

use gpc_trees::Id;

use super::call_state::CallState;
use super::frame::{FrameError, Kind};

/// The id that a call waits for, what it does, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Straggler {
    /// The id.
    pub id: Id,
    /// What the call waits for at the id.
    pub state: CallState,
    /// For how long, in whole milliseconds.
    pub since: Duration,
}

impl Straggler {
    /// Returns a straggler; the time is rounded down to the unit of the wire.
    pub fn new(id: Id, state: CallState, since: Duration) -> Straggler {
        let millis = u32::try_from(since.as_millis()).unwrap_or(u32::MAX);
        Straggler { id, state, since: Duration::from_millis(millis.into()) }
    }

    /// Returns what the id does, with the names of the call's functions.
    pub fn text(&self, func: Option<&str>, callback: Option<&str>) -> String {
        let named = |what: &str, name: Option<&str>| match name {
            Some(name) => format!("{what} `{name}`"),
            None => what.into(),
        };
        let (func, callback) = (named("func", func), named("callback", callback));
        let does = match self.state {
            CallState::Data => "has waited for its data".into(),
            CallState::Queue => format!("has waited for its turn to run {func}"),
            CallState::Func => format!("has been in {func}"),
            CallState::Deferred => format!("has deferred the reply of {func}"),
            CallState::Forward => "has not forwarded the request".into(),
            CallState::Children => "has waited for its children".into(),
            CallState::CallbackQueue => format!("has waited for its turn to run {callback}"),
            CallState::Callback => format!("has been in {callback}"),
            CallState::Streaming => "has waited for the data of a reply".into(),
            CallState::Silent => "has sent no heartbeat".into(),
            // A call that has ended is waited for no more.
            _ => "has ended the call".into(),
        };
        format!("id {} {does} for {:?}", self.id, self.since)
    }

    /// The numbers of an optional straggler on the wire: its id, state and milliseconds; all 0 for none.
    pub(super) fn numbers(of: Option<&Straggler>) -> (Id, u16, u32) {
        of.map_or((0, 0, 0), |it| (it.id, it.state as u16 + 1, it.since.as_millis() as u32))
    }

    /// Reads the numbers of an optional straggler in a payload of this kind.
    pub(super) fn from_numbers(
        kind: Kind,
        (id, state, millis): (Id, u16, u32),
    ) -> Result<Option<Straggler>, FrameError> {
        match (id, state, millis) {
            (0, 0, 0) => Ok(None),
            _ => Straggler::read(kind, (id, state.into(), millis)).map(Some),
        }
    }

    /// Reads the numbers of a straggler in a payload of this kind.
    pub(super) fn read(kind: Kind, (id, state, millis): (Id, u32, u32)) -> Result<Straggler, FrameError> {
        let known = state.checked_sub(1).and_then(|state| CallState::ALL.get(state as usize));
        let Some(&state) = known.filter(|state| !state.is_ended()) else {
            let (field, value) = ("state of a straggler", state.into());
            return Err(FrameError::BadField { kind, field, value, expected: "1 to 10" });
        };
        Ok(Straggler { id, state, since: Duration::from_millis(millis.into()) })
    }
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(None, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straggler_is_a_sentence() {
        let of = |state| Straggler::new(37, state, Duration::from_micros(58_000_999));
        assert_eq!(of(CallState::Func).to_string(), "id 37 has been in func for 58s");
        let text = |state| of(state).text(Some("lookup"), Some("most"));
        assert_eq!(text(CallState::Func), "id 37 has been in func `lookup` for 58s");
        assert_eq!(text(CallState::Callback), "id 37 has been in callback `most` for 58s");
        assert_eq!(text(CallState::Silent), "id 37 has sent no heartbeat for 58s");
    }
}

//! The payload of STRAGGLERS: what calls of a parent wait for (docs/wire.md, the section of that name).

use bytes::BufMut;

use super::frame::{Fields, FrameError, Kind};
use super::message::CallId;
use super::straggler::Straggler;

/// Maximum number of calls in a STRAGGLERS frame. A frame is short: it has the calls whose limits pass first.
pub const STRAGGLERS_MAX: usize = 8;

/// Bytes of a call in a STRAGGLERS frame.
const ENTRY: usize = 24;

/// Returns a STRAGGLERS payload: at most [`STRAGGLERS_MAX`] calls.
pub fn emit_stragglers(stragglers: &[(CallId, Straggler)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (call, straggler) in stragglers.iter().take(STRAGGLERS_MAX) {
        let (id, state, millis) = Straggler::numbers(Some(straggler));
        out.put_u32_le(call.root);
        out.put_u32_le(id);
        out.put_u64_le(call.sequence);
        out.put_u32_le(state.into());
        out.put_u32_le(millis);
    }
    out
}

/// Reads a STRAGGLERS payload.
pub fn parse_stragglers(payload: &[u8]) -> Result<Vec<(CallId, Straggler)>, FrameError> {
    let kind = Kind::Stragglers;
    let (entries, rest) = payload.as_chunks::<ENTRY>();
    if entries.is_empty() || !rest.is_empty() || entries.len() > STRAGGLERS_MAX {
        let (field, value) = ("length of the payload", payload.len() as u64);
        return Err(FrameError::BadField { kind, field, value, expected: "24 for each of 1 to 8 calls" });
    }
    entries.iter().map(parse_entry).collect()
}

fn parse_entry(entry: &[u8; ENTRY]) -> Result<(CallId, Straggler), FrameError> {
    let kind = Kind::Stragglers;
    let mut fields = Fields::new(kind, entry, ENTRY)?;
    let (root, id, sequence) = (fields.u32(), fields.u32(), fields.u64());
    let straggler = Straggler::read(kind, (id, fields.u32(), fields.u32()))?;
    Ok((CallId { root, sequence }, straggler))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpc_trees::Id;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::CallState;

    const CALL: CallId = CallId { root: 3, sequence: 258 };

    fn straggler() -> impl Strategy<Value = Straggler> {
        let open: Vec<CallState> = CallState::ALL.into_iter().filter(|state| !state.is_ended()).collect();
        let since = any::<u64>().prop_map(Duration::from_nanos);
        (any::<Id>(), prop::sample::select(open), since)
            .prop_map(|(id, state, since)| Straggler::new(id, state, since))
    }

    proptest! {
        #[test]
        fn stragglers_read_as_they_are_written(
            list in prop::collection::vec((any::<Id>(), any::<u64>(), straggler()), 1..12),
        ) {
            let of = |(root, sequence, straggler)| (CallId { root, sequence }, straggler);
            let list: Vec<(CallId, Straggler)> = list.into_iter().map(of).collect();
            let bytes = emit_stragglers(&list);
            let sent = &list[..list.len().min(STRAGGLERS_MAX)];
            prop_assert_eq!(bytes.len(), ENTRY * sent.len());
            prop_assert_eq!(parse_stragglers(&bytes), Ok(sent.to_vec()));
            for straggler in sent.iter().map(|(_, it)| Some(*it)).chain([None]) {
                let numbers = Straggler::numbers(straggler.as_ref());
                prop_assert_eq!(Straggler::from_numbers(Kind::Response, numbers), Ok(straggler));
            }
        }
    }

    #[test]
    fn what_is_no_straggler_is_rejected() {
        let it = Straggler::new(37, CallState::Func, Duration::from_secs(58));
        let mut bytes = emit_stragglers(&[(CALL, it); STRAGGLERS_MAX]);
        assert!(parse_stragglers(&bytes).is_ok());
        for length in [0, 1, ENTRY - 1, ENTRY + 1] {
            assert!(parse_stragglers(&bytes[..length]).is_err(), "{length} bytes");
        }
        let more = [&bytes[..], &bytes[..ENTRY]].concat();
        assert!(parse_stragglers(&more).is_err(), "too many");
        for state in [0, 11, 15, 16, 65_537, 70_000] {
            bytes[16..20].copy_from_slice(&u32::to_le_bytes(state));
            let Err(FrameError::BadField { value, .. }) = parse_stragglers(&bytes) else {
                panic!("state {state}");
            };
            assert_eq!(value, u64::from(state));
        }
        let bad = |numbers| Straggler::from_numbers(Kind::Response, numbers).is_err();
        assert!(bad((1, 0, 0)) && bad((0, 0, 1)) && bad((0, 11, 0)));
    }
}

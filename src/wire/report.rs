//! What became of every id of a subtree: its coverage, and the causes of those that failed (docs/wire.md, "RESPONSE").

use gpc_trees::Id;

use super::failure::MESSAGE_MAX;
use super::frame::{Fields, FrameError, Kind, REPORT_MAX, zero};
use super::{Cause, CauseKind, Coverage, Failure, Reason, Stage, Status};

/// Causes that one report carries: enough to see what is wrong; ids that failed beyond them are still counted as failed.
pub const CAUSES_MAX: usize = 1024;

/// Bytes of a cause before its message.
const CAUSE_FIXED: usize = 18;

/// Coverage of a slice, in tree order, and why ids of it failed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Why, the first one known first; at most [`CAUSES_MAX`].
    pub causes: Vec<Cause>,
    /// What became of each id.
    pub coverage: Coverage,
}

impl Report {
    /// Adds a cause while there is room.
    pub fn add(&mut self, cause: Cause) {
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(cause);
        }
    }

    /// Appends what another report says of the ids that come next in the list.
    pub fn append(&mut self, other: Report) {
        self.coverage.append(&other.coverage);
        other.causes.into_iter().for_each(|cause| self.add(cause));
    }

    /// Why one id failed, if it is known.
    pub fn cause_of(&self, id: Id) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.id == id)
    }

    /// Reads a report.
    pub fn parse(bytes: &[u8]) -> Result<Report, FrameError> {
        let bad =
            |field, value, expected| FrameError::BadField { kind: Kind::Response, field, value, expected };
        let count = Fields::new(Kind::Response, bytes, 4)?.u32();
        if count as usize > CAUSES_MAX {
            return Err(bad("number of causes", count.into(), "at most 1024"));
        }
        let mut rest = &bytes[4..];
        let mut causes = Vec::new();
        for _ in 0..count {
            causes.push(parse_cause(&mut rest)?);
        }
        Ok(Report { causes, coverage: Coverage::parse(rest)? })
    }

    /// How many bytes [`emit`](Self::emit) makes.
    pub fn emitted_len(&self) -> usize {
        let causes = self.causes.iter().map(|cause| CAUSE_FIXED + cause.message.len().min(MESSAGE_MAX));
        4 + causes.sum::<usize>() + 8 * self.coverage.runs().len()
    }

    /// The report's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = (self.causes.len() as u32).to_le_bytes().to_vec();
        for Cause { id, stage, kind, code, message } in &self.causes {
            let message = &message[..message.floor_char_boundary(MESSAGE_MAX)];
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&kind.number().to_le_bytes());
            bytes.extend_from_slice(&[*stage as u8, 0]);
            bytes.extend_from_slice(&code.to_le_bytes());
            bytes.extend_from_slice(&(message.len() as u16).to_le_bytes());
            bytes.extend_from_slice(message.as_bytes());
        }
        bytes.extend(self.coverage.emit());
        bytes
    }

    /// The failure that this report tells of: its first cause, and the coverage.
    pub fn into_failure(self) -> Result<Failure, FrameError> {
        let none = FrameError::BadField {
            kind: Kind::Response,
            field: "number of causes",
            value: 0,
            expected: "a failure has at least one",
        };
        let cause = self.causes.into_iter().next().ok_or(none)?;
        Ok(Failure { cause, coverage: self.coverage })
    }
}

impl From<Failure> for Report {
    fn from(Failure { cause, coverage }: Failure) -> Report {
        let whole = Report { causes: vec![cause], coverage };
        if whole.emitted_len() <= REPORT_MAX {
            return whole;
        }
        // Too many runs to be sent: less is known, and nothing untrue.
        let all = u32::try_from(whole.coverage.len()).unwrap_or(u32::MAX);
        Report { coverage: Coverage::all(Status::Unknown, all), ..whole }
    }
}

fn parse_cause(rest: &mut &[u8]) -> Result<Cause, FrameError> {
    let bad = |field, value, expected| FrameError::BadField { kind: Kind::Response, field, value, expected };
    let mut fields = Fields::new(Kind::Response, rest, CAUSE_FIXED)?;
    let (id, kind, stage) = (fields.u32(), CauseKind::from_number(fields.u16()), fields.u8());
    let stage = Stage::from_wire(stage).ok_or(bad("stage", stage.into(), "1 to 7"))?;
    zero(Kind::Response, "reserved byte of a cause", fields.u8().into())?;
    let code = fields.u64().cast_signed();
    let len = usize::from(fields.u16());
    if len > MESSAGE_MAX {
        return Err(bad("length of a cause's message", len as u64, "at most 1024"));
    }
    let Some((message, after)) = rest[CAUSE_FIXED..].split_at_checked(len) else {
        return Err(bad("length of a cause's message", len as u64, "within the report"));
    };
    *rest = after;
    // The signs put in for bad UTF-8 are longer than what they stand for, and the cause must still be fit to be sent on.
    let message = String::from_utf8_lossy(message).into_owned();
    Ok(Cause::of(id, stage, Reason { kind, code, message }))
}

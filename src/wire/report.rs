//! A report on a subtree: its coverage, and the causes of the ids that failed (docs/wire.md, "RESPONSE").

use gpc_trees::Id;

use super::failure::{DETAIL_MAX, MESSAGE_MAX};
use super::frame::{Fields, FrameError, Kind, REPORT_MAX};
use super::{Cause, CauseKind, Coverage, Failure, Reason, Stage, Status, Straggler};

/// Maximum number of causes in one report: enough to see what is wrong. Ids that failed beyond it still count as
/// failed.
pub const CAUSES_MAX: usize = 1024;

/// Bytes of a cause before its message and its detail.
const CAUSE_FIXED: usize = 28;

/// Coverage of a slice, in tree order, and the causes of its failed ids.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Causes, the first known one first; at most [`CAUSES_MAX`].
    pub causes: Vec<Cause>,
    /// Status of each id.
    pub coverage: Coverage,
}

impl Report {
    /// Adds a cause, unless the report already has [`CAUSES_MAX`].
    pub fn add(&mut self, cause: Cause) {
        if self.causes.len() < CAUSES_MAX {
            self.causes.push(cause);
        }
    }

    /// Appends the report on the ids that follow in the list.
    pub fn append(&mut self, other: Report) {
        self.coverage.append(&other.coverage);
        other.causes.into_iter().for_each(|cause| self.add(cause));
    }

    /// Cause of an id's failure, if known.
    pub fn cause_of(&self, id: Id) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.id == id)
    }

    /// Reads a report from its bytes.
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

    /// Number of bytes that [`emit`](Self::emit) writes.
    pub fn emitted_len(&self) -> usize {
        let causes = self.causes.iter().map(|cause| {
            CAUSE_FIXED + cause.message.len().min(MESSAGE_MAX) + cause.detail.len().min(DETAIL_MAX)
        });
        4 + causes.sum::<usize>() + 8 * self.coverage.runs().len()
    }

    /// Returns the report's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = (self.causes.len() as u32).to_le_bytes().to_vec();
        for Cause { id, stage, kind, code, message, detail, straggler } in &self.causes {
            let message = &message[..message.floor_char_boundary(MESSAGE_MAX)];
            let detail = &detail[..detail.len().min(DETAIL_MAX)];
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&kind.number().to_le_bytes());
            bytes.extend_from_slice(&[*stage as u8, detail.len() as u8]);
            bytes.extend_from_slice(&code.to_le_bytes());
            bytes.extend_from_slice(&(message.len() as u16).to_le_bytes());
            let (late, state, millis) = Straggler::numbers(straggler.as_deref());
            bytes.extend_from_slice(&state.to_le_bytes());
            bytes.extend_from_slice(&late.to_le_bytes());
            bytes.extend_from_slice(&millis.to_le_bytes());
            bytes.extend_from_slice(message.as_bytes());
            bytes.extend_from_slice(detail);
        }
        bytes.extend(self.coverage.emit());
        bytes
    }

    /// Returns the failure: the first cause, and the coverage.
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
        // Too many runs to send: report every id as unknown, which loses detail but is never wrong.
        let all = u32::try_from(whole.coverage.len()).unwrap_or(u32::MAX);
        Report { coverage: Coverage::all(Status::Unknown, all), ..whole }
    }
}

fn parse_cause(rest: &mut &[u8]) -> Result<Cause, FrameError> {
    let bad = |field, value, expected| FrameError::BadField { kind: Kind::Response, field, value, expected };
    let mut fields = Fields::new(Kind::Response, rest, CAUSE_FIXED)?;
    let (id, kind, stage) = (fields.u32(), CauseKind::from_number(fields.u16()), fields.u8());
    let stage = Stage::from_wire(stage).ok_or(bad("stage", stage.into(), "1 to 7"))?;
    let detail_len = usize::from(fields.u8());
    let code = fields.u64().cast_signed();
    let len = usize::from(fields.u16());
    if len > MESSAGE_MAX {
        return Err(bad("length of a cause's message", len as u64, "at most 1024"));
    }
    let state = fields.u16();
    let straggler = Straggler::from_numbers(Kind::Response, (fields.u32(), state, fields.u32()))?;
    let Some((message, after)) = rest[CAUSE_FIXED..].split_at_checked(len) else {
        return Err(bad("length of a cause's message", len as u64, "within the report"));
    };
    let Some((detail, after)) = after.split_at_checked(detail_len) else {
        return Err(bad("length of a cause's detail", detail_len as u64, "within the report"));
    };
    *rest = after;
    // Replacement characters are longer than the invalid bytes that they replace, so `Cause::of` cuts the message
    // again: the cause must stay short enough to be forwarded.
    let message = String::from_utf8_lossy(message).into_owned();
    let cause = Cause::of(id, stage, Reason { kind, code, message, detail: detail.to_vec() });
    Ok(Cause { straggler: straggler.map(Box::new), ..cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(id: Id, message: &str) -> Cause {
        let detail = message.bytes().take(3).collect();
        let since = std::time::Duration::from_millis(id.into());
        let straggler = Straggler::new(id, crate::wire::CallState::Func, since);
        let straggler = (id != 4).then(|| Box::new(straggler));
        let (stage, kind) = (Stage::Func, CauseKind::Failed);
        Cause { id, stage, kind, code: -5, message: message.into(), detail, straggler }
    }

    fn of(statuses: &[(Status, u32)], causes: Vec<Cause>) -> Report {
        let mut coverage = Coverage::new();
        statuses.iter().for_each(|(status, count)| coverage.push(*status, *count));
        Report { causes, coverage }
    }

    #[test]
    fn a_report_reads_as_it_is_written_and_is_as_long_as_it_says() {
        let long = "ä".repeat(MESSAGE_MAX);
        let report = of(
            &[(Status::Failed, 2), (Status::Done, 9)],
            vec![cause(3, "no"), cause(4, ""), cause(5, &long)],
        );
        let bytes = report.emit();
        assert_eq!(bytes.len(), report.emitted_len());
        let read = Report::parse(&bytes).unwrap();
        assert_eq!((&read.coverage, &read.causes[..2]), (&report.coverage, &report.causes[..2]));
        assert_eq!(read.causes[2].message, long[..MESSAGE_MAX], "a long message is cut");
        assert_eq!(Report::parse(&Report::default().emit()), Ok(Report::default()));
        // Cut anywhere but between two runs of the coverage, it is no report.
        let whole = bytes.len() - 16;
        assert!(
            (0..bytes.len())
                .all(|len| Report::parse(&bytes[..len]).is_err() != (len >= whole && len % 8 == whole % 8))
        );
    }

    #[test]
    fn causes_have_a_bound_the_first_ones_stay_and_all_ids_count() {
        let mut report = Report::default();
        for half in 0..3 {
            let ids = half * 600..(half + 1) * 600;
            report.append(of(&[(Status::Failed, 600)], ids.map(|id| cause(id, "no")).collect()));
        }
        assert_eq!((report.causes.len(), report.coverage.len()), (CAUSES_MAX, 1800));
        assert!(report.causes.iter().map(|cause| cause.id).eq(0..CAUSES_MAX as Id));
        report.add(cause(9999, "one too many"));
        assert!(report.cause_of(9999).is_none() && report.cause_of(1023).is_some());
        let mut bytes = report.emit();
        assert_eq!(Report::parse(&bytes), Ok(report));
        bytes[..4].copy_from_slice(&(CAUSES_MAX as u32 + 1).to_le_bytes());
        assert!(Report::parse(&bytes).is_err());
    }

    #[test]
    fn a_failure_is_a_report_with_one_cause() {
        let failure = Failure { cause: cause(3, "no"), coverage: Coverage::all(Status::Unknown, 4) };
        let report = Report::from(failure.clone());
        assert_eq!((report.causes.len(), report.coverage.len()), (1, 4));
        assert_eq!(report.into_failure(), Ok(failure));
        assert!(of(&[(Status::Done, 1)], Vec::new()).into_failure().is_err());
    }
}

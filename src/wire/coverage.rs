//! Coverage: the status of each id of a call, as runs over its list.
//!
//! Run-length encoding keeps a million ids with the same status in one entry. Runs are in the tree order of the list,
//! and their counts add up to its length.

use smallvec::SmallVec;

use super::frame::{FrameError, Kind, zero};

/// Status of one id after a call.
///
/// | status | did the id execute the call? | when is it safe to call again? |
/// |---|---|---|
/// | [`Done`](Self::Done) | yes, once | if executing twice is safe |
/// | [`Failed`](Self::Failed) | perhaps, or in part: see the stage in its cause | if the executed part allows it |
/// | [`Unreached`](Self::Unreached) | surely not | always |
/// | [`Unknown`](Self::Unknown) | perhaps, or it is still executing | if executing twice is safe |
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// The id executed the call, and its whole contribution is in the answer.
    Done = 0,
    /// The id reported a failure.
    Failed = 1,
    /// The id surely never executed the call.
    Unreached = 2,
    /// The request was sent and no answer arrived: the id may have executed the call.
    Unknown = 3,
}

impl Status {
    /// The status with this number on the wire.
    pub fn from_wire(byte: u8) -> Option<Status> {
        [Status::Done, Status::Failed, Status::Unreached, Status::Unknown]
            .into_iter()
            .find(|status| *status as u8 == byte)
    }
}

/// Number of ids with each status. The four numbers add up to the number of ids called.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CoverageCounts {
    /// Ids that are done.
    pub done: u32,
    /// Ids that failed.
    pub failed: u32,
    /// Ids that the request surely never reached.
    pub unreached: u32,
    /// Ids that may have executed the call.
    pub unknown: u32,
}

/// The status of every id of a list, in the list's order, run-length encoded.
///
/// ```
/// use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Status, Tree};
///
/// let functions = Functions::new();
/// let odd = functions.func("odd", |request, _| match request.me() {
///     3 => Err("not today".into()),
///     _ => Ok(()),
/// })?;
/// let nodes = LocalNodes::start(6, LinkKind::Unix, &functions)?;
/// let outcome = nodes.root().call(Call::new(odd).ids(0..6).tree(Tree::Flat).partial())?.wait()?;
/// let coverage = outcome.coverage();
/// assert_eq!(coverage.runs(), [(Status::Done, 3), (Status::Failed, 1), (Status::Done, 2)]);
/// assert_eq!((coverage.counts().done, coverage.counts().failed), (5, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Coverage {
    runs: SmallVec<[(Status, u32); 4]>,
}

impl Coverage {
    /// Returns a coverage of no ids.
    pub fn new() -> Coverage {
        Coverage::default()
    }

    /// Returns a coverage of `count` ids with one status.
    pub fn all(status: Status, count: u32) -> Coverage {
        let mut coverage = Coverage::new();
        coverage.push(status, count);
        coverage
    }

    /// Appends `count` ids with one status.
    pub fn push(&mut self, status: Status, count: u32) {
        match self.runs.last_mut() {
            _ if count == 0 => {}
            Some((last, run)) if *last == status => *run = run.saturating_add(count),
            _ => self.runs.push((status, count)),
        }
    }

    /// Appends the ids of another coverage.
    pub fn append(&mut self, other: &Coverage) {
        for &(status, count) in &other.runs {
            self.push(status, count);
        }
    }

    /// The runs, in order.
    pub fn runs(&self) -> &[(Status, u32)] {
        &self.runs
    }

    /// Number of ids covered.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|&(_, count)| u64::from(count)).sum()
    }

    /// Whether it covers no ids.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The status of each id, in order.
    pub fn statuses(&self) -> impl Iterator<Item = Status> + '_ {
        self.runs.iter().flat_map(|&(status, count)| std::iter::repeat_n(status, count as usize))
    }

    /// Returns the coverage without its first id.
    pub fn without_first(&self) -> Coverage {
        let mut rest = Coverage::new();
        for (place, &(status, count)) in self.runs.iter().enumerate() {
            rest.push(status, if place == 0 { count - 1 } else { count });
        }
        rest
    }

    /// Reads the runs of a report (docs/wire.md, "RESPONSE").
    pub fn parse(bytes: &[u8]) -> Result<Coverage, FrameError> {
        let bad =
            |field, value, expected| FrameError::BadField { kind: Kind::Response, field, value, expected };
        if !bytes.len().is_multiple_of(8) {
            return Err(bad("length of the coverage", bytes.len() as u64, "8 bytes a run"));
        }
        let (mut coverage, mut covered) = (Coverage::new(), 0u64);
        for run in bytes.chunks_exact(8) {
            let status = Status::from_wire(run[0]).ok_or(bad("status of an id", run[0].into(), "0 to 3"))?;
            let reserved = u32::from_le_bytes([0, run[1], run[2], run[3]]) >> 8;
            zero(Kind::Response, "reserved bytes of the coverage", reserved.into())?;
            let count = u32::from_le_bytes([run[4], run[5], run[6], run[7]]);
            // Counted apart from the runs, because equal neighbours are merged and their count saturates at 2^32 - 1.
            covered += u64::from(count);
            if covered > u64::from(u32::MAX) {
                return Err(bad("ids covered", covered, "at most 2^32 - 1"));
            }
            coverage.push(status, count);
        }
        Ok(coverage)
    }

    /// Returns the runs' bytes.
    pub fn emit(&self) -> Vec<u8> {
        let run = |&(status, count): &(Status, u32)| {
            let count = count.to_le_bytes();
            [status as u8, 0, 0, 0, count[0], count[1], count[2], count[3]]
        };
        self.runs.iter().flat_map(run).collect()
    }

    /// Returns the coverage with unknown in place of unreached.
    pub fn doubted(&self) -> Coverage {
        let mut doubted = Coverage::new();
        for &(status, count) in &self.runs {
            doubted.push(if status == Status::Unreached { Status::Unknown } else { status }, count);
        }
        doubted
    }

    /// Counts the ids with each status.
    pub fn counts(&self) -> CoverageCounts {
        let mut counts = CoverageCounts::default();
        for &(status, count) in &self.runs {
            let field = match status {
                Status::Done => &mut counts.done,
                Status::Failed => &mut counts.failed,
                Status::Unreached => &mut counts.unreached,
                Status::Unknown => &mut counts.unknown,
            };
            *field += count;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_merge_and_counts_add_up() {
        let mut coverage = Coverage::all(Status::Done, 2);
        coverage.push(Status::Done, 1);
        coverage.push(Status::Unknown, 0);
        coverage.append(&Coverage::all(Status::Failed, 1));
        assert_eq!(coverage.runs(), [(Status::Done, 3), (Status::Failed, 1)]);
        assert_eq!(coverage.len(), 4);
        assert_eq!(coverage.counts(), CoverageCounts { done: 3, failed: 1, ..Default::default() });
        assert_eq!(coverage.without_first().runs(), [(Status::Done, 2), (Status::Failed, 1)]);
        let failed_first = Coverage::all(Status::Failed, 1);
        assert!(failed_first.without_first().is_empty());
        assert_eq!(coverage.statuses().collect::<Vec<_>>().len(), 4);
    }

    #[test]
    fn doubt_makes_unreached_ids_unknown_and_no_others() {
        let mut coverage = Coverage::new();
        for (status, count) in
            [(Status::Done, 1), (Status::Failed, 2), (Status::Unreached, 3), (Status::Unknown, 4)]
        {
            coverage.push(status, count);
        }
        let expected = [(Status::Done, 1), (Status::Failed, 2), (Status::Unknown, 7)];
        assert_eq!(coverage.doubted().runs(), expected);
        let counts = CoverageCounts { done: 1, failed: 2, unreached: 3, unknown: 4 };
        assert_eq!((coverage.counts(), Coverage::parse(&coverage.emit())), (counts, Ok(coverage)));
    }

    #[test]
    fn runs_over_more_ids_than_there_are_are_refused() {
        let run = |status: u8, count: u32| [&[status, 0, 0, 0][..], &count.to_le_bytes()].concat();
        let all = run(0, u32::MAX);
        assert_eq!(Coverage::parse(&all).unwrap().len(), u64::from(u32::MAX));
        for status in [0, 1] {
            assert!(Coverage::parse(&[all.clone(), run(status, 1)].concat()).is_err());
        }
        assert!(Coverage::parse(&run(4, 1)).is_err() && Coverage::parse(&all[..7]).is_err());
        assert!(Coverage::parse(&[0, 0, 1, 0, 1, 0, 0, 0]).is_err(), "a reserved byte");
    }
}

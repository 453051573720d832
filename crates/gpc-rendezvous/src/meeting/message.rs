//! Headers of the calls between the tasks of a job.

use bytes::Bytes;

use super::MeetingOutcome;
use crate::machine::Answer;
use crate::native::{VERSION, encode_answer};

/// Bytes before the answer in the header of an announcement: the version, and the number of the meeting.
pub(super) const PREFIX: usize = 9;

/// Header of a question about a meeting.
pub(super) fn question(meeting: u64) -> Vec<u8> {
    [&[VERSION][..], &meeting.to_le_bytes()].concat()
}

/// Number of the meeting in a header.
pub(super) fn number(header: &[u8]) -> Option<u64> {
    let (version, rest) = header.split_first()?;
    let number = rest.first_chunk()?;
    (*version == VERSION).then(|| u64::from_le_bytes(*number))
}

/// Header and data of an announcement.
pub(super) fn announcement(meeting: u64, ended: &MeetingOutcome) -> (Vec<u8>, Bytes) {
    let (answer, data) = encode_answer(&ended.clone().map(Answer::Completed));
    ([question(meeting), answer].concat(), data)
}

//! Whether values under known labels can be. The source has the server know nothing of them; a wrong value is easier to find where it is said than at every client.

use super::Rank;
use super::seat::Counts;
use crate::wire::{Label, Per, divide};

/// What is done about values that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// They are broadcast.
    Off,
    /// They are broadcast, and the server's user is told.
    #[default]
    Warn,
    /// The client broke the protocol.
    Refuse,
}

/// What is wrong with the values of one client under a label, if that can be told; `counts` is what the client has said before.
pub(super) fn wrong(_rank: Rank, label: Label, values: &[u8], counts: &Counts) -> Option<String> {
    if label == Label::C_VERSION {
        return divide(values, 1).err().map(|error| error.to_string());
    }
    let (per, size) = label.shape()?;
    let count = match per {
        Per::Client => Some(1),
        Per::Host => counts.hosts,
        Per::Proc => counts.procs,
    };
    match count.map(|count| u64::from(count) * size as u64) {
        Some(len) if len != values.len() as u64 => Some(format!(
            "{} bytes, and {} values of {size} bytes are {len}",
            values.len(),
            count.unwrap_or(0)
        )),
        None if values.len() % size != 0 => {
            Some(format!("{} bytes are no values of {size} bytes each", values.len()))
        }
        _ => None,
    }
}

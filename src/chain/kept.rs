//! Answers of partial calls, kept until the root releases them: an adopter may ask for them again.
//!
//! Bounded by the calls that a node may have had in flight within a time limit: each was admitted once, and goes with its release or its time.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::{Id, IdList};

use super::Time;
use crate::wire::CallId;
use crate::wire::message::Answer;

/// How long past its time limit an answer is kept: an adopter whose limit has passed asks no more, and what it asked is on its way no longer than this.
pub(super) const KEEP: Duration = Duration::from_secs(2);

/// An answer that was given, and may be asked for again.
#[derive(Debug)]
pub(super) struct Kept {
    /// Whom it was given to.
    pub(super) parent: Id,
    pub(super) answer: Answer,
    /// The slice that it is for.
    pub(super) ids: IdList,
    /// Whom to tell of the release.
    pub(super) children: Vec<Id>,
    pub(super) until: Time,
}

/// The kept answers of a node.
pub(super) type KeptAnswers = BTreeMap<CallId, Kept>;

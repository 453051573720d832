//! Status numbers of PMIx (`pmix_common.h`), and those of faults.

use crate::fault::{Fault, FaultKind};

pub(super) const ERROR: i32 = -1;
pub(super) const PROC_ABORTED: i32 = -7;
pub(super) const TIMEOUT: i32 = -24;
pub(super) const UNREACH: i32 = -25;
pub(super) const BAD_PARAM: i32 = -27;
pub(super) const OUT_OF_RESOURCE: i32 = -29;
pub(super) const NOT_FOUND: i32 = -46;
pub(super) const NOT_SUPPORTED: i32 = -47;
pub(super) const DUPLICATE_KEY: i32 = -53;
pub(super) const LOST_CONNECTION: i32 = -61;
pub(super) const FAILED_TO_LAUNCH: i32 = -181;

/// The status of a fault.
pub(super) fn status_of(fault: &Fault) -> i32 {
    match fault.kind {
        FaultKind::TimedOut => TIMEOUT,
        FaultKind::MemberDied => PROC_ABORTED,
        FaultKind::NodeLost => UNREACH,
        FaultKind::Link | FaultKind::DomainEnded | FaultKind::Killed => LOST_CONNECTION,
        FaultKind::BadRequest | FaultKind::NotMember | FaultKind::Mismatch => BAD_PARAM,
        FaultKind::TooLarge => OUT_OF_RESOURCE,
        FaultKind::NotFound | FaultKind::NoGroup | FaultKind::NoMember | FaultKind::NoDatabase => NOT_FOUND,
        FaultKind::NameExists => DUPLICATE_KEY,
        FaultKind::NotStarted => FAILED_TO_LAUNCH,
        FaultKind::Unsupported => NOT_SUPPORTED,
        _ => ERROR,
    }
}

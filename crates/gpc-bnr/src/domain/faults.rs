//! Faults of requests that a domain refuses, or that deaths break.

use super::database::shown;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::GroupId;

/// Most deaths that a fault lists: the first ones, of which the very first is the cause. Subscribers are notified of
/// all deaths.
pub(super) const DEATHS_MAX: usize = 16;

pub(super) fn domain_ended() -> Fault {
    Fault::new(FaultKind::DomainEnded, "the domain has ended")
}

pub(super) fn no_group(group: GroupId) -> Fault {
    Fault::new(FaultKind::NoGroup, format!("there is no group {group}, or it has been freed"))
}

pub(super) fn group_open(group: GroupId) -> Fault {
    let message = format!("group {group} is still open: close it, and its processes are started");
    Fault::new(FaultKind::GroupOpen, message)
}

pub(super) fn no_database(name: &str) -> Fault {
    let message = format!("there is no database {}", shown(name.as_bytes()));
    Fault::new(FaultKind::NoDatabase, message)
}

pub(super) fn not_found(key: &[u8]) -> Fault {
    Fault::new(FaultKind::NotFound, format!("there is no key {}", shown(key)))
}

/// The fault of a collective request with dead members. The first death is the cause.
pub(super) fn fault_of(deaths: Vec<Death>) -> Fault {
    let mut fault = Fault::died(deaths);
    fault.deaths.truncate(DEATHS_MAX);
    if let Some(Death { exit: Exit::Node(node), .. }) = fault.deaths.first() {
        fault.kind = FaultKind::NodeLost;
        fault.node = Some(*node);
    }
    fault
}

//! Checks of spawns and of the pairs put before a group starts.

use super::database::{check_key, check_value};
use super::soft::choose;
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::request::Pair;
use crate::spec::Spec;

/// Checks specs, and chooses the number of processes where `soft` allows several.
///
/// # Errors
/// A spec is invalid, or a bound is exceeded.
pub(super) fn check_spawn(before: &[Spec], specs: &mut [Spec], limits: &Limits) -> Result<(), Fault> {
    for spec in &*specs {
        if spec.count == 0 || spec.program.is_empty() {
            let message = "each part of a spawn has a program, and one process at least";
            return Err(Fault::new(FaultKind::BadRequest, message));
        }
    }
    let there: u64 = before.iter().map(|spec| u64::from(spec.count)).sum();
    choose(specs, u64::from(limits.group).saturating_sub(there))?;
    let all = || before.iter().chain(&*specs);
    let count: u64 = all().map(|spec| u64::from(spec.count)).sum();
    if count > u64::from(limits.group) {
        let message = format!("the group would have {count} processes, the most are {}", limits.group);
        return Err(Fault::new(FaultKind::TooLarge, message));
    }
    let bytes: usize = all().map(bytes_of).sum();
    if bytes > limits.spawn {
        let message = format!(
            "the programs, arguments and variables of the group have {bytes} bytes, the most are {}",
            limits.spawn
        );
        return Err(Fault::new(FaultKind::TooLarge, message));
    }
    Ok(())
}

fn bytes_of(spec: &Spec) -> usize {
    let args: usize = spec.args.iter().map(|arg| arg.len() + 1).sum();
    let env: usize = spec.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    let info: usize = spec.info.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    spec.program.len() + args + env + info
}

/// Checks pairs that are put before a group starts.
///
/// # Errors
/// A pair is too long for a database, or there are too many.
pub(super) fn check_preputs(before: &[Pair], preputs: &[Pair], limits: &Limits) -> Result<(), Fault> {
    for pair in preputs {
        check_key(&pair.key, limits)?;
        check_value(&pair.key, &pair.value, limits)?;
    }
    let bytes: usize = before.iter().chain(preputs).map(|pair| pair.key.len() + pair.value.len()).sum();
    if bytes > limits.database {
        let message = format!(
            "what is put beforehand has {bytes} bytes, the most of a database are {}",
            limits.database
        );
        return Err(Fault::new(FaultKind::TooLarge, message));
    }
    Ok(())
}

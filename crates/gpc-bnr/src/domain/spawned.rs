//! Checks of spawns and of the pairs put before a group starts.

use std::collections::BTreeSet;

use super::database::{check_key, check_value};
use super::host_names::check_count;
use super::soft::choose;
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::request::Pair;
use crate::spec::{PRIVATE_FILES_MAX, Spec};

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
        if spec.is_for_torch() && spec.hint("start") == Some(b"partial") {
            let message = "`env-for` needs all processes: leave `start` out, or `env-for`";
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
    let files: BTreeSet<&[u8]> = all().flat_map(Spec::private_files).map(|(_, content)| content).collect();
    if files.len() > PRIVATE_FILES_MAX {
        let message = format!(
            "the group has {} different private files, the most are {PRIVATE_FILES_MAX}",
            files.len()
        );
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
    check_count(all())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with(hints: &[(&str, &str)]) -> Spec {
        let info = hints.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        Spec { count: 1, program: b"a".to_vec(), info, ..Spec::default() }
    }

    fn check(before: &[Spec], spec: Spec) -> Result<(), String> {
        let checked = check_spawn(before, &mut [spec], &Limits::default());
        checked.map_err(|fault| fault.message.to_string())
    }

    /// The start failed at the node, without the number.
    #[test]
    fn private_files_beyond_the_bound_are_refused() {
        let one = |number: usize| with(&[("private-file", &format!("F={number}"))]);
        let before: Vec<Spec> = (0..PRIVATE_FILES_MAX).map(one).collect();
        // Equal contents share a file.
        assert_eq!(check(&before, one(3)), Ok(()));
        let refused = check(&before, one(PRIVATE_FILES_MAX)).unwrap_err();
        assert!(refused.contains("17 different private files, the most are 16"), "{refused}");
    }

    /// The port is that of the node of rank 0, which may be absent.
    #[test]
    fn programs_of_torch_start_as_a_whole() {
        let (torch, partial) = (("env-for", "torch"), ("start", "partial"));
        assert!(check(&[], with(&[torch, partial])).unwrap_err().contains("`env-for` needs all"));
        assert_eq!((check(&[], with(&[torch])), check(&[], with(&[partial]))), (Ok(()), Ok(())));
    }
}

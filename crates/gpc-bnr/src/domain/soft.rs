//! The info key `soft` of a spawn: the acceptable numbers of processes. The largest one that fits is started.
//!
//! Source: MPI, "Reserved Keys" of the process model: a comma-separated list of Fortran 90 triplets, `a`, `a:b` or
//! `a:b:c`.

use super::database::shown;
use crate::fault::{Fault, FaultKind};
use crate::spec::Spec;

/// Most triplets in a list.
const TRIPLETS_MAX: usize = 1024;

/// Sets the count of each spec with `soft` to the largest acceptable number, so that all specs together have at most
/// `room` processes. Numbers above the spec's own count are ignored, as in MPI. Numbers below 1 are ignored as well,
/// since each part of a group has a process.
///
/// # Errors
/// A list is invalid, or has no number that fits.
pub(super) fn choose(specs: &mut [Spec], room: u64) -> Result<(), Fault> {
    let is_soft = |spec: &Spec| soft_of(spec).is_some();
    let fixed: u64 = specs.iter().filter(|spec| !is_soft(spec)).map(|spec| u64::from(spec.count)).sum();
    let mut room = room.saturating_sub(fixed);
    for spec in specs.iter_mut() {
        let Some(list) = soft_of(spec) else { continue };
        let most = u64::from(spec.count).min(room);
        let count = largest(list, most)?.ok_or_else(|| {
            let message = format!(
                "the info soft allows no number of processes from 1 to {most}: {}; raise the count, or add a smaller number",
                shown(list)
            );
            Fault::new(FaultKind::BadRequest, message)
        })?;
        // The number is at most the old count.
        spec.count = u32::try_from(count).unwrap_or(spec.count);
        room -= count;
    }
    Ok(())
}

fn soft_of(spec: &Spec) -> Option<&[u8]> {
    spec.info.iter().rfind(|(key, _)| key == "soft").map(|(_, value)| value.as_slice())
}

/// The largest number from 1 to `most` in a list.
///
/// # Errors
/// The list is invalid.
fn largest(list: &[u8], most: u64) -> Result<Option<u64>, Fault> {
    let wrong = || {
        let message = format!(
            "the info soft is a list of triplets such as 2,4:8:2, of at most {TRIPLETS_MAX}; {} is not",
            shown(list)
        );
        Fault::new(FaultKind::BadRequest, message)
    };
    let text = str::from_utf8(list).map_err(|_| wrong())?;
    if text.split(',').count() > TRIPLETS_MAX {
        return Err(wrong());
    }
    let mut best = None;
    for triplet in text.split(',') {
        let numbers: Result<Vec<i64>, _> = triplet.split(':').map(|number| number.trim().parse()).collect();
        let (first, last, step) = match numbers.map_err(|_| wrong())?[..] {
            [only] => (only, only, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(wrong()),
        };
        best = best.max(largest_of(first.into(), last.into(), step.into(), most.into()));
    }
    Ok(best)
}

/// The largest number from 1 to `most` in a triplet: `first`, then every `step` up to `last`.
fn largest_of(first: i128, last: i128, step: i128, most: i128) -> Option<u64> {
    let steps = (last - first) / step;
    // The step leads away from `last`: the triplet is empty.
    if (last - first) * step.signum() < 0 {
        return None;
    }
    // Upwards, the last number that is at most `most`; downwards, the first one.
    let at = match step > 0 {
        true => steps.min((most - first).div_euclid(step)),
        false => ((first - most).max(0) + -step - 1) / -step,
    };
    let number = first + at * step;
    let there = (0..=steps).contains(&at) && (1..=most).contains(&number);
    there.then(|| u64::try_from(number).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(count: u32, soft: Option<&str>) -> Spec {
        let info = soft.map(|soft| ("soft".to_owned(), soft.as_bytes().to_vec())).into_iter().collect();
        Spec { count, info, ..Spec::default() }
    }

    fn chosen(specs: &[(u32, Option<&str>)], room: u64) -> Result<Vec<u32>, Fault> {
        let mut specs: Vec<Spec> = specs.iter().map(|(count, soft)| spec(*count, *soft)).collect();
        choose(&mut specs, room)?;
        Ok(specs.iter().map(|spec| spec.count).collect())
    }

    /// `soft` was ignored: a program that asked for 2 or 4 processes, at most 5, got 5.
    #[test]
    fn the_largest_number_that_is_allowed_and_has_room_is_chosen() {
        for (soft, room, count) in [
            ("2,4", 100, 4),
            ("1:5:2", 100, 5),
            ("0:100", 100, 5),
            ("0:100", 3, 3),
            ("8:1:-3", 100, 5),
            ("-4:3:4,1", 100, 1),
            ("2, 9", 100, 2),
        ] {
            assert_eq!(chosen(&[(5, Some(soft))], room).unwrap(), [count], "{soft}");
        }
        assert_eq!(chosen(&[(5, Some("1:9")), (3, None), (4, Some("1:9"))], 10).unwrap(), [5, 3, 2]);
        for (soft, why) in [
            ("6:9", "from 1 to 5"),
            ("0", "from 1 to 5"),
            ("9:1", "from 1 to 5"),
            ("", "triplets"),
            ("1:2:0", "triplets"),
            ("1:2:3:4", "triplets"),
            ("many", "triplets"),
            ("99999999999999999999", "triplets"),
        ] {
            let fault = chosen(&[(5, Some(soft))], 100).unwrap_err();
            assert!(fault.kind == FaultKind::BadRequest && fault.message.contains(why), "{soft}: {fault}");
        }
        let many = vec!["1"; TRIPLETS_MAX + 1].join(",");
        assert!(chosen(&[(5, Some(&many))], 100).is_err());
    }

    proptest! {
        #[test]
        fn it_is_what_counting_finds(first in -9_i64..20, last in -9_i64..20, step in -5_i64..6, most in 0_u64..15) {
            prop_assume!(step != 0);
            let mut counted = None;
            let mut number = first;
            while if step > 0 { number <= last } else { number >= last } {
                if let Ok(positive @ 1..) = u64::try_from(number) && positive <= most {
                    counted = counted.max(Some(positive));
                }
                number += step;
            }
            prop_assert_eq!(largest(format!("{first}:{last}:{step}").as_bytes(), most).unwrap(), counted);
        }
    }
}

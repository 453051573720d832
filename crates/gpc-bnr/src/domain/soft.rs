//! The info key `soft` of a spawn: the acceptable numbers of processes. The largest one that fits is started. If some
//! of these processes cannot be started, the largest acceptable number of the others is.
//!
//! Source: MPI, "Reserved Keys" of the process model: a comma-separated list of Fortran 90 triplets, `a`, `a:b` or
//! `a:b:c`.

use std::collections::BTreeMap;

use super::Domain;
use super::database::shown;
use super::group::{Group, Plan, Stage, Start};
use super::life::Life;
use super::pending::Requester;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Rank};
use crate::request::Answer;
use crate::spec::{Block, Layout, Spec};

/// Most triplets in a list.
const TRIPLETS_MAX: usize = 1024;

/// How often fewer processes of a group are tried. Each try finds all processes that cannot be started at that time, so
/// a second one is rare.
const TRIES_MAX: usize = 8;

impl Domain {
    /// The start of a group has failed for some processes: its layout without them, if that is acceptable. Processes
    /// that have run have a rank in the group that others may know, so only a group without a known number is started
    /// again as another one.
    pub(super) fn without_failed(&self, group: GroupId) -> Option<Layout> {
        let known = self.group(group).ok()?;
        let layout = known.layout.as_ref()?;
        let is_killed = known.kill.doomed || !known.kill.killers.is_empty();
        // The nodes' PMIx servers know the group, or its processes the port of rank 0.
        let is_fixed = match known.start.checked {
            true => !known.start.is_private || layout.specs.iter().any(Spec::is_for_torch),
            false => layout.pmix.is_some(),
        };
        let refused = self.life != Life::Runs
            || is_killed
            || is_fixed
            || known.start.is_mixed
            || known.start.tries >= TRIES_MAX;
        if refused { None } else { reduced(layout, &known.start.errors) }
    }

    /// Checks a group again, with fewer processes.
    pub(super) fn check_again(&mut self, group: GroupId, layout: Layout) {
        let Ok(known) = self.group_mut(group) else { return };
        let before = std::mem::take(&mut known.start);
        known.start = Start {
            starter: before.starter,
            tries: before.tries + 1,
            is_private: before.is_private,
            ..Start::default()
        };
        self.start_placed(group, layout);
    }

    /// Starts fewer processes, as another group. What was started of the first one has been killed; it stays an ended
    /// group, whose processes may have spawned others.
    pub(super) fn start_as_another(&mut self, first: GroupId, mut layout: Layout, starter: Requester) {
        let Ok(known) = self.group_mut(first) else { return };
        let (parent, on_death, tries) = (known.parent, known.plan.on_death, known.start.tries);
        let plan = std::mem::take(&mut known.plan);
        let mut group = Group::new(Stage::Open(None), parent, on_death, self.now);
        group.plan = Plan { on_death, ..plan };
        group.start = Start { tries: tries + 1, is_private: true, ..Start::default() };
        let number = match self.new_group(group) {
            Ok(number) => number,
            Err(fault) => {
                self.report_causes(first);
                return self.settle(starter, Err(fault));
            }
        };
        (layout.group, layout.database, layout.pmix) = (number, self.database_of(number), None);
        if let Ok(known) = self.group_mut(number) {
            known.start.starter = Some(starter);
        }
        self.start_placed(number, layout);
    }

    /// A group without processes has ended when it starts.
    pub(super) fn started_empty(&mut self, group: GroupId) {
        let Ok(known) = self.group_mut(group) else { return };
        known.stage = Stage::Running;
        known.start.checked = true;
        let starter = known.start.starter.take().unwrap_or(Requester::Nobody);
        let errors = known.errors_of_all();
        self.size_known(group);
        self.settle(starter, Ok(Answer::Spawned { group, errors, same_domain: true }));
        self.group_died(group);
        self.retry_waiting();
    }
}

/// A layout without the processes that have an error: of each spec that loses some, the largest acceptable number of
/// the others. `None` if a spec has no such number.
fn reduced(layout: &Layout, errors: &BTreeMap<Rank, i32>) -> Option<Layout> {
    let able = |block: &Block| {
        let ranks = block.first..block.first + block.count;
        block.count - ranks.filter(|rank| errors.contains_key(rank)).count() as u32
    };
    let mut fewer = Layout { blocks: Vec::new(), ..layout.clone() };
    for (number, spec) in (0..).zip(&mut fewer.specs) {
        let left: u32 = layout.blocks.iter().filter(|block| block.spec == number).map(able).sum();
        if left == spec.count {
            continue;
        }
        // The list of places has one for each process.
        let list = soft_of(spec).filter(|_| spec.places().is_none())?;
        spec.count = u32::try_from(largest(list, u64::from(left)).ok()??).ok()?;
    }
    let mut wanted: Vec<u32> = fewer.specs.iter().map(|spec| spec.count).collect();
    let mut first = 0;
    for block in &layout.blocks {
        let wanted = wanted.get_mut(block.spec as usize)?;
        let count = able(block).min(*wanted);
        *wanted -= count;
        if count > 0 {
            fewer.blocks.push(Block { first, count, ..*block });
            first += count;
        }
    }
    Some(fewer)
}

/// Sets the count of each spec with `soft` to the largest acceptable number, so that all specs together have at most
/// `room` processes. Numbers above the spec's own count, and negative ones, are ignored, as in MPI.
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
                "the info soft allows no number of processes from 0 to {most}: {}; raise the count, or add a smaller number",
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

/// The largest number from 0 to `most` in a list.
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

/// The largest number from 0 to `most` in a triplet: `first`, then every `step` up to `last`.
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
    let there = (0..=steps).contains(&at) && (0..=most).contains(&number);
    there.then(|| u64::try_from(number).ok())?
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::{Input, Output};
    use super::*;
    use crate::limits::Limits;
    use crate::request::{Client, Request};
    use crate::start_error::StartError;

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
            ("0", 100, 0),
            ("0,3", 2, 0),
        ] {
            assert_eq!(chosen(&[(5, Some(soft))], room).unwrap(), [count], "{soft}");
        }
        assert_eq!(chosen(&[(5, Some("1:9")), (3, None), (4, Some("1:9"))], 10).unwrap(), [5, 3, 2]);
        for (soft, why) in [
            ("6:9", "from 0 to 5"),
            ("-1", "from 0 to 5"),
            ("9:1", "from 0 to 5"),
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

    /// A layout of specs with these counts and lists, in blocks of at most two processes on alternating nodes.
    fn layout(specs: &[(u32, Option<&str>)]) -> Layout {
        let mut blocks = Vec::new();
        let mut first = 0;
        for ((count, _), number) in specs.iter().zip(0..) {
            let end = first + count;
            while first < end {
                let count = (end - first).min(2);
                blocks.push(Block { node: first / 2 % 2, spec: number, first, count });
                first += count;
            }
        }
        Layout {
            group: GroupId(1),
            parent: None,
            database: String::new(),
            specs: specs.iter().map(|(count, soft)| spec(*count, *soft)).collect(),
            blocks,
            on_death: crate::OnDeath::Kill,
            preputs: Vec::new(),
            input: crate::Readers::None,
            pmix: None,
        }
    }

    /// Spec, first rank and number of the processes of a block.
    type Ranks = (u32, Rank, u32);

    fn left(specs: &[(u32, Option<&str>)], failed: &[Rank]) -> Option<(Vec<u32>, Vec<Ranks>)> {
        let fewer = reduced(&layout(specs), &failed.iter().map(|rank| (*rank, 11)).collect())?;
        let counts = fewer.specs.iter().map(|spec| spec.count).collect();
        Some((counts, fewer.blocks.iter().map(|block| (block.spec, block.first, block.count)).collect()))
    }

    #[test]
    fn the_largest_acceptable_number_of_those_that_can_be_started_is_left() {
        let specs = [(5, Some("2:4:2")), (2, None), (3, Some("0:3"))];
        assert_eq!(left(&specs, &[]), Some((vec![5, 2, 3], layout_of_all(&specs))));
        let of_four = vec![(0, 0, 1), (0, 1, 2), (0, 3, 1), (1, 4, 2), (2, 6, 2), (2, 8, 1)];
        assert_eq!(left(&specs, &[1]), Some((vec![4, 2, 3], of_four)));
        let of_two = vec![(0, 0, 1), (0, 1, 1), (1, 2, 2), (2, 4, 1)];
        assert_eq!(left(&specs, &[0, 2, 8, 9]), Some((vec![2, 2, 1], of_two)));
        assert_eq!(left(&specs, &[7, 8, 9]).map(|(counts, _)| counts), Some(vec![5, 2, 0]));
        // A spec without a list, a list without such a number, and processes with places of their own.
        assert_eq!(left(&specs, &[5]), None);
        assert_eq!(left(&specs, &[0, 1, 2, 3]), None);
        let mut placed = layout(&[(2, Some("0:2"))]);
        placed.specs[0].info.push(("places".into(), b"0 1".to_vec()));
        assert_eq!(reduced(&placed, &[(0, 11)].into()), None);
    }

    /// The second start got no group number, and the causes of the first start were not reported.
    #[test]
    fn the_causes_of_the_first_start_are_reported_if_there_is_no_second() {
        let settings = super::super::Settings {
            me: 7,
            nodes: vec![7],
            runs: true,
            name: "0123456789abcdef".into(),
            limits: Limits::default(),
            slots: BTreeMap::new(),
            addresses: BTreeMap::new(),
            host: "host".into(),
            dead_after: None,
        };
        let mut domain = Domain::new(settings, Duration::ZERO);
        let mut handle = |input| {
            domain.handle(input, Duration::ZERO);
            if let Some(head) = &mut domain.head {
                head.last_group = u32::MAX - 1 + u32::from(!head.groups.is_empty());
            }
            std::iter::from_fn(|| domain.next_output()).collect::<Vec<_>>()
        };
        handle(Input::Time);
        let request = Request::SpawnMultiple {
            specs: vec![Spec { program: b"a".to_vec(), ..spec(2, Some("1:2")) }],
            preputs: Vec::new(),
            on_death: crate::OnDeath::Kill,
            input: crate::Readers::None,
        };
        handle(Input::Request { client: Client::Tool(0), serial: 1, request });
        let group = GroupId(u32::MAX);
        let (pmix, mpi) = (crate::PmixNeed::No, None);
        handle(Input::Checked { group, failed: Vec::new(), port: None, pmix, mpi });
        let error = StartError::new(11, StartError::REFUSED, "fork");
        let mut outputs = handle(Input::Started { group, ranks: vec![(0, Ok(9)), (1, Err(error))] });
        assert!(!outputs.iter().any(|output| matches!(output, Output::NotStarted(_))), "{outputs:?}");
        outputs.extend(handle(Input::Emptied(group)));
        assert!(outputs.iter().any(|output| matches!(output, Output::NotStarted(_))), "{outputs:?}");
        let refused = |output: &Output| matches!(output, Output::Answer { answer: Err(fault), .. } if fault.kind == FaultKind::TooLarge);
        assert!(outputs.iter().any(refused), "{outputs:?}");
    }

    fn layout_of_all(specs: &[(u32, Option<&str>)]) -> Vec<Ranks> {
        layout(specs).blocks.iter().map(|block| (block.spec, block.first, block.count)).collect()
    }

    proptest! {
        #[test]
        fn what_is_left_was_there_and_has_no_error(
            counts in prop::collection::vec(0_u32..7, 1..4),
            failed in prop::collection::btree_set(0_u32..20, 0..8),
        ) {
            let specs: Vec<_> = counts.iter().map(|count| (*count, Some("0:9"))).collect();
            let all = layout(&specs);
            let errors: BTreeMap<Rank, i32> = failed.iter().map(|rank| (*rank, 11)).collect();
            let fewer = reduced(&all, &errors).unwrap();
            prop_assert_eq!(u64::from(fewer.size()), fewer.specs.iter().map(|spec| u64::from(spec.count)).sum::<u64>());
            prop_assert!(fewer.blocks.iter().all(|block| block.count > 0));
            let able = (0..all.size()).filter(|rank| !failed.contains(rank)).count();
            prop_assert_eq!(fewer.size() as usize, able);
            let mut next = 0;
            for block in &fewer.blocks {
                prop_assert_eq!(block.first, next);
                next += block.count;
            }
            for id in [0, 1] {
                let there = all.ranks_on(id).filter(|rank| !failed.contains(rank)).count();
                prop_assert_eq!(fewer.ranks_on(id).count(), there);
            }
        }

        #[test]
        fn it_is_what_counting_finds(first in -9_i64..20, last in -9_i64..20, step in -5_i64..6, most in 0_u64..15) {
            prop_assume!(step != 0);
            let mut counted = None;
            let mut number = first;
            while if step > 0 { number <= last } else { number >= last } {
                if let Ok(number) = u64::try_from(number) && number <= most {
                    counted = counted.max(Some(number));
                }
                number += step;
            }
            prop_assert_eq!(largest(format!("{first}:{last}:{step}").as_bytes(), most).unwrap(), counted);
        }
    }
}

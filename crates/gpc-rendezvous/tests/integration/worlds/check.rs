//! Properties that must hold in every world, judged by the answers that tasks received.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use chained_gpc::wire::level::{Leaves, Limits};
use gpc_rendezvous::{Answer, Completion, FaultKind, Life, RankChoice, ResourceId, Scope};

use super::plan::{Kind, Planned, Weather};
use super::task::{Phase, Task};
use super::world::World;

/// Counts of events, for a test to check that enough have happened.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) completions: usize,
    pub(crate) tops: usize,
    pub(crate) faults: usize,
    pub(crate) lost_controllers: usize,
    pub(crate) withdrawn: usize,
    pub(crate) crashes: usize,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Seen) {
        self.completions += other.completions;
        self.tops += other.tops;
        self.faults += other.faults;
        self.lost_controllers += other.lost_controllers;
        self.withdrawn += other.withdrawn;
        self.crashes += other.crashes;
    }
}

/// The one completion of each resource that is known to be complete.
type Complete = BTreeMap<ResourceId, Bytes>;

pub(crate) fn check(world: &World) -> Seen {
    let complete = completions(world);
    for resource in &world.plan.resources {
        if let Some(data) = complete.get(&resource.id) {
            match resource.level {
                1 => registrants(world, resource, data),
                _ => units(world, resource, data, &complete),
            }
        }
        failures(world, resource, &complete);
    }
    for task in &world.tasks {
        told(world, task);
    }
    for site in world.sites.iter().filter_map(|site| site.service.as_ref()) {
        assert!(site.is_empty(), "something is left: {site:?}");
    }
    let outcomes: Vec<_> = world.tasks.iter().filter_map(|task| task.outcome.as_ref()).collect();
    let lost = |kind| outcomes.iter().filter(|told| told.as_ref().is_err_and(|f| f.kind == kind)).count();
    let completed = |told: &Task| told.comer.of == Scope::Top && completion(told).is_some();
    let fewer = |task: &&Task| task.acknowledged.iter().any(|one| one.rank != task.acknowledged[0].rank);
    Seen {
        completions: outcomes.iter().filter(|told| matches!(told, Ok(Answer::Completed(_)))).count(),
        tops: world.tasks.iter().filter(|task| completed(task)).count(),
        faults: outcomes.iter().filter(|told| told.is_err()).count(),
        lost_controllers: lost(FaultKind::ControllerLost),
        withdrawn: world.tasks.iter().filter(|task| task.quit || fewer(task)).count(),
        crashes: world.crashes,
    }
}

fn completion(task: &Task) -> Option<&Completion> {
    match &task.outcome {
        Some(Ok(Answer::Completed(completion))) => Some(completion),
        _ => None,
    }
}

/// The resource of a task's completion: its own, or the top.
fn of(world: &World, task: &Task) -> usize {
    let mut of = task.comer.resource;
    while let (Scope::Top, Some((above, _))) = (task.comer.of, world.plan.resources[of].above) {
        of = above;
    }
    of
}

/// All answers about a complete resource have the same completion.
fn completions(world: &World) -> Complete {
    let mut complete = Complete::new();
    let mut add = |id: ResourceId, data: &Bytes| {
        let first = complete.entry(id).or_insert_with(|| data.clone());
        assert_eq!(first, data, "two completions of {id:?}");
    };
    world.units.iter().for_each(|(id, data)| add(*id, data));
    for task in &world.tasks {
        if let Some(told) = completion(task) {
            let number = of(world, task);
            let resource = &world.plan.resources[number];
            assert_eq!(told.level, resource.level);
            let joint = told.joint.as_ref().map(|joint| joint.job.0[0]);
            assert_eq!(joint, resource.joint.then_some(number as u8));
            add(resource.id, &told.data);
        }
    }
    complete
}

/// A completion has exactly the registrants, each once and at its rank.
fn registrants(world: &World, resource: &Planned, data: &Bytes) {
    let leaves: Vec<&[u8]> = Leaves::new(1, data, Limits::default()).collect::<Result<_, _>>().unwrap();
    assert_eq!(leaves.len(), resource.capacity as usize);
    let mut there = BTreeMap::new();
    for (rank, leaf) in (0_u32..).zip(leaves) {
        let task = world.tasks.iter().position(|task| task.data == leaf).expect("somebody's data");
        assert_eq!(there.insert(task, rank), None, "task {task} is there twice");
    }
    for (number, task) in world.tasks.iter().enumerate().filter(|(_, task)| task.resource == resource.id) {
        let rank = there.remove(&number);
        let registers = matches!(task.comer.kind, Kind::Honest | Kind::Quitter);
        assert!(rank.is_none() || registers && !task.quit, "task {number} is there");
        if let (Some(rank), RankChoice::Rank(wanted)) = (rank, task.comer.wanted) {
            assert_eq!(u64::from(rank), wanted, "task {number}");
        }
        if task.comer.life == Life::Unseen && task.comer.kind == Kind::Honest {
            // This registrant cannot have been withdrawn.
            for acknowledged in &task.acknowledged {
                assert_eq!(rank, Some(acknowledged.rank), "task {number} was acknowledged");
            }
        }
        if task.comer.of == Scope::Own && task.comer.kind == Kind::Honest && completion(task).is_some() {
            let known = task.acknowledged.iter().any(|acknowledged| Some(acknowledged.rank) == rank);
            assert!(known || rank.is_none() && task.comer.life != Life::Unseen, "task {number} is not there");
        }
    }
    assert!(there.is_empty(), "those of another resource are there: {there:?}");
}

/// The end of a value of this level.
fn end(level: u16, data: &[u8]) -> usize {
    let space = data.iter().position(|byte| *byte == b' ').unwrap();
    let count: usize = std::str::from_utf8(&data[..space]).unwrap().parse().unwrap();
    let begin = space + 1;
    match level {
        0 => begin + count,
        _ => (0..count).fold(begin, |at, _| at + end(level - 1, &data[at..])),
    }
}

/// The data of a resource are those of its units, by rank.
fn units(world: &World, resource: &Planned, data: &Bytes, complete: &Complete) {
    let (mut at, mut members) = (data.iter().position(|byte| *byte == b' ').unwrap() + 1, Vec::new());
    while at < data.len() {
        let end = at + end(resource.level - 1, &data[at..]);
        members.push(data.slice(at..end));
        at = end;
    }
    assert_eq!(members.len(), resource.capacity as usize);
    let mut left: BTreeSet<usize> = (0..members.len()).collect();
    for below in &world.plan.resources {
        let Some((above, rank)) = below.above else { continue };
        if world.plan.resources[above].id != resource.id {
            continue;
        }
        let unit = complete.get(&below.id).expect("what is above is complete");
        let found = match rank {
            RankChoice::Rank(rank) => Some(rank as usize).filter(|rank| members[*rank] == *unit),
            RankChoice::Assign => left.iter().copied().find(|rank| members[*rank] == *unit),
        };
        assert!(found.is_some_and(|found| left.remove(&found)), "{below:?} is not there");
    }
}

/// A resource that fails does so for all waits, with the name of the lost task.
fn failures(world: &World, resource: &Planned, complete: &Complete) {
    let here = |task: &&Task| task.resource == resource.id && task.comer.of == Scope::Own && task.alive;
    let faults = world.tasks.iter().filter(here).filter_map(|task| task.outcome.as_ref()?.as_ref().err());
    let lost: Vec<_> = faults.filter(|fault| fault.kind == FaultKind::ControllerLost).collect();
    let Some(first) = lost.first() else { return };
    assert!(!complete.contains_key(&resource.id), "{resource:?} is complete, and is not");
    assert!(first.task.as_ref().is_some_and(|task| task.starts_with("site-")), "{first:?}");
    assert!(lost.iter().all(|other| other == first), "{lost:?}");
    if world.sites[resource.site].service.is_none() {
        return;
    }
    for task in world.tasks.iter().filter(here).filter(|task| task.phase == Phase::Done) {
        let kind = task.outcome.as_ref().map(|told| told.as_ref().map_err(|fault| fault.kind));
        let own = [FaultKind::RankTaken, FaultKind::RankOutOfRange, FaultKind::CapacityReached];
        let other = kind == Some(Ok(&Answer::Done)) || own.iter().any(|own| kind == Some(Err(*own)));
        assert!(other || kind == Some(Err(FaultKind::ControllerLost)), "{kind:?} where {first:?}");
    }
}

/// Every task gets an outcome, and no impossible answer.
fn told(world: &World, task: &Task) {
    let resource = &world.plan.resources[task.comer.resource];
    for acknowledged in &task.acknowledged {
        assert_eq!(acknowledged.capacity, resource.capacity);
        assert!((1..=resource.capacity).contains(&acknowledged.tally), "{acknowledged:?}");
        assert!(acknowledged.rank < resource.capacity, "{acknowledged:?}");
    }
    if !task.alive || world.sites[resource.site].service.is_none() {
        return;
    }
    let outcome = task.outcome.as_ref().unwrap_or_else(|| panic!("it hangs: {task:?}"));
    if task.comer.kind == Kind::Liar {
        let kind = outcome.as_ref().map_err(|fault| fault.kind);
        let ended = [FaultKind::ControllerLost, FaultKind::Expired, FaultKind::UnknownResource];
        let expected = kind == Err(FaultKind::RankOutOfRange) || ended.iter().any(|end| kind == Err(*end));
        assert!(expected, "{outcome:?}");
    }
    if world.weather == Weather::Calm {
        assert!(completion(task).is_some(), "in a calm world: {task:?}");
    }
}

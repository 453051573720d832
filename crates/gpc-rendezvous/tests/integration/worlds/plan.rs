//! Initial state of a world: resources in levels, their services, and the tasks that arrive.

use chained_gpc::Job;
use gpc_rendezvous::machine::Millis;
use gpc_rendezvous::{Life, RankChoice, ResourceId, Scope};

use super::random::Random;

/// Start time of a world.
pub(crate) const BEGIN: Millis = 1000;
/// Lifetime of every resource.
pub(crate) const LIFETIME: u64 = 8_000;
/// Time after which nothing can happen.
pub(crate) const HORIZON: Millis = BEGIN + LIFETIME + 4000;
/// Leases of tasks in wild worlds.
pub(crate) const LEASE: u64 = 400;
/// Leases in calm worlds, longer than any crash takes.
pub(crate) const LONG_LEASE: u64 = 6_000;

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    /// Faults of messages and services.
    Calm,
    /// Also faults of tasks, and services that never restart.
    Wild,
}

/// A resource of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) id: ResourceId,
    pub(crate) site: usize,
    pub(crate) level: u16,
    pub(crate) capacity: u32,
    pub(crate) job: Option<Job>,
    pub(crate) joint: bool,
    /// The parent resource, and the rank there.
    pub(crate) above: Option<(usize, RankChoice)>,
}

/// Behavior of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Honest,
    /// Withdraws its registration.
    Quitter,
    /// Does not register, and only waits.
    Watcher,
    /// Asks for a rank that does not exist.
    Liar,
}

/// A task of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Comer {
    pub(crate) kind: Kind,
    pub(crate) resource: usize,
    pub(crate) wanted: RankChoice,
    pub(crate) life: Life,
    pub(crate) of: Scope,
    pub(crate) comes: Millis,
    /// Time of its death, without any message.
    pub(crate) dies: Option<Millis>,
}

/// Initial state of a world.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) sites: usize,
    pub(crate) resources: Vec<Planned>,
    pub(crate) comers: Vec<Comer>,
}

impl Plan {
    pub(crate) fn draw(random: &mut Random, weather: Weather) -> Plan {
        let sites = random.between(1, 4) as usize;
        let mut plan = Plan { sites, resources: Vec::new(), comers: Vec::new() };
        let level = random.between(1, 5) as u16;
        plan.grow(random, level, None);
        for resource in 0..plan.resources.len() {
            if plan.resources[resource].level == 1 {
                plan.people(random, weather, resource);
            }
            if random.percent(40) {
                let comes = BEGIN + random.between(0, 2000);
                let (kind, wanted, life) = (Kind::Watcher, RankChoice::Assign, Life::Unseen);
                let of = if random.percent(50) { Scope::Own } else { Scope::Top };
                plan.comers.push(Comer { kind, resource, wanted, life, of, comes, dies: None });
            }
        }
        plan
    }

    /// Adds a resource and those below it, as long as the world is small.
    fn grow(&mut self, random: &mut Random, level: u16, above: Option<(usize, RankChoice)>) {
        let number = self.resources.len();
        let capacity = random.between(1, if level == 1 { 5 } else { 4 }) as u32;
        let capacity = if number > 6 { 1 } else { capacity };
        let job = random.percent(30).then_some(Job([random.between(0, 3) as u8; 16]));
        let site = random.between(0, self.sites as u64) as usize;
        let id = ResourceId([number as u8 + 1; 16]);
        let joint = random.percent(30);
        self.resources.push(Planned { id, site, level, capacity, job, joint, above });
        if level == 1 {
            return;
        }
        let by_choice = random.percent(60);
        for rank in 0..capacity {
            let rank = if by_choice { RankChoice::Rank(rank.into()) } else { RankChoice::Assign };
            self.grow(random, level - 1, Some((number, rank)));
        }
    }

    /// Adds the tasks of a level-1 resource.
    fn people(&mut self, random: &mut Random, weather: Weather, resource: usize) {
        let (capacity, by_choice) = (self.resources[resource].capacity, random.percent(50));
        for rank in 0..capacity {
            let wanted = if by_choice { RankChoice::Rank(rank.into()) } else { RankChoice::Assign };
            let of = if random.percent(50) { Scope::Own } else { Scope::Top };
            let comes = BEGIN + random.between(0, 1500);
            let life = match (weather, random.between(0, 4)) {
                (Weather::Calm, 0) => Life::Lease(LONG_LEASE),
                (Weather::Calm, _) | (Weather::Wild, 0 | 1) => Life::Unseen,
                (Weather::Wild, 2) => Life::Lease(LEASE),
                (Weather::Wild, _) => Life::Member(self.comers.len() as u32),
            };
            let mut comer = Comer { kind: Kind::Honest, resource, wanted, life, of, comes, dies: None };
            if weather == Weather::Wild && random.percent(25) {
                let first = Comer { dies: Some(comes + random.between(1, 1500)), ..comer.clone() };
                let first = match random.between(0, 3) {
                    0 => first,
                    1 => Comer { kind: Kind::Quitter, dies: None, ..first },
                    _ => {
                        let over = RankChoice::Rank(random.between(0, 9) + u64::from(capacity));
                        Comer { kind: Kind::Liar, wanted: over, dies: None, ..first }
                    }
                };
                self.comers.push(first);
                // A replacement, unless there is none.
                comer.comes += 2 * LEASE;
                if let Life::Member(_) = comer.life {
                    comer.life = Life::Member(self.comers.len() as u32);
                }
                if random.percent(30) {
                    continue;
                }
            }
            self.comers.push(comer);
        }
    }
}

//! Bootstrap by rendezvous: processes of several jobs meet and form one set of nodes.
//!
//! Each process registers its entry with the resource of its own subjob, and receives all entries when the top is
//! complete. The ids follow from that: by subjob, then by rank, for any number of levels. The processes of one subjob
//! are one host group of [`Member::hosts`](chained_gpc::bootstrap::Member::hosts). The completion of the top carries
//! the job and the secret of the new set; its resource must be created to draw them.
//!
//! If the service is the controlling task of the subjob (its resource has a parent), each process waits for the top
//! there. Otherwise, if a parent resource is known, the process with rank 0 registers the subjob's data there, and all
//! processes wait there. It also registers as controlling task there, so that its loss ends the waits of all, provided
//! that the subjob's rank is given. If the rank is assigned, there is no unit to name before the data are registered,
//! and the others wait until their time limit.
//!
//! Source: WS Rendezvous, "Application to MPI jobs".

#[cfg(feature = "client")]
mod env;
mod error;
mod members;
mod origin;

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, Meeting, MeetingLimit};
use chained_gpc::{Clock, Shown, TimeLimit};

#[cfg(feature = "client")]
pub use env::{EnvError, client_options, from_env, with_handles};
pub use error::JoinError;
pub use origin::Origin;

use crate::machine::{Completion, FaultKind, RankChoice, Scope, Token, Unit};
use crate::meeting::{Resource, wait_within};
use crate::service_thread::draw_token;

/// Value of [`Bootstrap::launcher`].
const NAME: &str = "a rendezvous";

/// The resources through which a process meets the others.
#[derive(Clone)]
pub struct Resources {
    /// The level-1 resource of its own job or subjob.
    pub job: Arc<dyn Resource>,
    /// The rank that it asks for there.
    pub rank: RankChoice,
    /// The parent resource, if the service is not the controlling task.
    pub multijob: Option<Arc<dyn Resource>>,
    /// The rank of the subjob there.
    pub subjob: RankChoice,
}

/// Bootstrap with these resources.
pub fn with_resources(resources: Resources) -> Bootstrap {
    Bootstrap::with_meeting(NAME, move |mine, within| resources.meet(mine, within))
}

/// Time limit of each last request of a process that gives up, and of the query for the missing processes.
const LAST: Duration = Duration::from_secs(2);

/// Registrations to undo if this process gives up.
#[derive(Default)]
struct Registrations {
    /// Its rank in its own job.
    own: Option<u64>,
    /// The rank of its subjob at the parent, if that has registered.
    above: Option<u64>,
    /// The unit that it controls at the parent.
    unit: Option<Unit>,
}

/// One process's part.
struct Part<'a> {
    resources: &'a Resources,
    mine: &'a str,
    token: Token,
    until: TimeLimit,
    /// Time limit of the whole bootstrap, of which a part has passed already.
    limit: Duration,
}

impl Resources {
    fn meet(&self, mine: &str, within: MeetingLimit) -> Result<Meeting, JoinError> {
        let MeetingLimit { limit, left } = within;
        let until = Clock::system().limit(left);
        let part = Part { resources: self, mine, token: draw_token()?, until, limit };
        let mut registrations = Registrations::default();
        let ended = part.met(&mut registrations);
        if let Err(error) = &ended {
            part.give_up(&registrations, error);
        }
        ended
    }
}

impl Part<'_> {
    fn left(&self) -> Duration {
        self.until.left().unwrap_or_default()
    }

    fn met(&self, registrations: &mut Registrations) -> Result<Meeting, JoinError> {
        let Resources { job, rank, multijob, .. } = self.resources;
        let data = self.mine.to_owned().into();
        let registered = self.asked(job).register(*rank, &self.token, data)?;
        registrations.own = Some(registered.rank.into());
        let service_controls = self.asked(job).properties()?.above.is_some();
        let completion = match multijob {
            Some(multijob) if !service_controls => match registered.rank {
                0 => self.control(multijob, registrations)?,
                _ => {
                    // While the process waits there, its lease holds.
                    self.wait(job, "of this subjob", Scope::Own, || ())?;
                    self.wait(multijob, "above", Scope::Top, || ())?
                }
            },
            _ => self.wait(job, "of this job", Scope::Top, || ())?,
        };
        members::meeting(&completion, self.mine)
    }

    /// The part of rank 0 in a subjob that the service does not control.
    fn control(
        &self,
        multijob: &Arc<dyn Resource>,
        registrations: &mut Registrations,
    ) -> Result<Completion, JoinError> {
        let Resources { job, subjob, .. } = self.resources;
        let name = format!("the process with rank 0, pid {}", std::process::id());
        let unit = match subjob {
            RankChoice::Rank(rank) => u32::try_from(*rank).ok().map(Unit::Rank),
            // A unit is named by its rank, and this one has none yet.
            RankChoice::Assign => None,
        };
        let control =
            |at: Box<dyn Resource + '_>| unit.map_or(Ok(()), |unit| at.control(unit, &name, &self.token));
        control(self.asked(multijob))?;
        registrations.unit = unit;
        // Short, because the wait is suspended meanwhile.
        let renew = || drop(control(multijob.within(self.left().min(LAST))));
        let own = self.wait(job, "of this subjob", Scope::Own, renew)?;
        let registered = self.asked(multijob).register(*subjob, &self.token, own.data)?;
        registrations.above = Some(registered.rank.into());
        self.wait(multijob, "above", Scope::Top, || ())
    }

    /// A resource whose requests are limited to the time left.
    fn asked<'a>(&self, resource: &'a Arc<dyn Resource>) -> Box<dyn Resource + 'a> {
        resource.within(self.left())
    }

    /// Waits for the completion; an error names the missing processes.
    fn wait(
        &self,
        resource: &Arc<dyn Resource>,
        at: &'static str,
        of: Scope,
        renew: impl Fn(),
    ) -> Result<Completion, JoinError> {
        let completion = wait_within(&self.until, &**resource, of, &self.token, renew)?;
        completion.ok_or_else(|| JoinError::Late {
            at,
            limit: self.limit,
            missing: missing(&*resource.within(LAST)),
        })
    }

    /// Undoes this process's registrations, so that another process can replace it immediately. A complete rendezvous
    /// rejects this, as it must.
    fn give_up(&self, registrations: &Registrations, error: &JoinError) {
        let Resources { job, multijob, .. } = self.resources;
        if let Some(rank) = registrations.own {
            let _ = job.within(LAST).withdraw(rank, &self.token);
        }
        let Some(multijob) = multijob else { return };
        if let Some(rank) = registrations.above {
            let _ = multijob.within(LAST).withdraw(rank, &self.token);
        }
        if let Some(unit) = registrations.unit {
            // After a timeout the unit may come again. If the rendezvous has failed, the unit will never register.
            let lost = match error {
                JoinError::Fault(fault) if fault.kind != FaultKind::Unavailable => {
                    Some(fault.message.clone())
                }
                _ => None,
            };
            let _ = multijob.within(LAST).release(unit, &self.token, lost);
        }
    }
}

/// Describes the missing registrants, if the service reports them.
fn missing(resource: &dyn Resource) -> String {
    let properties = match resource.properties() {
        Ok(properties) => properties,
        Err(fault) => return format!("who is missing is not known: {}", Shown(&fault.message)),
    };
    if properties.completed {
        return "its own registrants are there, and those above are not".into();
    }
    let (tally, capacity) = (properties.tally, properties.capacity);
    let ranks: Vec<String> = properties.missing.iter().map(u32::to_string).collect();
    let more = u64::from(capacity).saturating_sub(u64::from(tally)) > ranks.len() as u64;
    let missing = match (&ranks[..], more) {
        ([], _) => return format!("{tally} of {capacity} have registered"),
        ([rank], false) => format!("rank {rank} is missing"),
        (ranks, false) => format!("the ranks {} are missing", ranks.join(", ")),
        (ranks, true) => format!("the ranks {} and others are missing", ranks.join(", ")),
    };
    format!("{tally} of {capacity} have registered; {missing}")
}

#[cfg(test)]
mod tests;

//! Bootstrap by a rendezvous: processes of several jobs meet, and become one set of nodes.
//!
//! Each process registers what it says of itself with the resource of its own subjob, and has the whole when the top is complete. From that follow the ids, by subjob, then by rank, for any number of levels; the processes of one subjob are one host group of
//! [`Member::hosts`](chained_gpc::bootstrap::Member::hosts). The job and the secret of the new set come with the completion of the top, whose resource was created to draw them.
//!
//! Where the service is the controlling task of the subjob (its resource has a parent), each process waits for the top there. Where it is not, and a resource above is known, the process with rank 0 registers the subjob's data there, and all wait there.
//! It says above that it controls the unit, so that its loss is told to all who wait, if the subjob's rank is given: where that is assigned, there is no unit to name before the data are registered, and the others wait until their limit has passed.
//!
//! Source: WS Rendezvous, "Application to MPI jobs".

#[cfg(feature = "client")]
mod env;
mod members;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::Shown;
use chained_gpc::bootstrap::{Bootstrap, Meeting, Within};
use chained_gpc::wire::level::LevelError;

#[cfg(feature = "client")]
pub use env::{EnvError, from_env, with_handles};
pub use members::Who;

use crate::keeper::draw_token;
use crate::machine::{Completion, Fault, FaultKind, Of, Token, Unit, Wanted};
use crate::meeting::{Resource, Until};

/// What [`Bootstrap::launcher`] says.
const NAME: &str = "a rendezvous";

/// The resources by which a process meets the others.
#[derive(Clone)]
pub struct Resources {
    /// That of its own job or subjob, of level 1.
    pub job: Arc<dyn Resource>,
    /// The rank that it wants there.
    pub rank: Wanted,
    /// The one above, where the service is not the controlling task.
    pub multijob: Option<Arc<dyn Resource>>,
    /// The rank of the subjob there.
    pub subjob: Wanted,
}

/// Why the processes have not become one set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A service refuses, or the rendezvous has failed.
    #[error("{}", Shown(&.0.message))]
    Fault(#[from] Fault),
    /// Not all have come in time.
    #[error("the rendezvous {at} was not complete within {limit:?}; {missing}")]
    Late {
        /// Of which level.
        at: &'static str,
        /// How long was waited.
        limit: Duration,
        /// Who is missing.
        missing: String,
    },
    /// Nobody has drawn a job and a secret.
    #[error(
        "no job and no secret came with the completion of the rendezvous, so that those who met cannot become one set: create the resource at the top with --joint (`\"joint\": true`)"
    )]
    NoJoint,
    /// The data are no level-n data.
    #[error("what the rendezvous was completed with is no level-{level} data: {error}")]
    Level {
        /// The level that they should have.
        level: u16,
        /// What is wrong.
        #[source]
        error: LevelError,
    },
    /// There are more processes than ids.
    #[error("the rendezvous has more processes than there are ids")]
    TooMany,
    /// What one of them has registered makes no sense.
    #[error(
        "{who} has registered what no process of this version says of itself, `{}`: have all run the same program, with the same version of this library",
        Shown(text)
    )]
    Registrant {
        /// Whose it is.
        who: Who,
        /// What it has registered; the begin of it, where it is long.
        text: String,
    },
    /// Two of them say that they are the same.
    #[error("{one} and {other} have both registered {what}: one of them has copied it from the other")]
    Twice {
        /// The first.
        one: Who,
        /// The second.
        other: Who,
        /// What they have in common.
        what: String,
    },
    /// What this process has registered has not come back.
    #[error(
        "what this process has registered is not among what the rendezvous was completed with: are the handles of one rendezvous?"
    )]
    NotThere,
    /// The system fails.
    #[error("cannot draw a token: {0}")]
    System(#[from] io::Error),
}

/// Gets processes to know each other by these resources.
pub fn with_resources(resources: Resources) -> Bootstrap {
    Bootstrap::with_meeting(NAME, move |mine, within| resources.meet(mine, within))
}

/// How long what a process that gives up still says may take, and the question for whom it has waited.
const LAST: Duration = Duration::from_secs(2);

/// What others are to forget if this process gives up.
#[derive(Default)]
struct Left {
    /// Its rank in its own job.
    own: Option<u64>,
    /// The rank of its subjob above, where it has registered that.
    above: Option<u64>,
    /// The unit above that it controls.
    unit: Option<Unit>,
}

/// One process's part.
struct Part<'a> {
    resources: &'a Resources,
    mine: &'a str,
    token: Token,
    until: Until,
    /// The limit of the whole bootstrap, of which a part had passed before.
    limit: Duration,
}

impl Resources {
    fn meet(&self, mine: &str, within: Within) -> Result<Meeting, JoinError> {
        let Within { limit, left } = within;
        let part = Part { resources: self, mine, token: draw_token()?, until: Until::after(left), limit };
        let mut left = Left::default();
        let ended = part.met(&mut left);
        if let Err(error) = &ended {
            part.give_up(&left, error);
        }
        ended
    }
}

impl Part<'_> {
    fn met(&self, left: &mut Left) -> Result<Meeting, JoinError> {
        let Resources { job, rank, multijob, .. } = self.resources;
        let data = self.mine.to_owned().into();
        let registered = self.asked(job).register(*rank, &self.token, data)?;
        left.own = Some(registered.rank.into());
        let service_controls = self.asked(job).properties()?.above.is_some();
        let completion = match multijob {
            Some(multijob) if !service_controls => match registered.rank {
                0 => self.control(multijob, left)?,
                _ => {
                    // As long as it waits there, it is seen to live.
                    self.wait(job, "of this subjob", Of::Own, || ())?;
                    self.wait(multijob, "above", Of::Top, || ())?
                }
            },
            _ => self.wait(job, "of this job", Of::Top, || ())?,
        };
        members::meeting(&completion, self.mine)
    }

    /// The part of the process with rank 0 of a subjob that the service does not control.
    fn control(&self, multijob: &Arc<dyn Resource>, left: &mut Left) -> Result<Completion, JoinError> {
        let Resources { job, subjob, .. } = self.resources;
        let name = format!("the process with rank 0, pid {}", std::process::id());
        let unit = match subjob {
            Wanted::Rank(rank) => u32::try_from(*rank).ok().map(Unit::Rank),
            // A unit is named by its rank, and has none yet.
            Wanted::Assign => None,
        };
        let control =
            |at: Box<dyn Resource + '_>| unit.map_or(Ok(()), |unit| at.control(unit, &name, &self.token));
        control(self.asked(multijob))?;
        left.unit = unit;
        // The wait goes on meanwhile only if this is soon over.
        let renew = || drop(control(multijob.within(self.until.left().min(LAST))));
        let own = self.wait(job, "of this subjob", Of::Own, renew)?;
        let registered = self.asked(multijob).register(*subjob, &self.token, own.data)?;
        left.above = Some(registered.rank.into());
        self.wait(multijob, "above", Of::Top, || ())
    }

    /// A resource that is asked for no longer than is left.
    fn asked<'a>(&self, resource: &'a Arc<dyn Resource>) -> Box<dyn Resource + 'a> {
        resource.within(self.until.left())
    }

    /// The completion; or who is missing.
    fn wait(
        &self,
        resource: &Arc<dyn Resource>,
        at: &'static str,
        of: Of,
        renew: impl Fn(),
    ) -> Result<Completion, JoinError> {
        let completion = self.until.wait(&**resource, of, &self.token, renew)?;
        completion.ok_or_else(|| JoinError::Late {
            at,
            limit: self.limit,
            missing: missing(&*resource.within(LAST)),
        })
    }

    /// Takes back what this process has said, so that another one can come in its place at once. Where a rendezvous is complete, this is refused, and right so.
    fn give_up(&self, left: &Left, error: &JoinError) {
        let Resources { job, multijob, .. } = self.resources;
        if let Some(rank) = left.own {
            let _ = job.within(LAST).withdraw(rank, &self.token);
        }
        let Some(multijob) = multijob else { return };
        if let Some(rank) = left.above {
            let _ = multijob.within(LAST).withdraw(rank, &self.token);
        }
        if let Some(unit) = left.unit {
            // Who was late can come again; a rendezvous that has failed cannot, so that its unit will never come.
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

/// Who has not come, as far as the service tells.
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

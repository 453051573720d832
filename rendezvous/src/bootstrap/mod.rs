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
use chained_gpc::bootstrap::{Bootstrap, Meeting};
use chained_gpc::wire::level::LevelError;

#[cfg(feature = "client")]
pub use env::{EnvError, from_env, with_handles};
pub use members::Who;

use crate::keeper::draw_token;
use crate::machine::{Completion, Fault, Of, Token, Unit, Wanted};
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
    #[error("{who} has registered what no process says of itself: {why}; does it run another program?")]
    Registrant {
        /// Whose it is.
        who: Who,
        /// What is wrong.
        why: String,
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
    Bootstrap::with_meeting(NAME, move |mine, limit| resources.meet(mine, limit))
}

impl Resources {
    fn meet(&self, mine: &str, limit: Duration) -> Result<Meeting, JoinError> {
        let until = Until::after(limit);
        let token = draw_token()?;
        let registered = self.job.register(self.rank, &token, mine.to_owned().into())?;
        let service_controls = self.job.properties()?.above.is_some();
        let completion = match &self.multijob {
            Some(multijob) if !service_controls => match registered.rank {
                0 => self.control(multijob, &token, &until)?,
                _ => {
                    // As long as it waits there, it is seen to live.
                    late(
                        &self.job,
                        "of this subjob",
                        until.wait(&*self.job, Of::Own, &token, || ()),
                        &until,
                    )?;
                    late(multijob, "above", until.wait(&**multijob, Of::Top, &token, || ()), &until)?
                }
            },
            _ => late(&self.job, "of this job", until.wait(&*self.job, Of::Top, &token, || ()), &until)?,
        };
        members::meeting(&completion, mine)
    }

    /// The part of the process with rank 0 of a subjob that the service does not control.
    fn control(
        &self,
        multijob: &Arc<dyn Resource>,
        token: &Token,
        until: &Until,
    ) -> Result<Completion, JoinError> {
        let name = format!("the process with rank 0, pid {}", std::process::id());
        let unit = match self.subjob {
            Wanted::Rank(rank) => u32::try_from(rank).ok().map(Unit::Rank),
            // A unit is named by its rank, and has none yet.
            Wanted::Assign => None,
        };
        let control = || unit.map_or(Ok(()), |unit| multijob.control(unit, &name, token));
        control()?;
        let own = until.wait(&*self.job, Of::Own, token, || drop(control()));
        let own = late(&self.job, "of this subjob", own, until)?;
        multijob.register(self.subjob, token, own.data)?;
        late(multijob, "above", until.wait(&**multijob, Of::Top, token, || ()), until)
    }
}

/// The completion; or who is missing.
fn late(
    resource: &Arc<dyn Resource>,
    at: &'static str,
    waited: Result<Option<Completion>, Fault>,
    until: &Until,
) -> Result<Completion, JoinError> {
    if let Some(completion) = waited? {
        return Ok(completion);
    }
    let missing = match resource.properties() {
        Ok(properties) if properties.completed => {
            "its own registrants are there, and those above are not".into()
        }
        Ok(properties) => {
            let (tally, capacity) = (properties.tally, properties.capacity);
            let missing: Vec<String> = properties.missing.iter().map(u32::to_string).collect();
            let missing = missing.join(", ");
            format!(
                "{tally} of {capacity} have registered, the first that are missing have the ranks {missing}"
            )
        }
        Err(fault) => format!("who is missing is not known: {}", Shown(&fault.message)),
    };
    Err(JoinError::Late { at, limit: until.limit(), missing })
}

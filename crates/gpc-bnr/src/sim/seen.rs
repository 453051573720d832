//! The history of a world as seen from outside: requests and answers, starts and ends of processes, faults.

use std::sync::Arc;

use chained_gpc::trees::Id;

use crate::domain::Serial;
use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::names::{GroupId, Member};
use crate::request::{Answer, Client, Request};
use crate::spec::Layout;

/// An observation. Observations are in the order in which they happened.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Asked {
        client: Client,
        serial: Serial,
        request: Request,
    },
    /// `at_once`: the answer was given in the same step as the request.
    Answered {
        client: Client,
        serial: Serial,
        answer: Result<Answer, Fault>,
        at_once: bool,
    },
    Noticed {
        client: Client,
        death: Death,
    },
    Started {
        layout: Arc<Layout>,
    },
    /// All of a group that a process has spawned was started.
    Spawned(GroupId),
    /// A process runs.
    Runs {
        member: Member,
    },
    /// A process has ended, or could not be started.
    Over {
        member: Member,
        exit: Exit,
    },
    /// A node kills its processes of a group.
    Kills {
        id: Id,
        group: GroupId,
    },
    /// The client's link has closed.
    Gone {
        client: Client,
    },
    Crashed(Id),
    /// From now on other nodes may declare this node lost.
    Disturbed(Id),
    /// All faults are over.
    Calm,
    /// The head was ordered to end the domain.
    Ends,
    /// A node reports that nothing of the domain is left there.
    Ended(Id),
    /// State that a node still has when no event is left.
    Left(String),
    /// A node has ended its part without being idle.
    Busy(Id),
    /// What a node holds, by name, when all faults and programs are over and the domain is about to end.
    Holds(Id, Vec<(&'static str, usize)>),
}

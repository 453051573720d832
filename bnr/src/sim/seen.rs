//! What is seen of a world from outside: what processes ask and are told, who starts and ends, what goes wrong.

use std::sync::Arc;

use chained_gpc::trees::Id;

use crate::domain::Serial;
use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::names::{GroupId, Member};
use crate::request::{Answer, Client, Request};
use crate::spec::Layout;

/// Something that was seen, in the order in which it happened.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Asked {
        client: Client,
        serial: Serial,
        request: Request,
    },
    /// `at_once`: in the same turn as it was asked.
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
    /// A process is there.
    Runs {
        member: Member,
    },
    /// A process has ended, or could not be started.
    Over {
        member: Member,
        exit: Exit,
    },
    /// A node ends the processes of a group that it has.
    Kills {
        id: Id,
        group: GroupId,
    },
    /// Nobody reads at a client's end any more.
    Gone {
        client: Client,
    },
    Crashed(Id),
    /// Something goes wrong by which others may take a node for lost, from now on.
    Disturbed(Id),
    /// All that goes wrong is over.
    Calm,
    /// The head was told to end the domain.
    Ends,
    /// Nothing of the domain is left at a node, as it says.
    Ended(Id),
    /// What is left at a node when nothing happens any more.
    Left(String),
    /// A node has ended its part, and is not idle.
    Busy(Id),
}

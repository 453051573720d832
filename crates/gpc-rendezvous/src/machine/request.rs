//! Requests to a service, its answers, and its outputs to the driver.

use bytes::Bytes;
use chained_gpc::{Id, Job};

use super::{
    Change, Completion, Fault, Handle, Joint, Life, Millis, RankChoice, RegistrantData, ResourceId, Spec,
    Token, Unit,
};

/// Identifies a request, so that its answer can be matched to the caller, possibly much later. The driver uses each
/// ticket once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// An input of the service.
#[derive(Clone, Debug)]
pub enum Input {
    /// A request. Each request is answered once, with the same ticket.
    Ask(Ticket, Request),
    /// The caller no longer waits for this answer, which may already have been given.
    Cancelled(Ticket),
    /// Time has passed; see [`Service::deadline`](super::Service::deadline).
    Tick,
    /// The link to a node with registrants or controlling tasks is lost.
    Lost {
        /// The node.
        member: Id,
        /// The reason, for people.
        why: String,
    },
    /// Progress of the driver with [`Output::ParentAction`] for this resource.
    ParentOutcome(ResourceId, ParentOutcome),
}

/// A request.
#[derive(Clone, Debug)]
pub enum Request {
    /// Creates a resource. Answered with [`Answer::Created`].
    Create {
        /// Parameters of the resource.
        spec: Spec,
        /// Random values for it.
        random: RandomValues,
    },
    /// Registers data of the level below the resource's; the last registration completes the resource. Answered with
    /// [`Answer::Registered`], also if a registrant repeats the request with its token.
    Register {
        /// The resource.
        resource: ResourceId,
        /// The rank asked for.
        rank: RankChoice,
        /// The registrant's token.
        token: Token,
        /// The registrant's data.
        data: RegistrantData,
        /// How the registrant's liveness is tracked.
        life: Life,
    },
    /// Withdraws a registration before the rendezvous is complete. Answered with [`Answer::Done`]. The caller must have
    /// no other request in progress: a delayed copy of its registration would register it again.
    Withdraw {
        /// The resource.
        resource: ResourceId,
        /// The registrant's rank.
        rank: u64,
        /// The token of the registration.
        token: Token,
    },
    /// Asks for the properties of a resource. Answered with [`Answer::Properties`].
    Properties(ResourceId),
    /// Asks for the data of the registrant with a rank. Answered with [`Answer::Data`].
    Registrant {
        /// The resource.
        resource: ResourceId,
        /// The rank.
        rank: u64,
    },
    /// Waits for a completion. Answered with [`Answer::Completed`] once the rendezvous is complete, with
    /// [`Answer::NotYet`] at the time limit, or with a fault if the rendezvous cannot complete.
    Wait {
        /// The resource.
        resource: ResourceId,
        /// Which completion.
        of: Scope,
        /// Time limit; if `None`, the end of the resource.
        until: Option<Millis>,
        /// The token of a registrant or controlling task, which counts as alive while it waits.
        token: Option<Token>,
    },
    /// Registers a controlling task, or renews its lease. If it is lost before the rendezvous has ended, the waits are
    /// answered with its name. Answered with [`Answer::Done`].
    Control {
        /// The resource.
        resource: ResourceId,
        /// The unit.
        unit: Unit,
        /// Name of the controlling task, for people.
        name: String,
        /// Token of the controlling task.
        token: Token,
        /// How its liveness is tracked.
        life: Life,
    },
    /// Removes a controlling task. Answered with [`Answer::Done`].
    Release {
        /// The resource.
        resource: ResourceId,
        /// The unit.
        unit: Unit,
        /// Token of the controlling task.
        token: Token,
        /// If the unit will never register, the reason: the rendezvous then fails, as if the controlling task were
        /// lost.
        lost: Option<String>,
    },
    /// Destroys a resource. Its waits are answered with a fault. Answered with [`Answer::Done`].
    Destroy(ResourceId),
    /// Destroys the resources of a job. Answered with [`Answer::Ended`].
    EndJob(Job),
    /// Lists the resources, the newest first. Answered with [`Answer::List`].
    List {
        /// Most resources to list.
        most: usize,
    },
}

/// Random values that the driver draws for a resource.
#[derive(Clone, Debug)]
pub struct RandomValues {
    /// Id of the resource.
    pub id: ResourceId,
    /// Token with which its data are registered at the parent.
    pub token: Token,
    /// Job and secret for its registrants. Used only if the resource is created with `joint`.
    pub joint: Option<Joint>,
}

/// Which completion a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scope {
    /// The completion of the resource itself.
    #[default]
    Own,
    /// The completion of the highest ancestor, which the service knows if it is the controlling task. Without a parent
    /// it is the resource itself.
    Top,
}

/// An answer of the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The resource exists.
    Created(ResourceId),
    /// The registration is valid.
    Registered(Registration),
    /// The rendezvous is complete.
    Completed(Completion),
    /// The rendezvous was not complete at the time limit.
    NotYet,
    /// Properties of the resource.
    Properties(Box<Properties>),
    /// Data of a registrant.
    Data(Bytes),
    /// The request was carried out.
    Done,
    /// Number of resources destroyed.
    Ended(usize),
    /// Properties of the listed resources.
    List(Vec<Properties>),
}

/// A valid registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registration {
    /// Rank of the registrant.
    pub rank: u32,
    /// Number of registrants so far.
    pub tally: u32,
    /// Number of registrants that make the resource complete.
    pub capacity: u32,
}

/// Properties of a resource. Source: WS Rendezvous, the resource's properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// Id of the resource.
    pub id: ResourceId,
    /// Level of its data when it is complete.
    pub level: u16,
    /// Number of registrants that make it complete.
    pub capacity: u32,
    /// Number of registrants so far.
    pub tally: u32,
    /// The lowest ranks that have not registered, at most [`MISSING_MAX`].
    pub missing: Vec<u32>,
    /// Bytes of data registered so far.
    pub bytes: u64,
    /// Whether it is complete.
    pub completed: bool,
    /// Why it cannot complete, if it has failed.
    pub failed: Option<Fault>,
    /// Number of waits.
    pub waiting: usize,
    /// Time of its creation.
    pub created: Millis,
    /// End of its lifetime.
    pub expires: Millis,
    /// Job that it belongs to.
    pub job: Option<Job>,
    /// URL of the service of the parent resource.
    pub above: Option<String>,
}

/// Most ranks in [`Properties::missing`].
pub const MISSING_MAX: usize = 16;

/// An output to the driver. All outputs are drained after each input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send the answer to a request. If the service has a store, the changes before it are stored first.
    Answer(Ticket, Result<Answer, Fault>),
    /// Store this change, so that it is restored when the service restarts.
    Store(Change),
    /// Act at the parent resource, as the controlling task of this resource.
    ParentAction(ResourceId, ParentAction),
}

/// Action of a controlling task at the parent resource. The driver retries until the resource ends, and reports
/// progress with [`Input::ParentOutcome`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParentAction {
    /// Register as controlling task and renew the lease ([`Request::Control`]). If the rank is not fixed, there is
    /// nothing to do.
    Control {
        /// Parent resource.
        handle: Handle,
        /// Rank of the unit at the parent.
        rank: RankChoice,
        /// Token of the unit at the parent.
        token: Token,
        /// Level of the unit.
        level: u16,
    },
    /// Register the unit's data, then wait for the top. After that the unit has no further part.
    Register {
        /// Parent resource.
        handle: Handle,
        /// Rank of the unit at the parent.
        rank: RankChoice,
        /// Token of the unit at the parent.
        token: Token,
        /// Level of the unit.
        level: u16,
        /// Data of the unit.
        data: Bytes,
    },
    /// The resource has ended: stop. If the unit's data are not registered at the parent, report that they never will
    /// be ([`Request::Release`]).
    Stop {
        /// Parent resource.
        handle: Handle,
        /// Rank of the unit at the parent.
        rank: RankChoice,
        /// Token of the unit at the parent.
        token: Token,
        /// Why the resource has ended.
        why: String,
    },
}

/// Progress of the driver at the parent of a resource.
#[derive(Clone, Debug)]
pub enum ParentOutcome {
    /// The rendezvous at the top is complete.
    Completed(Completion),
    /// The rendezvous at the top cannot complete.
    Failed(Fault),
}

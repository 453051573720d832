//! What a service is asked, what it answers, and what it has its driver do.

use bytes::Bytes;
use chained_gpc::{Id, Job};

use super::{Brought, Change, Completion, Fault, Handle, Joint, Millis, ResourceId, Spec, Token, Wanted};

/// Names a request, so that its answer, which may come much later, finds whom it is for. The driver never uses one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// What happens to a service.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody asks. Each request is answered once, with the same ticket.
    Ask(Ticket, Request),
    /// Nobody waits for this answer any more. It may have been given already.
    Gone(Ticket),
    /// Nothing but that time has passed: see [`Service::deadline`](super::Service::deadline).
    Tick,
    /// The link to a node is lost that has registered or controls something here.
    Lost {
        /// The node.
        member: Id,
        /// How, for people.
        why: String,
    },
    /// How far the driver has come with [`Output::Up`] of this resource.
    Above(ResourceId, Above),
}

/// Somebody asks.
#[derive(Clone, Debug)]
pub enum Request {
    /// A new resource. Answered with [`Answer::Created`].
    Create {
        /// What it is to be.
        spec: Spec,
        /// What is drawn for it.
        drawn: Drawn,
    },
    /// Registers data, of the level below the resource's; the last registration completes it. Answered with [`Answer::Registered`], also if the same token asks again.
    Register {
        /// Where.
        resource: ResourceId,
        /// As which rank.
        rank: Wanted,
        /// The registrant's.
        token: Token,
        /// What it brings.
        data: Brought,
        /// How it is seen that the registrant lives.
        life: Life,
    },
    /// Takes a registration back, before the rendezvous is complete. Answered with [`Answer::Done`]. Who withdraws has no other request under way: a copy of its registration that came later would register it again.
    Withdraw {
        /// From where.
        resource: ResourceId,
        /// The rank that it has.
        rank: u64,
        /// The token that it has registered with.
        token: Token,
    },
    /// Answered with [`Answer::Properties`].
    Properties(ResourceId),
    /// What the registrant of a rank has registered. Answered with [`Answer::Data`].
    Registrant {
        /// Where.
        resource: ResourceId,
        /// The rank.
        rank: u64,
    },
    /// Subscribes: answered with [`Answer::Completed`] when the rendezvous is complete, at once if it is; with [`Answer::NotYet`] at a time; with a fault when it cannot be complete any more.
    Wait {
        /// For what.
        resource: ResourceId,
        /// Of which level.
        of: Of,
        /// Until when; the end of the resource where `None`.
        until: Option<Millis>,
        /// The registrant's or controlling task's token: as long as it waits, it lives.
        token: Option<Token>,
    },
    /// A controlling task says that it is there: if it is lost before the rendezvous has come to its end, those who wait are told its name. It asks again to stay, as a lease demands. Answered with [`Answer::Done`].
    Control {
        /// Where.
        resource: ResourceId,
        /// Of which unit.
        unit: Unit,
        /// What it is called, for people.
        name: String,
        /// Its own.
        token: Token,
        /// How it is seen that it lives.
        life: Life,
    },
    /// A controlling task ends. Answered with [`Answer::Done`].
    Release {
        /// Where.
        resource: ResourceId,
        /// Of which unit.
        unit: Unit,
        /// Its own.
        token: Token,
        /// Why its unit will never come, if so: ends the rendezvous as its loss would.
        lost: Option<String>,
    },
    /// Destroys a resource. Those who wait are told. Answered with [`Answer::Done`].
    Destroy(ResourceId),
    /// Destroys the resources of a job. Answered with [`Answer::Ended`].
    EndJob(Job),
    /// The resources in the order of their creation, the newest first. Answered with [`Answer::List`].
    List {
        /// At most so many.
        most: usize,
    },
}

/// What the driver draws for a resource, at random.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Its id.
    pub id: ResourceId,
    /// The token with which its data are registered above.
    pub token: Token,
    /// What its registrants will have in common; only used if the resource is to have it.
    pub joint: Option<Joint>,
}

/// How it is seen that a registrant or a controlling task lives.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Life {
    /// It is not: it stays until it says otherwise.
    #[default]
    Unseen,
    /// It asks something with its token at least so often, milliseconds, or waits.
    Lease(u64),
    /// Its node is linked with the service's.
    Member(Id),
}

/// Which completion somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Of {
    /// That of the resource itself.
    #[default]
    Own,
    /// That of the highest resource above it, of which the service knows if it is the controlling task; the resource itself where there is none above.
    Top,
}

/// Which unit a controlling task controls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// The one whose resource it is.
    Own,
    /// The one that will register with this rank.
    Rank(u32),
}

/// What a service answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The resource exists.
    Created(ResourceId),
    /// The registration stands.
    Registered(Registered),
    /// It is complete.
    Completed(Completion),
    /// It was not complete in time.
    NotYet,
    /// What is known of the resource.
    Properties(Box<Properties>),
    /// What a registrant has registered.
    Data(Bytes),
    /// It is done.
    Done,
    /// So many resources are destroyed.
    Ended(usize),
    /// The resources.
    List(Vec<Properties>),
}

/// A registration that stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registered {
    /// The registrant's rank.
    pub rank: u32,
    /// How many have registered.
    pub tally: u32,
    /// How many there will be.
    pub capacity: u32,
}

/// What is known of a resource. Source: WS Rendezvous, the resource's properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// The resource.
    pub id: ResourceId,
    /// The level of its data when it is complete.
    pub level: u16,
    /// How many registrants make it complete.
    pub capacity: u32,
    /// How many have registered.
    pub tally: u32,
    /// The first ranks that are not there, at most [`MISSING_MAX`].
    pub missing: Vec<u32>,
    /// Bytes that the registrants have registered.
    pub bytes: u64,
    /// Whether it is complete.
    pub completed: bool,
    /// Why it will never be.
    pub failed: Option<Fault>,
    /// How many wait.
    pub waiting: usize,
    /// When it was created.
    pub created: Millis,
    /// When it ends at the latest.
    pub expires: Millis,
    /// The job that it belongs to.
    pub job: Option<Job>,
    /// The URL of the service of the resource above.
    pub above: Option<String>,
}

/// Most ranks that [`Properties::missing`] has.
pub const MISSING_MAX: usize = 16;

/// What a service has its driver do. All outputs are drained after each input.
#[derive(Clone, Debug)]
pub enum Output {
    /// Answer a request. Where the service's state is kept, it is kept first.
    Answer(Ticket, Result<Answer, Fault>),
    /// Keep this, so that it is there if the service starts again.
    Keep(Change),
    /// As the controlling task of a resource, go on so at the resource above.
    Up(ResourceId, Up),
}

/// What the controlling task of a resource does at the one above. The driver tries again until the resource ends, and says how far it has come with [`Input::Above`].
#[derive(Clone, Debug)]
pub enum Up {
    /// Say that the unit is there, and stay ([`Request::Control`]); nothing to do where the rank is not known yet.
    Control {
        /// The resource above.
        handle: Handle,
        /// The unit's rank there.
        rank: Wanted,
        /// The unit's token there.
        token: Token,
        /// The unit's level.
        level: u16,
    },
    /// Register the unit's data, then wait for the top of what is above. Nothing else is expected of the unit then.
    Register {
        /// The resource above.
        handle: Handle,
        /// The unit's rank there.
        rank: Wanted,
        /// The unit's token there.
        token: Token,
        /// The unit's level.
        level: u16,
        /// The unit's data.
        data: Bytes,
    },
    /// The resource has ended: stop. If its data are not registered above, they will never be: say so ([`Request::Release`]).
    Stop {
        /// The resource above.
        handle: Handle,
        /// The unit's rank there.
        rank: Wanted,
        /// The unit's token there.
        token: Token,
        /// Why the resource has ended.
        why: String,
    },
}

/// How far the driver has come above a resource.
#[derive(Clone, Debug)]
pub enum Above {
    /// The rendezvous at the top is complete.
    Completed(Completion),
    /// It will not be.
    Failed(Fault),
}

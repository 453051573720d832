//! Encodes and decodes requests and answers of a service on a node: see [`native`](super) for the format.

use bytes::Bytes;
use chained_gpc::wire::fields::Fields;
use chained_gpc::{Id, Job};

use super::bytes::{Read as _, Writer};
use crate::machine::{
    Answer, Completion, Fault, FaultKind, Joint, Life, MISSING_MAX, Parent, Properties, RankChoice,
    Registration, ResourceId, Scope, Spec, Token, Unit,
};

/// Version of the format.
pub const VERSION: u8 = 2;

/// The bytes are not a valid request or answer.
pub use chained_gpc::wire::fields::FieldsError as CodecError;

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $operation:ident = $name:literal,)+) => {
        /// Operation of a service on a node: each is a function with its own name.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Operation {
            $($(#[doc = $doc])+ $operation,)+
        }

        impl Operation {
            /// All operations.
            pub const ALL: &[Operation] = &[$(Operation::$operation),+];

            /// Name of the function.
            pub fn function(self) -> &'static str {
                match self { $(Operation::$operation => concat!("gpc.rendezvous.", $name)),+ }
            }
        }
    };
}

operations! {
    /// Creates a resource.
    Create = "create",
    /// Registers data.
    Register = "register",
    /// Withdraws a registration.
    Withdraw = "withdraw",
    /// Waits for a completion.
    Wait = "wait",
    /// Asks for the properties of a resource.
    Properties = "properties",
    /// Asks for the data of one registrant.
    Registrant = "registrant",
    /// Registers a controlling task, or renews its lease.
    Control = "control",
    /// Removes a controlling task.
    Release = "release",
    /// Destroys a resource.
    Destroy = "destroy",
    /// Destroys the resources of a job.
    EndJob = "end-job",
}

/// A request. Its fields are those of [`Request`](crate::machine::Request), with durations in place of points in time,
/// because two nodes have two clocks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of `Request`")]
pub enum WireRequest {
    Create(Spec),
    Register {
        resource: ResourceId,
        rank: RankChoice,
        token: Token,
        data: Bytes,
        life: Life,
    },
    Withdraw {
        resource: ResourceId,
        rank: u64,
        token: Token,
    },
    /// Waits for at most `limit` milliseconds.
    Wait {
        resource: ResourceId,
        of: Scope,
        limit: u64,
        token: Option<Token>,
    },
    Properties(ResourceId),
    Registrant {
        resource: ResourceId,
        rank: u64,
    },
    Control {
        resource: ResourceId,
        unit: Unit,
        name: String,
        token: Token,
        life: Life,
    },
    Release {
        resource: ResourceId,
        unit: Unit,
        token: Token,
        lost: Option<String>,
    },
    Destroy(ResourceId),
    EndJob(Job),
}

impl WireRequest {
    /// The operation of the request.
    pub fn operation(&self) -> Operation {
        match self {
            WireRequest::Create(_) => Operation::Create,
            WireRequest::Register { .. } => Operation::Register,
            WireRequest::Withdraw { .. } => Operation::Withdraw,
            WireRequest::Wait { .. } => Operation::Wait,
            WireRequest::Properties(_) => Operation::Properties,
            WireRequest::Registrant { .. } => Operation::Registrant,
            WireRequest::Control { .. } => Operation::Control,
            WireRequest::Release { .. } => Operation::Release,
            WireRequest::Destroy(_) => Operation::Destroy,
            WireRequest::EndJob(_) => Operation::EndJob,
        }
    }

    /// Header and data of the call.
    pub fn encode(&self) -> (Vec<u8>, Bytes) {
        let mut out = Writer(vec![VERSION]);
        let mut data = Bytes::new();
        match self {
            WireRequest::Create(spec) => put_spec(&mut out, spec),
            WireRequest::Register { resource, rank, token, data: brought, life } => {
                out.resource(*resource);
                out.wanted(*rank);
                out.token(token);
                out.life(*life);
                data = brought.clone();
            }
            WireRequest::Withdraw { resource, rank, token } => {
                out.resource(*resource);
                out.u64(*rank);
                out.token(token);
            }
            WireRequest::Wait { resource, of, limit, token } => {
                out.resource(*resource);
                out.u8((*of == Scope::Top).into());
                out.u64(*limit);
                out.option(token.as_ref(), Writer::token);
            }
            WireRequest::Properties(resource) | WireRequest::Destroy(resource) => out.resource(*resource),
            WireRequest::Registrant { resource, rank } => {
                out.resource(*resource);
                out.u64(*rank);
            }
            WireRequest::Control { resource, unit, name, token, life } => {
                out.resource(*resource);
                put_unit(&mut out, *unit);
                out.text(name);
                out.token(token);
                out.life(*life);
            }
            WireRequest::Release { resource, unit, token, lost } => {
                out.resource(*resource);
                put_unit(&mut out, *unit);
                out.token(token);
                out.option(lost.as_deref(), Writer::text);
            }
            WireRequest::EndJob(job) => out.job(*job),
        }
        (out.0, data)
    }

    /// Decodes a request from node `from`. A life that depends on a link is that of `from`, whatever the bytes say.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a valid request.
    pub fn decode(
        operation: Operation,
        header: &[u8],
        data: Bytes,
        from: Id,
    ) -> Result<WireRequest, CodecError> {
        let mut bytes = versioned(header)?;
        if operation != Operation::Register && !data.is_empty() {
            return Err(CodecError::Long);
        }
        let ask = match operation {
            Operation::Create => WireRequest::Create(spec(&mut bytes)?),
            Operation::Register => WireRequest::Register {
                resource: bytes.resource()?,
                rank: bytes.wanted()?,
                token: bytes.token()?,
                life: of(bytes.life()?, from),
                data,
            },
            Operation::Withdraw => WireRequest::Withdraw {
                resource: bytes.resource()?,
                rank: bytes.u64()?,
                token: bytes.token()?,
            },
            Operation::Wait => WireRequest::Wait {
                resource: bytes.resource()?,
                of: if bytes.flag()? { Scope::Top } else { Scope::Own },
                limit: bytes.u64()?,
                token: bytes.option(Fields::token)?,
            },
            Operation::Properties => WireRequest::Properties(bytes.resource()?),
            Operation::Registrant => {
                WireRequest::Registrant { resource: bytes.resource()?, rank: bytes.u64()? }
            }
            Operation::Control => WireRequest::Control {
                resource: bytes.resource()?,
                unit: unit(&mut bytes)?,
                name: bytes.named()?.to_owned(),
                token: bytes.token()?,
                life: of(bytes.life()?, from),
            },
            Operation::Release => WireRequest::Release {
                resource: bytes.resource()?,
                unit: unit(&mut bytes)?,
                token: bytes.token()?,
                lost: bytes.option(Fields::named)?.map(str::to_owned),
            },
            Operation::Destroy => WireRequest::Destroy(bytes.resource()?),
            Operation::EndJob => WireRequest::EndJob(bytes.job()?),
        };
        bytes.end().map(|()| ask)
    }
}

/// Header and data of the reply.
pub fn encode_answer(answer: &Result<Answer, Fault>) -> (Vec<u8>, Bytes) {
    let mut out = Writer(vec![VERSION]);
    let mut data = Bytes::new();
    match answer {
        Err(fault) => {
            out.u8(0);
            put_fault(&mut out, fault);
        }
        Ok(Answer::Created(resource)) => {
            out.u8(1);
            out.resource(*resource);
        }
        Ok(Answer::Registered(Registration { rank, tally, capacity })) => {
            out.u8(2);
            [rank, tally, capacity].into_iter().for_each(|number| out.u32(*number));
        }
        Ok(Answer::Completed(Completion { level, data: whole, joint })) => {
            out.u8(3);
            out.u16(*level);
            out.option(joint.as_ref(), |out, joint| {
                out.job(joint.job);
                out.secret(&joint.secret);
            });
            data = whole.clone();
        }
        Ok(Answer::NotYet) => out.u8(4),
        Ok(Answer::Properties(properties)) => {
            out.u8(5);
            put_properties(&mut out, properties);
        }
        Ok(Answer::Data(brought)) => {
            out.u8(6);
            data = brought.clone();
        }
        Ok(Answer::Done) => out.u8(7),
        Ok(Answer::Ended(count)) => {
            out.u8(8);
            out.u64(*count as u64);
        }
        // Unreachable: no operation has this answer.
        Ok(Answer::List(_)) => out.u8(7),
    }
    (out.0, data)
}

/// Decodes a reply.
///
/// # Errors
/// Returns an error if the bytes are not a valid answer.
pub fn decode_answer(header: &[u8], data: Bytes) -> Result<Result<Answer, Fault>, CodecError> {
    let mut bytes = versioned(header)?;
    let tag = bytes.u8()?;
    if !matches!(tag, 3 | 6) && !data.is_empty() {
        return Err(CodecError::Long);
    }
    let answer = match tag {
        0 => Err(fault(&mut bytes)?),
        1 => Ok(Answer::Created(bytes.resource()?)),
        2 => Ok(Answer::Registered(Registration {
            rank: bytes.u32()?,
            tally: bytes.u32()?,
            capacity: bytes.u32()?,
        })),
        3 => {
            let level = bytes.u16()?;
            let joint = bytes.option(|bytes| Ok(Joint { job: bytes.job()?, secret: bytes.secret()? }))?;
            Ok(Answer::Completed(Completion { level, data, joint }))
        }
        4 => Ok(Answer::NotYet),
        5 => Ok(Answer::Properties(Box::new(properties(&mut bytes)?))),
        6 => Ok(Answer::Data(data)),
        7 => Ok(Answer::Done),
        8 => Ok(Answer::Ended(usize::try_from(bytes.u64()?).unwrap_or(usize::MAX))),
        _ => return Err(CodecError::Field("there is no such answer")),
    };
    bytes.end().map(|()| answer)
}

fn versioned(header: &[u8]) -> Result<Fields<'_>, CodecError> {
    let mut bytes = Fields::new(header);
    bytes.version(VERSION).map(|()| bytes)
}

/// The liveness of a caller, with the id of its link.
fn of(life: Life, from: Id) -> Life {
    match life {
        Life::Member(_) => Life::Member(from),
        life => life,
    }
}

fn put_spec(out: &mut Writer, spec: &Spec) {
    let Spec { capacity, level, lifetime, job, joint, parent } = spec;
    out.u64(*capacity);
    out.option(*level, Writer::u64);
    out.option(*lifetime, Writer::u64);
    out.option(*job, Writer::job);
    out.u8((*joint).into());
    out.option(parent.as_ref(), |out, Parent { handle, rank }| {
        out.handle(handle);
        out.wanted(*rank);
    });
}

fn spec(bytes: &mut Fields<'_>) -> Result<Spec, CodecError> {
    Ok(Spec {
        capacity: bytes.u64()?,
        level: bytes.option(Fields::u64)?,
        lifetime: bytes.option(Fields::u64)?,
        job: bytes.option(Fields::job)?,
        joint: bytes.flag()?,
        parent: bytes.option(|bytes| Ok(Parent { handle: bytes.handle()?, rank: bytes.wanted()? }))?,
    })
}

fn put_unit(out: &mut Writer, unit: Unit) {
    let rank = match unit {
        Unit::Own => None,
        Unit::Rank(rank) => Some(rank),
    };
    out.option(rank, Writer::u32);
}

fn unit(bytes: &mut Fields<'_>) -> Result<Unit, CodecError> {
    Ok(bytes.option(Fields::u32)?.map_or(Unit::Own, Unit::Rank))
}

fn put_fault(out: &mut Writer, fault: &Fault) {
    out.u16(fault.kind.number());
    out.text(&fault.message);
    out.option(fault.rank, Writer::u64);
    out.option(fault.task.as_deref(), Writer::text);
}

fn fault(bytes: &mut Fields<'_>) -> Result<Fault, CodecError> {
    let kind = FaultKind::from_number(bytes.u16()?).ok_or(CodecError::Field("there is no such fault"))?;
    let fault = Fault::new(kind, bytes.named()?);
    Ok(Fault {
        rank: bytes.option(Fields::u64)?,
        task: bytes.option(Fields::named)?.map(str::to_owned),
        ..fault
    })
}

fn put_properties(out: &mut Writer, properties: &Properties) {
    out.resource(properties.id);
    out.u16(properties.level);
    out.u32(properties.capacity);
    out.u32(properties.tally);
    // At most `MISSING_MAX`.
    out.u8(properties.missing.len() as u8);
    properties.missing.iter().for_each(|rank| out.u32(*rank));
    out.u64(properties.bytes);
    out.u8(properties.completed.into());
    out.option(properties.failed.as_ref(), put_fault);
    out.u64(properties.waiting as u64);
    out.u64(properties.created);
    out.u64(properties.expires);
    out.option(properties.job, Writer::job);
    out.option(properties.above.as_deref(), Writer::text);
}

fn properties(bytes: &mut Fields<'_>) -> Result<Properties, CodecError> {
    let (id, level, capacity, tally) = (bytes.resource()?, bytes.u16()?, bytes.u32()?, bytes.u32()?);
    let missing = match usize::from(bytes.u8()?) {
        count if count <= MISSING_MAX => (0..count).map(|_| bytes.u32()).collect::<Result<_, _>>()?,
        _ => return Err(CodecError::Field("more ranks are missing than are ever named")),
    };
    Ok(Properties {
        id,
        level,
        capacity,
        tally,
        missing,
        bytes: bytes.u64()?,
        completed: bytes.flag()?,
        failed: bytes.option(fault)?,
        waiting: usize::try_from(bytes.u64()?).unwrap_or(usize::MAX),
        created: bytes.u64()?,
        expires: bytes.u64()?,
        job: bytes.option(Fields::job)?,
        above: bytes.option(Fields::named)?.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests;

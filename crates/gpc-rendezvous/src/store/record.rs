//! Records of the store, as JSON, which people can read after a failure. They contain secrets, which only the file's
//! permissions protect.

use std::borrow::Cow;

use chained_gpc::Shown;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::machine::{
    Fault, FaultKind, Joint, Parent, RankChoice, StoredController, StoredRegistrant, StoredResource, Token,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceRecord<'a> {
    capacity: u32,
    level: u16,
    created: u64,
    expires: u64,
    job: Option<String>,
    #[serde(borrow)]
    joint: Option<JointRecord<'a>>,
    #[serde(borrow)]
    parent: Option<ParentRecord<'a>>,
    #[serde(borrow)]
    token: Cow<'a, str>,
    #[serde(borrow)]
    failed: Option<FaultRecord<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JointRecord<'a> {
    job: String,
    #[serde(borrow)]
    secret: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParentRecord<'a> {
    #[serde(borrow)]
    handle: Cow<'a, str>,
    /// `None` if the rank is to be assigned.
    rank: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRecord<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
    rank: Option<u64>,
    #[serde(borrow)]
    task: Option<Cow<'a, str>>,
}

/// A registrant, or with a name a controlling task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskRecord<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    token: Cow<'a, str>,
    lease: Option<u64>,
}

/// Bytes of a record, overwritten when they are dropped.
pub(super) type Bytes = Zeroizing<Vec<u8>>;

fn written(record: &impl Serialize) -> Result<Bytes, String> {
    serde_json::to_vec(record).map(Zeroizing::new).map_err(|error| error.to_string())
}

/// Reads a record. An error only gives the position, because serde's message may quote secrets.
fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("it is no record, at byte {}", error.column()))
}

pub(super) fn write_resource(stored: &StoredResource) -> Result<Bytes, String> {
    let secret = stored.joint.as_ref().map(|joint| joint.secret.to_text());
    let joint = stored.joint.as_ref().zip(secret.as_ref());
    let fault = |fault: &Fault| FaultRecord {
        code: fault.kind.code().into(),
        message: fault.message.clone().into(),
        rank: fault.rank,
        task: fault.task.clone().map(Cow::from),
    };
    written(&ResourceRecord {
        capacity: stored.capacity,
        level: stored.level,
        created: stored.created,
        expires: stored.expires,
        job: stored.job.map(|job| job.to_string()),
        joint: joint.map(|(joint, secret)| JointRecord {
            job: joint.job.to_string(),
            secret: secret.as_str().into(),
        }),
        parent: stored.parent.as_ref().map(|parent| ParentRecord {
            handle: parent.handle.to_string().into(),
            rank: match parent.rank {
                RankChoice::Rank(rank) => Some(rank),
                RankChoice::Assign => None,
            },
        }),
        token: stored.token.as_str().into(),
        failed: stored.failed.as_ref().map(fault),
    })
}

pub(super) fn read_resource(bytes: &[u8]) -> Result<StoredResource, String> {
    let record: ResourceRecord<'_> = read(bytes)?;
    if record.capacity == 0 || record.level == 0 {
        return Err("its capacity or its level is 0".into());
    }
    let fault = |record: FaultRecord<'_>| {
        let kind = FaultKind::from_code(&record.code);
        let kind = kind.ok_or_else(|| format!("there is no fault {}", Shown(&record.code)))?;
        let fault = Fault::new(kind, record.message);
        Ok::<Fault, String>(Fault { rank: record.rank, task: record.task.map(Cow::into_owned), ..fault })
    };
    let joint = |record: JointRecord<'_>| {
        let secret = record.secret.parse().map_err(|_| "what is to be the secret is none")?;
        Ok::<Joint, String>(Joint { job: job(&record.job)?, secret })
    };
    let parent = |record: ParentRecord<'_>| {
        let handle =
            record.handle.parse().map_err(|error| format!("the handle of what is above: {error}"))?;
        Ok::<Parent, String>(Parent {
            handle,
            rank: record.rank.map_or(RankChoice::Assign, RankChoice::Rank),
        })
    };
    Ok(StoredResource {
        capacity: record.capacity,
        level: record.level,
        created: record.created,
        expires: record.expires,
        job: record.job.as_deref().map(job).transpose()?,
        joint: record.joint.map(joint).transpose()?,
        parent: record.parent.map(parent).transpose()?,
        token: token(&record.token)?,
        failed: record.failed.map(fault).transpose()?,
    })
}

fn job(text: &str) -> Result<chained_gpc::Job, String> {
    text.parse().map_err(|error: chained_gpc::JobError| Shown(&error.to_string()).to_string())
}

fn token(text: &str) -> Result<Token, String> {
    Token::new(text).ok_or_else(|| "what is to be a token is none".into())
}

pub(super) fn write_registrant(stored: &StoredRegistrant) -> Result<Bytes, String> {
    written(&TaskRecord { name: None, token: stored.token.as_str().into(), lease: stored.lease })
}

pub(super) fn read_registrant(bytes: &[u8]) -> Result<StoredRegistrant, String> {
    let record: TaskRecord<'_> = read(bytes)?;
    Ok(StoredRegistrant { token: token(&record.token)?, lease: record.lease })
}

pub(super) fn write_controller(stored: &StoredController) -> Result<Bytes, String> {
    let (name, token) = (Some(stored.name.as_str().into()), stored.token.as_str().into());
    written(&TaskRecord { name, token, lease: stored.lease })
}

pub(super) fn read_controller(bytes: &[u8]) -> Result<StoredController, String> {
    let record: TaskRecord<'_> = read(bytes)?;
    let name = record.name.ok_or("a controlling task has a name")?.into_owned();
    Ok(StoredController { name, token: token(&record.token)?, lease: record.lease })
}

#[cfg(test)]
mod tests {
    use chained_gpc::{Job, Secret};

    use super::*;
    use crate::machine::{Handle, ResourceId};

    #[test]
    fn records_are_read_as_they_were_written() {
        let handle = Handle::new("http://a/rendezvous", ResourceId([3; 16])).unwrap();
        for rank in [RankChoice::Assign, RankChoice::Rank(0), RankChoice::Rank(u64::MAX)] {
            let fault = Fault::new(FaultKind::ControllerLost, "it is lost").of_rank(4).of_task("me");
            let resource = StoredResource {
                capacity: 2,
                level: 3,
                created: 4,
                expires: 5,
                job: Some(Job([6; 16])),
                joint: Some(Joint { job: Job([7; 16]), secret: Secret::new(&[8; 32]).unwrap() }),
                parent: Some(Parent { handle: handle.clone(), rank }),
                token: Token::new("t").unwrap(),
                failed: Some(fault),
            };
            assert_eq!(read_resource(&write_resource(&resource).unwrap()), Ok(resource.clone()));
            let (job, joint, parent, failed) = (None, None, None, None);
            let bare = StoredResource { job, joint, parent, failed, ..resource };
            assert_eq!(read_resource(&write_resource(&bare).unwrap()), Ok(bare));
        }
        for lease in [None, Some(0), Some(u64::MAX)] {
            let (name, token) = ("name".to_owned(), Token::new("t").unwrap());
            let registrant = StoredRegistrant { token: token.clone(), lease };
            assert_eq!(read_registrant(&write_registrant(&registrant).unwrap()), Ok(registrant));
            let controller = StoredController { name, token, lease };
            assert_eq!(read_controller(&write_controller(&controller).unwrap()), Ok(controller));
        }
    }
}

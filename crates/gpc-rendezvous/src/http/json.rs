//! JSON of requests and answers.

use chained_gpc::Shown;
use serde::{Deserialize, Serialize};

use super::problem::{Problem, ProblemShape, written};
use super::query::millis;
use crate::machine::{
    Completion, Fault, FaultKind, Millis, Parent, Properties, RankChoice, Registration, Spec, Token,
};

/// Longest JSON of a request, bytes: far more than any needs.
pub(super) const JSON_MAX: u64 = 16 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    capacity: u64,
    level: Option<u64>,
    lifetime: Option<f64>,
    job: Option<String>,
    #[serde(default)]
    joint: bool,
    parent: Option<Above>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Above {
    handle: String,
    rank: Rank,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Rank {
    Number(i64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

/// Parses the parameters of a new resource.
pub(super) fn spec(text: &[u8]) -> Result<Spec, Problem> {
    let Wish { capacity, level, lifetime, job, joint, parent } = parsed(text)?;
    let lifetime = match lifetime {
        Some(seconds) => Some(millis(seconds).ok_or_else(|| {
            let message = format!("a lifetime is a time in seconds, not {seconds}");
            Problem::from(Fault::new(FaultKind::LifetimeOutOfRange, message))
        })?),
        None => None,
    };
    let job = match job {
        Some(job) => Some(job.parse().map_err(|_| Problem::bad("`job` is 32 hexadecimal digits"))?),
        None => None,
    };
    let parent = match parent {
        Some(Above { handle, rank }) => {
            let handle = handle.parse().map_err(|error| Problem::bad(format!("`parent.handle`: {error}")))?;
            Some(Parent { handle, rank: wanted(&rank)? })
        }
        None => None,
    };
    Ok(Spec { capacity, level, lifetime, job, joint, parent })
}

fn wanted(rank: &Rank) -> Result<RankChoice, Problem> {
    match rank {
        Rank::Number(-1) => Ok(RankChoice::Assign),
        Rank::Text(text) if text == "assign" => Ok(RankChoice::Assign),
        Rank::Number(rank) => u64::try_from(*rank).map(RankChoice::Rank).map_err(|_| {
            Fault::new(FaultKind::RankOutOfRange, format!("there is no rank {rank}: they begin with 0"))
                .into()
        }),
        Rank::Text(text) => {
            Err(Problem::bad(format!("`parent.rank` is a number or `assign`, not `{}`", Shown(text))))
        }
    }
}

/// Parses the name of a controlling task.
pub(super) fn name(text: &[u8]) -> Result<String, Problem> {
    Ok(parsed::<Named>(text)?.name)
}

fn parsed<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(text).map_err(|error| {
        Problem::bad(format!("the body is not the JSON for this: {}", Shown(&error.to_string())))
    })
}

/// JSON of a created resource.
#[derive(Serialize)]
pub(super) struct CreatedShape {
    pub(super) handle: String,
    pub(super) id: String,
}

/// JSON of a registration.
#[derive(Serialize)]
struct RegistrationShape<'a> {
    rank: u32,
    tally: u32,
    capacity: u32,
    token: &'a str,
}

pub(super) fn registered(registered: Registration, token: &Token) -> String {
    let Registration { rank, tally, capacity } = registered;
    text(&RegistrationShape { rank, tally, capacity, token: token.as_str() })
}

#[derive(Serialize)]
struct PropertiesShape<'a> {
    id: String,
    level: u16,
    capacity: u32,
    tally: u32,
    completed: bool,
    missing: &'a [u32],
    bytes: u64,
    waiting: usize,
    created: Millis,
    expires: Millis,
    job: Option<String>,
    above: Option<&'a str>,
    failed: Option<ProblemShape<'a>>,
}

/// JSON of a resource's properties.
pub(super) fn properties(properties: &Properties) -> String {
    text(&PropertiesShape {
        id: properties.id.to_string(),
        level: properties.level,
        capacity: properties.capacity,
        tally: properties.tally,
        completed: properties.completed,
        missing: &properties.missing,
        bytes: properties.bytes,
        waiting: properties.waiting,
        created: properties.created,
        expires: properties.expires,
        job: properties.job.map(|job| job.to_string()),
        above: properties.above.as_deref(),
        failed: properties.failed.as_ref().map(written),
    })
}

#[derive(Serialize)]
struct SummaryShape<'a> {
    id: String,
    level: u16,
    capacity: u32,
    tally: u32,
    waiting: usize,
    completed: bool,
    failed: Option<&'a str>,
    age: u64,
    above: bool,
}

/// JSON of resources for the page, with shortened ids, which do not suffice to access them.
pub(super) fn resources(list: &[Properties], now: Millis) -> String {
    let glance = |properties| SummaryShape::of(properties, now);
    text(&list.iter().map(glance).collect::<Vec<_>>())
}

impl<'a> SummaryShape<'a> {
    fn of(properties: &'a Properties, now: Millis) -> SummaryShape<'a> {
        SummaryShape {
            id: properties.id.short().to_string(),
            level: properties.level,
            capacity: properties.capacity,
            tally: properties.tally,
            waiting: properties.waiting,
            completed: properties.completed,
            failed: properties.failed.as_ref().map(|fault| fault.message.as_str()),
            age: now.saturating_sub(properties.created) / 1000,
            above: properties.above.is_some(),
        }
    }
}

/// JSON of a tally.
pub(super) fn tally(tally: u32, capacity: u32) -> String {
    format!("{{\"tally\":{tally},\"capacity\":{capacity}}}")
}

/// The texts before and after the data of a completion.
pub(super) fn around(completion: &Completion) -> (String, String) {
    (format!("{{\"level\":{},\"data\":\"", completion.level), format!("\",\"joint\":{}}}", joint(completion)))
}

/// JSON of a completion without its data.
pub(super) fn without_data(completion: &Completion) -> String {
    format!("{{\"level\":{},\"joint\":{}}}", completion.level, joint(completion))
}

fn joint(completion: &Completion) -> String {
    match &completion.joint {
        // Both are hexadecimal digits.
        Some(joint) => format!("{{\"job\":\"{}\",\"secret\":\"{}\"}}", joint.job, *joint.secret.to_text()),
        None => "null".into(),
    }
}

/// JSON of a fault, as a problem.
pub(super) fn problem(fault: &Fault) -> String {
    text(&written(fault))
}

/// Serializes a value. Numbers and text cannot fail.
pub(super) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

//! HTTP requests and answers of a service: builds and interprets them, without I/O.
//!
//! Source: the interface of the service, as its `openapi.json` describes it; faults are RFC 9457 problems.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chained_gpc::{Job, Shown};
use hyper::Method;
use serde::{Deserialize, Serialize};

use super::permits::PermitKind;
use super::retry::Failure;
use super::url::ServiceUrl;
use crate::machine::{
    Completion, Fault, FaultKind, Handle, Joint, NAME_MAX, Properties, RankChoice, Registration, ResourceId,
    Scope, Spec, Token, Unit,
};

/// Longest answer without data, bytes: properties, and faults with the longest texts, all of them escaped.
pub(crate) const SHORT_MAX: u64 = 64 << 10;

/// Most bytes of an unexpected answer that an error quotes.
const QUOTED_MAX: usize = 200;

/// Longest reason for a lost unit, bytes.
const WHY_MAX: usize = 512;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct ServiceRequest {
    pub(crate) method: Method,
    pub(crate) url: String,
    /// Token of the registrant or controlling task.
    pub(crate) token: Option<Token>,
    /// Type of the content, and the content.
    pub(crate) content: Option<(&'static str, Bytes)>,
    /// Whether the request may be repeated if its answer is lost: the service then carries it out once.
    pub(crate) again: bool,
    /// Longest content of the answer, bytes.
    pub(crate) answer_max: u64,
    /// How long the service may hold the request before it answers, milliseconds.
    pub(crate) hold_ms: u64,
    /// Kind of permit that the request needs.
    pub(crate) permit: PermitKind,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct ServiceResponse {
    pub(crate) status: u16,
    /// Type of the content.
    pub(crate) kind: String,
    pub(crate) content: Bytes,
    /// Whether errors may quote the content. If a service sends requests for its clients, quotes would show these what
    /// only the service can reach.
    pub(crate) quotable: bool,
}

impl ServiceRequest {
    fn new(method: Method, url: String) -> ServiceRequest {
        let (again, answer_max, permit) = (true, SHORT_MAX, PermitKind::Short);
        ServiceRequest { method, url, token: None, content: None, again, answer_max, hold_ms: 0, permit }
    }

    /// Creates a resource. Not repeated after a lost answer, because that would create a second resource.
    pub(crate) fn create(service: &ServiceUrl, spec: &Spec) -> ServiceRequest {
        let parent = spec.parent.as_ref().map(|parent| ParentShape {
            handle: parent.handle.to_string(),
            rank: match parent.rank {
                RankChoice::Rank(rank) => RankShape::Rank(rank),
                RankChoice::Assign => RankShape::Word("assign"),
            },
        });
        let shape = SpecShape {
            capacity: spec.capacity,
            level: spec.level,
            lifetime: spec.lifetime.map(|lifetime| lifetime as f64 / 1000.0),
            job: spec.job.map(|job| job.to_string()),
            joint: spec.joint,
            parent,
        };
        // Serializing this type cannot fail: it has no maps.
        let json = serde_json::to_vec(&shape).unwrap_or_default();
        let content = Some(("application/json", json.into()));
        ServiceRequest { content, again: false, ..ServiceRequest::new(Method::POST, service.as_str().into()) }
    }

    /// Registers data.
    pub(crate) fn register(
        of: (&ServiceUrl, ResourceId),
        rank: RankChoice,
        token: &Token,
        data: Bytes,
        lease: Option<u64>,
    ) -> ServiceRequest {
        let rank = match rank {
            RankChoice::Rank(rank) => rank.to_string(),
            RankChoice::Assign => "assign".into(),
        };
        let mut url = format!("{}/registrants?rank={rank}", at(of));
        put_lease(&mut url, '&', lease);
        let content = Some(("application/octet-stream", data));
        ServiceRequest { token: Some(token.clone()), content, ..ServiceRequest::new(Method::POST, url) }
    }

    /// Withdraws a registration.
    pub(crate) fn withdraw(of: (&ServiceUrl, ResourceId), rank: u64, token: &Token) -> ServiceRequest {
        let url = format!("{}/registrants/{rank}", at(of));
        ServiceRequest { token: Some(token.clone()), ..ServiceRequest::new(Method::DELETE, url) }
    }

    /// Waits for the completion, at most `wait` milliseconds.
    pub(crate) fn wait(
        at_service: (&ServiceUrl, ResourceId),
        of: Scope,
        wait: u64,
        token: Option<&Token>,
        data_max: u64,
    ) -> ServiceRequest {
        let url = format!("{}/completion?wait={}&of={}", at(at_service), seconds(wait), scope(of));
        let answer_max = completion_max(data_max);
        let permit = if wait > 0 { PermitKind::LongPoll } else { PermitKind::Short };
        ServiceRequest {
            token: token.cloned(),
            answer_max,
            hold_ms: wait,
            permit,
            ..ServiceRequest::new(Method::GET, url)
        }
    }

    /// Opens a stream of events, which ends with the completion or a fault. Its content is read piece by piece.
    pub(crate) fn events(
        at_service: (&ServiceUrl, ResourceId),
        of: Scope,
        token: Option<&Token>,
    ) -> ServiceRequest {
        let url = format!("{}/events?of={}", at(at_service), scope(of));
        ServiceRequest { token: token.cloned(), ..ServiceRequest::new(Method::GET, url) }
    }

    /// Asks for the properties of a resource.
    pub(crate) fn properties(of: (&ServiceUrl, ResourceId)) -> ServiceRequest {
        ServiceRequest::new(Method::GET, at(of))
    }

    /// Destroys a resource.
    pub(crate) fn destroy(of: (&ServiceUrl, ResourceId)) -> ServiceRequest {
        ServiceRequest::new(Method::DELETE, at(of))
    }

    /// Destroys the resources of a job.
    pub(crate) fn end_job(service: &ServiceUrl, job: Job) -> ServiceRequest {
        ServiceRequest::new(Method::DELETE, format!("{}/{job}", service.beside("jobs")))
    }

    /// Registers a controlling task, or renews its lease.
    pub(crate) fn control(
        of: (&ServiceUrl, ResourceId),
        unit: Unit,
        name: &str,
        token: &Token,
        lease: Option<u64>,
    ) -> ServiceRequest {
        let mut url = at_unit(of, unit);
        put_lease(&mut url, '?', lease);
        let name = &name[..name.floor_char_boundary(NAME_MAX)];
        let json = serde_json::json!({ "name": name }).to_string();
        let content = Some(("application/json", json.into()));
        ServiceRequest {
            token: Some(token.clone()),
            content,
            permit: PermitKind::Renewal,
            ..ServiceRequest::new(Method::PUT, url)
        }
    }

    /// Removes a controlling task.
    pub(crate) fn release(
        of: (&ServiceUrl, ResourceId),
        unit: Unit,
        token: &Token,
        lost: Option<&str>,
    ) -> ServiceRequest {
        let mut url = at_unit(of, unit);
        if let Some(lost) = lost {
            url.push_str("?lost=");
            put_escaped(&mut url, &lost[..lost.floor_char_boundary(WHY_MAX)]);
        }
        ServiceRequest {
            token: Some(token.clone()),
            permit: PermitKind::Renewal,
            ..ServiceRequest::new(Method::DELETE, url)
        }
    }
}

/// Longest data in an event. Subscribers ask for longer ones.
pub(crate) const EVENT_DATA_MAX: u64 = 1 << 20;

/// Longest answer with so many bytes of data: base64, inside JSON.
pub(super) fn completion_max(data_max: u64) -> u64 {
    (data_max / 3 + 1).saturating_mul(4).saturating_add(SHORT_MAX)
}

fn at((service, id): (&ServiceUrl, ResourceId)) -> String {
    format!("{}/{id}", service.as_str())
}

fn at_unit(of: (&ServiceUrl, ResourceId), unit: Unit) -> String {
    match unit {
        Unit::Own => format!("{}/controllers/own", at(of)),
        Unit::Rank(rank) => format!("{}/controllers/{rank}", at(of)),
    }
}

fn scope(of: Scope) -> &'static str {
    match of {
        Scope::Own => "own",
        Scope::Top => "top",
    }
}

/// Milliseconds as decimal seconds, without rounding.
fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

fn put_lease(url: &mut String, before: char, lease: Option<u64>) {
    if let Some(lease) = lease {
        // Writing to a string cannot fail.
        let _ = write!(url, "{before}lease={}", seconds(lease));
    }
}

/// Appends percent-encoded text: RFC 3986, section 2.1.
fn put_escaped(url: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(url, "%{byte:02X}")),
        }
    }
}

#[derive(Serialize)]
struct SpecShape {
    capacity: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    joint: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<ParentShape>,
}

#[derive(Serialize)]
struct ParentShape {
    handle: String,
    rank: RankShape,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RankShape {
    Rank(u64),
    Word(&'static str),
}

#[derive(Deserialize)]
struct CreatedShape {
    handle: String,
}

#[derive(Deserialize)]
struct RegisteredShape {
    rank: u32,
    tally: u32,
    capacity: u32,
}

#[derive(Deserialize)]
struct EndedShape {
    ended: u64,
}

#[derive(Deserialize)]
struct CompletionShape<'a> {
    level: u16,
    #[serde(borrow)]
    data: std::borrow::Cow<'a, str>,
    joint: Option<JointShape>,
}

/// The event of a completion. Long data are left out: they are asked for.
#[derive(Deserialize)]
struct CompletedShape<'a> {
    #[serde(borrow)]
    data: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct TallyShape {
    tally: u32,
    capacity: u32,
}

#[derive(Deserialize)]
struct JointShape {
    job: String,
    secret: String,
}

#[derive(Deserialize)]
struct ProblemShape {
    code: String,
    detail: Option<String>,
    title: Option<String>,
    rank: Option<u64>,
    task: Option<String>,
}

#[derive(Deserialize)]
struct PropertiesShape {
    id: String,
    level: u16,
    capacity: u32,
    tally: u32,
    missing: Vec<u32>,
    bytes: u64,
    completed: bool,
    failed: Option<ProblemShape>,
    waiting: usize,
    created: u64,
    expires: u64,
    job: Option<String>,
    above: Option<String>,
}

impl ServiceResponse {
    /// An answer without content.
    pub(crate) fn done(&self) -> Result<(), Failure> {
        self.expect(&[204])
    }

    /// The handle of a new resource.
    pub(crate) fn created(&self) -> Result<Handle, Failure> {
        self.expect(&[201])?;
        let shape: CreatedShape = self.json()?;
        shape.handle.parse().map_err(|error| Failure::Malformed(format!("the new handle: {error}")))
    }

    /// A registration.
    pub(crate) fn registered(&self) -> Result<Registration, Failure> {
        self.expect(&[201])?;
        let RegisteredShape { rank, tally, capacity } = self.json()?;
        Ok(Registration { rank, tally, capacity })
    }

    /// The number of resources that ended.
    pub(crate) fn ended(&self) -> Result<u64, Failure> {
        self.expect(&[200])?;
        self.json().map(|EndedShape { ended }| ended)
    }

    /// A completion; `None` if the rendezvous is not complete yet.
    pub(crate) fn completion(&self) -> Result<Option<Completion>, Failure> {
        self.expect(&[200, 204])?;
        if self.status == 204 {
            return Ok(None);
        }
        let shape: CompletionShape<'_> = self.json()?;
        let data = STANDARD.decode(shape.data.as_bytes());
        let data = data.map_err(|_| Failure::Malformed("the data are no base64".into()))?;
        if shape.level == 0 {
            return Err(Failure::Malformed("a completion of level 0".into()));
        }
        let joint = shape.joint.map(JointShape::read).transpose()?;
        Ok(Some(Completion { level: shape.level, data: data.into(), joint }))
    }

    /// The number of registrants in an event, and the capacity.
    pub(crate) fn tally(&self) -> Result<(u32, u32), Failure> {
        self.json().map(|TallyShape { tally, capacity }| (tally, capacity))
    }

    /// The completion in an event; `None` if its data are too long for one.
    pub(crate) fn completed(&self) -> Result<Option<Completion>, Failure> {
        let CompletedShape { data } = self.json()?;
        if data.is_some() { self.completion() } else { Ok(None) }
    }

    /// The fault in an event.
    pub(crate) fn fault(&self) -> Result<Fault, Failure> {
        self.json::<ProblemShape>()?.read()
    }

    /// The properties of a resource.
    pub(crate) fn properties(&self) -> Result<Properties, Failure> {
        self.expect(&[200])?;
        let shape: PropertiesShape = self.json()?;
        let nonsense = |what: &str| Failure::Malformed(format!("the resource's {what}"));
        let failed = shape.failed.map(ProblemShape::read).transpose()?;
        let job = shape.job.map(|job| job.parse()).transpose().map_err(|_| nonsense("job"))?;
        Ok(Properties {
            id: shape.id.parse().map_err(|_| nonsense("id"))?,
            level: shape.level,
            capacity: shape.capacity,
            tally: shape.tally,
            missing: shape.missing,
            bytes: shape.bytes,
            completed: shape.completed,
            failed,
            waiting: shape.waiting,
            created: shape.created,
            expires: shape.expires,
            job,
            above: shape.above,
        })
    }

    fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        serde_json::from_slice(&self.content).map_err(|error| {
            let error = if self.quotable { format!(": {error}") } else { String::new() };
            Failure::Malformed(format!("{}, which is not as it should be{error}", self.quoted()))
        })
    }

    /// Checks that the status is one of these, else returns the fault or the reason.
    pub(super) fn expect(&self, statuses: &[u16]) -> Result<(), Failure> {
        if statuses.contains(&self.status) {
            return Ok(());
        }
        let status = self.status;
        if status >= 400
            && let Ok(problem) = serde_json::from_slice::<ProblemShape>(&self.content)
        {
            return Err(match problem.read() {
                Ok(fault) if status == 504 => Failure::Uncertain(fault),
                Ok(fault) => Failure::Fault(fault),
                // The kind of fault is unknown, but status 503 is transient.
                Err(_) if status == 503 => Failure::Gateway(format!("status {status}, {}", self.quoted())),
                Err(_) => Failure::Malformed(format!(
                    "status {status} with a fault that is unknown here, {}",
                    self.quoted()
                )),
            });
        }
        Err(match status {
            300..=399 => {
                Failure::Malformed(format!("status {status}: it leads elsewhere, and is not followed"))
            }
            // Sent by a proxy whose service does not answer.
            502..=504 => Failure::Gateway(format!("status {status}, {}", self.quoted())),
            _ => Failure::Malformed(format!("status {status}, {}", self.quoted())),
        })
    }

    /// The first bytes of the content, for people.
    fn quoted(&self) -> String {
        if !self.quotable {
            return format!("with a content of {} bytes", self.content.len());
        }
        let text = String::from_utf8_lossy(&self.content[..self.content.len().min(QUOTED_MAX)]);
        let kind: String = self.kind.chars().take(QUOTED_MAX).collect();
        match text.trim() {
            "" => "without a content".into(),
            text => format!("`{}` ({})", Shown(text), Shown(&kind)),
        }
    }
}

impl JointShape {
    fn read(self) -> Result<Joint, Failure> {
        // Job and secret are confidential, so errors do not quote them.
        let job = self.job.parse().map_err(|_| Failure::Malformed("the joint job is none".into()))?;
        let secret = zeroize::Zeroizing::new(self.secret);
        let secret = secret.parse().map_err(|_| Failure::Malformed("the joint secret is none".into()))?;
        Ok(Joint { job, secret })
    }
}

impl ProblemShape {
    fn read(self) -> Result<Fault, Failure> {
        let ProblemShape { code, detail, title, rank, task } = self;
        let message = detail.or(title).unwrap_or_else(|| code.clone());
        let Some(kind) = FaultKind::from_code(&code) else {
            let what = format!("the fault `{code}`, which is unknown here: {message}");
            return Err(Failure::Malformed(Shown(&what).to_string()));
        };
        let fault = Fault::new(kind, message);
        let task = task.map(|task| task[..task.floor_char_boundary(NAME_MAX)].to_owned());
        Ok(Fault { rank, task, ..fault })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Parent;

    fn service() -> ServiceUrl {
        "http://a:1/rendezvous".parse().unwrap()
    }

    fn given(status: u16, content: &str) -> ServiceResponse {
        ServiceResponse {
            status,
            kind: "application/json".into(),
            content: content.to_owned().into(),
            quotable: true,
        }
    }

    #[test]
    fn requests_are_those_of_the_interface() {
        let (service, id, token) = (service(), ResourceId([1; 16]), Token::new("t").unwrap());
        let at = (&service, id);
        let url = |ask: ServiceRequest| {
            format!("{} {}", ask.method, ask.url.replace("http://a:1", "").replace(&id.to_string(), "ID"))
        };
        let register = ServiceRequest::register(at, RankChoice::Rank(2), &token, "data".into(), Some(1500));
        assert_eq!(url(register), "POST /rendezvous/ID/registrants?rank=2&lease=1.500");
        let register = ServiceRequest::register(at, RankChoice::Assign, &token, "data".into(), None);
        assert!(register.again && url(register) == "POST /rendezvous/ID/registrants?rank=assign");
        assert_eq!(url(ServiceRequest::withdraw(at, 7, &token)), "DELETE /rendezvous/ID/registrants/7");
        let wait = ServiceRequest::wait(at, Scope::Top, 30_000, None, 1 << 40);
        assert_eq!(url(wait), "GET /rendezvous/ID/completion?wait=30.000&of=top");
        assert_eq!(url(ServiceRequest::properties(at)), "GET /rendezvous/ID");
        assert_eq!(url(ServiceRequest::destroy(at)), "DELETE /rendezvous/ID");
        let job = "00112233445566778899aabbccddeeff";
        assert_eq!(
            url(ServiceRequest::end_job(&service, job.parse().unwrap())),
            format!("DELETE /jobs/{job}")
        );
        let control = ServiceRequest::control(at, Unit::Rank(3), &"ä".repeat(300), &token, Some(30_000));
        let (_, content) = control.content.clone().unwrap();
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&content).unwrap()["name"],
            "ä".repeat(NAME_MAX / 2)
        );
        assert_eq!(url(control), "PUT /rendezvous/ID/controllers/3?lease=30.000");
        let release = ServiceRequest::release(at, Unit::Own, &token, Some("a&b=ö/"));
        assert_eq!(url(release), "DELETE /rendezvous/ID/controllers/own?lost=a%26b%3D%C3%B6%2F");
    }

    #[test]
    fn a_new_resource_is_asked_for_once() {
        let handle: Handle = "http://b:2/rendezvous?000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let parent = Some(Parent { handle, rank: RankChoice::Assign });
        let ask = ServiceRequest::create(&service(), &Spec { lifetime: Some(1500), parent, ..Spec::new(3) });
        let (_, content) = ask.content.unwrap();
        let expected = r#"{"capacity":3,"lifetime":1.5,"joint":false,"parent":{"handle":"http://b:2/rendezvous?000102030405060708090a0b0c0d0e0f","rank":"assign"}}"#;
        assert_eq!((&content[..], ask.again), (expected.as_bytes(), false));
    }

    #[test]
    fn a_problem_is_the_fault_of_the_service() {
        let text = r#"{"type":"urn:x","title":"t","status":409,"detail":"taken","code":"rank-taken","rank":3,"task":"me"}"#;
        let expected = Fault::new(FaultKind::RankTaken, "taken").of_rank(3).of_task("me");
        assert_eq!(given(409, text).done(), Err(Failure::Fault(expected)));
        for kind in FaultKind::ALL {
            let text = format!(r#"{{"code":"{kind}"}}"#);
            let Err(Failure::Fault(fault)) = given(400, &text).registered() else { panic!("{kind}") };
            assert_eq!(fault.kind, *kind);
        }
    }

    /// The service answers 504 if it may carry a creation out later.
    #[test]
    fn a_service_that_may_have_done_it_says_so_by_its_status() {
        let text = r#"{"code":"unavailable","detail":"no answer"}"#;
        let fault = Fault::new(FaultKind::Unavailable, "no answer");
        assert_eq!(given(504, text).created(), Err(Failure::Uncertain(fault.clone())));
        assert_eq!(given(503, text).created(), Err(Failure::Fault(fault)));
        for status in [502, 503, 504] {
            assert!(matches!(given(status, "<html>").created(), Err(Failure::Gateway(_))), "{status}");
        }
    }

    #[test]
    fn a_wait_names_its_token_and_has_room_for_the_longest_answer() {
        let (service, token) = (service(), Token::new("t").unwrap());
        let at = (&service, ResourceId([1; 16]));
        let wait = |millis, data_max| ServiceRequest::wait(at, Scope::Own, millis, Some(&token), data_max);
        assert_eq!(wait(1, 1).token, Some(token.clone()));
        let data = STANDARD.encode(vec![1; 300_000]).len() as u64;
        assert!(wait(1, 300_000).answer_max >= data + SHORT_MAX);
        assert_eq!((wait(0, 1).permit, wait(1, 1).permit), (PermitKind::Short, PermitKind::LongPoll));
        assert_eq!((wait(7, 1).hold_ms, wait(1, u64::MAX).answer_max), (7, u64::MAX));
        assert_eq!(
            (seconds(2005), seconds(50), seconds(0)),
            ("2.005".into(), "0.050".into(), "0.000".into())
        );
    }

    #[test]
    fn what_is_no_answer_of_a_service_is_bounded_and_harmless() {
        let away = given(503, "<html>gone").done().unwrap_err();
        assert!(matches!(away, Failure::Gateway(why) if why.contains("503")));
        for (status, content) in [
            (302, String::new()),
            (200, "\u{1b}[2J".repeat(1000)),
            (404, "no such page".into()),
            (409, r#"{"code":"\u001b[2J","detail":"x"}"#.into()),
            (204, String::new()),
        ] {
            let Err(Failure::Malformed(what)) = given(status, &content).created() else { panic!("{status}") };
            assert!(what.len() < 2000 && !what.contains('\u{1b}'), "{what}");
        }
    }

    #[test]
    fn a_completion_comes_with_what_they_have_in_common() {
        let (job, secret) = ("00112233445566778899aabbccddeeff", "ab".repeat(32));
        let joint = format!(r#"{{"job":"{job}","secret":"{secret}"}}"#);
        let text = |joint: &str| format!(r#"{{"level":2,"data":"MSAxIDEgYQ\u003d\u003d","joint":{joint}}}"#);
        let found = given(200, &text(&joint)).completion().unwrap().unwrap();
        assert_eq!((found.level, &found.data[..]), (2, &b"1 1 1 a"[..]));
        assert_eq!(found.joint.unwrap().job.to_string(), job);
        assert_eq!(given(204, "").completion(), Ok(None));
        let Err(Failure::Malformed(what)) = given(200, &text(&joint.replace("ab", "xy"))).completion() else {
            panic!("that is no secret")
        };
        assert!(!what.contains("xy"), "{what}");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(status in 100_u16..600, content in prop::collection::vec(any::<u8>(), 0..80)) {
            let given = ServiceResponse { status, kind: String::new(), content: content.into(), quotable: true };
            let (_, _, _) = (given.done(), given.created(), given.registered());
            let (_, _, _) = (given.ended(), given.completion(), given.properties());
        }

        #[test]
        fn whatever_json_comes_is_read_or_refused(
            status in prop::sample::select(vec![200_u16, 201, 204, 409, 503]),
            fields in prop::collection::vec(("(level|data|joint|job|code|rank|handle|id|ended|tally|capacity|missing)", "(null|-1|0|70000|\"a\"|\\[\\]|\\[1\\]|\\{\\})"), 0..6),
        ) {
            let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let given = given(status, &format!("{{{}}}", fields.join(",")));
            let (_, _, _) = (given.done(), given.created(), given.registered());
            let (_, _, _) = (given.ended(), given.completion(), given.properties());
        }

        #[test]
        fn what_is_escaped_is_a_part_of_a_url(why in "\\PC{0,40}") {
            let ask = ServiceRequest::release((&service(), ResourceId([1; 16])), Unit::Own, &Token::new("t").unwrap(), Some(&why));
            prop_assert!(ask.url.parse::<hyper::Uri>().is_ok());
            prop_assert!(!ask.url.split_once('=').unwrap().1.contains(['&', '#', '=', ' ']));
        }
    }
}

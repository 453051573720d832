//! PMI-2: each request and each answer is a message. `docs/pmi.md`, "PMI-2".

use super::attributes::NodeRequest;
use super::message::{Fields, reply};
use super::one::codes;
use super::spawn::Draft;
use super::step::{JOB_LIMIT, PendingReply, Step, TwoForm, TwoReply, is_reserved, quoted};
use super::text;
use super::text::{name, number, reason, status};
use crate::fault::{Fault, FaultKind};
use crate::names::Set;
use crate::request::{Answer, Identity, Pair, Request};
use crate::spec::LEFT_OUT;

/// The return code of a failed command.
const FAILED: i32 = -1;

impl TwoReply {
    fn say(&self, code: i32, fields: &[(&str, &[u8])]) -> Vec<u8> {
        let bounded = |thread| {
            let why = ("errmsg", &b"the_answer_is_too_long"[..]);
            reply(&self.command, thread, FAILED, &[why])
        };
        let thread = self.thread.as_deref();
        // The last reply is short, since the length of a command is bounded. That of a thread id is not.
        let whole = reply(&self.command, thread, code, fields);
        whole.or_else(|| bounded(thread)).or_else(|| bounded(None)).unwrap_or_default()
    }

    fn failed(&self, why: &str) -> Vec<u8> {
        self.say(FAILED, &[("errmsg", why.as_bytes())])
    }

    /// Encodes an answer as a message.
    pub(super) fn answer(&self, me: Option<&Identity>, answer: Result<Answer, Fault>) -> Vec<u8> {
        match (&self.what, answer) {
            (TwoForm::Done, Ok(_)) => self.say(0, &[]),
            (TwoForm::Identity { all }, Ok(Answer::Identity(me))) => self.identity(&me, *all),
            (TwoForm::Value, Ok(Answer::Value(value))) => {
                self.say(0, &[("found", b"TRUE"), ("value", &value)])
            }
            (TwoForm::Value, Err(fault)) if fault.kind == FaultKind::NotFound => {
                self.say(0, &[("found", b"FALSE")])
            }
            // MPICH's client reads `port`, Slurm's reads `value`.
            (TwoForm::Lookup, Ok(Answer::Value(port))) => self.say(0, &[("port", &port), ("value", &port)]),
            (TwoForm::Spawn, Ok(Answer::Spawned { group, errors, .. })) => {
                let job = me.map(|me| sibling(&me.database, group.0)).unwrap_or_default();
                let codes = codes(&errors);
                let fields = [("jobid", job.as_bytes()), ("errcodes", codes.as_bytes())];
                match errors.iter().all(|error| matches!(*error, 0 | LEFT_OUT)) {
                    true => self.say(0, &fields),
                    false => {
                        let why = ("errmsg", &b"processes_could_not_be_started"[..]);
                        self.say(FAILED, &[why, fields[1]])
                    }
                }
            }
            (TwoForm::Connect(job), Ok(Answer::Names(names))) => {
                match names.iter().any(|name| name.as_bytes() == job) {
                    // The client reads the job's database by its name, so there is no copy.
                    true => self.say(0, &[("kvscopy", b"FALSE")]),
                    false => self.failed("no_such_job"),
                }
            }
            (_, Ok(_)) => self.failed("the_answer_is_of_another_kind"),
            (TwoForm::Lookup, Err(fault)) if fault.kind == FaultKind::NotFound => {
                self.say(1, &[("errmsg", b"service_not_found")])
            }
            (_, Err(fault)) if fault.kind == FaultKind::NameExists => {
                self.say(1, &[("errmsg", b"key_already_present")])
            }
            (_, Err(fault)) => self.failed(&text::fault(&fault)),
        }
    }

    fn identity(&self, me: &Identity, all: bool) -> Vec<u8> {
        let [rank, size, spec] = [me.member.rank, me.size, me.spec].map(|number| number.to_string());
        let spawner = me.parent.map(|parent| sibling(&me.database, parent.0));
        let versions: &[(&str, &[u8])] = match all {
            true => &[("pmi-version", b"2"), ("pmi-subversion", b"0")],
            false => &[],
        };
        let mut fields = versions.to_vec();
        fields.extend([("rank", rank.as_bytes()), ("size", size.as_bytes()), ("appnum", spec.as_bytes())]);
        fields.extend(spawner.iter().map(|spawner| ("spawner-jobid", spawner.as_bytes())));
        fields.extend::<&[(&str, &[u8])]>(match all {
            true => &[("debugged", b"FALSE"), ("pmiverbose", b"FALSE")],
            false => &[("pmiverbose", b"0")],
        });
        self.say(0, &fields)
    }
}

/// The name of another group's own database in the same domain: it ends with the group's number.
fn sibling(database: &str, group: u32) -> String {
    let domain = database.rsplit_once('_').map_or(database, |(domain, _)| domain);
    format!("{domain}_{group}")
}

/// Handles a message, without its length. `me` is the process, if known; `port` says whether the client connected to
/// the port and is unidentified.
///
/// # Errors
/// The reason to close the connection.
pub(super) fn message(me: Option<&Identity>, port: bool, message: &[u8]) -> Result<Step, String> {
    let fields = Fields::of(message)?;
    let Some((b"cmd", command)) = fields.0.first().map(|(name, value)| (*name, value.as_ref())) else {
        return Err(format!("a message that does not begin with cmd=: `{}`", quoted(message)));
    };
    let thread = fields.get("thrid").map(<[u8]>::to_vec);
    let plain = command.len() <= 64 && text::is_word(command) && !command.contains(&b';');
    let Some(command) = std::str::from_utf8(command).ok().filter(|_| plain) else {
        return Err(format!("PMI-2 has no command `{}`", quoted(command)));
    };
    let reply_to = |what| TwoReply { command: command.to_owned(), thread: thread.clone(), what };
    match (command, me) {
        ("abort", _) => Ok(abort(&fields)),
        ("fullinit", None) if port => {
            let secret = ["pmirank", "pmiid", "srcid"].iter().find_map(|name| fields.get(name));
            let all = fields.get("threaded").is_some();
            Ok(Step::Identify(name(secret.unwrap_or_default()), Some(reply_to(TwoForm::Identity { all }))))
        }
        (_, None) => Err(format!("`{}` before init", quoted(command.as_bytes()))),
        (_, Some(me)) => Ok(of_process(me, command, &fields, &reply_to)
            .or_else(|| of_database(me, command, &fields, &reply_to))
            .or_else(|| of_names(command, &fields, &reply_to))
            .unwrap_or_else(|| Step::Send(reply_to(TwoForm::Done).failed("unknown_command")))),
    }
}

fn ask(request: Request, reply: TwoReply) -> Step {
    // Without a thread id, the client expects answers in the order of its requests.
    let holds_up = reply.thread.is_none();
    Step::Request(request, PendingReply::Two(reply), holds_up)
}

fn abort(fields: &Fields<'_>) -> Step {
    // A process that only ends itself has no effect on its job; its exit is enough.
    if fields.get("isworld").is_some_and(|world| world.eq_ignore_ascii_case(b"false")) {
        return Step::Nothing;
    }
    let message = fields.get("message").or_else(|| fields.get("msg")).map(name).unwrap_or_default();
    Step::Abort(status(fields.get("exitcode").and_then(number)), message)
}

/// Requests about the process itself and its group.
fn of_process(
    me: &Identity,
    command: &str,
    fields: &Fields<'_>,
    reply_to: &dyn Fn(TwoForm) -> TwoReply,
) -> Option<Step> {
    Some(match command {
        "fullinit" => {
            let all = fields.get("threaded").is_some();
            Step::Send(reply_to(TwoForm::Done).identity(me, all))
        }
        "job-getid" => Step::Send(reply_to(TwoForm::Done).say(0, &[("jobid", me.database.as_bytes())])),
        "job-connect" => {
            let job = fields.get("jobid").unwrap_or_default().to_vec();
            ask(Request::Databases, reply_to(TwoForm::Connect(job)))
        }
        "job-disconnect" => Step::Send(reply_to(TwoForm::Done).say(0, &[])),
        "finalize" => ask(Request::Finalize, reply_to(TwoForm::Done)),
        "kvs-fence" => {
            let over = Set::Group(me.member.group);
            ask(Request::Fence { over, limit: Some(JOB_LIMIT), tag: Vec::new() }, reply_to(TwoForm::Done))
        }
        "spawn" => match Draft::of_message(fields).request() {
            Ok(request) => ask(request, reply_to(TwoForm::Spawn)),
            Err(why) => Step::Send(reply_to(TwoForm::Done).failed(&reason(&why))),
        },
        _ => return None,
    })
}

/// Requests about databases and node attributes.
fn of_database(
    me: &Identity,
    command: &str,
    fields: &Fields<'_>,
    reply_to: &dyn Fn(TwoForm) -> TwoReply,
) -> Option<Step> {
    let missing =
        |what: &str| Some(Step::Send(reply_to(TwoForm::Done).failed(&format!("{what}_is_missing"))));
    let puts = matches!(command, "kvs-put" | "info-putnodeattr");
    if !puts && !matches!(command, "kvs-get" | "info-getjobattr" | "info-getnodeattr") {
        return None;
    }
    let Some(key) = fields.get("key").filter(|key| !key.is_empty()) else { return missing("key") };
    let key = key.to_vec();
    let ask_node = |request, what| {
        let reply = reply_to(what);
        let holds_up = reply.thread.is_none();
        Step::NodeRequest(request, PendingReply::Two(reply), holds_up)
    };
    if puts {
        let Some(value) = fields.get("value") else { return missing("value") };
        if is_reserved(&key) {
            return Some(Step::Send(
                reply_to(TwoForm::Done).failed("keys_that_begin_with_PMI__are_reserved"),
            ));
        }
        let pair = Pair { key, value: value.to_vec() };
        return Some(match command {
            "kvs-put" => ask(
                Request::Put { database: me.database.clone(), pair, advice: None },
                reply_to(TwoForm::Done),
            ),
            _ => ask_node(NodeRequest::Put(pair), TwoForm::Done),
        });
    }
    let job = fields.get("jobid").filter(|job| command == "kvs-get" && !job.is_empty());
    let database = job.map_or_else(|| me.database.clone(), name);
    let attribute =
        |value: &[u8]| Step::Send(reply_to(TwoForm::Done).say(0, &[("found", b"TRUE"), ("value", value)]));
    Some(match (command, &key[..]) {
        ("info-getnodeattr", _) => {
            ask_node(NodeRequest::Get { key, wait: fields.says("wait") }, TwoForm::Value)
        }
        // The number of processes that could still be added is unknown.
        ("info-getjobattr", b"universeSize") => attribute(b"-1"),
        ("info-getjobattr", b"hasNameServ") => attribute(b"TRUE"),
        _ => ask(Request::Get { database, key }, reply_to(TwoForm::Value)),
    })
}

/// Requests about global names.
fn of_names(command: &str, fields: &Fields<'_>, reply_to: &dyn Fn(TwoForm) -> TwoReply) -> Option<Step> {
    if !matches!(command, "name-publish" | "name-lookup" | "name-unpublish") {
        return None;
    }
    let get = |name| fields.get(name).filter(|value| !value.is_empty()).map(<[u8]>::to_vec);
    let Some(key) = get("name") else {
        return Some(Step::Send(reply_to(TwoForm::Done).failed("name_is_missing")));
    };
    Some(match (command, get("port")) {
        ("name-publish", Some(value)) => ask(Request::Deposit(Pair { key, value }), reply_to(TwoForm::Done)),
        ("name-publish", None) => Step::Send(reply_to(TwoForm::Done).failed("port_is_missing")),
        ("name-lookup", _) => ask(Request::Lookup { name: key, wait: None }, reply_to(TwoForm::Lookup)),
        _ => ask(Request::Withdraw(key), reply_to(TwoForm::Done)),
    })
}

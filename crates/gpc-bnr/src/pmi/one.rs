//! PMI-1: each request and each answer is a line. `docs/pmi.md`, "PMI-1".

use super::barrier::{self, UNTAGGED};
use super::spawn::Draft;
use super::step::{ASK_MAX, JOB_LIMIT, OneReply, PendingReply, Step, is_reserved, quoted};
use super::text;
use super::text::{field, is_rest, is_word, name, number, reason, split, status};
use crate::fault::{Fault, FaultKind};
use crate::names::Set;
use crate::request::{Answer, Identity, Pair, Request};
use crate::spec::LEFT_OUT;

/// The answer to `get_maxes`: bytes of a database name, a key and a value, including the end of a C string. The numbers
/// are MPICH's, since its clients read lines of 1,024 bytes. Longer ones are accepted up to [`Limits`](crate::Limits).
const MAXES: &str = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";

/// Most bytes of a database that are retained for `getbyidx`.
const SNAPSHOT_MAX: usize = 16 << 20;

/// Longest list of error codes in bytes. Clients read lines of 1,024 bytes. If the list is missing, they take all codes
/// for 0.
const CODES_MAX: usize = 900;

/// State of one PMI-1 connection.
#[derive(Debug, Default)]
pub(super) struct One {
    /// Whether 1.2 was agreed: answers to barriers carry their tags.
    pub(super) tags: bool,
    spawn: Option<Spawn>,
    snapshot: Option<(String, Vec<Pair>)>,
}

/// A spawn that is being received.
#[derive(Debug, Default)]
struct Spawn {
    draft: Draft,
    bytes: usize,
    /// Whether the current block is open.
    inside: bool,
}

impl OneReply {
    /// Whether later requests wait for its answer. Only barriers with a group do not block, since other threads of the
    /// client go on.
    fn holds_up(&self, grouped: bool) -> bool {
        !(grouped && matches!(self, OneReply::Barrier(_)))
    }
}

fn ask(request: Request, what: OneReply) -> Step {
    let holds_up = what.holds_up(false);
    Step::Request(request, PendingReply::One(what), holds_up)
}

fn say(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// A line of words followed by any bytes.
fn line(words: &str, rest: &[u8]) -> Vec<u8> {
    [words.as_bytes(), rest, b"\n"].concat()
}

impl One {
    /// Whether the next bytes are a line, whatever they are: a block of a spawn is open.
    pub(super) fn is_inside(&self) -> bool {
        self.spawn.as_ref().is_some_and(|spawn| spawn.inside)
    }

    /// Handles a line without its end.
    ///
    /// # Errors
    /// The reason to close the connection.
    pub(super) fn line(&mut self, me: Option<&Identity>, line: &[u8]) -> Result<Step, String> {
        if self.spawn.is_some() || line.starts_with(b"mcmd=") {
            return self.spawn(me, line);
        }
        let Some(command) = line.starts_with(b"cmd=").then(|| field(line, "cmd")).flatten() else {
            return Err(format!("a line that does not begin with cmd=: `{}`", quoted(line)));
        };
        let get = |name: &str| field(line, name);
        match command {
            b"init" => {
                let version = get("pmi_version").and_then(number);
                let subversion = get("pmi_subversion").and_then(number);
                return Ok(Step::Init(version.unwrap_or_default(), subversion.unwrap_or_default()));
            }
            b"initack" => {
                let secret = get("pmiid").unwrap_or_default();
                return Ok(Step::Identify(name(secret), None));
            }
            b"abort" => {
                let message = get("message").map(name).unwrap_or_default();
                return Ok(Step::Abort(status(get("exitcode").and_then(number)), message));
            }
            _ => {}
        }
        let Some(me) = me else { return Err(format!("`{}` before init", quoted(command))) };
        if let Some(step) = self.of_process(me, command, line) {
            return Ok(step);
        }
        of_database(me, command, line)
            .or_else(|| self.of_names(command, line))
            .ok_or_else(|| format!("PMI-1 has no command `{}`", quoted(command)))
    }

    /// Requests about the process itself, and barriers.
    fn of_process(&mut self, me: &Identity, command: &[u8], line: &[u8]) -> Option<Step> {
        Some(match command {
            b"get_maxes" => say(MAXES),
            b"get_appnum" => say(format!("cmd=appnum appnum={}\n", me.spec)),
            b"get_my_kvsname" => say(format!("cmd=my_kvsname kvsname={}\n", me.database)),
            // The number of processes that could still be added is unknown. The size of the group would mean that none
            // can be added.
            b"get_universe_size" => say("cmd=universe_size size=-1\n"),
            b"finalize" => ask(Request::Finalize, OneReply::Finalize),
            b"barrier_in" => self.barrier(me, field(line, "group")),
            b"getbyidx" => self.by_index(me, line),
            _ => return None,
        })
    }

    fn barrier(&self, me: &Identity, group: Option<&[u8]>) -> Step {
        let (over, tag) = match group.map(|group| barrier::group(group, me)).transpose() {
            Ok(None) => (Set::Group(me.member.group), None),
            Ok(Some((set, tag))) => (set, Some(tag)),
            Err(why) => return say(format!("cmd=barrier_failed rc=-1 msg={}\n", reason(&why))),
        };
        // Tag 0 means no tag: `WORLD:0` and a barrier without a group are the same fence.
        let tag_of_fence = tag.clone().filter(|tag| tag != UNTAGGED).unwrap_or_default();
        let said = tag.or_else(|| self.tags.then(|| UNTAGGED.to_vec()));
        let what = OneReply::Barrier(said);
        let holds_up = what.holds_up(group.is_some());
        Step::Request(
            Request::Fence { over, limit: Some(JOB_LIMIT), tag: tag_of_fence },
            PendingReply::One(what),
            holds_up,
        )
    }

    fn by_index(&mut self, me: &Identity, line: &[u8]) -> Step {
        let database = field(line, "kvsname").map_or_else(|| me.database.clone(), name);
        let Some(index) = field(line, "idx").and_then(number::<usize>) else {
            return say("cmd=getbyidx_results rc=-1 reason=idx_is_no_number\n");
        };
        match &self.snapshot {
            Some((of, _)) if index > 0 && *of == database => say(self.pair(index)),
            _ => ask(Request::Iterate(database.clone()), OneReply::ByIndex(database, index)),
        }
    }

    /// A pair of the snapshot. The snapshot is dropped after its last pair.
    fn pair(&mut self, index: usize) -> Vec<u8> {
        let pairs = self.snapshot.as_ref().map(|(_, pairs)| &pairs[..]).unwrap_or_default();
        match pairs.get(index) {
            Some(Pair { key, value }) => {
                let head = format!("cmd=getbyidx_results rc=0 nextidx={} key=", index + 1);
                [head.as_bytes(), key, b" val=", value, b"\n"].concat()
            }
            None => {
                self.snapshot = None;
                b"cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n".to_vec()
            }
        }
    }

    /// Requests about global names, and about databases by name.
    fn of_names(&self, command: &[u8], line: &[u8]) -> Option<Step> {
        let get = |name: &str| field(line, name).filter(|value| !value.is_empty());
        let service = || get("service").map(<[u8]>::to_vec);
        Some(match command {
            b"publish_name" => match (service(), get("port")) {
                (Some(key), Some(port)) => {
                    ask(Request::Deposit(Pair { key, value: port.to_vec() }), OneReply::Publish)
                }
                _ => say("cmd=publish_result rc=1 msg=service_or_port_is_missing\n"),
            },
            b"lookup_name" => match service() {
                Some(key) => ask(Request::Lookup { name: key, wait: None }, OneReply::Lookup),
                None => say("cmd=lookup_result rc=1 msg=service_is_missing\n"),
            },
            b"unpublish_name" => match service() {
                Some(key) => ask(Request::Withdraw(key), OneReply::Unpublish),
                None => say("cmd=unpublish_result rc=1 msg=service_is_missing\n"),
            },
            b"create_kvs" => ask(Request::Create(None), OneReply::Create),
            b"destroy_kvs" => match get("kvsname") {
                Some(database) => ask(Request::Destroy(name(database)), OneReply::Destroy),
                None => say("cmd=kvs_destroyed rc=-1 msg=kvsname_is_missing\n"),
            },
            _ => return None,
        })
    }

    /// Handles a line of a spawn.
    fn spawn(&mut self, me: Option<&Identity>, line: &[u8]) -> Result<Step, String> {
        let spawn = self.spawn.get_or_insert_default();
        spawn.bytes += line.len() + 1;
        if spawn.bytes > ASK_MAX {
            return Err(format!("a spawn of more than {ASK_MAX} bytes"));
        }
        if !spawn.inside {
            if line != b"mcmd=spawn" {
                return Err(format!(
                    "a block of a spawn that does not begin with mcmd=spawn: `{}`",
                    quoted(line)
                ));
            }
            if me.is_none() {
                return Err("`spawn` before init".into());
            }
            spawn.inside = true;
            return Ok(Step::Nothing);
        }
        if line != b"endcmd" {
            let (name, value) = split(line);
            spawn.draft.line(name, value);
            return Ok(Step::Nothing);
        }
        spawn.inside = false;
        if !spawn.draft.end() {
            return Ok(Step::Nothing);
        }
        let draft = self.spawn.take().unwrap_or_default().draft;
        Ok(match draft.request() {
            Ok(request) => ask(request, OneReply::Spawn),
            Err(why) => say(format!("cmd=spawn_result rc=-1 msg={}\n", reason(&why))),
        })
    }

    /// Encodes an answer as a line.
    pub(super) fn answer(&mut self, what: &OneReply, answer: Result<Answer, Fault>) -> Vec<u8> {
        match (what, answer) {
            (OneReply::ByIndex(database, index), Ok(Answer::Pairs(pairs))) => {
                self.by_snapshot(database, *index, pairs)
            }
            (OneReply::Get(_), Ok(Answer::Value(value))) => match is_rest(&value) {
                true => line("cmd=get_result rc=0 msg=success value=", &value),
                false => {
                    b"cmd=get_result rc=-1 msg=the_value_has_more_than_one_line value=unknown\n".to_vec()
                }
            },
            (OneReply::Lookup, Ok(Answer::Value(port))) => match is_word(&port) {
                true => [b"cmd=lookup_result port=", &port[..], b" info=ok rc=0 msg=success\n"].concat(),
                false => b"cmd=lookup_result rc=1 msg=the_port_has_more_than_one_word\n".to_vec(),
            },
            (OneReply::Create, Ok(Answer::Name(name))) => format!("cmd=newkvs kvsname={name}\n").into_bytes(),
            (OneReply::Spawn, Ok(Answer::Spawned { errors, .. })) => spawned(&errors),
            (what, Ok(_)) => done(what),
            (what, Err(fault)) => failed(what, &fault),
        }
    }

    fn by_snapshot(&mut self, database: &str, index: usize, mut pairs: Vec<Pair>) -> Vec<u8> {
        // Drops pairs that do not fit into a line: they were put by other means than PMI-1.
        pairs.retain(|pair| is_word(&pair.key) && is_rest(&pair.value));
        // An earlier copy does not answer for a database that cannot be copied.
        self.snapshot = None;
        let bytes: usize = pairs.iter().map(|pair| pair.key.len() + pair.value.len()).sum();
        if bytes > SNAPSHOT_MAX {
            return b"cmd=getbyidx_results rc=-1 reason=the_database_is_too_large\n".to_vec();
        }
        self.snapshot = Some((database.to_owned(), pairs));
        self.pair(index)
    }
}

/// Requests about databases: put and get.
fn of_database(me: &Identity, command: &[u8], line: &[u8]) -> Option<Step> {
    let database = || field(line, "kvsname").map_or_else(|| me.database.clone(), name);
    let key = field(line, "key").filter(|key| !key.is_empty());
    Some(match (command, key) {
        (b"put", Some(key)) if is_reserved(key) => {
            say("cmd=put_result rc=-1 msg=keys_that_begin_with_PMI__are_reserved\n")
        }
        (b"put", Some(key)) => match field(line, "value") {
            Some(value) => {
                let pair = Pair { key: key.to_vec(), value: value.to_vec() };
                ask(Request::Put { database: database(), pair, advice: None }, OneReply::Put)
            }
            None => say("cmd=put_result rc=-1 msg=value_is_missing\n"),
        },
        (b"put", None) => say("cmd=put_result rc=-1 msg=key_is_missing\n"),
        (b"get", Some(key)) => {
            ask(Request::Get { database: database(), key: key.to_vec() }, OneReply::Get(key.to_vec()))
        }
        (b"get", None) => say("cmd=get_result rc=-1 msg=key_is_missing value=unknown\n"),
        _ => return None,
    })
}

/// The answer to a request that succeeded.
fn done(what: &OneReply) -> Vec<u8> {
    match what {
        OneReply::Put => b"cmd=put_result rc=0 msg=success\n".to_vec(),
        OneReply::Barrier(None) => b"cmd=barrier_out\n".to_vec(),
        OneReply::Barrier(Some(tag)) => line("cmd=barrier_out tag=", tag),
        OneReply::Publish => b"cmd=publish_result info=ok rc=0 msg=success\n".to_vec(),
        OneReply::Unpublish => b"cmd=unpublish_result info=ok rc=0 msg=success\n".to_vec(),
        OneReply::Finalize => b"cmd=finalize_ack\n".to_vec(),
        OneReply::Destroy => b"cmd=kvs_destroyed rc=0 msg=success\n".to_vec(),
        // The answers to these contain data.
        OneReply::Get(_) | OneReply::Lookup | OneReply::Create | OneReply::ByIndex(..) | OneReply::Spawn => {
            failed(what, &Fault::new(FaultKind::System, "the answer is of another kind"))
        }
    }
}

/// The answer to a request that failed.
fn failed(what: &OneReply, fault: &Fault) -> Vec<u8> {
    let why = text::fault(fault);
    match (what, fault.kind) {
        (OneReply::Put, _) => format!("cmd=put_result rc=-1 msg={why}\n"),
        (OneReply::Get(key), FaultKind::NotFound) => {
            let start = b"cmd=get_result rc=-1 msg=key_";
            return [start, &key[..], b"_not_found value=unknown\n"].concat();
        }
        (OneReply::Get(_), _) => format!("cmd=get_result rc=-1 msg={why} value=unknown\n"),
        // Old clients ignore the code of `barrier_out`, but they refuse another command.
        (OneReply::Barrier(None), _) => format!("cmd=barrier_failed rc=-1 msg={why}\n"),
        (OneReply::Barrier(Some(tag)), _) => {
            return [b"cmd=barrier_failed tag=", &tag[..], b" rc=-1 msg=", why.as_bytes(), b"\n"].concat();
        }
        (OneReply::Publish, FaultKind::NameExists) => {
            "cmd=publish_result rc=1 msg=key_already_present\n".into()
        }
        (OneReply::Publish, _) => format!("cmd=publish_result rc=1 msg={why}\n"),
        (OneReply::Lookup, FaultKind::NotFound) => "cmd=lookup_result rc=1 msg=service_not_found\n".into(),
        (OneReply::Lookup, _) => format!("cmd=lookup_result rc=1 msg={why}\n"),
        (OneReply::Unpublish, FaultKind::NotFound) => {
            "cmd=unpublish_result rc=1 msg=service_not_found\n".into()
        }
        (OneReply::Unpublish, _) => format!("cmd=unpublish_result rc=1 msg={why}\n"),
        (OneReply::Finalize, _) => format!("cmd=finalize_ack rc=-1 msg={why}\n"),
        (OneReply::Create, _) => format!("cmd=newkvs rc=-1 msg={why}\n"),
        (OneReply::Destroy, _) => format!("cmd=kvs_destroyed rc=-1 msg={why}\n"),
        (OneReply::ByIndex(..), _) => format!("cmd=getbyidx_results rc=-1 reason={why}\n"),
        (OneReply::Spawn, _) => format!("cmd=spawn_result rc=-1 msg={why}\n"),
    }
    .into_bytes()
}

/// The answer to a spawn. If a process could not be started, all others have been killed: a client that relied on them
/// would wait for ever.
fn spawned(errors: &[i32]) -> Vec<u8> {
    let codes = codes(errors);
    let list = match codes.len() <= CODES_MAX {
        true => format!(" errcodes={codes}"),
        false => String::new(),
    };
    match errors.iter().all(|error| matches!(*error, 0 | LEFT_OUT)) {
        true => format!("cmd=spawn_result rc=0{list}\n"),
        false => format!("cmd=spawn_result rc=-1 msg=processes_could_not_be_started{list}\n"),
    }
    .into_bytes()
}

/// Error codes, separated by commas.
pub(super) fn codes(errors: &[i32]) -> String {
    errors.iter().map(i32::to_string).collect::<Vec<String>>().join(",")
}

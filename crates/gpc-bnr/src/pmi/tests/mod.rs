//! Whole conversations in the lines of both protocols, and invalid lines.

mod one;
mod two;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::exit::{Death, Exit};
use crate::fault::FaultKind;
use crate::names::{GroupId, Member, Set};
use crate::request::Pair;
use crate::spec::OnDeath;

/// A process of group 3 without a parent.
pub(super) fn identity(rank: Rank, size: u32) -> Identity {
    Identity {
        member: Member { group: GroupId(3), rank },
        size,
        parent: None,
        database: "kvs_0011223344556677_3".into(),
        spec: 0,
        neighbours: (0..size).collect(),
    }
}

/// A node with one process: every put can be read, and every collective request completes at once.
struct Node {
    pmi: Pmi,
    me: Identity,
    attributes: Attributes,
    values: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The requests received.
    asked: Vec<Request>,
    /// The fault of the next request.
    fails: Option<Fault>,
    said: Vec<u8>,
    closed: Option<String>,
}

impl Node {
    fn new(me: Identity, pmi: Pmi) -> Node {
        Node {
            pmi,
            me,
            attributes: Attributes::new(),
            values: BTreeMap::new(),
            names: BTreeMap::new(),
            asked: Vec::new(),
            fails: None,
            said: Vec::new(),
            closed: None,
        }
    }

    /// A node whose PMI-1 client has initialized.
    fn one() -> Node {
        let mut node = Node::new(identity(1, 2), Pmi::new());
        node.hear(b"cmd=init pmi_version=1 pmi_subversion=1\n");
        assert_eq!(node.heard(), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        node
    }

    fn two() -> Node {
        let mut node = Node::new(identity(1, 2), Pmi::new());
        node.hear(b"cmd=init pmi_version=2 pmi_subversion=0\n");
        assert_eq!(node.heard(), "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n");
        node
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.pmi.bytes(bytes);
        self.turn();
    }

    fn turn(&mut self) {
        while let Some(said) = self.pmi.next() {
            assert_eq!(self.closed, None, "nothing follows");
            match said {
                ProtocolOutput::Request(serial, request) => {
                    self.asked.push(request.clone());
                    if let Some(answer) = self.answer(request) {
                        self.pmi.answered(serial, answer);
                    }
                }
                ProtocolOutput::NodeRequest(serial, ask) => {
                    for (_, serial, answer) in self.attributes.ask(self.me.member, serial, ask) {
                        self.pmi.answered(serial, answer);
                    }
                }
                ProtocolOutput::Send(bytes) => self.said.extend_from_slice(&bytes),
                ProtocolOutput::Identify(secret) => {
                    let who = (secret == "4711").then_some((self.me.member.rank, self.me.size));
                    self.pmi.identified(who);
                }
                ProtocolOutput::Close(why) => self.closed = Some(why),
            }
        }
    }

    fn answer(&mut self, request: Request) -> Option<Result<Answer, Fault>> {
        let missing = || Fault::new(FaultKind::NotFound, "there is no such key");
        if let Some(fault) = self.fails.take() {
            return Some(Err(fault));
        }
        Some(match request {
            Request::Abort { .. } => return None,
            Request::Init => Ok(Answer::Identity(self.me.clone())),
            Request::Put { database, pair, .. } => {
                self.values.insert((database, pair.key), pair.value);
                Ok(Answer::Done)
            }
            Request::Get { database, key } => {
                self.values.get(&(database, key)).cloned().map(Answer::Value).ok_or_else(missing)
            }
            Request::Iterate(database) => {
                let of = self.values.iter().filter(|((name, _), _)| *name == database);
                let pairs = of.map(|((_, key), value)| Pair { key: key.clone(), value: value.clone() });
                Ok(Answer::Pairs(pairs.collect()))
            }
            Request::Deposit(pair) if self.names.contains_key(&pair.key) => {
                Err(Fault::new(FaultKind::NameExists, "there is such a name"))
            }
            Request::Deposit(pair) => {
                self.names.insert(pair.key, pair.value);
                Ok(Answer::Done)
            }
            Request::Lookup { name, .. } => {
                self.names.get(&name).cloned().map(Answer::Value).ok_or_else(missing)
            }
            Request::Withdraw(name) => self.names.remove(&name).map(|_| Answer::Done).ok_or_else(missing),
            Request::Create(None) => Ok(Answer::Name("kvs_0011223344556677_n1".into())),
            Request::Databases => Ok(Answer::Names(vec!["kvs_0011223344556677_3".into()])),
            Request::SpawnMultiple { specs, .. } => {
                let count: u32 = specs.iter().map(|spec| spec.count).sum();
                let errors = (0..count).map(|_| 0).collect();
                Ok(Answer::Spawned { group: GroupId(12), errors, same_domain: true })
            }
            _ => Ok(Answer::Done),
        })
    }

    /// The output since the last call.
    fn heard(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.said)).unwrap()
    }

    /// The answer to a line.
    fn line(&mut self, line: &str) -> String {
        self.hear(format!("{line}\n").as_bytes());
        self.heard()
    }

    /// The answers to a message with a right-aligned length, without their own lengths.
    fn message(&mut self, message: &str) -> String {
        self.hear(format!("{:>6}{message}", message.len()).as_bytes());
        let (heard, mut bodies) = (self.heard(), String::new());
        let mut rest = &heard[..];
        while !rest.is_empty() {
            let (length, behind) = rest.split_at(LENGTH);
            let (body, behind) = behind.split_at(length.trim_start().parse().unwrap());
            bodies += body;
            rest = behind;
        }
        bodies
    }
}

const K: &str = "kvs_0011223344556677_3";

#[test]
fn an_abort_is_not_answered_and_is_the_last_that_is_heard() {
    for (said, code, message) in [
        ("cmd=abort exitcode=42\n", 42, ""),
        ("cmd=abort exitcode=-1\n", 255, ""),
        ("cmd=abort exitcode=0\n", 0, ""),
        ("cmd=abort\n", 1, ""),
        (
            "cmd=abort exitcode=15 message=Fatal error in PMPI_Send:\n  rank 7 = none\ncmd=get_maxes\n\u{1b}\n",
            15,
            "Fatal error in PMPI_Send:",
        ),
        ("    60cmd=abort;isworld=TRUE;exitcode=9;message=out of memory;;no;", 9, "out of memory;no"),
        ("23    cmd=abort;msg=no;isw=1;", 1, "no"),
    ] {
        let message = message.to_owned();
        for mut node in [Node::one(), Node::new(identity(0, 1), Pmi::new())] {
            node.hear(said.as_bytes());
            node.hear(b"more\n");
            assert_eq!(node.asked.last(), Some(&Request::Abort { code, message: message.clone() }), "{said}");
            assert_eq!((node.heard().as_str(), &node.closed), ("", &None), "{said}");
        }
    }
    let mut node = Node::two();
    assert_eq!(node.message("cmd=abort;isworld=FALSE;msg=only me;"), "");
    assert_eq!(node.asked, [Request::Init]);
}

#[test]
fn an_abort_overtakes_what_waits() {
    let mut pmi = Pmi::new();
    pmi.bytes(b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_maxes\n");
    assert!(matches!(pmi.next(), Some(ProtocolOutput::Request(1, Request::Init))));
    assert_eq!(pmi.next(), None);
    pmi.answered(1, Ok(Answer::Identity(identity(0, 2))));
    pmi.bytes(b"cmd=barrier_in\ncmd=abort exitcode=3\n");
    let said: Vec<ProtocolOutput> = std::iter::from_fn(|| pmi.next()).collect();
    assert!(
        matches!(
            &said[2..],
            [
                ProtocolOutput::Request(2, Request::Fence { .. }),
                ProtocolOutput::Request(3, Request::Abort { code: 3, .. })
            ]
        ),
        "{said:?}"
    );
}

#[test]
fn the_version_is_the_highest_of_both() {
    for (asked, answered) in [
        ("pmi_version=1 pmi_subversion=0", "pmi_version=1 pmi_subversion=1 rc=0"),
        ("pmi_version=1 pmi_subversion=1", "pmi_version=1 pmi_subversion=1 rc=0"),
        ("pmi_version=1 pmi_subversion=2", "pmi_version=1 pmi_subversion=2 rc=0"),
        ("pmi_version=1 pmi_subversion=9", "pmi_version=1 pmi_subversion=2 rc=0"),
        ("pmi_version=2 pmi_subversion=0", "pmi_version=2 pmi_subversion=0 rc=0"),
        ("pmi_version=3 pmi_subversion=0", "pmi_version=1 pmi_subversion=1 rc=-1"),
        ("pmi_version=x", "pmi_version=1 pmi_subversion=1 rc=-1"),
    ] {
        let mut node = Node::new(identity(0, 1), Pmi::new());
        assert_eq!(node.line(&format!("cmd=init {asked}")), format!("cmd=response_to_init {answered}\n"));
        // A refused client may try another version, and a finalized one may initialize again.
        assert_eq!(
            node.line("cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
        );
    }
    let mut node = Node::new(identity(0, 1), Pmi::new().with_groups());
    let said = node.line("cmd=init pmi_version=1 pmi_subversion=1");
    assert_eq!(said, "cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0\n");
    assert_eq!(node.line("cmd=barrier_in"), "cmd=barrier_out tag=0\n");
    let mut node = Node::new(identity(0, 1), Pmi::new());
    node.fails = Some(Fault::new(FaultKind::DomainEnded, "the domain has ended"));
    assert_eq!(
        node.line("cmd=init pmi_version=1 pmi_subversion=1"),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"
    );
    assert_eq!(node.closed.as_deref(), Some("init was refused: the domain has ended"));
}

#[test]
fn who_comes_to_the_port_says_who_it_is() {
    let mut node = Node::new(identity(1, 2), Pmi::by_port());
    assert_eq!(
        node.line("cmd=initack pmiid=4711"),
        "cmd=initack\ncmd=set size=2\ncmd=set rank=1\ncmd=set debug=0\n"
    );
    assert_eq!(
        node.line("cmd=init pmi_version=1 pmi_subversion=1"),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
    );
    // PMI-2 identifies the process after the version.
    for (first, answer) in [
        ("cmd=fullinit;pmirank=4711;", "cmd=fullinit-response;rc=0;rank=1;size=2;appnum=0;pmiverbose=0;"),
        (
            "cmd=fullinit;srcid=4711;threaded=FALSE;",
            "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=0;debugged=FALSE;pmiverbose=FALSE;",
        ),
    ] {
        let mut node = Node::new(identity(1, 2), Pmi::by_port());
        assert_eq!(
            node.line("cmd=init pmi_version=2 pmi_subversion=0"),
            "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"
        );
        assert_eq!(node.asked, []);
        assert_eq!(node.message(first), answer);
        assert_eq!(node.message("cmd=job-getid;"), format!("cmd=job-getid-response;rc=0;jobid={K};"));
    }
    for said in [
        "cmd=initack pmiid=1\n",
        "cmd=initack\n",
        "cmd=init pmi_version=1 pmi_subversion=1\n",
        "cmd=get_maxes\n",
        "cmd=init pmi_version=2 pmi_subversion=0\n    26cmd=fullinit;pmirank=4712;",
        "cmd=init pmi_version=2 pmi_subversion=0\n    13cmd=finalize;",
    ] {
        let mut node = Node::new(identity(1, 2), Pmi::by_port());
        node.hear(said.as_bytes());
        assert!(node.closed.is_some() && node.asked.is_empty(), "{said}: {:?}", node.asked);
    }
}

#[test]
fn what_nobody_should_say_is_refused_in_words() {
    let long = format!("cmd=put key=k value={}", "x".repeat(ASK_MAX));
    let spawn = format!("mcmd=spawn\n{}", format!("arg1={}\n", "x".repeat(1000)).repeat(1100));
    for (said, why) in [
        ("hello\n", "a message that does not begin with its length in six characters: `hello\\n`"),
        ("cmd=no_such_thing\n", "PMI-1 has no command `no_such_thing`"),
        ("cmd=\u{1b}[2J\n", "PMI-1 has no command `\\u{1b}[2J`"),
        ("commander=1\n", "a line that does not begin with cmd=: `commander=1`"),
        ("mcmd=other\n", "a block of a spawn that does not begin with mcmd=spawn: `mcmd=other`"),
        (
            "mcmd=spawn\ntotspawns=2\nendcmd\ncmd=get_maxes\n",
            "a block of a spawn that does not begin with mcmd=spawn: `cmd=get_maxes`",
        ),
        ("\n", "a message that does not begin with its length in six characters: `\\n`"),
        ("     0", "a message that does not begin with cmd=: ``"),
        ("     4nono", "a message that does not begin with cmd=: `nono`"),
        ("      ", "a message whose length is no number: `      `"),
        ("    10cmd=\u{1b}[2J;;", "PMI-2 has no command `\u{1b}[2J;`"),
        (&long, "a line of more than 1048576 bytes: `cmd=put key=k value="),
        (&spawn, "a spawn of more than 1048576 bytes"),
    ] {
        for mut node in [Node::one(), Node::two()] {
            node.hear(said.as_bytes());
            let closed = node.closed.clone().unwrap_or_else(|| panic!("{}", quoted(said.as_bytes())));
            assert!(closed.starts_with(&why.replace('\u{1b}', "\\u{1b}")), "{closed}");
            assert!(!closed.contains('\u{1b}') && closed.len() < 300, "{closed}");
            node.hear(b"cmd=get_maxes\n");
            assert_eq!((node.heard().as_str(), node.pmi.received.capacity()), ("", 0));
        }
    }
    for said in
        ["cmd=get_maxes\n", "cmd=barrier_in\n", "cmd=finalize\n", "mcmd=spawn\n", "    13cmd=finalize;"]
    {
        let mut node = Node::new(identity(0, 1), Pmi::new());
        node.hear(said.as_bytes());
        assert!(node.closed.is_some_and(|why| why.contains("before init")), "{said}");
    }
}

#[test]
fn what_comes_before_it_can_be_taken_has_a_bound() {
    let mut pmi = Pmi::new();
    pmi.bytes(b"cmd=init pmi_version=1 pmi_subversion=1\n");
    assert!(matches!(pmi.next(), Some(ProtocolOutput::Request(_, Request::Init))));
    let closes = (0..1000).find_map(|_| {
        pmi.bytes(&b"cmd=get_maxes\n".repeat(1000));
        assert!(pmi.received.len() <= RECEIVED_MAX);
        pmi.next()
    });
    assert!(matches!(closes, Some(ProtocolOutput::Close(_))));
    // Threads: a bounded number of barriers at a time; later requests wait.
    let mut pmi = Pmi::new();
    pmi.bytes(b"cmd=init pmi_version=1 pmi_subversion=2\n");
    pmi.next();
    pmi.answered(1, Ok(Answer::Identity(identity(0, 2))));
    pmi.next();
    (0..300).for_each(|tag| pmi.bytes(format!("cmd=barrier_in group=WORLD:{tag}\n").as_bytes()));
    assert_eq!(std::iter::from_fn(|| pmi.next()).count(), WAITING_MAX);
    pmi.answered(2, Ok(Answer::Done));
    assert_eq!(pmi.next(), Some(ProtocolOutput::Send("cmd=barrier_out tag=0\n".into())));
    assert!(
        matches!(pmi.next(), Some(ProtocolOutput::Request(_, Request::Fence { .. }))) && pmi.next().is_none()
    );
}

/// A line or a message that a client may send.
fn unit() -> impl Strategy<Value = Vec<u8>> {
    let line = "cmd=(put|get|barrier_in|publish_name|lookup_name|unpublish_name|get_maxes|getbyidx|create_kvs|finalize)( (kvsname|key|value|service|port|idx|group)=[a-zA-Z0-9:,]{0,4}){0,4}\n";
    let body = "cmd=(kvs-put|kvs-get|kvs-fence|info-putnodeattr|info-getnodeattr|job-getid|name-publish|name-lookup|spawn|finalize);((key|value|name|port|thrid|ncmds|subcmd|maxprocs)=[a-z0-9]{0,3};){0,5}";
    let spawn = "mcmd=spawn\n((nprocs|totspawns|spawnssofar|argcnt|execname)=[a-b0-2]\n){0,6}endcmd\n";
    prop_oneof![
        4 => line.prop_map(String::into_bytes),
        4 => body.prop_map(|body: String| format!("{:>6}{body}", body.len()).into_bytes()),
        2 => spawn.prop_map(String::into_bytes),
        1 => Just(b"cmd=init pmi_version=1 pmi_subversion=2\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

proptest! {
    /// Requests and answers do not depend on how the bytes are cut, and the buffers stay within their bounds for any
    /// bytes.
    #[test]
    fn any_bytes_in_any_pieces(units in prop::collection::vec(unit(), 0..12), cuts in prop::collection::vec(1usize..30, 1..5), opened in any::<bool>()) {
        let opening = if opened { &b"cmd=init pmi_version=1 pmi_subversion=1\n"[..] } else { b"" };
        let bytes = [opening, &units.concat()].concat();
        let mut whole = Node::new(identity(1, 2), Pmi::new());
        whole.hear(&bytes);
        let mut pieces = Node::new(identity(1, 2), Pmi::new());
        let (mut rest, mut cut) = (&bytes[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
            pieces.hear(piece);
            rest = behind;
        }
        prop_assert_eq!((&whole.asked, &whole.said), (&pieces.asked, &pieces.said));
        // An error message may quote more of the invalid bytes if more have arrived.
        prop_assert_eq!(whole.closed.is_some(), pieces.closed.is_some());
        prop_assert!(whole.pmi.received.len() <= bytes.len() && whole.pmi.waiting.len() <= WAITING_MAX);
        for line in whole.said.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"cmd=")) {
            prop_assert!(!line.is_empty());
        }
    }
}

/// A process finalizes, and may initialize again. In between it is no process of a group.
#[test]
fn who_has_finalized_says_nothing_until_it_begins_again() {
    let mut node = Node::new(identity(1, 2), Pmi::new());
    node.line("cmd=init pmi_version=1 pmi_subversion=2");
    assert_eq!(node.line("cmd=barrier_in"), "cmd=barrier_out tag=0\n");
    // A finalize that is refused changes nothing.
    node.fails = Some(Fault::new(FaultKind::TimedOut, "later"));
    assert_eq!(node.line("cmd=finalize"), "cmd=finalize_ack rc=-1 msg=later\n");
    assert_eq!(node.line("cmd=get_appnum"), "cmd=appnum appnum=0\n");
    assert_eq!(node.line("cmd=finalize"), "cmd=finalize_ack\n");
    // The version is agreed anew: 1.1 has no tags.
    assert_eq!(
        node.line("cmd=init pmi_version=1 pmi_subversion=1"),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
    );
    assert_eq!(node.line("cmd=barrier_in"), "cmd=barrier_out\n");
    assert_eq!(node.line("cmd=finalize"), "cmd=finalize_ack\n");
    assert_eq!(node.line("cmd=get_appnum"), "");
    assert!(node.closed.is_some_and(|why| why.contains("`get_appnum` before init")));
}

#[test]
fn a_long_abort_message_is_cut_between_two_letters() {
    for (message, expected) in [
        ("x".repeat(MESSAGE_MAX), "x".repeat(MESSAGE_MAX)),
        ("x".repeat(MESSAGE_MAX + 1), "x".repeat(MESSAGE_MAX)),
        ("é".repeat(MESSAGE_MAX), "é".repeat(MESSAGE_MAX / 2)),
        (format!("x{}", "é".repeat(MESSAGE_MAX)), format!("x{}", "é".repeat(MESSAGE_MAX / 2 - 1))),
    ] {
        let mut node = Node::one();
        node.hear(format!("cmd=abort exitcode=1 message={message}\n").as_bytes());
        assert_eq!(node.asked.last(), Some(&Request::Abort { code: 1, message: expected }));
    }
}

/// More bytes than the longest request are read only when some have been decoded.
#[test]
fn a_connection_is_full_behind_the_longest_request() {
    let mut pmi = Pmi::new();
    pmi.bytes(b"cmd=init pmi_version=1 pmi_subversion=1\n");
    pmi.next();
    // The request is not answered, so nothing more is decoded.
    pmi.bytes(&vec![b'c'; ASK_MAX]);
    assert!(!pmi.is_full());
    pmi.bytes(b"c");
    assert!(pmi.is_full());
}

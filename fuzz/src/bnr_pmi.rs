//! Requests in PMI-1 and PMI-2 from a process to its node: the same is asked and answered however the reads cut the
//! stream, and there are at most as many answers as requests.
//!
//! Input: a byte of options, which also says how many cuts follow; the cuts; and the stream, with or without an
//! opening. This module is not part of the targets' library, because the project's main package, which replays that
//! library, knows nothing of domains; `crates/gpc-bnr/tests/fuzz_corpus.rs` replays this one.

use std::collections::BTreeMap;

use gpc_bnr::names::{GroupId, Member};
use gpc_bnr::pmi::ASK_MAX;
use gpc_bnr::protocol::{Attributes, Conversation, ProtocolOutput};
use gpc_bnr::request::{Answer, Identity, Pair, Request};
use gpc_bnr::{Fault, FaultKind};

use super::input::{Input, pieces};

/// The stream begins with the opening of PMI-1.
const ONE: u8 = 8;
/// The stream has the opening of PMI-2, at its beginning or behind that of PMI-1.
const TWO: u8 = 16;
/// The connection was accepted at the port.
const PORT: u8 = 32;
/// Requests fail, except the initial one.
const FAILS: u8 = 64;
/// Requests get no answer.
const UNANSWERED: u8 = 128;

/// The secret that identifies a process at the port.
const SECRET: &str = "7";

/// Maximum length of the reason for a close, in bytes.
const CLOSE_MAX: usize = 2000;

/// Maximum number of unanswered requests at a time.
const WAITING_MAX: usize = 256;

/// Reads the bytes as the requests of a process.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.byte();
    let cuts = input.cuts(options);
    let one: &[u8] = if options & ONE != 0 { b"cmd=init pmi_version=1 pmi_subversion=2\n" } else { b"" };
    let two: &[u8] = if options & TWO != 0 { b"cmd=init pmi_version=2 pmi_subversion=0\n" } else { b"" };
    let said = [one, two, input.rest()].concat();
    let whole = Node::heard(&said, &[], options);
    for cuts in [&cuts[..], &[1]] {
        assert_eq!(whole, Node::heard(&said, cuts, options), "cut by {cuts:?}");
    }
}

/// The result of a conversation.
#[derive(PartialEq, Eq, Debug)]
struct Heard {
    asked: Vec<Request>,
    said: Vec<u8>,
    who: Vec<String>,
    closed: bool,
}

struct Node {
    conversation: Conversation,
    options: u8,
    attributes: Attributes,
    values: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    unanswered: usize,
    heard: Heard,
}

const ME: Member = Member { group: GroupId(3), rank: 1 };

impl Node {
    fn heard(said: &[u8], cuts: &[usize], options: u8) -> Heard {
        let port = options & PORT != 0;
        let conversation = if port { Conversation::by_port() } else { Conversation::new() };
        let heard = Heard { asked: Vec::new(), said: Vec::new(), who: Vec::new(), closed: false };
        let (attributes, values) = (Attributes::new(), BTreeMap::new());
        let mut node = Node { conversation, options, attributes, values, unanswered: 0, heard };
        for piece in pieces(said, cuts) {
            node.conversation.bytes(piece);
            node.turn();
        }
        assert!(port || node.heard.who.len() <= 1, "nobody says twice who it is");
        node.heard
    }

    fn turn(&mut self) {
        while let Some(said) = self.conversation.next() {
            assert!(!self.heard.closed, "something follows the end");
            match said {
                ProtocolOutput::Request(serial, request) => {
                    self.heard.asked.push(request.clone());
                    self.unanswered += 1;
                    if let Some(answer) = self.answer(request) {
                        self.answered(serial, answer);
                    }
                }
                ProtocolOutput::NodeRequest(serial, ask) => {
                    self.unanswered += 1;
                    for (_, serial, answer) in self.attributes.ask(ME, serial, ask) {
                        self.answered(serial, answer);
                    }
                }
                ProtocolOutput::Send(bytes) => self.send(&bytes),
                ProtocolOutput::Identify(secret) => {
                    self.heard.who.push(secret.clone());
                    self.conversation.identified((secret == SECRET).then_some((1, 2)));
                }
                ProtocolOutput::Close(why) => {
                    // A reason quotes a bounded number of bytes, and may show each of them by ten.
                    assert!(why.len() < CLOSE_MAX && !why.contains(['\n', '\u{1b}']), "{why:?}");
                    self.heard.closed = true;
                }
            }
            // An abort gets no answer.
            assert!(self.unanswered <= WAITING_MAX + 1);
        }
    }

    fn answered(&mut self, serial: u64, answer: Result<Answer, Fault>) {
        self.unanswered -= 1;
        self.conversation.answered(serial, answer);
    }

    /// Checks that the bytes sent are whole lines, or messages with their lengths.
    fn send(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= 2 * ASK_MAX);
        if bytes.starts_with(b"cmd=") {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            assert!(
                bytes.ends_with(b"\n") && (lines == 1 || bytes.starts_with(b"cmd=initack\n") && lines == 4)
            );
        } else {
            let length = std::str::from_utf8(&bytes[..6]).expect("a length").trim_start();
            assert_eq!(length.parse(), Ok(bytes.len() - 6), "a message of another length");
            assert!(bytes[6..].starts_with(b"cmd=") && bytes.ends_with(b";"));
        }
        self.heard.said.extend_from_slice(bytes);
    }

    fn answer(&mut self, request: Request) -> Option<Result<Answer, Fault>> {
        let fails = self.options & FAILS != 0 && request != Request::Init;
        if self.options & UNANSWERED != 0 || matches!(request, Request::Abort { .. }) {
            return None;
        }
        if fails {
            let kinds = [FaultKind::NotFound, FaultKind::NameExists, FaultKind::MemberDied];
            let kind = kinds[self.heard.asked.len() % kinds.len()];
            return Some(Err(Fault::new(kind, "it fails\ncmd=put_result rc=0;rc=0;")));
        }
        let missing = || Fault::new(FaultKind::NotFound, "there is no such key");
        Some(match request {
            Request::Init => Ok(Answer::Identity(Identity {
                member: ME,
                size: 2,
                parent: Some(GroupId(1)),
                database: "kvs_x_3".into(),
                spec: 0,
                neighbours: vec![0, 1],
            })),
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
            Request::Lookup { name, .. } => Ok(Answer::Value(name)),
            Request::Create(_) => Ok(Answer::Name("kvs_x_n1".into())),
            Request::Databases => Ok(Answer::Names(vec!["kvs_x_3".into()])),
            Request::SpawnMultiple { specs, .. } => {
                assert!(!specs.is_empty() && specs.iter().all(|spec| !spec.program.is_empty()));
                Ok(Answer::Spawned { group: GroupId(4), errors: vec![0; specs.len()], same_domain: true })
            }
            _ => Ok(Answer::Done),
        })
    }
}

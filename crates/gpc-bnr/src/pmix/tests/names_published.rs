//! Publish, lookup and unpublish against a table of names.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_pmix::server::{Answer as Reply, Info, Upcall};

use super::{Node, client, fault, info, member, process};
use crate::domain::Serial;
use crate::exit::Exit;
use crate::fault::FaultKind;
use crate::pmix::status;
use crate::request::{Answer, Client, Request};
use crate::spec::OnDeath;

/// The head's names.
#[derive(Default)]
struct Table(BTreeMap<Vec<u8>, Vec<u8>>);

impl Table {
    fn answer(&mut self, node: &mut Node, asked: Vec<(Client, Serial, Request)>) {
        for (client, serial, request) in asked {
            let answer = match request {
                Request::Deposit(pair) if self.0.contains_key(&pair.key) => Err(fault(FaultKind::NameExists)),
                Request::Deposit(pair) => {
                    self.0.insert(pair.key, pair.value);
                    Ok(Answer::Done)
                }
                Request::Withdraw(name) => {
                    self.0.remove(&name).map(|_| Answer::Done).ok_or_else(|| fault(FaultKind::NotFound))
                }
                Request::Lookup { name, .. } => {
                    self.0.get(&name).cloned().map(Answer::Value).ok_or_else(|| fault(FaultKind::NotFound))
                }
                request => panic!("{request:?}"),
            };
            node.translation.answered(client, serial, answer);
        }
    }

    fn serve(&mut self, node: &mut Node, upcall: Upcall) {
        let asked = node.calls(upcall);
        self.answer(node, asked);
        // A value that is read once is withdrawn then.
        let asked = node.requests();
        self.answer(node, asked);
    }
}

fn publish(info: Vec<Info>) -> Upcall {
    Upcall::Publish { process: process(1, 1), info }
}

fn lookup(keys: &[&str], info: Vec<Info>) -> Upcall {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Upcall::Lookup { process: process(1, 2), keys, info }
}

fn unpublish(keys: &[&str]) -> Upcall {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Upcall::Unpublish { process: process(1, 1), keys, info: Vec::new() }
}

#[test]
fn what_is_published_is_found_with_its_publisher() {
    let (mut node, mut table) = (Node::with_group(OnDeath::Kill), Table::default());
    table.serve(&mut node, publish(vec![info("a", b"1"), info("pmix.range", &[4]), info("b", b"2")]));
    assert_eq!(node.reply(), Ok(Reply::Done));
    assert_eq!(table.0.len(), 2, "the directive is no name");
    table.serve(&mut node, lookup(&["b", "none"], Vec::new()));
    assert_eq!(node.reply(), Ok(Reply::Found(vec![(process(1, 1), info("b", b"2"))])));
    table.serve(&mut node, publish(vec![info("a", b"3")]));
    assert_eq!(node.reply(), Err(status::DUPLICATE_KEY));
    table.serve(&mut node, lookup(&["none"], Vec::new()));
    assert_eq!(node.reply(), Err(status::NOT_FOUND));
    table.serve(&mut node, unpublish(&["b"]));
    assert_eq!((node.reply(), table.0.len()), (Ok(Reply::Done), 1));
    table.serve(&mut node, unpublish(&[]));
    assert_eq!((node.reply(), table.0.len()), (Ok(Reply::Done), 0), "all that it has published");
    table.serve(&mut node, unpublish(&[]));
    assert_eq!(node.reply(), Ok(Reply::Done));
    table.serve(&mut node, publish(vec![info("pmix.range", &[4])]));
    assert_eq!(node.reply(), Err(status::BAD_PARAM));
}

#[test]
fn a_value_that_is_read_once_is_gone_then() {
    let (mut node, mut table) = (Node::with_group(OnDeath::Kill), Table::default());
    table.serve(&mut node, publish(vec![info("a", b"1"), info("pmix.persist", &[1])]));
    assert_eq!(node.reply(), Ok(Reply::Done));
    table.serve(&mut node, lookup(&["a"], Vec::new()));
    assert_eq!(node.reply(), Ok(Reply::Found(vec![(process(1, 1), info("a", b"1"))])));
    assert_eq!(table.0.len(), 0);
}

/// The requests of lookups that wait, and how long.
fn waits(asked: &[(Client, Serial, Request)]) -> Vec<(String, Option<Duration>)> {
    let of = asked.iter().map(|(_, _, request)| match request {
        Request::Lookup { name, wait } => (String::from_utf8_lossy(name).into_owned(), *wait),
        other => panic!("{other:?}"),
    });
    of.collect()
}

/// The node asked again every 50 ms.
#[test]
fn a_lookup_waits_as_long_as_it_is_told() {
    let (mut node, mut table) = (Node::with_group(OnDeath::Kill), Table::default());
    let wait = |seconds: u8| vec![info("pmix.wait", &[0; 4]), info("pmix.timeout", &[seconds, 0, 0, 0])];
    let begin = |node: &mut Node, table: &mut Table, info| {
        let asked = node.calls(lookup(&["a"], info));
        assert_eq!(waits(&asked), [("pmix:a".to_owned(), None)]);
        table.answer(node, asked);
        node.requests()
    };
    let asked = begin(&mut node, &mut table, wait(2));
    assert_eq!(waits(&asked), [("pmix:a".to_owned(), Some(Duration::from_secs(2)))]);
    table.serve(&mut node, publish(vec![info("a", b"1")]));
    assert_eq!(node.reply(), Ok(Reply::Done));
    table.answer(&mut node, asked);
    assert_eq!(node.replies(), [(1, Ok(Reply::Found(vec![(process(1, 1), info("a", b"1"))])))]);

    table.0.clear();
    for (given, seconds) in [(wait(0), 600), (wait(9), 9)] {
        let asked = begin(&mut node, &mut table, given);
        assert_eq!(waits(&asked)[0].1, Some(Duration::from_secs(seconds)));
        for (client, serial, _) in asked {
            node.answers(client, serial, Err(fault(FaultKind::TimedOut)));
        }
        assert_eq!((node.reply(), node.requests()), (Err(status::TIMEOUT), Vec::new()));
    }
}

#[test]
fn a_lookup_that_waits_for_some_keys_ends_with_these() {
    let (mut node, mut table) = (Node::with_group(OnDeath::Kill), Table::default());
    let two = vec![info("pmix.wait", &[2, 0, 0, 0])];
    let asked = node.calls(lookup(&["a", "b", "c"], two));
    table.serve(&mut node, publish(vec![info("b", b"2")]));
    node.replies();
    let upcall = 1;
    table.answer(&mut node, asked);
    let asked = node.requests();
    assert_eq!(asked.len(), 2, "b is there");
    table.serve(&mut node, publish(vec![info("c", b"3")]));
    node.replies();
    let (a, c) = (asked[0].clone(), asked[1].clone());
    table.answer(&mut node, vec![c]);
    let found = vec![(process(1, 1), info("b", b"2")), (process(1, 1), info("c", b"3"))];
    assert_eq!(node.replies(), [(upcall, Ok(Reply::Found(found)))]);
    // No lookup waits for the name any more.
    node.answers(a.0, a.1, Err(fault(FaultKind::TimedOut)));
    assert_eq!(node.replies(), []);
}

/// All lookups of a node shared one bound of unanswered requests.
#[test]
fn a_lookup_is_a_request_of_its_process_and_ends_with_it() {
    let (mut node, mut table) = (Node::with_group(OnDeath::Notify), Table::default());
    let asked = node.calls(lookup(&["a", "b"], vec![info("pmix.wait", &[0; 4])]));
    assert!(asked.len() == 2 && asked.iter().all(|(of, ..)| *of == client(2)), "{asked:?}");
    table.answer(&mut node, asked);
    assert_eq!(waits(&node.requests()).len(), 2);
    node.translation.ended(member(1, 2), Exit::Code(0));
    assert_eq!((node.requests(), node.reply()), (Vec::new(), Err(status::PROC_ABORTED)));
}

//! Publish, lookup and unpublish against a table of names.

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_pmix::server::{Answer as Reply, Info, Upcall};

use super::{NOW, Node, fault, info, process};
use crate::domain::Serial;
use crate::fault::FaultKind;
use crate::pmix::status;
use crate::request::{Answer, Client, Request};
use crate::spec::OnDeath;

/// The head's names.
#[derive(Default)]
struct Table(BTreeMap<Vec<u8>, Vec<u8>>);

impl Table {
    fn answer(&mut self, node: &mut Node, asked: Vec<(Client, Serial, Request)>, now: Duration) {
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
                Request::Lookup(name) => {
                    self.0.get(&name).cloned().map(Answer::Value).ok_or_else(|| fault(FaultKind::NotFound))
                }
                request => panic!("{request:?}"),
            };
            node.translation.answered(client, serial, answer, now);
        }
    }

    fn serve(&mut self, node: &mut Node, upcall: Upcall) {
        let asked = node.calls(upcall);
        self.answer(node, asked, NOW);
        // A value that is read once is withdrawn then.
        let asked = node.requests();
        self.answer(node, asked, NOW);
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

#[test]
fn a_lookup_waits_as_long_as_it_is_told() {
    let (mut node, mut table) = (Node::with_group(OnDeath::Kill), Table::default());
    let wait = |seconds: u8| vec![info("pmix.wait", &[0; 4]), info("pmix.timeout", &[seconds, 0, 0, 0])];
    table.serve(&mut node, lookup(&["a"], wait(2)));
    let due = node.translation.deadline().unwrap();
    node.translation.time_passed(due - Duration::from_nanos(1));
    assert_eq!(node.requests(), []);
    node.translation.time_passed(due);
    let asked = node.requests();
    assert_eq!(asked.len(), 1);
    table.answer(&mut node, asked, due);
    assert_eq!(node.replies(), []);
    table.serve(&mut node, publish(vec![info("a", b"1")]));
    node.replies();
    let due = node.translation.deadline().unwrap();
    node.translation.time_passed(due);
    let asked = node.requests();
    table.answer(&mut node, asked, due);
    assert_eq!(node.replies(), [(1, Ok(Reply::Found(vec![(process(1, 1), info("a", b"1"))])))]);

    table.serve(&mut node, lookup(&["b"], wait(2)));
    let late = Duration::from_secs(2);
    node.translation.time_passed(late);
    let asked = node.requests();
    table.answer(&mut node, asked, late);
    assert_eq!(node.reply(), Err(status::TIMEOUT));
    assert_eq!(node.translation.deadline(), None);
}

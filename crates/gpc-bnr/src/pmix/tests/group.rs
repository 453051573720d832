//! Tests of groups of PMIx.

use super::*;

/// Two members here, ranks 1 and 2, and two elsewhere.
fn members() -> Vec<Process> {
    (0..4).map(|rank| process(1, rank)).collect()
}

fn group(constructs: bool, name: &str, mut more: Vec<Info>) -> Upcall {
    more.push(Info::new("pmix.grp.actxid", Value::boolean(true)));
    Upcall::Group { constructs, name: name.into(), processes: members(), info: more }
}

fn given(bytes: &[u8]) -> Vec<Info> {
    vec![Info::new("pmix.grp.endpt", Value::object(bytes.to_vec()))]
}

/// The data of the first request, and the tags and limits of all.
type Entered = (Vec<u8>, Vec<(Vec<u8>, Option<Duration>)>);

fn entered(requests: &[(Client, Serial, Request)]) -> Entered {
    let mut brought = Vec::new();
    let all = requests.iter().map(|(_, _, request)| match request {
        Request::Exchange { tag, limit, data, .. } => {
            brought.extend_from_slice(data);
            (tag.clone(), *limit)
        }
        Request::Fence { tag, limit, .. } => (tag.clone(), *limit),
        other => panic!("{other:?}"),
    });
    let all = all.collect();
    (brought, all)
}

/// Answers the members: the first with what all nodes have brought.
fn answer(node: &mut Node, requests: Vec<(Client, Serial, Request)>, all: &[u8]) -> Result<Reply, i32> {
    for (client, serial, request) in requests {
        let answer = match request {
            Request::Exchange { .. } => Answer::Value(all.to_vec()),
            _ => Answer::Done,
        };
        node.answers(client, serial, Ok(answer));
    }
    node.reply()
}

fn facts(reply: Result<Reply, i32>) -> Vec<Info> {
    let Ok(Reply::Infos(facts)) = reply else { panic!("{reply:?}") };
    facts
}

fn id_of(facts: &[Info]) -> Option<u64> {
    facts.iter().find(|info| info.key == "pmix.grp.ctxid")?.value.as_number()
}

#[test]
fn all_nodes_agree_on_the_identifier_and_have_what_all_have_given() {
    let mut nodes = [Node::with_group(OnDeath::Kill), Node::with_group(OnDeath::Kill)];
    nodes[1].translation.me = 7;
    let asked: Vec<_> = [b"five", b"7777"]
        .iter()
        .zip(&mut nodes)
        .map(|(data, node)| node.calls(group(true, "g", given(*data))))
        .collect();
    let all: Vec<u8> = asked.iter().flat_map(|requests| entered(requests).0).collect();
    let mut told: Vec<Vec<Info>> = Vec::new();
    for (node, requests) in nodes.iter_mut().zip(asked) {
        assert_eq!(requests.len(), 2, "each member here enters");
        told.push(facts(answer(node, requests, &all)));
    }
    assert_eq!(told[0], told[1]);
    let expected = [
        Info::new("pmix.grp.mbrs", Value::processes(&members())),
        Info::new("pmix.grp.ctxid", Value::size((6 << 32) | 1)),
        Info::new("pmix.grp.endpt", Value::object(b"five7777".to_vec())),
    ];
    assert_eq!(told[0], expected);
}

#[test]
fn each_group_has_an_identifier_of_its_own() {
    let mut node = Node::with_group(OnDeath::Kill);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let requests = node.calls(group(true, "g", Vec::new()));
        let (all, _) = entered(&requests);
        ids.extend(id_of(&facts(answer(&mut node, requests, &all))));
        let requests = node.calls(group(false, "g", Vec::new()));
        assert_eq!(answer(&mut node, requests, &[]), Ok(Reply::Done));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    // No member requests an identifier.
    let without =
        Upcall::Group { constructs: true, name: "g".into(), processes: members(), info: Vec::new() };
    let requests = node.calls(without);
    let (all, _) = entered(&requests);
    assert_eq!(id_of(&facts(answer(&mut node, requests, &all))), None);
}

#[test]
fn a_group_meets_under_its_name() {
    let mut node = Node::with_group(OnDeath::Kill);
    let long = |middle: &str| format!("{}{middle}{}", "a".repeat(500), "b".repeat(500));
    let mut tag = |constructs, name: &str| {
        let tags = entered(&node.calls(group(constructs, name, Vec::new()))).1;
        assert!(tags.iter().all(|(tag, limit)| tag == &tags[0].0 && *limit == Some(super::super::JOB_LIMIT)));
        tags[0].0.clone()
    };
    assert_eq!(tag(true, "g"), b"pmix-construct:g");
    assert_eq!(tag(false, "g"), b"pmix-destruct:g");
    // As long as a tag may be.
    assert!(tag(true, &long("")).len() <= 256);
    assert_ne!(tag(true, &long("")), tag(true, &long("m")));
    assert_ne!(tag(true, &long("n")), tag(true, &long("m")), "names that differ in the middle alone");
    let limited = vec![Info::new("pmix.timeout", Value::uint32(3))];
    assert_eq!(entered(&node.calls(group(true, "t", limited))).1[0].1, Some(Duration::from_secs(3)));
}

#[test]
fn a_death_fails_a_construct_and_so_does_a_member_that_libpmix_has_lost() {
    let mut node = Node::with_group(OnDeath::Notify);
    for (client, serial, _) in node.calls(group(true, "g", Vec::new())) {
        node.answers(client, serial, Err(fault(FaultKind::MemberDied)));
    }
    assert_eq!(node.reply(), Err(status::PROC_ABORTED));
    // The directives of the members follow each other.
    let status = |value: i32| {
        let value = Value { kind: 20, bytes: value.to_le_bytes().to_vec() };
        Info::new("pmix.loc.col.st", value)
    };
    let requests = node.calls(group(true, "h", vec![status(-52), status(0)]));
    assert!(entered(&requests).1.iter().all(|(_, limit)| *limit == Some(Duration::ZERO)));
}

#[test]
fn a_group_of_this_node_alone_is_answered_at_once() {
    let mut node = Node::with_group(OnDeath::Kill);
    let local = vec![Info::new("pmix.grp.lcl", Value::boolean(true))];
    assert_eq!(node.calls(group(true, "g", local)), []);
    let told = facts(node.reply());
    assert_eq!(told[0], Info::new("pmix.grp.mbrs", Value::processes(&members())));
    assert!(id_of(&told).is_some());
}

#[test]
fn members_that_do_not_call_are_not_supported_and_other_data_are_an_error() {
    let mut node = Node::with_group(OnDeath::Kill);
    let more = vec![Info::new("pmix.grp.add", Value::processes(&members()))];
    for (client, serial, _) in node.calls(group(true, "g", more)) {
        node.answers(client, serial, Err(fault(FaultKind::TimedOut)));
    }
    assert_eq!(node.reply(), Err(status::NOT_SUPPORTED));
    for all in [&[][..], &[1; 11], &[0xff; 12]] {
        let requests = node.calls(group(true, "g", Vec::new()));
        assert_eq!(answer(&mut node, requests, all), Err(status::ERROR));
    }
}

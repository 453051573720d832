//! Nodes of different jobs meet: by an outdated peers file, or by hand.

use std::time::Duration;

use chained_gpc::runtime::{Address, Listener, Peers};
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::{AbsentPeers, Call, Functions, Id, Job, LinkKind, Node, Stage};

use super::common::{LIMIT, LISTENING, assert_cause, assert_who, cause_of, ids, limited, replies_of, who};
use super::raw::{EARLY, RawPeer, SHORT, call, listener, listening, node};

/// A job whose short form is this digit, eight times.
fn job(digit: char) -> Job {
    digit.to_string().repeat(32).parse().unwrap()
}

fn assert_names_both(text: &str) {
    assert!(text.contains("job aaaaaaaa") && text.contains("job bbbbbbbb"), "{text}");
    assert!(text.contains("peers file"), "it says what to do: {text}");
}

/// Nodes of a job whose file has these addresses; those in the range are started.
fn start(
    job: Job,
    started: std::ops::Range<Id>,
    peers: &Peers,
    link: LinkKind,
    functions: &Functions,
) -> Vec<Node> {
    let start = |id| {
        let listener = Listener::bind(&peers.address(id).unwrap()).unwrap();
        let builder = Node::builder(id).functions(functions).peers(peers.clone()).job(job).link(link);
        builder.listener(listener).start().unwrap()
    };
    started.map(start).collect()
}

/// A second job took the addresses of an ended one, and a root of the first called functions of the second.
#[test]
fn a_stale_peers_file_joins_no_two_jobs() {
    limited(|| {
        for link in LISTENING {
            let functions = Functions::new();
            let who = who(&functions);
            let (listeners, row) = link.listen(0..3).unwrap();
            drop(listeners);
            let peers = Peers::from(row);
            let others = start(job('b'), 1..3, &peers, link, &functions);
            let stale = start(job('a'), 0..1, &peers, link, &functions).remove(0);
            let cause = cause_of(stale.call(Call::new(who).ids(0..3)).unwrap());
            assert_eq!(cause.stage, Stage::Link, "{cause}");
            assert_names_both(&cause.message);
            let AbsentPeers::Late { ids, why, .. } = stale.wait_for_peers(0..3, SHORT).unwrap_err() else {
                panic!("it is late")
            };
            assert_eq!(ids, super::common::ids("1-2"));
            assert_names_both(&why);
            stale.shutdown(LIMIT);
            let right = start(job('b'), 0..1, &peers, link, &functions).remove(0);
            let replies = replies_of(right.call(Call::new(who).ids(0..3)).unwrap());
            assert_who(&replies, &[0, 1, 2], "");
            drop(others);
        }
    });
}

#[test]
fn a_hello_of_another_job_has_no_effect_but_its_answer() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let node = listening(Node::builder(1).functions(&functions).job(job('a')));
        let mut first = RawPeer::connect(&node);
        first.hello_of(job('a'), 7, 1, EARLY, 1);
        first.expect_hello();
        // The same run with a later link, another run, another id, and the node's own id.
        for (from, to, incarnation, generation) in
            [(7, 1, EARLY, 9), (7, 1, EARLY + 1, 1), (7, 5, EARLY, 9), (1, 1, EARLY, 1), (8, 1, EARLY, 1)]
        {
            for other in [job('b'), Job::default()] {
                let mut stranger = RawPeer::connect(&node);
                stranger.hello_of(other, from, to, incarnation, generation);
                let said = stranger.expect_goodbye(GoodbyeReason::OtherJob);
                assert!(said.contains("id 1 is of job aaaaaaaa"), "{said}");
                assert!(said.contains(&format!("id {from} of {}", other.short())), "{said}");
                assert!(stranger.next().is_none());
            }
        }
        // It was not asked for a heartbeat: its answer is the first frame.
        first.request(call(7, 1), who, &ids("1"));
        first.expect_response(call(7, 1));
        assert!(!first.has_something());
    });
}

/// The answering side does not check jobs.
#[test]
fn an_answer_of_another_job_is_no_link() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let (listener, address) = listener();
        let peers: Peers = [(1, address)].into_iter().collect();
        let root = Node::builder(0).functions(&functions).peers(peers).job(job('a')).start().unwrap();
        let handle = root.call(Call::new(who).ids(0..2)).unwrap();
        let mut other = RawPeer::accept(&listener);
        let hello = other.expect_hello();
        assert_eq!(hello.job, job('a'));
        other.hello_of(job('b'), 1, 0, EARLY, hello.generation);
        assert_names_both(&other.expect_goodbye(GoodbyeReason::OtherJob));
        let cause = cause_of(handle);
        assert_cause(&cause, 1, Stage::Link, "cannot connect to 127.0.0.1:");
        assert_names_both(&cause.message);
    });
}

#[test]
fn peers_name_the_job_unless_the_builder_does() {
    limited(|| {
        let functions = Functions::new();
        let mut peers: Peers = "job aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".parse().unwrap();
        let hello = |node: Node, job: Job| {
            let mut peer = RawPeer::connect(&node);
            peer.hello_of(job, 7, 1, EARLY, 1);
            assert_eq!(peer.expect_hello().job, job);
        };
        let builder = || Node::builder(1).functions(&functions);
        hello(listening(builder().peers(peers.clone())), job('a'));
        hello(listening(builder().job(job('b')).peers(peers.clone())), job('b'));
        hello(listening(builder().peers(peers.clone()).job(Job::default())), Job::default());
        hello(node(1, &functions, []), Job::default());
        peers.set_job(job('b'));
        let drawn = Job::random();
        hello(listening(builder().peers(peers).job(drawn)), drawn);
    });
}

#[test]
fn a_polled_root_hears_of_the_other_job() {
    limited(|| {
        let functions = Functions::new();
        let who = who(&functions);
        let there = listening(Node::builder(1).functions(&functions).job(job('b')));
        let peers: Peers = [(1, there.address().cloned().unwrap())].into_iter().collect();
        let mut root = Node::builder(0).functions(&functions).peers(peers).job(job('a')).polled().unwrap();
        let handle = root.call(Call::new(who).ids(0..2).limit(LIMIT)).unwrap();
        let error = root.wait(handle).unwrap_err();
        assert_names_both(&error.failure().unwrap().cause.message);
        let error = root.wait_for_peers(1..2, Duration::ZERO).unwrap_err().to_string();
        assert!(matches!(there.address(), Some(Address::Tcp(_))) && error.contains("id 1"), "{error}");
    });
}

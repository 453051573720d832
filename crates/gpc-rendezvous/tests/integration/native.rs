//! A rendezvous service on a node, accessed by other nodes over real links.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{
    Call, CauseKind, FuncHandle, Functions, Id, Job, LinkKind, LocalNodes, PeerEventKind, Tree,
};
use gpc_rendezvous::native::{Client, ClientError, Host, Operation, WireRequest, decode_answer};
use gpc_rendezvous::{FaultKind, Handle, Life, Limits, RankChoice, Scope, Spec, Token, Unit};
use gpc_test_support::waiting::{until, until_some};

/// Longer than any successful step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Liveness by the caller's own link: the service fills in the id.
const LINKED: Life = Life::Member(0);

/// Nodes of one process; the service is on id 0.
struct Nodes {
    nodes: LocalNodes,
    host: Host,
}

impl Nodes {
    fn start(n: u32) -> Nodes {
        let functions = Functions::new();
        let host = Host::register(&functions, Limits::default()).unwrap();
        let nodes = LocalNodes::start(n, LinkKind::Unix, &functions).unwrap();
        host.attach(nodes.root()).unwrap();
        Nodes { nodes, host }
    }

    fn client(&self, id: Id) -> Client {
        Client::new(self.nodes.node(id).caller(), Job::default(), 0)
    }
}

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, ClientError>) -> FaultKind {
    match result {
        Err(ClientError::Fault(fault)) => fault.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nodes_register_and_each_gets_the_data_of_all() {
    let nodes = Nodes::start(4);
    let spec = Spec { joint: true, ..Spec::new(3) };
    let handle = nodes.client(2).create(&spec).unwrap();
    assert_eq!(handle.service(), format!("gpc://{}/0", Job::default()));
    let each = |id: Id| {
        let (client, handle) = (nodes.client(id), handle.clone());
        move || {
            let token = token(&format!("t{id}"));
            let wanted = if id == 3 { RankChoice::Rank(0) } else { RankChoice::Assign };
            let data = Bytes::from(format!("data of {id}"));
            let registered = client.register(&handle, wanted, &token, data.clone(), LINKED).unwrap();
            let again = client.register(&handle, RankChoice::Assign, &token, data.clone(), LINKED).unwrap();
            assert_eq!(registered.rank, again.rank);
            let completion = client.wait(&handle, Scope::Top, Some(&token), PATIENCE).unwrap().unwrap();
            assert_eq!(client.registrant(&handle, registered.rank.into()).unwrap(), data);
            (registered.rank, completion)
        }
    };
    // The first registers before the others, so it has rank 0.
    let first = thread::spawn(each(3));
    let client = nodes.client(1);
    until("the first has registered", || client.properties(&handle).unwrap().tally > 0);
    let threads = [first, thread::spawn(each(1)), thread::spawn(each(2))];
    let mut told: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    told.sort_by_key(|(rank, _)| *rank);
    let ranks: Vec<u32> = told.iter().map(|(rank, _)| *rank).collect();
    assert_eq!(ranks, [0, 1, 2]);
    assert!(told[0].1.data.starts_with(b"3 9 data of 39 data of "), "{:?}", told[0].1);
    assert!(told.iter().all(|(_, completion)| *completion == told[0].1 && completion.joint.is_some()));
    // This holds for the service's own node, too, which asks late.
    let late = nodes.client(0).wait(&handle, Scope::Own, None, Duration::ZERO).unwrap().unwrap();
    assert_eq!(late, told[0].1);
}

#[test]
fn faults_have_their_codes() {
    let nodes = Nodes::start(2);
    let client = nodes.client(1);
    assert_eq!(kind(client.create(&Spec::new(0))), FaultKind::CapacityZero);
    let handle = client.create(&Spec::new(2)).unwrap();
    let register =
        |rank, text| client.register(&handle, RankChoice::Rank(rank), &token(text), Bytes::new(), LINKED);
    assert_eq!(register(1, "a").unwrap().tally, 1);
    assert_eq!(kind(register(1, "b")), FaultKind::RankTaken);
    assert_eq!(kind(register(9, "b")), FaultKind::RankOutOfRange);
    assert_eq!(kind(client.withdraw(&handle, 1, &token("b"))), FaultKind::NotRegistered);
    assert_eq!(client.wait(&handle, Scope::Own, None, Duration::ZERO), Ok(None));
    client.withdraw(&handle, 1, &token("a")).unwrap();
    assert_eq!(client.properties(&handle).unwrap().tally, 0);
    client.destroy(&handle).unwrap();
    assert_eq!(kind(client.properties(&handle)), FaultKind::Destroyed);
    // The fault for a resource with a parent includes the remedy.
    let parent = gpc_rendezvous::Parent { handle: handle.clone(), rank: RankChoice::Assign };
    let refused = client.create(&Spec { parent: Some(parent), ..Spec::new(1) });
    assert_eq!(kind(refused), FaultKind::BadRequest);
    // Handles of another service, and of a service that is not on a node.
    let other: Handle = format!("gpc://{}/1?{}", Job::default(), handle.resource()).parse().unwrap();
    assert_eq!(client.properties(&other), Err(ClientError::OtherService(0)));
    let http: Handle = format!("http://localhost/rendezvous?{}", handle.resource()).parse().unwrap();
    assert!(Client::of(nodes.nodes.node(1).caller(), &http).is_err());
}

#[test]
fn a_job_ends_with_its_resources() {
    let nodes = Nodes::start(2);
    let (client, job) = (nodes.client(1), Job([7; 16]));
    let handle = client.create(&Spec { job: Some(job), ..Spec::new(2) }).unwrap();
    assert_eq!(client.properties(&handle).unwrap().job, Some(job));
    assert_eq!(client.end_job(job), Ok(1));
    assert_eq!(kind(client.properties(&handle)), FaultKind::JobEnded);
}

/// A node that leaves is lost, like one that dies.
#[test]
fn the_registrants_of_a_lost_node_are_withdrawn_and_its_units_end() {
    let mut nodes = Nodes::start(4);
    let client = nodes.client(1);
    let handle = client.create(&Spec::new(2)).unwrap();
    let lost = nodes.client(2);
    lost.register(&handle, RankChoice::Rank(0), &token("lost"), Bytes::from("x"), LINKED).unwrap();
    // A registrant that is not tracked stays.
    let third = nodes.client(3);
    let stays = client.create(&Spec::new(2)).unwrap();
    third.register(&stays, RankChoice::Rank(0), &token("stays"), Bytes::new(), Life::Unseen).unwrap();
    third.control(&stays, Unit::Rank(1), "the third", &token("unit"), LINKED).unwrap();
    drop(nodes.nodes.take(2));
    // Its rank is free again as soon as the service has handled the loss.
    let again = until_some("the rank is free again", || {
        match client.register(&handle, RankChoice::Rank(0), &token("again"), Bytes::new(), LINKED) {
            Err(ClientError::Fault(fault)) if fault.kind == FaultKind::RankTaken => None,
            ended => Some(ended.unwrap()),
        }
    });
    assert_eq!((again.rank, again.tally), (0, 1));
    let waits = thread::spawn({
        let (client, stays) = (client.clone(), stays.clone());
        move || client.wait(&stays, Scope::Own, None, PATIENCE)
    });
    drop(nodes.nodes.take(3));
    let Err(ClientError::Fault(fault)) = waits.join().unwrap() else { panic!("it is lost") };
    assert_eq!((fault.kind, fault.rank), (FaultKind::ControllerLost, Some(1)));
    assert_eq!(fault.task.as_deref(), Some("the third"));
    assert!(fault.message.contains("the link to id 3 is lost"), "{fault}");
    assert_eq!(client.properties(&stays).unwrap().tally, 1, "an untracked registrant stays");
}

/// A thread of its own reported losses to the service. A late loss withdrew what its node had registered again over its
/// next link. If many links opened and closed, some losses were never reported.
#[test]
fn an_old_loss_does_not_end_what_was_registered_later() {
    let nodes = Nodes::start(3);
    let (client, member) = (nodes.client(1), nodes.client(2));
    let handle = client.create(&Spec::new(2)).unwrap();
    let links = nodes.nodes.node(2).events().unwrap();
    let mine = token("mine");
    for round in 0..50 {
        member.register(&handle, RankChoice::Rank(0), &mine, Bytes::new(), LINKED).unwrap();
        nodes.nodes.root().forget(2).unwrap();
        while !matches!(links.recv_within(PATIENCE).unwrap().kind, PeerEventKind::Lost { .. }) {}
        member.register(&handle, RankChoice::Rank(0), &mine, Bytes::new(), LINKED).unwrap();
        for _ in 0..5 {
            assert_eq!(client.properties(&handle).unwrap().tally, 1, "round {round}");
        }
        member.withdraw(&handle, 0, &mine).unwrap();
    }
}

/// Adding an unlimited duration to the clock's time panicked.
#[test]
fn a_wait_may_have_the_longest_limit() {
    let nodes = Nodes::start(2);
    let client = nodes.client(1);
    let handle = client.create(&Spec::new(1)).unwrap();
    client.register(&handle, RankChoice::Assign, &token("one"), Bytes::from("x"), LINKED).unwrap();
    let completion = client.wait(&handle, Scope::Own, None, Duration::MAX).unwrap();
    assert_eq!(completion.unwrap().data, "1 1 x");
}

#[test]
fn nobody_asks_through_another_one() {
    let nodes = Nodes::start(3);
    let (header, _) = WireRequest::Create(Spec::new(1)).encode();
    let call = Call::new(FuncHandle::named(Operation::Create.function())).ids([1, 0]).tree(Tree::Chain);
    // Id 2 calls id 1, which forwards the call to id 0.
    let outcome = nodes.nodes.node(2).call(call.header(header).watch());
    let replies = outcome.unwrap().wait().unwrap().replies().unwrap();
    let asked = |id: Id| {
        let reply = replies.iter().find(|reply| reply.id == id).unwrap();
        decode_answer(&reply.header, reply.data.clone()).unwrap()
    };
    assert_eq!(asked(0).unwrap_err().kind, FaultKind::BadRequest);
    assert!(asked(1).is_ok(), "it is asked by its root");
}

#[test]
fn bytes_that_make_no_sense_are_refused() {
    let nodes = Nodes::start(2);
    for header in [&[][..], &[2], &[1, 9, 9]] {
        let call = Call::new(FuncHandle::named(Operation::Register.function())).ids([0]).watch();
        let outcome = nodes.nodes.node(1).call(call.header(header.to_vec())).unwrap().wait().unwrap();
        let reply = &outcome.replies().unwrap()[0];
        let fault = decode_answer(&reply.header, reply.data.clone()).unwrap().unwrap_err();
        assert_eq!(fault.kind, FaultKind::BadRequest, "{fault}");
    }
}

/// A cancelled wait is removed, and so are the waits at the end of the service.
#[test]
fn waits_end() {
    let nodes = Nodes::start(2);
    let client = nodes.client(1);
    let handle = client.create(&Spec::new(1)).unwrap();
    let (header, _) =
        WireRequest::Wait { resource: handle.resource(), of: Scope::Own, limit: 60_000, token: None }
            .encode();
    let call = Call::new(FuncHandle::named(Operation::Wait.function())).ids([0]).header(header).watch();
    let call = nodes.nodes.node(1).call(call).unwrap();
    until("it waits", || client.properties(&handle).unwrap().waiting > 0);
    call.cancel();
    until("its wait has ended", || client.properties(&handle).unwrap().waiting == 0);
    let waits = thread::spawn({
        let (client, handle) = (client.clone(), handle.clone());
        move || client.wait(&handle, Scope::Own, None, PATIENCE)
    });
    until("it waits", || client.properties(&handle).unwrap().waiting > 0);
    let Nodes { nodes, host } = nodes;
    drop(host);
    assert_eq!(kind(waits.join().unwrap()), FaultKind::Unavailable);
    drop(nodes);
}

#[test]
fn a_service_that_is_not_there_is_named() {
    let functions = Functions::new();
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    let client = Client::new(nodes.node(1).caller(), Job::default(), 0);
    let Err(ClientError::Call { id: 0, error }) = client.create(&Spec::new(1)) else {
        panic!("nobody answers")
    };
    assert_eq!(error.kind(), Some(CauseKind::UnknownFunction));
}

/// A creation whose link was lost while the service worked on it was sent again: two resources were created.
#[test]
fn a_request_is_repeated_if_that_does_no_harm() {
    let functions = Functions::new();
    let (told, arrived) = channel();
    for operation in [Operation::Create, Operation::Properties] {
        let told = told.clone();
        // Never answered.
        let function = move |_: &chained_gpc::Request<'_>, token| drop(told.send(token));
        functions.deferring(operation.function(), function).unwrap();
    }
    let nodes = LocalNodes::start(2, LinkKind::Unix, &functions).unwrap();
    let client = Client::new(nodes.node(1).caller(), Job::default(), 0);
    let handle: Handle = format!("gpc://{}/0?{:032x}", Job::default(), 7).parse().unwrap();
    // Each time that a request arrives, its link is lost. Returns the number of attempts.
    let attempts = |asked: thread::JoinHandle<ClientError>| {
        let mut unanswered: Vec<chained_gpc::Deferred> = Vec::new();
        until("the client gives up", || {
            while let Ok(token) = arrived.try_recv() {
                unanswered.push(token);
                nodes.root().forget(1).unwrap();
            }
            asked.is_finished()
        });
        (unanswered.len(), asked.join().unwrap())
    };
    let (create, properties) = (client.clone(), client);
    let (count, error) = attempts(thread::spawn(move || create.create(&Spec::new(1)).unwrap_err()));
    assert!(count == 1 && matches!(error, ClientError::Call { .. }), "{count} attempts: {error:?}");
    let (count, error) = attempts(thread::spawn(move || properties.properties(&handle).unwrap_err()));
    assert!(count == 5 && matches!(error, ClientError::Call { .. }), "{count} attempts: {error:?}");
}

//! What a node refuses of other nodes: orders to begin a domain, and requests from outside.

use chained_gpc::{CallError, Clock, FuncHandle, LinkKind, LocalNodes};
use mio::Poll;

use super::*;
use crate::codec::encode_order;
use crate::fault::FaultKind;
use crate::host::programs::{MANY, SharedPrograms};
use crate::host::shared::Part;
use crate::host::sources::WAKER;
use crate::request::Request;

/// Longer than anything takes that succeeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two nodes that serve domains.
fn nodes() -> (LocalNodes, Serving) {
    nodes_by(Serving::register)
}

type Register = fn(&Functions, SupervisorCommand, Limits) -> Result<Serving, FunctionsError>;

fn nodes_by(register: Register) -> (LocalNodes, Serving) {
    let functions = Functions::new();
    let command = SupervisorCommand { program: "/nowhere/supervisor".into(), args: Vec::new() };
    let serving = register(&functions, command, Limits::default()).unwrap();
    (LocalNodes::start(2, LinkKind::Unix, &functions).unwrap(), serving)
}

/// Why id 1 refuses to begin a domain for id 0.
fn refusal(local: &LocalNodes, nodes: &[chained_gpc::Id], limits: Limits) -> String {
    let order = encode_order(&Order::Begin { nodes: nodes.to_vec(), limits });
    let call = chained_gpc::Call::new(FuncHandle::named("bnr.order")).ids([1]).watch();
    let ended: Result<_, CallError> = local.root().call(call.header(&b"d0"[..]).data(order)).unwrap().wait();
    ended.unwrap_err().cause().unwrap().message.to_string()
}

/// Adds domains whose loops have ended.
fn serve(serving: &Serving, domains: usize) {
    let poll = Poll::new().unwrap();
    let (mailbox, _) = Mailbox::new(poll.registry(), WAKER).unwrap();
    let part = Part { mailbox, head: 0, programs: SharedPrograms::default() };
    (0..domains).for_each(|number| serving.shared().insert(&format!("other{number}"), part.clone()));
}

/// Any node of the job could begin domains in the name of another one, without an end, and as large as it liked.
#[test]
fn a_domain_is_begun_by_its_head_within_the_limits_of_this_node() {
    let (local, serving) = nodes();
    for nodes in [&[1, 0][..], &[0], &[]] {
        let why = refusal(&local, nodes, Limits::default());
        assert!(why.contains("a domain is begun by its head, at its nodes"), "{why}");
    }
    let large = Limits { groups: Limits::default().groups + 1, ..Limits::default() };
    let why = refusal(&local, &[0, 1], large);
    assert!(why.contains("the domain is to have more groups than this node allows"), "{why}");
    serve(&serving, DOMAINS_MAX);
    let why = refusal(&local, &[0, 1], Limits::default());
    assert!(why.contains("this node has a part in 256 domains already"), "{why}");
}

/// An agent of `gpc run` could start programs on the host of the command that had started it.
#[test]
fn a_head_begins_no_domain_for_another_node() {
    let (local, serving) = nodes_by(Serving::register_head);
    let why = refusal(&local, &[0, 1], Limits::default());
    assert!(why.contains("this node begins no domains for others"), "{why}");
    assert_eq!(serving.shared().count(), 0);
    let (local, serving) = nodes();
    let order = encode_order(&Order::Begin { nodes: vec![0, 1], limits: Limits::default() });
    let call = chained_gpc::Call::new(FuncHandle::named("bnr.order")).ids([1]).watch();
    local.root().call(call.header(&b"d0"[..]).data(order)).unwrap().wait().unwrap();
    assert_eq!(serving.shared().names(), ["d0"]);
}

/// Any node that had proved the secret could replace a program of another node's job.
#[test]
fn a_program_comes_from_the_head_of_its_domain_and_within_the_bound() {
    let (_local, serving) = nodes();
    serve(&serving, 1);
    let file = Arc::new(File::open("/dev/null").unwrap());
    let give = |domain, sender, number| serving.give_program((domain, sender), number, file.clone());
    assert_eq!((give("other0", 1, 7), give("other1", 0, 7)), (Err(NO_PART), Err(NO_PART)));
    assert_eq!(Arc::strong_count(&file), 1);
    assert!((0..64).all(|number| give("other0", 0, number).is_ok()));
    assert_eq!((give("other0", 0, 64), give("other0", 0, 63)), (Err(MANY), Ok(())));
    assert_eq!(Arc::strong_count(&file), 65);
}

/// A command elsewhere reads and kills; it starts nothing, and ends no job in the name of a process.
#[test]
fn a_request_from_outside_does_not_start_anything() {
    let (local, serving) = nodes();
    serving.attach(local.root().caller());
    serve(&serving, 1);
    let kind = |request| serving.ask_by(1, "other0", &request, PATIENCE).unwrap_err().kind;
    assert_eq!(kind(Request::Abort { code: 1, message: "no".into() }), FaultKind::Unsupported);
    assert_eq!(kind(Request::Finalize), FaultKind::Unsupported);
    // These reach the loop, which has ended.
    assert_ne!(kind(Request::Groups), FaultKind::Unsupported);
    let elsewhere = serving.ask_by(1, "other1", &Request::Groups, PATIENCE).unwrap_err();
    assert_eq!(elsewhere.kind, FaultKind::DomainEnded);
}

/// A domain that had ended was found for ever: its name could not be used again, and its place was taken.
#[test]
fn a_domain_that_has_ended_is_not_served_any_more() {
    let (local, serving) = nodes();
    let order = |order: &Order| {
        let call = chained_gpc::Call::new(FuncHandle::named("bnr.order")).ids([1]).watch();
        local.root().call(call.header(&b"d0"[..]).data(encode_order(order))).unwrap().wait()
    };
    let begin = Order::Begin { nodes: vec![0, 1], limits: Limits::default() };
    order(&begin).unwrap();
    assert_eq!(serving.shared().names(), ["d0"]);
    let mailbox = serving.shared().find(b"d0").unwrap();
    // The reply comes when the loop has nothing left, so perhaps after it has ended.
    let _ = order(&Order::End);
    let limit = Clock::system().limit(PATIENCE);
    // No call has this number.
    while mailbox.send(EngineMessage::CallReady(u64::MAX)).is_ok() {
        assert!(limit.left().is_some(), "the loop ends");
        std::thread::yield_now();
    }
    assert_eq!(serving.shared().count(), 0, "the domain has ended, and is still served");
    let why = order(&Order::End).unwrap_err().cause().unwrap().message.to_string();
    assert!(why.contains("this node has no part in such a domain, or not any more"), "{why}");
    order(&begin).unwrap();
    let _ = order(&Order::End);
}

//! Links with an independent implementation of the cryptography, made from docs/wire.md alone:
//! `tests/strangers/proof.py`, with the Python package noiseprotocol.
//!
//! It needs python3 with that package, which `.ci/run` installs below `target/strangers`. Without it the tests are
//! skipped with a message.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]
#![cfg(feature = "noise")]

use std::path::{Path, PathBuf};
use std::process::Command;

use chained_gpc::{
    Address, Call, Functions, LinkKind, Listener, Node, Peer, PrivateKey, Secret, runtime::Peers,
};

/// A Python that has the package.
fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/strangers/bin/python");
    let has = |python: &PathBuf| {
        let tried = Command::new(python).args(["-c", "import noise.connection"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    [own, "python3".into()].into_iter().find(has)
}

/// Output of the program, after checking that it succeeded.
fn stranger(arguments: &[&str]) -> Option<String> {
    let Some(python) = python() else {
        eprintln!("skipped: needs python3 with the package noiseprotocol");
        return None;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run =
        Command::new(python).arg("tests/strangers/proof.py").args(arguments).current_dir(folder).output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    Some(said)
}

const SECRET: [u8; 32] = [0x51; 32];

fn node(functions: &Functions) -> (Node, String) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let secret = Secret::new(&SECRET).unwrap();
    let node = Node::builder(1).functions(functions).link(LinkKind::Tcp).listener(listener).secret(secret);
    let node = node.start().unwrap();
    let Some(Address::Tcp(address)) = node.address().cloned() else { panic!("it listens on TCP") };
    (node, address.port().to_string())
}

#[test]
fn the_example_of_the_document_is_what_another_implementation_writes() {
    if let Some(said) = stranger(&["transcript", "docs/wire.md"]) {
        assert_eq!(said, "the same bytes\n");
    }
}

#[test]
fn a_stranger_with_the_secret_is_linked() {
    let functions = Functions::new();
    let (_node, port) = node(&functions);
    if let Some(said) = stranger(&["join", "127.0.0.1", &port, &"51".repeat(32)]) {
        assert_eq!(said, "linked, and answered\n");
    }
}

#[test]
fn what_must_not_pass_is_refused_and_members_are_served() {
    let functions = Functions::new();
    let who = functions.func("who", |_, _| Ok(())).unwrap();
    let (one, port) = node(&functions);
    let five = PrivateKey::new([5; 32]).public();
    one.learn(Peer::new(5, "127.0.0.1:9".parse().unwrap()).known_by(five)).unwrap();
    let Some(said) = stranger(&["attack", "127.0.0.1", &port, &"51".repeat(32)]) else { return };
    assert!(said.lines().count() >= 16 && !said.contains("PASSED"), "{said}");
    let peers: Peers = [(1, one.address().unwrap().clone())].into_iter().collect();
    let member = Node::builder(0).functions(&functions).link(LinkKind::Tcp).peers(peers);
    let member = member.secret(Secret::new(&SECRET).unwrap()).start().unwrap();
    assert!(member.call(Call::new(who).ids(0..2)).unwrap().wait().unwrap().is_complete());
}

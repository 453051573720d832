//! docs/wire.md, "Proof": the two machines of a link write exactly the bytes of the document's example, with its keys
//! and random numbers.
#![cfg(feature = "noise")]

use std::collections::BTreeMap;

use chained_gpc::chain::Time;
use chained_gpc::link::peering::{
    Book, FeedContext, Identity, LinkKey, Noise, Output, Peering, Proof, PublicKey, Strictness, Transport,
};
use chained_gpc::{Id, Job, PrivateKey, Secret};

const DOCUMENT: &str = include_str!("../../docs/wire.md");

/// A book without listed keys.
#[derive(Debug)]
struct Nobody;

impl Book for Nobody {
    fn contains(&self, _: Id) -> bool {
        true
    }

    fn key(&self, _: Id) -> Option<PublicKey> {
        None
    }
}

/// The machine of an id whose static key is one byte repeated, and whose ephemeral key is another byte repeated.
fn machine(me: Id, key: u8, drawn: u8) -> Peering<Nobody> {
    let job: Job = "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf".parse().unwrap();
    let secret = Secret::new(&[0x11; 32]).unwrap();
    let fill = move |bytes: &mut [u8]| {
        bytes.fill(drawn);
        Ok(())
    };
    let noise = Noise::new(&secret, job, PrivateKey::new([key; 32]), Box::new(fill));
    let identity = Identity { me, incarnation: 0x0102_0304_0506_0708, job, hiwater: 64 };
    Peering::new(identity, Some(Box::new(noise)), Strictness::default(), Nobody)
}

/// Bytes that a machine has written since the last call, and the peer of its link, if it is up.
fn written(machine: &mut Peering<Nobody>) -> (Vec<u8>, Option<(Id, Proof, bool)>) {
    let (mut bytes, mut up) = (Vec::new(), None);
    while let Some(output) = machine.poll() {
        match output {
            Output::Write { bytes: written, .. } => bytes.extend(written),
            Output::Up(link) => up = Some((link.hello.from, link.proof, link.session.is_some())),
            other => panic!("{other:?}"),
        }
    }
    (bytes, up)
}

/// Bytes of each step of the document's example, by the name at the start of the step.
fn example() -> BTreeMap<&'static str, Vec<u8>> {
    let block = DOCUMENT.split("```proof\n").nth(1).unwrap().split("```").next().unwrap();
    let mut steps = BTreeMap::new();
    for step in block.split("# ").skip(1) {
        let (name, digits) = step.split_once('\n').unwrap();
        let bytes = digits.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        steps.insert(name.split(':').next().unwrap(), bytes);
    }
    steps
}

#[test]
fn a_proof_is_what_the_document_shows() {
    let (key, now, context) = (LinkKey(1), Time::from_nanos(1), FeedContext::default());
    let (mut three, mut four) = (machine(3, 0x33, 0x35), machine(4, 0x44, 0x46));
    three.add_outgoing(now, key, 4);
    four.add_incoming(now, key, Transport::Network, Some(1));
    three.complete_outgoing(key, Transport::Network, false);
    let mut steps = BTreeMap::new();
    let (first, _) = written(&mut three);
    four.feed(now, key, &first, &context);
    let (second, _) = written(&mut four);
    three.feed(now, key, &second, &context);
    let (third, _) = written(&mut three);
    four.feed(now, key, &third, &context);
    let (answer, up) = written(&mut four);
    assert_eq!(up, Some((3, Proof::Secret, true)));
    three.feed(now, key, &answer, &context);
    assert_eq!(written(&mut three), (Vec::new(), Some((4, Proof::Secret, true))));
    steps.insert("preamble and first message", first);
    steps.insert("second message", second);
    steps.insert("third message, and the hello", third);
    steps.insert("the answer", answer);
    let shown: String = steps.iter().map(|(name, bytes)| format!("# {name}\n{}", lines(bytes))).collect();
    assert_eq!(steps, example(), "the code writes\n{shown}");
}

fn lines(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x} ")).collect::<String>() + "\n";
    bytes.chunks(24).map(line).collect()
}

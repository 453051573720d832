//! A client that vanishes after any byte of a session, at any stage of the others.

use gpc_impi::wire::Label;

use crate::server::interleavings::{Plan, run};

fn plan(labels: &[Label], vanishes: Option<usize>) -> Plan {
    let values: Vec<(u32, Vec<u8>)> =
        labels.iter().map(|label| (label.0, label.0.to_be_bytes().to_vec())).collect();
    Plan { values, key: true, vanishes }
}

const ALL: usize = 1 << 20;

/// By that time the others have sent nothing, a part, or everything; they send the rest after the first has vanished.
#[test]
fn behind_every_byte() {
    let labels = [Label::C_VERSION, Label::C_NHOSTS, Label::H_PORT];
    // AUTH, the key, IMPI; three labels with 4 bytes each, DONE, FINI.
    let (greeting, coll, bare) = (12 + 8 + 12, 16, 8);
    let length = greeting + 3 * coll + 2 * bare;
    let others = [plan(&labels[1..], None), plan(&labels[..1], None)];
    // The number of bytes that each of the others sends first.
    for before in [0, 12, greeting, greeting + coll, greeting + coll + bare, ALL] {
        let (mut failed, mut well) = (0, 0);
        for at in 0..length {
            let plans = [others[0].clone(), plan(&labels, Some(at)), others[1].clone()];
            // Then all bytes of the first, and its end.
            let ended = run(&plans, [(0, before), (2, before), (1, ALL), (1, ALL)]);
            match ended {
                Some(Ok(())) => well += 1,
                _ => failed += 1,
            }
        }
        // Before all have joined, another client may take its place; after that, each loss fails the session.
        let joined = if before < greeting { length } else { greeting };
        assert_eq!((well, failed), (joined, length - joined), "{before} bytes of the others come before");
    }
}

/// All clients vanish, one after another, when all are done: the first loss is the cause.
#[test]
fn everybody_vanishes_when_all_are_done() {
    let plans: Vec<Plan> = (0..3).map(|_| plan(&[Label::C_NHOSTS], Some(12 + 8 + 12 + 16 + 8))).collect();
    let steps = [(0, ALL), (1, ALL), (2, ALL), (2, ALL), (0, ALL), (1, ALL)];
    let failure = run(&plans, steps).unwrap().unwrap_err().to_string();
    assert_eq!(failure, "client 2 was lost after all were done, before its FINI: its connection has ended");
}

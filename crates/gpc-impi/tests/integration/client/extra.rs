//! Labels of an implementer's own: labels that the source does not define are collected and broadcast, too.

use std::collections::BTreeMap;

use bytes::Bytes;
use gpc_impi::client::{ClientEvent, ClientSettings, LearnError};
use gpc_impi::wire::{Label, coll};

use crate::client::support::{Plain, learned, raw, settings};

/// Below, among and above the known labels, and among and above those of this project.
const EXTRA: [Label; 5] =
    [Label(0x10), Label(0x1250), Label(0x9000), Label(Label::C_JOB.0 + 0x10), Label(u32::MAX)];

fn said(rank: u32) -> BTreeMap<Label, Bytes> {
    EXTRA.into_iter().map(|label| (label, Bytes::from(format!("{rank}:{label};")))).collect()
}

fn with(rank: u32, extra: BTreeMap<Label, Bytes>) -> ClientSettings {
    let mut settings = settings(rank);
    (settings.extra, settings.own_labels, settings.job) = (extra, true, Some([5; 16]));
    settings
}

#[test]
fn they_are_sent_in_the_order_of_all_labels_and_learned_by_all() {
    let mut second = said(1);
    second.remove(&EXTRA[1]);
    let others = vec![raw(&with(1, second)), raw(&settings(2))];
    let (learned, events) = learned(with(0, said(0)), others);
    let sent: Vec<Label> = events
        .iter()
        .filter_map(|event| if let ClientEvent::Sent(label, _) = event { Some(*label) } else { None })
        .collect();
    assert!(sent.is_sorted() && EXTRA.iter().all(|label| sent.contains(label)), "{sent:?}");
    assert!(!events.iter().any(|event| matches!(event, ClientEvent::Unknown(..))), "{events:?}");
    let expected = EXTRA.map(|label| match label == EXTRA[1] {
        true => (label, (1, Bytes::from(format!("0:{label};")))),
        false => (label, (3, Bytes::from(format!("0:{label};1:{label};")))),
    });
    assert_eq!(learned.unwrap().others, expected.into());
}

#[test]
fn who_has_none_learns_those_of_the_others() {
    let (learned, events) = learned(with(0, BTreeMap::new()), vec![raw(&with(1, said(1)))]);
    let learned = learned.unwrap();
    assert_eq!(learned.others.len(), EXTRA.len());
    assert_eq!(learned.others[&EXTRA[2]], (2, Bytes::from_static(b"1:0x9000;")));
    assert!(events.contains(&ClientEvent::Unknown(EXTRA[2], 9)));
}

#[test]
fn a_server_that_swallows_them_or_lies_of_them() {
    let mut plain = Plain::new(with(0, said(0)), vec![raw(&with(1, said(1)))]);
    plain.run();
    let is = |bytes: &Bytes, label: Label| bytes.get(8..12) == Some(&label.0.to_be_bytes()[..]);
    let ended = |change: &dyn Fn(&Bytes) -> Option<Bytes>| {
        let mut given = Plain::new(with(0, said(0)), Vec::new());
        given.play(plain.said.iter().filter_map(change));
        given.ended.unwrap()
    };
    let swallowed = ended(&|bytes| (!EXTRA.iter().any(|label| is(bytes, *label))).then(|| bytes.clone()));
    assert!(swallowed.unwrap().others.is_empty());
    let lied = |mask, values: &'static [u8]| {
        let lie = coll(EXTRA[2], Some(mask), [values]);
        let fault = ended(&|bytes| Some(if is(bytes, EXTRA[2]) { lie.clone() } else { bytes.clone() }));
        fault.unwrap_err().to_string()
    };
    assert!(
        lied(2, b"1:0x9000;").contains("COLL 0x9000 has mask 0x2 without client 0, which has sent values")
    );
    assert!(lied(7, b"0:0x9000;").contains("COLL 0x9000 has mask 0x7, and there are 2 clients"));
    let altered = LearnError::Altered(EXTRA[2]).to_string();
    assert!(lied(3, b"1:0x9000;0:0x9000;").ends_with(&altered));
    assert!(lied(3, b"0:0x90").ends_with(&altered));
    assert!(lied(1, b"0:0x9000;more").ends_with(&altered));
    let twice = |label| {
        let again = plain.said.iter().find(|bytes| is(bytes, label)).unwrap().clone();
        let mut given = Plain::new(with(0, said(0)), Vec::new());
        let said = plain.said.iter().flat_map(|bytes| [Some(bytes), is(bytes, label).then_some(&again)]);
        given.play(said.flatten().cloned());
        given.ended.unwrap().unwrap_err().to_string()
    };
    assert!(twice(EXTRA[2]).contains("COLL 0x9000 again, without the values of more clients"));
    // The second broadcast arrives before the client has sent the label.
    let mut given = Plain::new(with(0, said(0)), Vec::new());
    given.play(plain.said[..2].iter().cloned().chain([coll(EXTRA[2], Some(3), [])]));
    let early = given.ended.unwrap().unwrap_err().to_string();
    assert!(early.contains("COLL 0x9000 before this client has sent it"), "{early}");
}

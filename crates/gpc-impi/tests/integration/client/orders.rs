//! Clients of this project beside foreign clients that send their labels in another order.

use gpc_impi::client::{ClientEvent, ClientSettings};
use gpc_impi::wire::Label;
use proptest::prelude::*;

use crate::client::model::{ClientValues, expected};
use crate::client::support::{Agreed, any_cluster, open, raw, settings};
use crate::client::world::{Foreign, Peer, World};

/// A foreign client that sends the labels with values in this order.
fn foreign(settings: &ClientSettings, order: &[Label], waits: bool) -> Peer {
    let mut raw = raw(settings);
    let labels: Vec<(Label, Vec<u8>)> =
        order.iter().filter_map(|label| Some((*label, raw.remove(label)?))).collect();
    assert!(raw.is_empty());
    Peer::Foreign(Foreign::new(settings.rank, labels, waits))
}

/// Runs client 0 beside a foreign client 1 with this order, and returns the masks of each broadcast of a label that
/// client 0 has accepted.
fn masks(order: &[Label], waits: bool, label: Label) -> Vec<u32> {
    let mut world = World::new(vec![Peer::own(settings(0)), foreign(&settings(1), order, waits)], open());
    world.run(&mut (0..).map(|i: usize| (i, 1 << 16)));
    let learned = world.sides[0].learned.as_ref().unwrap();
    assert_eq!(learned.clusters, [settings(0).cluster, settings(1).cluster]);
    world.fini(0);
    world.run(&mut (0..).map(|i: usize| (i, 1 << 16)));
    assert!(world.ended);
    let mask = |event: &ClientEvent| match event {
        ClientEvent::Answered(answered, mask, _) if *answered == label => Some(*mask),
        _ => None,
    };
    world.sides[0].events.iter().filter_map(mask).collect()
}

/// A foreign client sent C_NPROCS before C_NHOSTS and waited for each answer. The server broadcast C_NHOSTS without it,
/// and again when it had sent the label. Client 0 was then waiting for C_DATALEN: it took the repetition for a protocol
/// error, and the session failed at all clients.
#[test]
fn a_label_is_broadcast_again_while_a_later_one_is_outstanding() {
    let mut order = Label::KNOWN;
    order.swap(1, 2);
    assert_eq!(masks(&order, true, Label::C_NHOSTS), [1, 3]);
    assert_eq!(masks(&order, true, Label::C_NPROCS), [3]);
    // A client that does not wait sends all labels before the server runs out of patience.
    assert_eq!(masks(&order, false, Label::C_NHOSTS), [3]);
    // In the same order no label is repeated.
    for label in Label::KNOWN {
        assert_eq!(masks(&Label::KNOWN, true, label), [3]);
    }
}

/// Each exchange of two neighbours failed in the same way, except for the last labels: client 0 has sent DONE then.
#[test]
fn each_exchange_of_two_labels_and_the_reversed_order() {
    for first in 0..Label::KNOWN.len() - 1 {
        let mut order = Label::KNOWN;
        order.swap(first, first + 1);
        assert_eq!(masks(&order, true, Label::KNOWN[first]), [1, 3]);
    }
    let mut order = Label::KNOWN;
    order.reverse();
    for label in &Label::KNOWN[..Label::KNOWN.len() - 1] {
        assert_eq!(masks(&order, true, *label), [1, 3]);
    }
}

/// A client of the proptest; for a foreign client with the order of its labels, and whether it waits for each answer.
type Any = (ClientValues, Option<(Vec<Label>, bool)>);

fn any_clients() -> impl Strategy<Value = Vec<Any>> {
    (1u8..7).prop_flat_map(|clients| {
        let one = |rank| {
            let cluster = any_cluster(rank, Agreed { xsize: 1024, maxlinear: 4 });
            let order = (Just(Label::KNOWN.to_vec()).prop_shuffle(), any::<bool>());
            (cluster, any::<bool>(), prop::option::weighted(0.6, order)).prop_map(|(cluster, own, order)| {
                let own = own && order.is_none();
                ((cluster, own, false), order)
            })
        };
        (0..clients).map(one).collect::<Vec<_>>()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// In any orders, with or without waiting, all clients learn the same, and each repetition of a label has the
    /// values of more clients.
    #[test]
    fn any_orders(
        clients in any_clients(),
        choices in prop::collection::vec((any::<usize>(), prop_oneof![1 => 1usize..20, 5 => 20usize..4000]), 1..300),
    ) {
        let settings: Vec<ClientSettings> = (0..).zip(&clients).map(|(rank, ((cluster, own, _), _))| {
            let mut settings = ClientSettings::new(rank, open(), cluster.clone());
            settings.own_labels = *own;
            settings
        }).collect();
        let peers = settings.iter().zip(&clients).map(|(settings, (_, order))| match order {
            Some((order, waits)) => foreign(settings, order, *waits),
            None => Peer::own(settings.clone()),
        });
        let mut world = World::new(peers.collect(), open());
        let mut choices = choices.into_iter().cycle();
        world.run(&mut choices);
        let told: Vec<ClientValues> = clients.iter().map(|(told, _)| told.clone()).collect();
        let clusters = expected(&told, None);
        for (side, settings) in world.sides.iter().zip(&settings) {
            match &side.peer {
                Peer::Own(_) => prop_assert_eq!(&side.learned.as_ref().unwrap().clusters, &clusters),
                Peer::Foreign(foreign) => {
                    let has_own = |label| foreign.answers[label].0 >> settings.rank & 1 == 1;
                    prop_assert!(raw(settings).keys().all(has_own));
                    prop_assert!(foreign.masks.values().all(|masks| masks.len() <= clients.len()));
                }
            }
        }
        (0..clients.len()).for_each(|i| world.fini(i));
        world.run(&mut choices);
        prop_assert!(world.ended);
    }
}

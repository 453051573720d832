//! Which links a node closes when descriptors are short.

use super::*;
use crate::runtime::{LinkKind, Listener, Node, PeerEventKind, PolledNode};
use crate::wire::Message;

/// Id 0, whose peers include id 1, and the ids 1 to 4, which have linked with it in this order.
fn served() -> (PolledNode, Vec<PolledNode>) {
    serve(&[1, 2, 3, 4])
}

/// The same with other ids.
fn serve(ids: &[Id]) -> (PolledNode, Vec<PolledNode>) {
    let listener = Listener::bind(&LinkKind::Unix.fresh_address(0)).unwrap();
    let address = listener.address().unwrap();
    let builder = Node::builder(0).link(LinkKind::Unix).peers("1 unix:@nowhere".parse().unwrap());
    let mut node = builder.listener(listener).polled().unwrap();
    let mut others = Vec::new();
    for &id in ids {
        let peers = [(0, address.clone())].into_iter().collect();
        let mut other = Node::builder(id).link(LinkKind::Unix).peers(peers).polled().unwrap();
        let up = (0..10_000).any(|_| {
            node.progress(Duration::ZERO).unwrap();
            other.progress(Duration::ZERO).unwrap();
            other.event_loop_mut().open_links(&gpc_trees::IdList::range(0..1)) == Ok(Vec::new())
        });
        assert!(up, "id {id} is not linked");
        others.push(other);
    }
    (node, others)
}

fn now() -> Time {
    Time::default().plus(Duration::from_secs(1))
}

/// Makes room, and returns the ids whose links are up after that.
fn left(links: &mut Connections, involved: &[Id]) -> Vec<Id> {
    links.descriptors.is_short = true;
    links.make_room(now(), Some(&involved.iter().copied().collect()));
    let mut left = links.links.peers_up();
    left.sort_unstable();
    left
}

#[test]
fn the_longest_idle_link_of_a_stranger_that_no_call_uses_is_closed() {
    let (mut node, _others) = served();
    let links = &mut node.event_loop_mut().connections;
    assert_eq!(left(links, &[2]), [1, 2, 4], "id 1 is a peer, a call uses id 2, and id 4 came last");
    assert_eq!(left(links, &[2]), [1, 2]);
    assert!(!links.is_short() && links.may_find_room(now()));
}

#[test]
fn a_search_that_finds_nothing_is_not_repeated_at_once() {
    let (mut node, _others) = served();
    let links = &mut node.event_loop_mut().connections;
    (links.descriptors.soft_max, links.descriptors.hard_max) = (4, 6);
    assert_eq!(left(links, &[2, 3, 4]), [1, 2, 3, 4]);
    let later = now().plus(PAUSE);
    assert_eq!([now(), later].map(|at| links.may_find_room(at)), [false, true]);
    let refusal = links.has_no_room_for_strangers(now()).expect("all links are in use");
    assert!(refusal.contains("all others are in use"), "{refusal}");
    assert_eq!(links.has_no_room_for_strangers(later), None);
    // A shortage in the whole system is another reason to search.
    links.note_accept_shortage(now());
    assert!(links.is_short() && links.may_find_room(now()));
    assert_eq!(links.accepting.again, Some(now().plus(PAUSE)));
    // Accepting continues when there is room.
    assert_eq!(left(links, &[3, 4]), [1, 3, 4]);
    assert_eq!(links.accepting.again, Some(now()));
}

#[test]
fn the_number_of_links_decides_when_descriptors_are_short() {
    let (mut node, _others) = served();
    let links = &mut node.event_loop_mut().connections;
    (links.descriptors.soft_max, links.descriptors.hard_max) = (5, 4);
    links.note_connection();
    assert!(!links.is_short() && !links.is_full());
    links.descriptors.soft_max = 4;
    links.note_connection();
    assert!(links.is_short() && links.is_full());
    links.descriptors.hard_max = 5;
    assert!(!links.is_full());
}

/// A link with unsent bytes is closed after all others, however long it was idle.
#[test]
fn a_link_with_unsent_bytes_is_closed_last() {
    let (mut node, _others) = served();
    let links = &mut node.event_loop_mut().connections;
    links.links.send(now(), 2, Message::Ping);
    assert_eq!(left(links, &[]), [1, 2, 4]);
    assert_eq!(left(links, &[]), [1, 2]);
    assert_eq!(left(links, &[]), [1]);
}

/// Each new connection may be a peer, and gets a second for its hello. In a flood only the newest get it.
#[test]
fn the_newest_connections_have_time_for_their_hello() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let listener = Listener::bind(&LinkKind::Unix.fresh_address(0)).unwrap();
    let Ok(crate::runtime::Address::Abstract(name)) = listener.address() else { panic!("it has a name") };
    let mut node = Node::builder(0).link(LinkKind::Unix).listener(listener).polled().unwrap();
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let links = |node: &mut PolledNode| node.event_loop_mut().connections.links.table.len();
    let mut silent = Vec::new();
    for count in 1..=NEWEST + 2 {
        silent.push(UnixStream::connect_addr(&address).unwrap());
        let accepted =
            (0..10_000).any(|_| node.progress(Duration::ZERO).is_ok() && links(&mut node) == count);
        assert!(accepted, "connection {count} is not accepted");
    }
    let links = &mut node.event_loop_mut().connections;
    (links.descriptors.soft_max, links.descriptors.hard_max) = (10, 1000);
    let idle = |links: &Connections, at: Time| links.idle_strangers(at, &BTreeSet::new()).len();
    // Within a second of all of them.
    assert_eq!(idle(links, Time::default()), 2);
    assert_eq!(idle(links, Time::default().plus(Duration::from_secs(3600))), NEWEST + 2);
    // Without a free descriptor they get no time.
    links.descriptors.is_exhausted = true;
    assert_eq!(idle(links, Time::default()), NEWEST + 2);
}

/// A connection that waits for a descriptor is opened after links were closed.
#[test]
fn a_peer_that_found_no_descriptor_is_connected_when_there_is_one() {
    let (mut node, _others) = served();
    let listener = Listener::bind(&LinkKind::Unix.fresh_address(9)).unwrap();
    let links = &mut node.event_loop_mut().connections;
    links.links.peering.book.insert(9, listener.address().unwrap());
    links.links.pending.push(Time::default(), 9, Message::Ping);
    links.note_connect_shortage(9);
    assert!(links.descriptors.is_exhausted && links.descriptors.waiting.contains(&9));
    let before = links.links.table.len();
    left(links, &[]);
    assert_eq!(links.links.table.len(), before, "one is closed, and one opened");
    assert_eq!(links.links.peering.link_status(9), crate::link::peering::LinkStatus::Opening);
    // Without a waiting message nothing is opened.
    links.links.pending.remove(9);
    links.note_connect_shortage(8);
    left(links, &[2, 3, 4]);
    assert!(links.links.table.len() == before && links.descriptors.waiting.is_empty());
}

/// The last used links are cached, in slots that some ids share.
#[test]
fn the_link_to_an_id_is_its_own() {
    let (mut node, _others) = serve(&[1, 65, 129]);
    let links = &mut node.event_loop_mut().connections;
    for id in [1, 65, 1, 129, 129, 65, 7] {
        let up = links.links.up(id);
        assert_eq!(links.links.link_up(id).map(|(.., key)| key), up);
        assert_eq!(up.is_some(), id != 7);
    }
    left(links, &[65]);
    assert_eq!(links.links.link_up(129).map(|(.., key)| key), links.links.up(129));
}

/// A limit raised while the node runs takes effect at the next connection.
#[test]
fn the_limit_of_descriptors_is_read_again_before_connections_are_accepted() {
    let (mut node, _others) = serve(&[]);
    let links = &mut node.event_loop_mut().connections;
    let counts = |of: &Descriptors| (of.limit, of.soft_max, of.hard_max);
    let expected = counts(&links.descriptors);
    (links.descriptors.limit, links.descriptors.soft_max, links.descriptors.hard_max) = (1, 2, 3);
    links.accept(now());
    assert_eq!(counts(&links.descriptors), expected);
}

/// The application mistook a link that the node had closed for want of descriptors for a broken one.
#[test]
fn a_link_that_makes_room_is_reported_as_closed() {
    let (mut node, _others) = served();
    let events = node.events().unwrap();
    node.progress(Duration::ZERO).unwrap();
    let lost = || {
        let events = std::iter::from_fn(|| events.try_recv().ok());
        let lost = events.filter_map(|event| match event.kind {
            PeerEventKind::Lost { loss, .. } => Some((event.id, loss)),
            PeerEventKind::Up => None,
        });
        lost.collect::<Vec<_>>()
    };
    assert_eq!(lost(), []);
    left(&mut node.event_loop_mut().connections, &[2]);
    assert_eq!(lost(), [(3, Loss::Closed)]);
}

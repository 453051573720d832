//! What is sent where there is no link yet.

use gpc_trees::IdList;

use super::*;
use crate::wire::Request;

const CALL: CallId = CallId { root: 0, sequence: 1 };

/// A node that knows where id 1 listens, though nothing is there.
fn knows_one() -> crate::runtime::PolledNode {
    crate::runtime::Node::builder(0).peers("1 127.0.0.1:9".parse().unwrap()).polled().unwrap()
}

fn request() -> Message {
    Message::Request(Arc::new(Request::new(CALL, IdList::range(1..2))))
}

/// A cancel of a call whose link was lost opened the next link.
#[test]
fn a_link_is_opened_for_requests_and_questions_and_for_peers_that_are_known() {
    let now = Time::default();
    for (message, to, opens) in [
        (request(), 1, true),
        (Message::Ping, 1, true),
        (Message::Cancel(CALL), 1, false),
        (Message::Pong, 1, false),
        (request(), 5, false),
    ] {
        let mut node = knows_one();
        let links = &mut node.event_loop_mut().links;
        let unreachable = to == 5;
        links.send(now, to, message);
        assert_eq!((links.links.len(), links.pending.len()), (usize::from(opens), usize::from(opens)));
        assert_eq!(
            matches!(links.arrivals.pop_front(), Some(Arrival::Input(Input::Unreachable { peer: 5, .. }))),
            unreachable
        );
    }
}

/// What waited for a link that was given up went out on the next one.
#[test]
fn nothing_that_waited_for_a_lost_link_is_left() {
    let (now, mut node) = (Time::default(), knows_one());
    let links = &mut node.event_loop_mut().links;
    let lose: [fn(&mut Links); 2] =
        [|links| assert!(links.forget_since(1)), |links| links.abandon(Time::default(), 1)];
    for lose in lose {
        links.send(now, 1, request());
        assert_eq!(links.pending.len(), 1);
        lose(links);
        assert!(links.pending.is_empty());
    }
}

//! Acknowledgement of requests, as their sender sees it.

use chained_gpc::Functions;
use chained_gpc::Placement;
use chained_gpc::link::{Event, HIWATER};
use chained_gpc::wire::Message;

use super::common::{ids, limited};
use super::raw::{EARLY, RawPeer, call, listener, node};

/// Requests that are acknowledged together: half of the credit.
const ACKMARK: u32 = HIWATER / 2;

/// With 64 calls in flight, each id with children woke its parent once in 64 calls just for an acknowledgement. That
/// was a sixth of all writes of a tree of 64 ids.
#[test]
fn an_acknowledgement_waits_for_company_but_not_for_ever() {
    limited(|| {
        let functions = Functions::new();
        let func = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).unwrap();
        let (listener, address) = listener();
        let node = node(1, &functions, [(2, address)]);
        let mut parent = RawPeer::greet(&node, 0, EARLY, 1);
        let ask = |parent: &mut RawPeer, from: u64, count: u32| {
            (from..from + u64::from(count)).for_each(|number| {
                parent.request(call(0, number), func, &ids("1-2"));
            });
        };
        // The child does not answer, so the node has nothing else to send to the parent.
        ask(&mut parent, 1, 1);
        let mut child = RawPeer::answer(&listener, EARLY);
        ask(&mut parent, 2, 99);
        (0..100).for_each(|_| drop(child.expect_request()));
        parent.send(Message::Ping);
        let mut came = [parent.next(), parent.next()].map(|event| format!("{:?}", event.unwrap()));
        came.sort_unstable();
        assert_eq!(came, ["Credit(100)", "Pong"]);
        // This many are acknowledged without another frame.
        ask(&mut parent, 101, ACKMARK);
        let came = parent.next();
        assert!(matches!(came, Some(Event::Credit(ACKMARK))), "{came:?}");
    });
}

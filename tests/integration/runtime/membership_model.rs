//! Any sequence of joining, leaving, learning, forgetting and calling, over real nodes, against a model of a few lines.

use chained_gpc::runtime::{Address, Events, Listener, Loss, NoEvent, PeerEventKind};
use chained_gpc::{Call, FuncHandle, Functions, Id, IdList, LinkKind, Node, Peer, Stage, Tree};
use proptest::prelude::*;

use super::common::{LIMIT, end_of, limited, who};

/// Ids beside the root, which is 0.
const OTHERS: Id = 3;

#[derive(Clone, Copy, Debug)]
enum Deed {
    /// A run of the id starts, at a new address.
    Start(Id),
    /// It shuts down.
    Leave(Id),
    /// The root learns the last address of the id.
    Learn(Id),
    Forget(Id),
    /// The root calls this id.
    Call(Id),
}

fn deed() -> impl Strategy<Value = Deed> {
    let id = || 1..=OTHERS;
    prop_oneof![
        id().prop_map(Deed::Start),
        id().prop_map(Deed::Leave),
        id().prop_map(Deed::Learn),
        id().prop_map(Deed::Forget),
        id().prop_map(Deed::Call),
        id().prop_map(Deed::Call),
    ]
}

/// State of an id.
#[derive(Default)]
struct Other {
    node: Option<Node>,
    /// Its last address.
    address: Option<Address>,
    /// The address that the root has for it.
    learned: Option<Address>,
    linked: bool,
}

struct World {
    link: LinkKind,
    functions: Functions,
    who: FuncHandle,
    root: Node,
    events: Events,
    others: Vec<Other>,
}

impl World {
    fn new(link: LinkKind) -> World {
        let functions = Functions::new();
        let who = who(&functions);
        let root = Node::builder(0).functions(&functions).link(link).start().unwrap();
        let events = root.events().unwrap();
        let others = (0..=OTHERS).map(|_| Other::default()).collect();
        World { link, functions, who, root, events, others }
    }

    /// Expects this event next; `None` means that the link is up.
    fn expect(&self, id: Id, loss: Option<Loss>) {
        let event = self.events.recv_within(LIMIT).expect("an event comes");
        let said = match event.kind {
            PeerEventKind::Lost { loss, .. } => Some(loss),
            _ => None,
        };
        assert_eq!((event.id, said), (id, loss));
    }

    fn carry_out(&mut self, deed: Deed) {
        match deed {
            Deed::Start(id) => {
                let listener = Listener::bind(&self.link.fresh_address(id)).unwrap();
                let address = listener.address().unwrap();
                let builder = Node::builder(id).functions(&self.functions).link(self.link);
                let other = &mut self.others[id as usize];
                if other.node.is_none() {
                    other.node = Some(builder.listener(listener).start().unwrap());
                    other.address = Some(address);
                }
            }
            Deed::Leave(id) => {
                let other = &mut self.others[id as usize];
                other.node.take().into_iter().for_each(|node| node.shutdown(LIMIT));
                if std::mem::take(&mut other.linked) {
                    self.expect(id, Some(Loss::Left));
                }
            }
            Deed::Learn(id) => {
                let other = &mut self.others[id as usize];
                if let Some(address) = &other.address {
                    self.root.learn(Peer::new(id, address.clone())).unwrap();
                    other.learned = Some(address.clone());
                }
            }
            Deed::Forget(id) => {
                self.root.forget(id).unwrap();
                let other = &mut self.others[id as usize];
                other.learned = None;
                if std::mem::take(&mut other.linked) {
                    self.expect(id, Some(Loss::Forgotten));
                }
            }
            Deed::Call(id) => self.call(id),
        }
    }

    fn call(&mut self, id: Id) {
        let ids = IdList::from_ids([0, id]).unwrap();
        let ended = end_of(self.root.call(Call::new(self.who).ids(ids).tree(Tree::Flat)).unwrap());
        let other = &mut self.others[id as usize];
        let is_there = other.node.is_some() && other.learned.is_some() && other.learned == other.address;
        let reached = other.linked || is_there;
        let comes_up = reached && !std::mem::replace(&mut other.linked, reached);
        match ended {
            Ok(outcome) => assert!(reached && outcome.replies().unwrap().len() == 2),
            Err(error) => {
                let cause = &error.failure().expect("it got under way").cause;
                assert!(!reached && (cause.id, cause.stage) == (id, Stage::Link), "{cause}");
            }
        }
        if comes_up {
            self.expect(id, None);
        }
    }
}

proptest! {
    // Each takes some tens of milliseconds.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_node_reaches_whom_it_has_learned_and_hears_of_each_change_once(
        deeds in proptest::collection::vec(deed(), 1..40),
        link in prop_oneof![Just(LinkKind::Tcp), Just(LinkKind::Unix), Just(LinkKind::Shm)],
    ) {
        limited(move || {
            let mut world = World::new(link);
            deeds.into_iter().for_each(|deed| world.carry_out(deed));
            assert_eq!((world.events.try_recv(), world.events.missed()), (Err(NoEvent::Yet), 0));
        });
    }
}

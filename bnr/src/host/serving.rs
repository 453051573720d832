//! A chained-GPC node that takes part in domains: its functions, and the loops of the domains that others have begun here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use chained_gpc::trees::Id;
use chained_gpc::{Access, Caller, Deferred, Functions, FunctionsError, Placement, Request as Call};

use super::calls::Handles;
use super::mailbox::{Post, Told};
use super::{KeeperCommand, begin_elsewhere};
use crate::codec::decode_order;
use crate::limits::Limits;
use crate::order::Order;

/// Most domains at one node: each is the job of one user.
const DOMAINS_MAX: usize = 256;

/// A node's part in domains. It runs processes for whoever proves that it belongs to the nodes' job, and so for nobody whose link proves nothing.
#[derive(Clone, Debug)]
pub struct Serving {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) command: KeeperCommand,
    pub(super) limits: Limits,
    pub(super) caller: OnceLock<Caller>,
    pub(super) handles: OnceLock<Handles>,
    domains: Mutex<BTreeMap<String, Post>>,
    /// What came before the node could make calls: its listener is there before it is.
    early: Mutex<Vec<(Ordered, Deferred)>>,
}

/// An order, with whom it is of and for which domain.
#[derive(Debug)]
struct Ordered {
    name: Vec<u8>,
    root: Id,
    me: Id,
    order: Order,
}

impl Serving {
    /// Registers the functions by which nodes of a domain call each other. They need a proof of the link: over TCP the secret of the job.
    ///
    /// # Errors
    /// When the names are taken.
    pub fn register(
        functions: &Functions,
        command: KeeperCommand,
        limits: Limits,
    ) -> Result<Serving, FunctionsError> {
        let shared = Arc::new(Shared {
            command,
            limits,
            caller: OnceLock::new(),
            handles: OnceLock::new(),
            domains: Mutex::default(),
            early: Mutex::default(),
        });
        // None takes time: they hand on to a domain's loop, in the order in which their requests come.
        let functions = functions.at(Placement::Inline).access(Access::Proved);
        let register = |name: &str, give: fn(&Call<'_>, Deferred, &Post)| {
            let shared = shared.clone();
            functions.deferring(name, move |request: &Call<'_>, answer: Deferred| {
                match shared.find(request.header()) {
                    Some(post) => give(request, answer, &post),
                    None => answer.fail("this node has no part in such a domain, or not any more"),
                }
            })
        };
        let ordered = shared.clone();
        let order = functions.deferring("bnr.order", move |request: &Call<'_>, answer: Deferred| {
            ordered.order(request, answer);
        })?;
        let output = register("bnr.output", |request, answer, post| {
            tell(post, Told::Batches { data: request.data_bytes(), answer });
        })?;
        let flush = register("bnr.flush", |_, answer, post| tell(post, Told::Flush { answer }))?;
        let input = register("bnr.input", |request, answer, post| {
            tell(post, Told::Input { data: request.data_bytes(), answer });
        })?;
        // Nobody has set it before.
        let _ = shared.handles.set(Handles { order, output, flush, input });
        Ok(Serving { shared })
    }

    /// Says by whom the node makes calls. Domains that others have begun here before begin now.
    pub fn attach(&self, caller: Caller) {
        // The first one stands.
        let _ = self.shared.caller.set(caller);
        let early = std::mem::take(&mut *self.shared.early.lock().unwrap_or_else(PoisonError::into_inner));
        early.into_iter().for_each(|(ordered, answer)| self.shared.take(ordered, answer));
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    fn find(&self, name: &[u8]) -> Option<Post> {
        let domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.get(str::from_utf8(name).ok()?).cloned()
    }

    /// A domain has its loop now.
    pub(super) fn insert(&self, name: &str, post: Post) {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into(), post);
    }

    /// A domain's loop has ended.
    pub(super) fn remove(&self, name: &str) {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn order(self: &Arc<Self>, request: &Call<'_>, answer: Deferred) {
        let order = match decode_order(request.data()) {
            Ok(order) => order,
            Err(error) => return answer.fail(format!("an order that makes no sense: {error}")),
        };
        let ordered =
            Ordered { name: request.header().to_vec(), root: request.root(), me: request.me(), order };
        if let Some((ordered, answer)) = self.keep_early(ordered, answer) {
            self.take(ordered, answer);
        }
    }

    /// Keeps an order until the node can make calls; gives it back when it can.
    fn keep_early(&self, ordered: Ordered, answer: Deferred) -> Option<(Ordered, Deferred)> {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if self.caller.get().is_some() {
            return Some((ordered, answer));
        }
        match early.len() < DOMAINS_MAX {
            true => early.push((ordered, answer)),
            false => answer.fail("this node is not ready, and many wait for it already"),
        }
        None
    }

    fn take(self: &Arc<Self>, ordered: Ordered, answer: Deferred) {
        let post = match (self.find(&ordered.name), &ordered.order) {
            (Some(post), _) => post,
            (None, Order::Begin { nodes }) => match self.begin(&ordered, nodes) {
                Ok(post) => post,
                Err(why) => return answer.fail(why),
            },
            (None, _) => return answer.fail("this node has no part in such a domain, or not any more"),
        };
        tell(&post, Told::Order { root: ordered.root, order: Box::new(ordered.order), answer });
    }

    fn begin(self: &Arc<Self>, ordered: &Ordered, nodes: &[Id]) -> Result<Post, String> {
        let name = str::from_utf8(&ordered.name).map_err(|_| "the name of a domain is text")?;
        if name.is_empty() || name.len() > 64 || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err("the name of a domain has 1 to 64 letters and digits".into());
        }
        if nodes.first() != Some(&ordered.root) || !nodes.contains(&ordered.me) {
            return Err("a domain is begun by its head, at its nodes".into());
        }
        let count = self.domains.lock().unwrap_or_else(PoisonError::into_inner).len();
        if count >= DOMAINS_MAX {
            return Err(format!("this node has a part in {DOMAINS_MAX} domains already"));
        }
        let begun = begin_elsewhere(self, name, ordered.me, nodes);
        begun.map_err(|error| format!("the domain cannot begin here: {error}"))
    }
}

/// A loop that has ended drops the answer, and so says that there is none.
fn tell(post: &Post, told: Told) {
    drop(post.tell(told));
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use chained_gpc::{Call as Calling, IdList, LinkKind, Listener, Node, Peers};

    use super::*;
    use crate::codec::{decode_report, encode_order};
    use crate::order::Report;

    /// Long enough for any machine.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn serving() -> (Functions, Serving) {
        let functions = Functions::new();
        let command = KeeperCommand { program: "/nowhere".into(), args: Vec::new() };
        let serving = Serving::register(&functions, command, Limits::default()).unwrap();
        (functions, serving)
    }

    /// A head began its domain at a node that listened, but had not been told by whom it makes calls: its part of the domain could make none, and the ends of its processes were never told.
    #[test]
    fn a_domain_that_is_begun_early_waits_for_the_node() {
        let listener = Listener::bind(&LinkKind::DEFAULT.fresh_address(1)).unwrap();
        let mut peers = Peers::new();
        peers.insert(1, listener.address().unwrap());
        let ((head_functions, _head), (functions, serving)) = (serving(), serving());
        let head = Node::builder(0).functions(&head_functions).peers(peers.clone()).start().unwrap();
        let node = Node::builder(1).functions(&functions).peers(peers).listener(listener).start().unwrap();
        let order = encode_order(&Order::Begin { nodes: vec![0, 1] });
        let begin = Calling::new(head_functions.named("bnr.order").unwrap()).watch().ids(IdList::range(1..2));
        let mut begun = head.call(begin.header("ab").data(order).limit(PATIENCE)).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while serving.shared.early.lock().unwrap().is_empty() {
            assert!(begun.wait_for(Duration::from_millis(1)).is_none() && Instant::now() < deadline);
        }
        assert!(serving.shared.find(b"ab").is_none());
        serving.attach(node.caller());
        let outcome = begun.wait().unwrap();
        let replies = outcome.replies().unwrap();
        assert_eq!(decode_report(&replies[0].data), Ok(Report::Done));
        assert!(serving.shared.find(b"ab").is_some());
    }
}

//! A client's own node, through which the server's broadcasts go: started when the server asks for it, and ended with the exchange.
//!
//! One function, `gpc.impi.relay`, takes the payload of a COLL. What comes to it waits in a queue for the thread of the session, which is woken. That thread takes what is in the queue before it takes bytes of the server that it read later, so nothing overtakes: the server goes on only when it was told whom a broadcast has reached.
//!
//! It goes beyond the source: see [`wire::Relay`](crate::wire::Relay).

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{
    Access, Address, Call, FuncHandle, Functions, FunctionsError, Id, Job, Listener, Node, Outcome, Peers,
    PrivateKey, PublicKey, Secret, Tree,
};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::client::{RelayInput, RelayOutput, from_ip, to_ip};
use crate::server::Rank;
use crate::wire::{CLIENTS_MAX, JOB_LEN, Label, NodeAt};

/// The function that takes a broadcast.
const FUNCTION: &str = "gpc.impi.relay";

/// Broadcasts that wait for the thread of the session. The server has one under way at a time; more are of members that do what they should not.
const WAITING_MAX: usize = 64;

/// Data from this length on flow through the tree while they arrive, bytes.
const FLOW_MIN: usize = 64 << 10;

/// What is told of the server's connection, and by the node.
const SERVER: Token = Token(0);
const NODE: Token = Token(1);

/// How a client's own node proves that it may pass on broadcasts.
#[derive(Clone, Default, Debug)]
pub struct RelayOptions {
    /// The secret of all nodes. It never goes by IMPI. Without one there is a node only where this client reaches the server on this host.
    pub secret: Option<Secret>,
    /// The key that the node is known by, and its public half, which the server tells the others. Drawn for this session; of use with a secret only.
    pub key: Option<(PrivateKey, PublicKey)>,
    /// A node without a secret beyond this host: whoever reaches it can say what the server has broadcast.
    pub insecure: bool,
}

/// The node of one session, and how its thread waits for both the node and the server.
pub(crate) struct Relay {
    options: RelayOptions,
    rank: Rank,
    local: IpAddr,
    bytes_max: usize,
    poll: Poll,
    waker: Arc<Waker>,
    came: (SyncSender<Bytes>, Receiver<Bytes>),
    /// One call is under way at a time.
    reached: (Sender<Reached>, Receiver<Reached>),
    listener: Option<Listener>,
    running: Option<Running>,
}

/// A label, and the clients that its call has reached, by the bits of their ranks.
type Reached = (Label, u32);

struct Running {
    node: Node,
    function: FuncHandle,
    tree: Tree,
    /// The other clients whose nodes take part: they are fewer than 32.
    others: Vec<Id>,
}

impl Relay {
    /// Of the client of this rank, for the connection to its server, which does not block from now on. At most `bytes_max` bytes are taken at a time.
    pub(crate) fn new(
        options: RelayOptions,
        rank: Rank,
        bytes_max: usize,
        server: &TcpStream,
    ) -> io::Result<Relay> {
        server.set_nonblocking(true)?;
        let poll = Poll::new()?;
        poll.registry().register(
            &mut SourceFd(&server.as_raw_fd()),
            SERVER,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let waker = Arc::new(Waker::new(poll.registry(), NODE)?);
        Ok(Relay {
            options,
            rank,
            local: server.local_addr()?.ip(),
            bytes_max,
            poll,
            waker,
            came: sync_channel(WAITING_MAX),
            reached: channel(),
            listener: None,
            running: None,
        })
    }

    /// Waits until the server's connection or the node may have something, at most so long. Both are tried before: what is told is told once.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        match self.poll.poll(&mut Events::with_capacity(8), Some(limit)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// What has become of the node, if anything has.
    pub(crate) fn next(&mut self) -> Option<RelayInput> {
        if let Ok(bytes) = self.came.1.try_recv() {
            return Some(RelayInput::Came(bytes));
        }
        let (label, mask) = self.reached.1.try_recv().ok()?;
        if let Some(running) = &mut self.running {
            // A node that was lost, or is silent, would cost time at every broadcast.
            running.others.retain(|id| mask >> id & 1 == 1);
        }
        Some(RelayInput::Reached(label, mask))
    }

    /// Carries out what the machine wants; `left` is what is left of the session's time. What it answers with at once is for the machine.
    pub(crate) fn carry_out(&mut self, output: RelayOutput, left: Duration) -> Option<RelayInput> {
        match output {
            RelayOutput::Listen => return Some(RelayInput::Listens(self.listen())),
            RelayOutput::Start { tree, job, nodes } => {
                self.running = self
                    .start(tree, job, &nodes)
                    .inspect_err(|error| {
                        tracing::warn!(%error, "the node for the broadcasts of IMPI does not start; they come from the server");
                    })
                    .ok();
            }
            // Half of the time is for the server, to send it to those whom it has not reached.
            RelayOutput::Call(label, payload) => self.call(label, payload, left / 2),
        }
        None
    }

    /// Where the node will listen; `None` where there can be none.
    fn listen(&mut self) -> Option<NodeAt> {
        if self.options.secret.is_none() && !self.options.insecure && !self.local.is_loopback() {
            tracing::debug!("no node for the broadcasts of IMPI: it needs a secret beyond this host");
            return None;
        }
        if matches!(self.local, IpAddr::V6(address) if address.is_unicast_link_local()) {
            tracing::debug!(
                "no node for the broadcasts of IMPI: others cannot connect to a link-local address"
            );
            return None;
        }
        let listener = Listener::bind(&Address::Tcp(SocketAddr::new(self.local, 0)))
            .inspect_err(|error| tracing::warn!(%error, "no node for the broadcasts of IMPI"))
            .ok()?;
        let Ok(Address::Tcp(address)) = listener.address() else { return None };
        self.listener = Some(listener);
        let key = self.options.key.as_ref().map(|(_, public)| public.0);
        Some(NodeAt { address: from_ip(self.local), port: address.port(), key })
    }

    fn start(&mut self, tree: Tree, job: [u8; JOB_LEN], nodes: &[Option<NodeAt>]) -> io::Result<Running> {
        let listener = self.listener.take().ok_or(io::ErrorKind::NotConnected)?;
        let (mut peers, mut others, mut keys) = (Peers::new(), Vec::new(), true);
        for (rank, node) in (0..).zip(nodes) {
            let Some(node) = node.filter(|_| rank != self.rank && rank < CLIENTS_MAX) else { continue };
            peers.insert(rank, Address::Tcp(SocketAddr::new(to_ip(node.address), node.port)));
            match node.key {
                Some(key) => peers.set_key(rank, PublicKey(key)),
                None => keys = false,
            }
            others.push(rank);
        }
        let functions = Functions::new();
        let access = match (&self.options.secret, &self.options.key) {
            (Some(_), Some(_)) if keys => Access::Listed,
            (Some(_), _) => Access::Proved,
            (None, _) => Access::Anyone,
        };
        let function = self.register(&functions.access(access)).map_err(io::Error::other)?;
        let mut builder = Node::builder(self.rank)
            .functions(&functions)
            .peers(peers)
            .listener(listener)
            .job(Job(job))
            // The job is of this session, in which each client takes part once.
            .first_run()
            .data_max(self.bytes_max as u64);
        if let Some(secret) = self.options.secret.clone() {
            builder = builder.secret(secret);
            if let Some((key, _)) = self.options.key.take() {
                builder = builder.key(key);
            }
        }
        if self.options.insecure {
            builder = builder.insecure();
        }
        Ok(Running { node: builder.start()?, function, tree, others })
    }

    fn register(&self, functions: &Functions) -> Result<FuncHandle, FunctionsError> {
        let (came, waker) = (self.came.0.clone(), self.waker.clone());
        functions.func(FUNCTION, move |request, _| {
            came.try_send(request.data_bytes()).map_err(|_| "the session does not take it any more")?;
            Ok(waker.wake()?)
        })
    }

    /// Passes a broadcast on. When the call has ended, whatever has come of it, the session is told whom it has reached.
    fn call(&self, label: Label, payload: Bytes, limit: Duration) {
        let (reached, waker) = (self.reached.0.clone(), self.waker.clone());
        let tell = move |mask| {
            // A session that is over does not want to know.
            let _ = reached.send((label, mask));
            let _ = waker.wake();
        };
        let Some(running) = self.running.as_ref().filter(|running| !running.others.is_empty()) else {
            return tell(0);
        };
        let flows = payload.len() >= FLOW_MIN;
        let call = Call::new(running.function).ids(running.others.clone()).tree(running.tree.clone());
        let call = call.data(payload).limit(limit).partial().no_reply().watch();
        match running.node.call(if flows { call.forward_first() } else { call }) {
            Ok(handle) => handle.on_end(move |ended| {
                if let Err(error) = &ended {
                    tracing::debug!(%error, %label, "a broadcast of IMPI does not go through the tree");
                }
                tell(ended.as_ref().map_or(0, mask));
            }),
            Err(error) => {
                tracing::debug!(%error, %label, "a broadcast of IMPI does not go through the tree");
                tell(0);
            }
        }
    }
}

/// The ids that are done, as bits.
fn mask(outcome: &Outcome) -> u32 {
    outcome.done().iter().filter(|id| *id < u32::BITS).fold(0, |mask, id| mask | 1 << id)
}

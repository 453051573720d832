//! Rounds by chained GPC, one process for each id: the root times its calls, the others serve until their standard
//! input ends.

use std::collections::VecDeque;
use std::io::BufRead as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use book::{Book, Options, Outcome, PART, Processes};
use chained_gpc::Placement;
use chained_gpc::{
    Call, CallHandle, FuncHandle, FunctionResult, Functions, LinkKind, Listener, Node, Peers, PolledNode,
    Reply, Streaming, Tree, Wait,
};

fn main() -> Outcome<()> {
    let options = Options::parse()?;
    match options.value("serve", 0)? {
        0 => lead(&options),
        id => serve(&options, id),
    }
}

/// The function that every id executes: it gets the request whole, or takes it as it arrives.
fn functions(options: &Options) -> Outcome<(Functions, FuncHandle)> {
    let functions = Functions::new();
    let round = match options.word("form", &["whole", "streaming"])? {
        "streaming" => functions
            .at(Placement::Inline).streaming("round", |request| Ok(Last { id: request.me(), bytes: Vec::new() }))?,
        _ => functions.at(Placement::Inline).func("round", |request, reply| {
            book::part_into(request.data(), request.me(), &mut reply.data);
            Ok(())
        })?,
    };
    Ok((functions, round))
}

/// The last bytes of the request so far.
struct Last {
    id: u32,
    bytes: Vec<u8>,
}

impl Streaming for Last {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(PART)..]);
        self.bytes.drain(..self.bytes.len().saturating_sub(PART));
        Ok(())
    }

    fn finish(&mut self, _request: &chained_gpc::Request<'_>, reply: &mut Reply) -> FunctionResult {
        reply.data = book::part(&self.bytes, self.id);
        Ok(())
    }
}

/// How the processes wait for messages: the default, blocking, or busy polling for as long as the spinning contestants
/// in C.
const WAITS: [&str; 3] = ["adaptive", "block", "spin"];

fn wait(options: &Options) -> Outcome<Wait> {
    Ok(match options.word("wait", &WAITS)? {
        "block" => Wait::Block,
        "spin" => Wait::Spin(Duration::from_micros(50)),
        _ => Wait::Adaptive,
    })
}

fn link(options: &Options) -> Outcome<LinkKind> {
    Ok(match options.word("link", &["tcp", "unix", "shm"])? {
        "unix" => LinkKind::Unix,
        "shm" => LinkKind::Shm,
        _ => LinkKind::Tcp,
    })
}

fn listener(options: &Options, id: u32) -> Outcome<Listener> {
    Ok(Listener::bind(&link(options)?.fresh_address(id))?)
}

/// Serves at an id other than the root: prints its address, reads the addresses of the others, and serves.
fn serve(options: &Options, id: u32) -> Outcome<()> {
    let listener = listener(options, id)?;
    println!("{}", listener.address()?);
    let lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let table: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let peers: Peers = table.join("\n").parse()?;
    let builder = Node::builder(id).functions(&functions(options)?.0).peers(peers).listener(listener);
    // As in the bare tree, the process is only a node, until its standard input ends.
    let control_link = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    Ok(builder.wait(wait(options)?).link(link(options)?).serve(control_link)?)
}

/// The root drives its node itself, as the root of the bare tree does, or has a thread do so.
enum Root {
    Polled(Box<PolledNode>),
    Threaded(Node),
}

impl Root {
    fn start(options: &Options, functions: &Functions, peers: Peers, listener: Listener) -> Outcome<Root> {
        let builder = Node::builder(0).functions(functions).peers(peers).listener(listener);
        let builder = builder.wait(wait(options)?).link(link(options)?);
        Ok(match options.word("root", &["polled", "thread"])? {
            "thread" => Root::Threaded(builder.start()?),
            _ => Root::Polled(Box::new(builder.polled()?)),
        })
    }

    fn call(&self, call: Call) -> Outcome<CallHandle> {
        Ok(match self {
            Root::Polled(node) => node.call(call)?,
            Root::Threaded(node) => node.call(call)?,
        })
    }

    fn wait(&mut self, handle: CallHandle) -> Outcome<chained_gpc::Outcome> {
        Ok(match self {
            Root::Polled(node) => node.wait(handle)?,
            Root::Threaded(_) => handle.wait()?,
        })
    }

    fn shutdown(self) -> Outcome<()> {
        match self {
            Root::Polled(node) => node.shutdown(Duration::ZERO)?,
            Root::Threaded(node) => node.shutdown(Duration::ZERO),
        }
        Ok(())
    }
}

fn lead(options: &Options) -> Outcome<()> {
    let n: u32 = options.value("n", 2)?;
    let link = options.word("link", &["tcp", "unix", "shm"])?;
    let listener = listener(options, 0)?;
    let (wait, form) = (options.word("wait", &WAITS)?, options.word("form", &["whole", "streaming"])?);
    let mut processes = Processes::start(n, &["--link", link, "--wait", wait, "--form", form])?;
    let mut table = format!("0 {}\n", listener.address()?);
    for (id, address) in (1..).zip(&processes.addresses) {
        table += &format!("{id} {address}\n");
    }
    processes.tell(&format!("{table}\n"))?;
    let (functions, func) = functions(options)?;
    let mut root = Root::start(options, &functions, table.parse()?, listener)?;
    let mut book = Book::open(options, processes.numbers())?;
    rounds(options, &mut root, func, &mut book)?;
    book.print();
    root.shutdown()?;
    processes.end()
}

fn rounds(options: &Options, root: &mut Root, func: FuncHandle, book: &mut Book) -> Outcome<()> {
    let (n, bytes): (u32, usize) = (options.value("n", 2)?, options.value("bytes", PART)?);
    let tree = match options.word("tree", &["binomial", "flat", "chain"])? {
        "flat" => Tree::Flat,
        "chain" => Tree::Chain,
        _ => Tree::Binomial,
    };
    let mut flying: VecDeque<CallHandle> = VecDeque::new();
    loop {
        while book.wants() {
            // The number of the round is written while the clock runs, but long data are allocated before.
            let mut data = if bytes > PART { book::request(bytes, 0) } else { Vec::new() };
            let round = book.begin();
            match data.len() {
                0 => data = book::request(PART, round),
                len => data[len - PART + 4..][..4].copy_from_slice(&round.to_le_bytes()),
            }
            let call = Call::new(func).ids(0..n).tree(tree.clone()).data(data);
            let call = if bytes > PART { call.forward_first() } else { call };
            flying.push_back(root.call(call)?);
        }
        let Some(handle) = flying.pop_front() else { return Ok(()) };
        let outcome = root.wait(handle)?;
        let replies = outcome.replies_ref()?;
        if replies.len() != n as usize {
            return Err(format!("{} of {n} replies", replies.len()).into());
        }
        for (id, reply) in (0..).zip(&replies) {
            book::check_part(reply.data, id, book.oldest())?;
        }
        book.end();
    }
}

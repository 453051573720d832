//! Latency of small calls beside long data on the same link. `beside serve ADDRESS` is the other end, and `beside
//! measure ADDRESS [BYTES]` measures. Without arguments one process is both, over the loopback interface.
//!
//! Prints microseconds: the median of small calls alone. Then, while BYTES (4,000,000 by default) go to the other end,
//! and while as many come back: the median, the 95th percentile and the maximum.

#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::error::Error;
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::runtime::{Address, Listener, Peers};
use chained_gpc::{Call, CallHandle, FuncHandle, Functions, LinkKind, Node};

/// Longer than the long data take on any link worth measuring.
const LIMIT: Duration = Duration::from_secs(600);

/// Number of small calls made alone.
const ALONE: usize = 100;

/// Functions that both ends know.
struct Set {
    functions: Functions,
    small: FuncHandle,
    take: FuncHandle,
    give: FuncHandle,
}

impl Set {
    fn new() -> Result<Set, Box<dyn Error>> {
        let functions = Functions::new();
        let small = functions.at(Placement::Inline).func("small", |_, _| Ok(()))?;
        let take = functions.at(Placement::Inline).func("take", |_, _| Ok(()))?;
        let give = functions.func("give", |request, reply| {
            let bytes: usize =
                String::from_utf8_lossy(request.header()).parse().map_err(|_| "a number of bytes")?;
            // The root's own reply would not cross the link.
            reply.data = if request.me() == 0 { Vec::new() } else { vec![7; bytes] };
            Ok(())
        })?;
        Ok(Set { functions, small, take, give })
    }

    fn serve(&self, address: &Address) -> Result<Node, Box<dyn Error>> {
        let listener = Listener::bind(address)?;
        Ok(Node::builder(1)
            .functions(&self.functions)
            .link(LinkKind::Tcp)
            .listener(listener)
            .insecure()
            .start()?)
    }

    fn measure(&self, address: &Address, bytes: usize) -> Result<(), Box<dyn Error>> {
        let peers: Peers = [(1, address.clone())].into_iter().collect();
        let node = Node::builder(0)
            .functions(&self.functions)
            .link(LinkKind::Tcp)
            .peers(peers)
            .insecure()
            .start()?;
        let call = |func| Call::new(func).ids(0..2).limit(LIMIT);
        let small = || -> Result<Duration, Box<dyn Error>> {
            let begun = Instant::now();
            node.call(call(self.small))?.wait()?;
            Ok(begun.elapsed())
        };
        let mut alone = (0..ALONE).map(|_| small()).collect::<Result<Vec<_>, _>>()?;
        alone.sort();
        println!("alone {}", alone[ALONE / 2].as_micros());
        let down = || node.call(call(self.take).data(vec![1; bytes]));
        let up = || node.call(call(self.give).header(bytes.to_string()));
        beside("down", down()?, small)?;
        beside("up", up()?, small)
    }
}

/// Makes small calls until the long one ends.
fn beside(
    way: &str,
    mut long: CallHandle,
    small: impl Fn() -> Result<Duration, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut took = vec![small()?];
    let end = loop {
        match long.wait_for(Duration::from_millis(5)) {
            Some(end) => break end,
            None => took.push(small()?),
        }
    };
    end?;
    took.sort();
    let [median, most_of_all] = [50, 95].map(|percent| took[took.len() * percent / 100].as_micros());
    println!("{way} {median} {most_of_all} {}", took[took.len() - 1].as_micros());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let set = Set::new()?;
    match arguments[..] {
        [] => {
            let other = set.serve(&"127.0.0.1:0".parse()?)?;
            set.measure(other.address().ok_or("it listens")?, 4_000_000)
        }
        ["serve", address] => {
            let _node = set.serve(&address.parse()?)?;
            println!("listening");
            loop {
                std::thread::park();
            }
        }
        ["measure", address] => set.measure(&address.parse()?, 4_000_000),
        ["measure", address, bytes] => set.measure(&address.parse()?, bytes.parse()?),
        _ => Err("usage: beside [serve ADDRESS | measure ADDRESS [BYTES]]".into()),
    }
}

//! Rounds by tarpc: the client calls n-1 servers at once. Each server is a process with one connection over TCP without
//! delay, in bincode.
#![allow(clippy::disallowed_methods, reason = "tarpc takes a deadline by the clock")]

use std::time::{Duration, Instant};

use book::{Book, Options, Outcome, PART, Processes};
use futures::future::try_join_all;
use futures::stream::{FuturesOrdered, StreamExt as _};
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::tokio_util::codec::length_delimited::Builder;
use tarpc::{client, context, serde_transport};
use tokio::net::{TcpListener, TcpStream};

#[tarpc::service]
trait Rounds {
    /// The server's part.
    async fn round(request: Vec<u8>) -> Vec<u8>;
}

#[derive(Clone)]
struct Server(u32);

impl Rounds for Server {
    async fn round(self, _: context::Context, request: Vec<u8>) -> Vec<u8> {
        book::part(&request, self.0)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let options = Options::parse()?;
    match options.value("serve", 0)? {
        0 => lead(&options).await,
        id => serve(id).await,
    }
}

async fn serve(id: u32) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let transport = serde_transport::new(Builder::new().new_framed(stream), Bincode::default());
        let requests = BaseChannel::with_defaults(transport).execute(Server(id).serve());
        // Each request is answered before the next one: the function does not wait.
        requests.for_each(|request| request).await;
        std::io::Result::Ok(())
    });
    let told = tokio::task::spawn_blocking(move || book::serve_until_told(&address.to_string()).is_ok());
    if told.await? { Ok(()) } else { Err("standard input or output broke".into()) }
}

async fn connect(address: &str) -> Outcome<RoundsClient> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let transport = serde_transport::new(Builder::new().new_framed(stream), Bincode::default());
    Ok(RoundsClient::new(client::Config::default(), transport).spawn())
}

async fn lead(options: &Options) -> Outcome<()> {
    let n = options.value("n", 2)?;
    let processes = Processes::start(n, &[])?;
    let mut clients = Vec::new();
    for address in &processes.addresses {
        clients.push(connect(address).await?);
    }
    let mut book = Book::open(options, processes.numbers())?;
    let mut flying = FuturesOrdered::new();
    loop {
        while book.wants() {
            flying.push_back(round(&clients, book.begin()));
        }
        let Some(parts) = flying.next().await else { break };
        for (id, part) in (0..).zip(&parts?) {
            book::check_part(part, id, book.oldest())?;
        }
        book.end();
    }
    book.print();
    processes.end()
}

/// The parts of all ids, the client's own first.
async fn round(clients: &[RoundsClient], round: u32) -> Outcome<Vec<Vec<u8>>> {
    let request = book::request(PART, round);
    let mut parts = vec![book::part(&request, 0)];
    let mut context = context::current();
    context.deadline = Instant::now() + Duration::from_secs(60);
    parts.extend(try_join_all(clients.iter().map(|client| client.round(context, request.clone()))).await?);
    Ok(parts)
}

//! Rounds by tonic: the client calls n-1 servers at once. Each server is a process with one connection over TCP without
//! delay.

use book::{Book, Options, Outcome, PART, Processes};
use futures::future::try_join_all;
use futures::stream::{FuturesOrdered, StreamExt as _};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/peers.Rounds.rs"));
}

use generated::rounds_client::RoundsClient;
use generated::rounds_server::{Rounds, RoundsServer};

/// A request, and its answer.
#[derive(Clone, PartialEq, prost::Message)]
struct Part {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
}

struct Id(u32);

#[tonic::async_trait]
impl Rounds for Id {
    async fn round(&self, request: Request<Part>) -> Result<Response<Part>, Status> {
        Ok(Response::new(Part { bytes: book::part(&request.get_ref().bytes, self.0) }))
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
    let incoming = TcpListenerStream::new(listener).map(|stream| {
        let stream = stream?;
        stream.set_nodelay(true)?;
        std::io::Result::Ok(stream)
    });
    tokio::spawn(Server::builder().add_service(RoundsServer::new(Id(id))).serve_with_incoming(incoming));
    let told = tokio::task::spawn_blocking(move || book::serve_until_told(&address.to_string()).is_ok());
    if told.await? { Ok(()) } else { Err("standard input or output broke".into()) }
}

async fn lead(options: &Options) -> Outcome<()> {
    let n = options.value("n", 2)?;
    let processes = Processes::start(n, &[])?;
    let mut clients = Vec::new();
    for address in &processes.addresses {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        clients.push(RoundsClient::new(channel));
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
async fn round(clients: &[RoundsClient<Channel>], round: u32) -> Outcome<Vec<Vec<u8>>> {
    let request = Part { bytes: book::request(PART, round) };
    let calls = clients.iter().cloned().map(|mut client| {
        let request = request.clone();
        async move { client.round(request).await }
    });
    let mut parts = vec![book::part(&request.bytes, 0)];
    parts.extend(try_join_all(calls).await?.into_iter().map(|part| part.into_inner().bytes));
    Ok(parts)
}

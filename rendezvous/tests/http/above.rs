//! A server as the controlling task of units whose resources above are with other servers, some of which are hostile.

use std::net::TcpListener;

use gpc_rendezvous::http::Server;

use crate::raw::{ask, create, register, server};

/// A unit of one task whose resource above is this one.
fn unit(server: &Server, parent: &str, rank: u32) -> String {
    create(server, &format!(r#"{{"capacity":1,"parent":{{"handle":"{parent}","rank":{rank}}}}}"#))
}

fn handle(server: &Server, path: &str) -> String {
    format!("{}?{}", server.url(), path.rsplit('/').next().unwrap())
}

/// All services above were asked in the same 128 turns, so units whose resources above were with a service that takes connections and says nothing held up the words of all others: those were given up by the services that awaited them.
#[test]
fn a_silent_service_above_holds_up_no_other() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/rendezvous?{}", silent.local_addr().unwrap(), "1".repeat(32));
    let (above, below) = (server(), server());
    for rank in 0..300 {
        let path = unit(&below, &nowhere, rank);
        // Every other one waits to register, the rest to say that they are there.
        if rank % 2 == 0 {
            register(&below, &path, b"data");
        }
    }
    let top = create(&above, r#"{"capacity":1,"level":2}"#);
    let path = unit(&below, &handle(&above, &top), 0);
    register(&below, &path, b"met");
    let met = ask(&below, &format!("GET {path}/completion?of=top&wait=15"), "", "");
    assert_eq!((met.status, &met.body[..]), (200, &b"1 1 3 met"[..]));
}

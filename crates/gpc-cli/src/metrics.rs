//! `gpc node --metrics`: the metrics of a node over HTTP, for Prometheus.
//!
//! A client is bounded in everything: the number of connections, the length of a request, and the time of an exchange.
//! So it can hold neither the node, which never waits for it, nor the clients after it.
#![allow(clippy::disallowed_methods, reason = "an exchange is limited by the clock of its own thread")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::limits::cannot_start;

/// Most connections at a time, each with a thread; others are closed at once. Prometheus opens one.
const CONNECTIONS_MAX: usize = 8;

/// Longest head of a request, in bytes.
const HEAD_MAX: usize = 8 << 10;

/// Time for a whole exchange: Prometheus waits for 10 s.
const EXCHANGE: Duration = Duration::from_secs(2);

/// Pause after a failed accept, when the system is short of descriptors.
const SHORT: Duration = Duration::from_millis(100);

/// Serves a text at `/metrics` until the process ends; returns the address.
///
/// # Errors
/// If the address cannot be listened at, or the system has no thread.
pub(super) fn serve(
    listen: SocketAddr,
    metrics: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listening = TcpListener::bind(listen);
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot listen at {listen} for --metrics: {error}"))
    };
    let listener = listening.map_err(named)?;
    let address = listener.local_addr()?;
    let metrics: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(metrics);
    let accepting = thread::Builder::new().name("gpc-metrics".into());
    accepting.spawn(move || accept(&listener, &metrics)).map_err(cannot_start("a thread"))?;
    Ok(address)
}

/// A place among the connections, which is free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, metrics: &Arc<dyn Fn() -> String + Send + Sync>) {
    let open = Arc::new(AtomicUsize::new(0));
    // Ends: with the process.
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(SHORT);
            continue;
        };
        open.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&open));
        if open.load(Ordering::Relaxed) > CONNECTIONS_MAX {
            continue;
        }
        let metrics = Arc::clone(metrics);
        // Without a thread the client is closed, and may come again.
        let _ = thread::Builder::new().name("gpc-metrics".into()).spawn(move || {
            // Errors are the client's: it has gone, or is too slow.
            let _ = exchange(&stream, Instant::now() + EXCHANGE, &*metrics);
            drop(place);
        });
    }
}

/// Reads one request, and answers it.
fn exchange(stream: &TcpStream, until: Instant, metrics: &dyn Fn() -> String) -> io::Result<()> {
    let response = match read_head(stream, until)? {
        Some(head) => respond(&head, metrics),
        None => response("431 Request Header Fields Too Large", "the request is too long\n"),
    };
    write_all(stream, until, response.as_bytes())
}

/// Time that is left, for one read or write.
fn left(until: Instant) -> io::Result<Option<Duration>> {
    match until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        Some(left) => Ok(Some(left)),
        None => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The head of a request; `None` if it is too long.
fn read_head(mut stream: &TcpStream, until: Instant) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    // Ends: each round adds a byte, or time is up.
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(left(until)?)?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

fn write_all(mut stream: &TcpStream, until: Instant, mut bytes: &[u8]) -> io::Result<()> {
    // Ends: each round writes a byte, or time is up.
    while !bytes.is_empty() {
        stream.set_write_timeout(left(until)?)?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// The response to a request.
fn respond(head: &str, metrics: &dyn Fn() -> String) -> String {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        (Some("GET"), "/metrics") => response("200 OK", &metrics()),
        (Some("GET"), _) => response("404 Not Found", "the metrics are at /metrics\n"),
        _ => response("405 Method Not Allowed", "only GET is answered\n"),
    }
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> SocketAddr {
        serve("127.0.0.1:0".parse().unwrap(), || "gpc_links{id=\"0\"} 3\n".repeat(20_000)).unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may answer and close before it has read all.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn metrics_are_at_their_path_alone() {
        let address = server();
        let answer = ask(address, "GET /metrics?a=b HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("gpc_links{id=\"0\"} 3\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(address, "\r\n\r\n").starts_with("HTTP/1.1 405 "));
        let long = format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(3 * HEAD_MAX));
        let answer = ask(address, &long);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    /// Clients that send nothing, or read nothing, hold their places for the time of an exchange at most.
    #[test]
    fn hostile_clients_hold_nobody_up_for_long() {
        let address = server();
        let silent: Vec<TcpStream> =
            (0..3 * CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
        let until = Instant::now() + 10 * EXCHANGE;
        loop {
            let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
            if answer.starts_with("HTTP/1.1 200 OK\r\n") {
                break;
            }
            assert!(Instant::now() < until, "no place is free again");
            thread::sleep(Duration::from_millis(50));
        }
        drop(silent);
    }
}

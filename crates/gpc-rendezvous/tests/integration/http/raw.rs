//! A client on plain sockets, and servers to test.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use chained_gpc::Secret;
use gpc_rendezvous::http::{Options, Server};
use gpc_rendezvous::token::ServiceToken;
use serde_json::Value;

use crate::http::declared::check;

/// Longer than any answer takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Status and code of a problem, which must be complete.
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status);
        let code = json["code"].as_str().unwrap();
        assert_eq!(json["type"], format!("urn:gpc:rendezvous:fault:{code}"));
        assert!(!json["title"].as_str().unwrap().is_empty());
        assert!(!json["detail"].as_str().unwrap().is_empty());
        (self.status, code.to_owned())
    }
}

/// A persistent connection.
pub(crate) struct Client<S: Read = TcpStream> {
    pub(crate) stream: BufReader<S>,
}

pub(crate) fn connect(address: SocketAddr) -> Client {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    Client { stream: BufReader::new(stream) }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request with additional header lines, each with its line ending, and returns the answer.
    pub(crate) fn ask(&mut self, line: &str, lines: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{lines}\r\n");
        self.send([head.as_bytes(), body].concat());
        let answer = self.answer();
        check(line, &answer);
        answer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end_matches("\r\n").to_owned()
    }

    /// The head of an answer; `None` if the connection ends before it.
    pub(crate) fn head(&mut self) -> Option<Answer> {
        let first = self.line();
        if first.is_empty() {
            return None;
        }
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Answer { status, headers, body: Vec::new() })
    }

    /// The next answer, skipping `100 Continue`.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head().expect("an answer");
        if answer.status == 100 {
            answer = self.head().expect("an answer");
        }
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut answer.body).unwrap();
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.extend(chunk);
            }
        }
        answer
    }

    /// The next chunk; `None` at the last one.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// All bytes until the end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "the connection does not end");
        }
        rest
    }
}

/// Options for a server on a free port of loopback.
pub(crate) fn options() -> Options {
    Options::new(([127, 0, 0, 1], 0).into())
}

pub(crate) fn server() -> Server {
    started(|_| {})
}

/// A server with these options, changed by `with`.
pub(crate) fn started(with: impl FnOnce(&mut Options)) -> Server {
    let mut options = options();
    with(&mut options);
    Server::start(options).unwrap()
}

/// A token, and the header line with it.
pub(crate) fn token() -> (ServiceToken, String) {
    let token = ServiceToken::of(&Secret::new(&[7; 32]).unwrap());
    let line = format!("Authorization: Bearer {}\r\n", token.to_text().as_str());
    (token, line)
}

/// A server without a token except for its page, and the header line with the page's token.
pub(crate) fn server_with_page() -> (Server, String) {
    let (token, line) = token();
    (started(|options| options.page_token = Some(token)), line)
}

/// Sends one request on a connection of its own.
pub(crate) fn ask(server: &Server, line: &str, lines: &str, body: impl AsRef<[u8]>) -> Answer {
    connect(server.address()).ask(line, lines, body.as_ref())
}

/// Creates a resource and returns its path.
pub(crate) fn create(server: &Server, json: &str) -> String {
    let answer = ask(server, "POST /rendezvous", "", json);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.header("location").unwrap().to_owned()
}

/// Registers data and returns the rank.
pub(crate) fn register(server: &Server, path: &str, data: &[u8]) -> u64 {
    let answer = ask(server, &format!("POST {path}/registrants"), "", data);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["rank"].as_u64().unwrap()
}

/// Polls a condition until it holds, with a time limit.
#[allow(clippy::disallowed_methods, reason = "a test that waits has a limit")]
pub(crate) fn until(mut so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < end, "it has not come about");
        std::thread::yield_now();
    }
}

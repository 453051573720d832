//! The server over TLS with a certificate from files, and a client on rustls.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use gpc_rendezvous::Spec;
use gpc_rendezvous::client::{ClientError, ClientOptions};
use gpc_rendezvous::http::{Server, Tls};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::http::raw::{Client, LIMIT, connect, options, started, token};

/// Files with a new certificate and its key.
fn files(folder: &TempDir) -> (Tls, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (Tls { cert, key }, made.cert.der().clone())
}

fn secured(
    server: &Server,
    root: CertificateDer<'static>,
) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let stream = StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream);
    Client { stream: std::io::BufReader::new(stream) }
}

#[test]
fn tasks_meet_over_tls() {
    let folder = TempDir::new().unwrap();
    let (tls, root) = files(&folder);
    let (token, line) = token();
    let server = started(|options| (options.tls, options.token) = (Some(tls), Some(token)));
    assert!(server.url().starts_with("https://"), "{}", server.url());
    let mut client = secured(&server, root.clone());
    let path = client.ask("POST /rendezvous", &line, br#"{"capacity":2}"#);
    let path = path.header("location").unwrap().to_owned();
    let register = format!("POST {path}/registrants");
    let long: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 253) as u8).collect();
    assert_eq!(client.ask(&register, &line, &long).json()["rank"], 0);
    let mut waiting = secured(&server, root);
    waiting.send(format!("GET {path}/completion HTTP/1.1\r\nHost: localhost\r\n{line}\r\n"));
    waiting.stream.get_mut().flush().unwrap();
    assert_eq!(client.ask(&register, &line, b"x").json()["rank"], 1);
    assert!(waiting.answer().body == [&b"2 5000000 "[..], &long, b"1 x"].concat());
    let text = line.trim().rsplit(' ').next().unwrap();
    let login = client.ask("POST /login", "", format!("token={text}").as_bytes());
    assert!(login.header("set-cookie").unwrap().ends_with("; Secure"), "{login:?}");
}

#[test]
fn what_is_no_tls_ends() {
    let folder = TempDir::new().unwrap();
    let (tls, root) = files(&folder);
    let server = started(|options| options.tls = Some(tls));
    let mut plain = connect(server.address());
    plain.send("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = plain.rest();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    // A hanging handshake delays no other client.
    let mut hanging = connect(server.address());
    hanging.send([0x16, 3, 1]);
    assert_eq!(secured(&server, root).ask("GET /openapi.json", "", b"").status, 200);
}

#[test]
fn files_that_are_no_certificate_are_named() {
    let folder = TempDir::new().unwrap();
    let (good, _) = files(&folder);
    let text = folder.path().join("text");
    fs::write(&text, "no certificate").unwrap();
    for tls in [
        Tls { cert: text.clone(), ..good.clone() },
        Tls { key: text.clone(), ..good.clone() },
        Tls { cert: folder.path().join("nowhere"), ..good.clone() },
        Tls { cert: good.key.clone(), key: good.key.clone() },
    ] {
        let wrong = if tls.key == text { text.clone() } else { tls.cert.clone() };
        let mut options = options();
        options.tls = Some(tls);
        let error = Server::start(options).unwrap_err().to_string();
        assert!(error.contains(&wrong.display().to_string()), "{error}");
    }
}

/// Why a client that trusts this authority creates nothing at the service.
fn refusal(scheme: &str, server: &Server, ca: &std::path::Path) -> ClientError {
    let mut options = ClientOptions::default();
    (options.ca, options.limit) = (Some(ca.to_owned()), Duration::ZERO);
    let client = gpc_rendezvous::client::Client::new(&options).unwrap();
    let service = format!("{scheme}://localhost:{}", server.address().port()).parse().unwrap();
    client.create(&service, &Spec::new(1)).unwrap_err()
}

/// Each of these errors was "cannot be reached; see that it runs there", with the message of a library.
#[test]
fn the_client_says_what_is_wrong_with_the_scheme_or_the_certificate() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (tls, _) = files(&folder);
    let ca = tls.cert.clone();
    let secured = started(|options| options.tls = Some(tls));
    let plain = started(|_| ());
    let said = refusal("http", &secured, &ca).to_string();
    assert!(said.contains("the URL says http: is it https?"), "{said}");
    let said = refusal("https", &plain, &ca).to_string();
    assert!(said.contains("the URL says https: is it http?"), "{said}");
    let unknown = refusal("https", &secured, &files(&other).0.cert);
    assert!(matches!(unknown, ClientError::Certificate { .. }), "{unknown}");
    let said = unknown.to_string();
    assert!(said.contains("no authority in the CA file") && !said.contains("it runs"), "{said}");
}

/// The error was `Other(OtherError(CaUsedAsEndEntity))`. `openssl req -x509` makes such certificates.
#[test]
fn a_service_with_the_certificate_of_an_authority_is_told_what_to_do() {
    let folder = TempDir::new().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    let (cert, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&cert, made.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    let tls = Tls { cert: cert.clone(), key: key_file };
    let server = started(|options| options.tls = Some(tls));
    let said = refusal("https", &server, &cert).to_string();
    assert!(said.contains("is that of an authority") && said.contains("CA:FALSE"), "{said}");
}

/// An endless file of certificates was read until the memory was full.
#[test]
fn a_file_of_certificates_has_a_longest_length() {
    let mut options = ClientOptions::default();
    options.ca = Some("/dev/zero".into());
    let error = gpc_rendezvous::client::Client::new(&options).unwrap_err().to_string();
    assert!(error.contains("/dev/zero: the file is longer than"), "{error}");
}

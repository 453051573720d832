//! The IMPI client without I/O: the stream of a server, partly changed, with the values of other clients.
//!
//! Input: a byte of options; a byte that says how many cuts of the stream follow and where it comes from; the cuts; and
//! the stream itself, or the values of each other client under each label and the changes of the stream made from them.
//! This module is not part of the targets' library, because the project's main package, which replays that library,
//! knows nothing of this client; `crates/gpc-impi/tests/fuzz_corpus.rs` replays this one.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use chained_gpc::PublicKey;
use gpc_impi::client::{
    Client, ClientInput, ClientOutput, ClientSettings, Cluster, Host, Learned, Proc, from_ip, to_ip,
};
use gpc_impi::wire::{
    Command, Key, Label, Method, Methods, PRIVATE_MAJOR, Version, coll, command, server_auth,
};

use super::input::{Input, pieces};

/// The end of a session: what was learned, or the text of the fault.
type Ended = Option<Result<Learned, String>>;

/// A client, the messages it has sent since they were last taken, and the end of its session.
struct Driven {
    client: Client,
    sent: Vec<Bytes>,
    ended: Ended,
}

impl Driven {
    fn new(settings: &ClientSettings) -> Driven {
        let client = Client::new(settings.clone()).expect("settings that can be said");
        let mut driven = Driven { client, sent: Vec::new(), ended: None };
        driven.drain();
        driven
    }

    fn give(&mut self, bytes: &[u8]) {
        self.client.handle(ClientInput::Received(bytes));
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.next_output() {
            match output {
                ClientOutput::Send(bytes) => {
                    assert!(self.ended.is_none(), "it sends after the end");
                    self.sent.push(bytes);
                }
                ClientOutput::Event(event) => drop(event.to_string()),
                ClientOutput::Learned(learned) => {
                    assert!(self.ended.replace(Ok(*learned)).is_none(), "two ends");
                }
                ClientOutput::Failed(fault) => {
                    assert!(self.ended.replace(Err(fault.to_string())).is_none(), "two ends");
                }
            }
        }
    }
}

/// Drives a client with the stream of a server.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let settings = settings(input.byte());
    let count = input.byte();
    let cuts = input.cuts(count);
    let stream = if count & 8 == 0 { built(&settings, &mut input) } else { input.rest().to_vec() };
    let whole = ended(&settings, &stream, &[]);
    let pieces = ended(&settings, &stream, &cuts);
    assert!(whole == pieces, "it depends on how the bytes come: {whole:?}, and in pieces {pieces:?}");
    if let Ok(learned) = whole {
        check(&settings, &learned);
    }
}

/// Returns the settings of client 0, with one, two or three processes.
fn settings(options: u8) -> ClientSettings {
    let own = options & 1 == 1;
    let host = |i: u8, procs: u8| {
        let address = Ipv4Addr::new(10, 0, 0, i).to_ipv6_mapped();
        let proc = |j: u8| Proc {
            address: (options & 2 == 0).then_some(address),
            pid: Some(j.into()),
            port: own.then_some(9),
            key: (own && j == 0).then_some(PublicKey([7; 32])),
        };
        let mut host = Host::new(address, 5000, (0..procs).map(proc).collect());
        if options & 4 == 4 {
            (host.ackmark, host.hiwater) = (None, None);
        }
        host
    };
    let hosts = if options & 8 == 8 { vec![host(1, 2), host(2, 1)] } else { vec![host(1, 1)] };
    let mut cluster = Cluster::new(hosts);
    if options & 4 == 4 {
        (cluster.tag_ub, cluster.coll_xsize) = (None, Some(1024));
    }
    let key = (options & 16 == 16).then(|| Key::from_bytes([3; 8]));
    let mut settings = ClientSettings::new(0, Methods { none: key.is_none(), key }, cluster);
    settings.job = (options & 32 == 32).then_some([1; 16]);
    (settings.own_labels, settings.bytes_max, settings.procs_max) = (own, 4096, 1000);
    settings
}

/// Returns the end of a session whose server sends this stream in pieces and then closes.
fn ended(settings: &ClientSettings, stream: &[u8], cuts: &[usize]) -> Result<Learned, String> {
    let (mut driven, mut received) = (Driven::new(settings), 0);
    for piece in pieces(stream, cuts) {
        driven.give(piece);
        received += piece.len();
        assert!(driven.client.held() <= received, "more is held than has come");
    }
    let learned = matches!(driven.ended, Some(Ok(_)));
    driven.client.handle(ClientInput::Lost("closed"));
    driven.drain();
    assert_eq!(driven.client.held(), 0);
    driven.sent.clear();
    driven.client.fini();
    driven.drain();
    assert!(driven.sent.is_empty(), "FINI after the connection has ended");
    let ended = driven.ended.expect("it has ended");
    assert_eq!(ended.is_ok(), learned);
    ended
}

/// Checks what was learned, as far as this client can know it.
fn check(settings: &ClientSettings, learned: &Learned) {
    let mut own = settings.cluster.clone();
    if settings.own_labels {
        own.versions.push(Version::OWN);
    }
    if !learned.own_labels {
        let procs = own.hosts.iter_mut().flat_map(|host| &mut host.procs);
        procs.for_each(|proc| (proc.port, proc.key) = (None, None));
    }
    assert_eq!(learned.clusters[0], own);
    assert!(learned.clusters.len() <= 32 && learned.rank == 0);
    let all = 0..learned.clusters.len() as u32;
    for (a, b) in all.clone().flat_map(|a| all.clone().map(move |b| (a, b))) {
        assert_eq!(learned.version(a, b), learned.version(b, a));
        assert!(learned.version(a, b).is_some());
    }
    let knows = |cluster: &Cluster| cluster.versions.iter().any(|version| version.major == PRIVATE_MAJOR);
    assert!(!learned.own_labels || learned.clusters.iter().all(knows));
    let addresses = learned.clusters.iter().flat_map(|it| &it.hosts).filter_map(|host| host.address);
    // Both forms of an IPv4 address become the same address.
    addresses.for_each(|address: Ipv6Addr| assert_eq!(to_ip(from_ip(to_ip(address))), to_ip(address)));
}

/// Makes the stream of a server whose other clients send the values in the input.
fn built(settings: &ClientSettings, input: &mut Input<'_>) -> Vec<u8> {
    let others = input.below(4);
    let mut driven = Driven::new(settings);
    let method = if settings.methods.key.is_some() { Method::Key } else { Method::None };
    let mut stream = Vec::new();
    let mut say = |driven: &mut Driven, bytes: Bytes| {
        driven.give(&bytes);
        stream.extend_from_slice(&bytes);
    };
    say(&mut driven, server_auth(method));
    driven.sent.clear();
    say(&mut driven, command(Command::Impi, &[1 + others as u32]));
    for label in Label::KNOWN.into_iter().chain(Label::OWN) {
        let own = driven.sent.iter().find(|bytes| bytes.len() >= 12 && bytes[8..12] == label.0.to_be_bytes());
        let own = own.map(|bytes| bytes.slice(12..));
        let mut mask = u32::from(own.is_some());
        let mut values = own.unwrap_or_default().to_vec();
        for other in 0..others {
            if let Some(said) = said(label, input) {
                mask |= 2 << other;
                values.extend(said);
            }
        }
        if mask != 0 {
            say(&mut driven, coll(label, Some(mask), [&values[..]]));
        }
    }
    say(&mut driven, command(Command::Done, &[]));
    for _ in 0..input.below(4) {
        let (at, byte) = (usize::from(input.word()) % stream.len(), input.byte());
        stream[at] = byte;
    }
    stream
}

/// Returns the value of another client under a label: usually one that fits one host and one process.
fn said(label: Label, input: &mut Input<'_>) -> Option<Vec<u8>> {
    let size = label.shape().map_or(8, |(_, size)| size);
    let one = |last: u8| [&vec![0; size - 1][..], &[last]].concat();
    match (input.byte(), label) {
        (0, Label::C_VERSION) => Some(vec![0; 8]),
        (1, Label::C_VERSION) => Some(Version::to_bytes(&[Version::MANDATORY, Version::OWN])),
        (0, Label::C_COLL_XSIZE | Label::C_COLL_MAXLINEAR) => Some(vec![255; size]),
        (0, _) => Some(one(1)),
        (1, _) => None,
        (2, _) => Some([one(input.byte()), one(input.byte())].concat()),
        (3, _) => Some(vec![0; input.below(40)]),
        (4, _) => Some(vec![255; size]),
        (last, _) => Some(one(last)),
    }
}

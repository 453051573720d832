//! The session of IMPI whose owner chooses the labels: the stream of a server, whole or changed, into `Exchange`.
//!
//! Input: a byte of options; a byte that says how many cuts of the stream follow and where it comes from; the cuts; the
//! labels that this client sends; and the stream itself, or the choices from which it is made. This module is not part
//! of the targets' library, because the project's main package, which replays that library, knows nothing of this
//! client; `crates/gpc-impi/tests/fuzz_corpus.rs` replays this one.

use std::collections::BTreeMap;

use bytes::Bytes;
use gpc_impi::client::{ClientInput, ClientStage, Exchange, ExchangeSettings};
use gpc_impi::wire::{Command, Key, Label, Method, Methods, coll, command, server_auth};

use super::input::{Input, pieces};

/// Labels: known ones of each shape, and two that are not.
const LABELS: [Label; 6] =
    [Label::C_VERSION, Label::C_NHOSTS, Label::C_NPROCS, Label::H_PORT, Label(0x9000), Label(7)];

/// Most bytes that the server may send.
const BYTES_MAX: usize = 2048;

/// What is known of a session after its stream.
#[derive(PartialEq, Eq, Debug)]
struct Known {
    fault: Option<String>,
    clients: Option<u32>,
    all_done: bool,
    broadcasts: BTreeMap<Label, (u32, Bytes)>,
}

/// Gives the stream to a session at once, and in pieces.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.byte();
    let count = input.byte();
    let cuts = input.cuts(count);
    let sends: Vec<(Label, Vec<u8>)> = (0..input.below(5)).map(|_| said(&mut input)).collect();
    let (greeting, stream) = match count & 8 {
        0 => (joined(options), made(options, &mut input)),
        _ => {
            let length = input.below(20);
            (input.bytes(length).to_vec(), input.rest().to_vec())
        }
    };
    let whole = known(options, &sends, (&greeting, &stream), &[]);
    for cuts in [&cuts[..], &[1]] {
        assert_eq!(whole, known(options, &sends, (&greeting, &stream), cuts), "cut by {cuts:?}");
    }
}

fn settings(options: u8) -> ExchangeSettings {
    let key = (options & 4 == 4).then(|| Key::from_bytes([3; 8]));
    let mut settings = ExchangeSettings::new(rank(options), Methods { none: key.is_none(), key });
    settings.bytes_max = BYTES_MAX;
    settings
}

fn rank(options: u8) -> u32 {
    u32::from(options & 3)
}

/// Returns a label, and values whose length often fits it.
fn said(input: &mut Input<'_>) -> (Label, Vec<u8>) {
    let label = input.pick(&LABELS);
    let unit = if label == Label::C_VERSION { 8 } else { label.shape().map_or(1, |(_, size)| size) };
    (label, vec![input.byte(); unit * input.below(3)])
}

/// Returns what a server says until the client has joined.
fn joined(options: u8) -> Vec<u8> {
    let method = if options & 4 == 4 { Method::Key } else { Method::None };
    [server_auth(method), command(Command::Impi, &[1 + u32::from(options >> 3 & 7)])].concat()
}

/// Returns broadcasts and other commands, with a few changed bytes.
fn made(options: u8, input: &mut Input<'_>) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..input.below(12) {
        let (label, values) = said(input);
        let said = match input.byte() {
            255 => command(Command::Done, &[]),
            254 => command(Command::Other(0x4e45_5753), &[1]),
            253 => command(Command::Impi, &[1 + u32::from(options >> 3 & 7)]),
            mask => coll(label, Some(mask.into()), [&values[..]]),
        };
        stream.extend_from_slice(&said);
    }
    stream.extend_from_slice(&command(Command::Done, &[]));
    for _ in 0..input.below(3) {
        let (at, byte) = (usize::from(input.word()) % stream.len(), input.byte());
        stream[at] = byte;
    }
    stream
}

/// Drives a session: the greeting, the labels of this client and DONE, and the rest of the stream. Then the server
/// closes.
fn known(
    options: u8,
    sends: &[(Label, Vec<u8>)],
    (greeting, stream): (&[u8], &[u8]),
    cuts: &[usize],
) -> Known {
    let mut session = Exchange::new(settings(options)).expect("settings of a session");
    let mut received = 0;
    let mut give = |session: &mut Exchange, stream: &[u8]| {
        for piece in pieces(stream, cuts) {
            session.handle(ClientInput::Received(piece));
            received += piece.len();
            assert!(session.held() <= received, "more is held than has come");
        }
    };
    give(&mut session, greeting);
    for (label, values) in sends {
        let may = session.fault().is_none() && session.clients().is_some() && !session.has_sent(*label);
        match session.send(*label, values) {
            Ok(()) => assert!(may && session.has_sent(*label), "it is sent twice, or before it may be"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if options & 64 == 0 {
        let may = session.fault().is_none() && session.clients().is_some();
        assert_eq!(session.done().is_ok(), may);
    }
    while session.next_bytes().is_some() {}
    give(&mut session, stream);
    check(&session);
    let broadcasts =
        |label: &Label| session.broadcast(*label).map(|(mask, values)| (*label, (mask, values.clone())));
    let known = Known {
        fault: session.fault().map(ToString::to_string),
        clients: session.clients(),
        all_done: session.are_all_done(),
        broadcasts: LABELS.iter().filter_map(broadcasts).collect(),
    };
    let over = session.stage() == ClientStage::Over && session.fault().is_none();
    assert_eq!(session.fini().is_ok(), over, "FINI is sent after DONE of all alone");
    session.handle(ClientInput::Lost("closed"));
    assert!(session.fault().is_some() && session.fini().is_err());
    assert_eq!(session.are_all_done(), known.all_done, "what all have sent stays");
    assert!(known.all_done || session.held() == 0);
    known
}

/// Checks what a session tells its owner.
fn check(session: &Exchange) {
    if let Some(fault) = session.fault() {
        assert!(!fault.to_string().is_empty());
    }
    let Some(clients) = session.clients() else { return };
    for label in LABELS {
        let Some((mask, values)) = session.broadcast(label) else {
            let lacks = session.are_all_done() && session.has_sent(label) && label.is_known();
            assert!(!lacks, "DONE without the broadcast of a label");
            continue;
        };
        assert!(u64::from(mask) >> clients == 0 && (mask != 0 || values.is_empty()));
        let own = mask >> session.rank() & 1 == 1;
        assert!(!own || session.has_sent(label), "values that were never sent");
        assert!(own || !session.are_all_done() || !session.has_sent(label), "values that were dropped");
    }
}

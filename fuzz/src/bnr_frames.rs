//! A stream of this project's own frames into the node's side of a connection, and another one into the client's side:
//! each side must yield the same however the reads cut its stream.
//!
//! Input: a byte that says how many cuts follow and whether the stream is made of requests; the cuts; and the stream,
//! or the choices from which it is made. This module is not part of the targets' library, because the project's main
//! package, which replays that library, knows nothing of domains. `crates/gpc-bnr/tests/fuzz_corpus.rs` replays this
//! module.

use bytes::BytesMut;
use gpc_bnr::codec::{Down, Frame, FrameError, MAGIC, decode_down, encode_down, encode_up, take_frame};
use gpc_bnr::names::{GroupId, Member, Set};
use gpc_bnr::native::{Conversation, NativeOutput, UNANSWERED_MAX};
use gpc_bnr::request::{Answer, Pair, Request};
use gpc_bnr::{Death, Exit, Fault, FaultKind, Roster};

use super::input::{Input, pieces};

/// The stream is made from choices.
const MADE: u8 = 8;
/// Requests get no answer.
const UNANSWERED: u8 = 16;

/// Maximum length of a frame that a client reads here, in bytes.
const DOWN_MAX: usize = 200;

/// Reads the bytes as the stream of a client, and as that of a node.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.byte();
    let cuts = input.cuts(options);
    let answers = options & UNANSWERED == 0;
    let (up, down) = match options & MADE {
        0 => (input.rest().to_vec(), input.rest().to_vec()),
        _ => made(&mut input),
    };
    let (up, down) = if down.is_empty() { (up.clone(), up) } else { (up, down) };
    let whole = heard(&up, &[], answers);
    let frames = taken(&down, &[]);
    for cuts in [&cuts[..], &[1]] {
        assert_eq!(whole, heard(&up, cuts, answers), "cut by {cuts:?}");
        assert_eq!(frames, taken(&down, cuts), "cut by {cuts:?}");
    }
}

/// Returns the outputs of the node's side. Every request is answered at once, or none is.
fn heard(stream: &[u8], cuts: &[usize], answers: bool) -> Vec<NativeOutput> {
    let (mut conversation, mut heard, mut open) = (Conversation::new(), Vec::new(), 0);
    for piece in pieces(stream, cuts) {
        conversation.bytes(piece);
        while let Some(said) = conversation.next() {
            assert!(!matches!(heard.last(), Some(NativeOutput::Close(_))), "it speaks after the end");
            match &said {
                NativeOutput::Request(serial, request) if answers => {
                    conversation.answered(*serial, answer(request))
                }
                NativeOutput::Request(_, Request::Abort { .. }) => {}
                NativeOutput::Request(..) => open += 1,
                NativeOutput::Send(frame) => {
                    let body = &frame[4..];
                    assert_eq!(frame[..4], (body.len() as u32).to_le_bytes());
                    decode_down(body).expect("a client can read it");
                }
                NativeOutput::Close(why) => assert!(!why.is_empty()),
            }
            heard.push(said);
        }
    }
    assert!(open <= UNANSWERED_MAX);
    // After its end the conversation yields nothing, whatever arrives.
    if matches!(heard.last(), Some(NativeOutput::Close(_))) {
        conversation.bytes(stream);
        conversation.answered(1, Ok(Answer::Done));
        conversation.notice(death(1));
        assert_eq!(conversation.next(), None);
    }
    heard
}

fn answer(request: &Request) -> Result<Answer, Fault> {
    match request {
        Request::Get { key, .. } => Ok(Answer::Value(key.clone())),
        Request::Create(Some(name)) => Ok(Answer::Name(name.clone())),
        Request::Split { group, .. } | Request::Merge { first: group, .. } => Ok(Answer::Group(*group)),
        Request::Members(group) => {
            let members = [2, 0, 1].map(|rank| Member { group: GroupId(1), rank });
            Ok(Answer::Rosters(vec![Roster::new(*group, "kvs".into(), members)]))
        }
        Request::Kill(_) => Err(Fault::new(FaultKind::NoGroup, "there is no such group")),
        _ => Ok(Answer::Done),
    }
}

/// Returns the frames of a stream, and the error that ends it, if any.
fn taken(stream: &[u8], cuts: &[usize]) -> (Vec<Option<Down>>, Option<FrameError>) {
    let (mut come, mut frames) = (BytesMut::new(), Vec::new());
    for piece in pieces(stream, cuts) {
        come.extend_from_slice(piece);
        loop {
            match take_frame(&mut come, DOWN_MAX) {
                Ok(Frame::Whole(body)) => frames.push(decode_down(&body).ok()),
                Ok(Frame::Part) => break,
                Err(error) => {
                    assert!(error.length > DOWN_MAX);
                    return (frames, Some(error));
                }
            }
        }
        assert!(come.len() < 4 + DOWN_MAX, "{} bytes wait for the end of a frame", come.len());
    }
    (frames, None)
}

fn death(rank: u8) -> Death {
    let member = Member { group: GroupId(1), rank: rank.into() };
    Death { member, exit: Exit::Code(rank), finalized: rank & 1 == 0 }
}

/// Makes a stream of requests, and one of answers and notices, and changes a few bytes of each.
fn made(input: &mut Input<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut up, mut down) = (MAGIC.to_vec(), Vec::new());
    for _ in 0..input.below(40) {
        let (serial, bytes) = (u64::from(input.byte() & 31), usize::from(input.byte() & 15));
        let text = String::from_utf8_lossy(input.bytes(bytes)).into_owned();
        let said = match input.byte() & 3 {
            0 => Down::Notice(death(serial as u8)),
            1 => Down::Answer(serial, Err(Fault::new(FaultKind::Link, text.clone()))),
            2 if text.is_empty() => Down::Answer(serial, answer(&Request::Members(GroupId(6)))),
            2 => Down::Answer(serial, Ok(Answer::Name(text.clone()))),
            _ => Down::Answer(serial, Ok(Answer::Number(serial))),
        };
        down.extend_from_slice(&encode_down(&said));
        up.extend_from_slice(&encode_up(serial, &request(input, text)).expect("it is small"));
    }
    for stream in [&mut up, &mut down] {
        for _ in 0..input.below(3) {
            let (at, byte) = (usize::from(input.word()), input.byte());
            if let Some(changed) = at.checked_rem(stream.len()) {
                stream[changed] = byte;
            }
        }
    }
    (up, down)
}

fn request(input: &mut Input<'_>, text: String) -> Request {
    let key = text.clone().into_bytes();
    match input.below(12) {
        0 => Request::Put { database: text, pair: Pair { key, value: vec![1, 2] }, advice: None },
        1 => Request::Get { database: text, key },
        2 => Request::Fence { over: Set::Group(GroupId(1)), limit: None, tag: key },
        3 => Request::Abort { code: 1, message: text },
        4 => Request::Create(Some(text)),
        5 => Request::Kill(GroupId(7)),
        6 => Request::Init,
        7 => Request::Lookup { name: key, wait: None },
        8 => Request::Merge { first: GroupId(1), second: GroupId(2), limit: None },
        9 => Request::Members(GroupId(6)),
        10 => Request::Split { group: GroupId(6), color: None, key: -1, limit: None },
        _ => Request::Split { group: GroupId(6), color: Some(0), key: 0, limit: None },
    }
}

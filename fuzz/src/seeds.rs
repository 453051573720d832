//! The seeds of the corpus: inputs that each reach a different part of the code, so that a fuzzer need not find them by
//! chance.
//!
//! `cargo run --example seeds` writes them into the corpus.

use chained_gpc::wire::frame::{FrameHeader, Kind};

/// The document of the wire format, whose examples are seeds.
const DOCUMENT: &str = include_str!("../../docs/wire.md");

/// An input of a target, and the name of its file.
pub struct Seed {
    /// The name of the target.
    pub target: &'static str,
    /// The name of the file, in letters, digits and hyphens.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Returns all seeds.
pub fn seeds() -> Vec<Seed> {
    let text = |target, kind: &[u8], texts: &[&str]| -> Vec<Seed> {
        let bytes = |text: &&str| [kind, text.as_bytes()].concat();
        numbered(target, texts.iter().map(bytes).collect())
    };
    [
        wire(),
        numbered("frames", [streams(), by_descriptor()].concat()),
        text(
            "level",
            &[0, 0],
            &["0 ", "3 abc", "00 ", "01 a", "000 ", "+1 a", "-0 ", " ", "1a", "18446744073709551616 "],
        ),
        text("level", &[2, 0, 3, 2], &["2 1 1 r1 2 1 a1 b", "1 0 ", "2 0 1 0 "]),
        text("level", &[16, 2, 3, 1, 2], &["2 1 1 r1 2 1 a1 b", "1 1 2 ab", "4 0 0 0 0 "]),
        text("level", &[0, 255, 255, 255], &["1 1 1 1 1 1 1 1 1 "]),
        text(
            "level",
            &[8],
            &["babcbdebbfg\x0e\x0e\x0e", "saQscSsdQ\x0f\x0e\x02\x0c", "\x00\x01\x04\x08\x0c"],
        ),
        text(
            "ids",
            &[0],
            &["", "0-63,70,65", " 3 , 1 - 2 ", "4294967295,0-4294967293", "7,5-9", "9-3", "1,,2", "+1"],
        ),
        numbered("ids", id_words()),
        text(
            "tree_file",
            &[0, 0],
            &[
                "0: 1 2\n1: 3 4\n",
                "# a leaf\n0:\n",
                "0: 2 # c\n\n2: 1\n",
                "0: 1\n1: 0\n",
                "0: 1 1",
                "1: 2",
                "0: 1\n1:\n0: 1\n",
            ],
        ),
        text("tree_file", &[0, 0x22], &["0: 1 2\n1: 3 4\n", "0: 1 2 3\n", "0: 1\n1: 2\n2: 3\n"]),
        text("tree_file", &[1, 1], &["0 a\n1 b\n2 a\n3 b # far\n", "7 x\n", "1 a\n1 b\n", "1\n"]),
        text("tree_file", &[1, 2], &["0 r/a\n1 r/b\n2 g/a\n3 g\n4 g/a/x\n5 r/a\n", "0 a//b\n", "0 a/\n"]),
        text("tree_file", &[1, 3], &["0 a/b/c/d/e/f/g/h\n1 a/b/c\n", "0 a/b/c/d/e/f/g/h/i\n"]),
        text(
            "tree_file",
            &[2, 0],
            &["0 127.0.0.1:7000\n1 unix:/run/1 # near\n2 unix:@two\n3 tcp:[::1]:9\n", "0 here\n"],
        ),
        text(
            "tree_file",
            &[3, 0],
            &["binary", "kary:8", "knomial:4", "loggp:2.5", "loggp:5000,1000,2000,0.5", "file:a.tree"],
        ),
        text(
            "tree_file",
            &[3, 0],
            &["hosts:a+b+binomial", "my-split_2", "kary:0", "loggp:nan", "hosts:x+file:y"],
        ),
        numbered("hosts", super::text_seeds::host_seeds()),
        numbered("chain", sequences()),
        numbered("peering", greetings()),
        numbered("links", super::links::seeds()),
        of_other_packages(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_other_packages() -> Vec<Seed> {
    [
        numbered("rendezvous", super::rendezvous_seeds::seeds()),
        numbered("impi_client", super::impi_seeds::client_seeds()),
        numbered("impi_exchange", super::impi_seeds::exchange_seeds()),
        numbered("impi_server", super::impi_seeds::server_seeds()),
        numbered("rendezvous_events", super::rendezvous_seeds::event_seeds()),
        numbered("bnr_orders", super::bnr_seeds::order_seeds()),
        numbered("bnr_frames", super::bnr_seeds::frame_seeds()),
        numbered("bnr_pmi", super::pmi_seeds::seeds()),
        numbered("run_texts", super::text_seeds::run_seeds()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn numbered(target: &'static str, all: Vec<Vec<u8>>) -> Vec<Seed> {
    let seed = |bytes: Vec<u8>| {
        let begin: String = bytes.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let sum = bytes.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        Seed { target, name: format!("seed-{begin}-{sum:08x}"), bytes }
    };
    all.into_iter().map(seed).collect()
}

/// Greetings of two sides: whole, cut at each message, and changed there. The bytes of one side are also replayed to
/// the other side alone.
fn greetings() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for choices in [0, 2, 4, 8, 14] {
        all.push(vec![choices]);
        let recorded = super::peering::recorded(choices);
        for end in [8, 66, 132, recorded.len()] {
            all.push([&[choices | 1, 0][..], &recorded[..end]].concat());
        }
    }
    // The parts of what each side writes: the preamble, the messages, the hellos. At each of them a byte is changed,
    // bytes are left out or put in, the connection ends, or time passes.
    for act in 1..6u8 {
        for (before, side) in [
            (&[][..], 0u8),
            (&[0, 7][..], 0),
            (&[0, 65], 1),
            (&[0, 65, 1, 101], 0),
            (&[0, 65, 1, 101, 0, 139], 1),
        ] {
            all.push([&[0][..], before, &[act << 1 | side, 160]].concat());
        }
    }
    all.push([&[0][..], &[0, 0, 1, 0].repeat(120)].concat());
    all
}

/// The examples of the document: each by itself, in two ways of cutting, and all on one link.
fn wire() -> Vec<Seed> {
    let examples = examples();
    let mut seeds = Vec::new();
    for (name, bytes) in &examples {
        let name = format!("seed-{}", name.to_lowercase().replace([' ', ','], "-"));
        let options: &[u8] = if name == "seed-hello" { &[8 + 1, 20] } else { &[2, 6, 80] };
        seeds.push(Seed { target: "frames", name: name.clone(), bytes: [options, bytes].concat() });
        if name == "seed-hello" {
            seeds.push(Seed { target: "hello", name, bytes: [&[1, 3], &bytes[8..]].concat() });
        }
    }
    let link: Vec<u8> = examples.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    seeds.push(Seed {
        target: "frames",
        name: "seed-all".into(),
        bytes: [&[8 + 1, 100][..], &link].concat(),
    });
    seeds.push(Seed {
        target: "frames",
        name: "seed-ending".into(),
        bytes: [&[64 + 1, 50][..], &link[56..]].concat(),
    });
    seeds
}

/// Returns the examples of the document with their names; the text after a `#` in a line is a remark.
fn examples() -> Vec<(&'static str, Vec<u8>)> {
    let blocks = DOCUMENT.split("```hex\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    let example = |block: &'static str| {
        let (name, lines) = block.split_once('\n')?;
        let digits = lines.lines().flat_map(|line| line.split('#').next().unwrap_or(line).split_whitespace());
        let bytes: Result<Vec<u8>, _> = digits.map(|byte| u8::from_str_radix(byte, 16)).collect();
        Some((name.strip_prefix("# ")?, bytes.ok()?))
    };
    blocks.filter_map(example).collect()
}

/// Returns the bytes of an example.
fn example(name: &str) -> Vec<u8> {
    examples().into_iter().find(|(there, _)| *there == name).map(|(_, bytes)| bytes).unwrap_or_default()
}

/// Streams in which one frame needs another: bodies in segments, and frames that end them early.
fn streams() -> Vec<Vec<u8>> {
    let cut = |name: &str, kept: usize| {
        let mut frame = example(name);
        frame.truncate(8 + kept);
        frame[..4].copy_from_slice(&(kept as u32).to_le_bytes());
        frame
    };
    let segment = |flags: u8, bytes: &[u8]| {
        let header = FrameHeader { length: 16 + bytes.len() as u32, kind: Kind::Segment, flags };
        [&header.emit()[..], &example("CANCEL")[8..], bytes].concat()
    };
    let request = |kept| cut("REQUEST with runs", kept);
    let (prefix, data) = (example("REQUEST with runs")[80..].to_vec(), b"abc");
    let reply = cut("RESPONSE with a reply", 41);
    [
        [request(92), segment(0, b"c")].concat(),
        [request(72), segment(0, &prefix[..7]), segment(0, &prefix[7..])].concat(),
        [request(90), segment(0, &data[..1]), segment(0, &data[1..])].concat(),
        [request(80), example("CANCEL"), request(93)].concat(),
        [request(90), segment(0, b"abcd")].concat(),
        [request(90), request(90)].concat(),
        [reply.clone(), segment(1, b" 3"), segment(1, b" abc")].concat(),
        [reply, example("RESPONSE completed")].concat(),
        [cut("RESPONSE that is partial", 60), segment(1, &example("RESPONSE that is partial")[68..])]
            .concat(),
    ]
    .into_iter()
    .flat_map(|stream| {
        [0u8, 32 + 1, 64 + 1].map(|options| {
            let cut: &[u8] = if options & 1 == 1 { &[9] } else { &[] };
            [&[options], cut, &stream].concat()
        })
    })
    .chain(passed_on())
    .collect()
}

/// Streams with streaming replies: in segments, failing, and from peers that break the protocol.
fn passed_on() -> Vec<Vec<u8>> {
    let mut head = example("RESPONSE with a reply");
    head.truncate(8 + 41);
    head[0] = 41;
    // 300,000 bytes of data are more than a frame has.
    head[8 + 24..8 + 28].copy_from_slice(&300_000u32.to_le_bytes());
    let segment = |bytes: &[u8]| {
        let header = FrameHeader { length: 16 + bytes.len() as u32, kind: Kind::Segment, flags: 1 };
        [&header.emit()[..], &example("CANCEL")[8..], bytes].concat()
    };
    let failure = example("RESPONSE with a failure");
    [
        [head.clone(), segment(b" "), segment(b"abc")].concat(),
        [head.clone(), segment(b" ab"), failure.clone(), segment(b"c")].concat(),
        [head.clone(), failure, head.clone(), segment(b" ab")].concat(),
        [head.clone(), segment(b" ab"), head].concat(),
    ]
    .into_iter()
    .flat_map(|stream| {
        [128u8, 128 + 1, 128 + 64 + 1, 1].map(|options| {
            let cut: &[u8] = if options & 1 == 1 { &[9] } else { &[] };
            [&[options], cut, &stream].concat()
        })
    })
    .collect()
}

/// Streams with data that come by descriptor, to functions that stream their data and to others. The request announces
/// 2.5 MiB.
fn by_descriptor() -> Vec<Vec<u8>> {
    let mut request = example("REQUEST with runs");
    request.truncate(8 + 90);
    request[..4].copy_from_slice(&90u32.to_le_bytes());
    request[48..56].copy_from_slice(&(5u64 << 19).to_le_bytes());
    let extent = |length: u64| [&example("EXTENT")[..24], &length.to_le_bytes()].concat();
    let segment = [&[19, 0, 0, 0, 4, 0, 0, 0][..], &example("CANCEL")[8..], b"abc"].concat();
    let streams = [
        [request.clone(), extent(1 << 20), extent(1 << 20), extent(1 << 19)].concat(),
        [request.clone(), extent(1 << 20), segment.clone(), extent(1 << 20)].concat(),
        [request.clone(), segment, extent(1 << 20), example("CANCEL"), extent(1 << 20)].concat(),
        [request.clone(), extent(1 << 20), extent(2 << 20)].concat(),
        [request, extent(1 << 18), extent((1 << 18) - 1)].concat(),
    ];
    streams
        .into_iter()
        .flat_map(|stream| [72u8 + 1, 200 + 1].map(|o| [&[o, 9], &stream[..]].concat()))
        .collect()
}

/// Lists of ids in wire form.
fn id_words() -> Vec<Vec<u8>> {
    let words = |form: u8, words: &[u32]| {
        [vec![form], words.iter().flat_map(|word| word.to_le_bytes()).collect()].concat()
    };
    vec![
        words(1, &[4, 3, 9, 1]),
        words(1, &[u32::MAX, 1, 0, u32::MAX]),
        words(1, &[1, 5, 3, 1]),
        words(1, &[u32::MAX, 2]),
        words(1, &[3, 0]),
        words(2, &[9, 4, 7]),
        words(2, &[1, 2, 3, 10, 11, 4]),
        words(2, &[1, 2, 1]),
    ]
}

/// Calls that succeed, and calls with failures.
fn sequences() -> Vec<Vec<u8>> {
    let deliver = [0u8, 0];
    let end = [11u8, 0];
    let go = |times: usize| [deliver, end].concat().repeat(times);
    // The root, the ids left out, the order, the options, the tree, the limit, the data.
    let start = |root: u8, options: u8, tree: u8, limit: u8| vec![17, root, 0, 2, 0, options, tree, limit, 3];
    let mut all = Vec::new();
    for (tree, options) in (0u8..8).zip([0u8, 1, 2, 4, 8, 9, 16, 12]) {
        all.push([vec![7, 0], start(0, options, tree + 8, 0), go(40)].concat());
    }
    let partial = |options: u8| [vec![6, 4 + 1], start(1, 8 + options, 0, 2), go(2)].concat();
    let with = |begun: Vec<u8>, happens: &[u8]| [begun, happens.to_vec(), go(20)].concat();
    all.extend([
        with(partial(0), &[29, 2, 1]),
        with(partial(0), &[29, 4, 0, 30, 4]),
        with(partial(1), &[22, 1, 2, 16, 0, 0]),
        with(partial(4), &[21, 0, 27, 27, 27, 27]),
        with(partial(0), &[20, 0, 0, 0, 20, 1, 0, 1]),
        with(partial(2), &[23, 0, 9, 0, 1]),
        with(partial(0), &[24, 2, 1, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0]),
        with(partial(1), &[24, 3, 1, 3, 1, 3, 1, 3, b'0', b' ', b' ', 2, b'1', b' ', 2, 4, 8]),
        with(partial(0), &[&[25, 2, 1, 24][..], &example("CANCEL")].concat()),
        [vec![3, 8 + 16 + 32], start(2, 0, 1, 3), start(2, 8, 1, 3), start(2, 0, 1, 3), go(9)].concat(),
        [vec![4, 0], start(0, 4, 2, 1), vec![10, 0, 19, 0, 1, 19, 0, 9], go(4), vec![31, 0], go(9)].concat(),
        [vec![4, 0], start(0, 0, 3, 0), vec![16, 0, 2, 26, 0, 1, 16, 0, 3], go(12), vec![28, 1, 28, 2]]
            .concat(),
    ]);
    // Replies that come piece by piece: all of them, and with a failure, a lost link or a cancel behind their heads.
    let slow = |times: usize| [10u8, 0, 11, 0, 19, 0, 1].repeat(times);
    for tree in [2u8, 0, 1] {
        let begun = [vec![5, 0], start(0, 0, tree, 0), slow(9)].concat();
        all.extend([
            [begun.clone(), slow(40)].concat(),
            [begun.clone(), vec![22, 3, 4], slow(20)].concat(),
            [begun.clone(), vec![29, 4, 0], slow(20)].concat(),
            [begun.clone(), vec![31, 0], slow(20)].concat(),
            [begun, vec![16, 0, 0], slow(9), vec![27, 27, 27]].concat(),
        ]);
    }
    all
}

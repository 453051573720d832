//! Seeds of the BNR targets, whose modules are not in this library.

/// Encodes bytes behind their length.
fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// Encodes a list behind its number of entries.
fn list(each: &[Vec<u8>]) -> Vec<u8> {
    [&(each.len() as u32).to_le_bytes()[..], &each.concat()].concat()
}

fn number(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn pair(key: &[u8], value: &[u8]) -> Vec<u8> {
    [counted(key), counted(value)].concat()
}

/// A death notice: rank 2 of the first group, killed.
const DEATH: [u8; 11] = [1, 0, 0, 0, 2, 0, 0, 0, 1, 9, 0];

/// A set: all processes of the third group.
const GROUP: [u8; 5] = [0, 3, 0, 0, 0];

/// The first byte of an input: an order, a report, a request, an answer.
const AS: [[u8; 1]; 4] = [[0], [1], [2], [3]];

fn fault() -> Vec<u8> {
    let missing = list(&[[number(1), number(3)].concat()]);
    [number(13), counted(b"g1.2 was killed"), list(&[DEATH.to_vec()]), vec![1], number(7), missing].concat()
}

/// Encodes the third fence of a set.
fn meeting(set: &[u8]) -> Vec<u8> {
    [set, &counted(b"tag"), &[2, 0, 0, 0, 0, 0, 0, 0]].concat()
}

/// Encodes a layout of two programs over three nodes.
fn layout() -> Vec<u8> {
    let spec = [number(3), counted(b"prog"), list(&[counted(b"arg")]), list(&[pair(b"A", b"1")])].concat();
    let spec = [spec, list(&[pair(b"wdir", b"/")])].concat();
    let block = |node, spec, first, count| [node, spec, first, count].map(number).concat();
    let blocks = [block(5, 0, 0, 2), block(6, 0, 2, 1), block(4, 1, 3, 3)];
    let begin = [number(3), vec![1], number(1), counted(b"kvs_x_3")].concat();
    let plan = [vec![1, 1], list(&[[number(4), counted(b"c"), number(2)].concat()])].concat();
    let end = [vec![1], list(&[pair(b"k", b"v")]), vec![1], plan].concat();
    [begin, list(&[spec.clone(), spec]), list(&blocks), end].concat()
}

/// Encodes the status of a group with one process.
fn status() -> Vec<u8> {
    let member = [number(0), number(5), vec![1], number(4711), vec![1], DEATH.to_vec()].concat();
    [number(3), vec![0, 2], counted(b"kvs"), counted(b"prog"), vec![9; 8], list(&[member])].concat()
}

/// Encodes limits: numbers of 8 bytes, except the 4-byte number of processes of a group.
fn limits() -> Vec<u8> {
    let eight = |number: u64| number.to_le_bytes().to_vec();
    let before = [256, 65_536, 256, 1 << 28, 4096, 65_536].map(eight).concat();
    let behind = [65_536, 1 << 24, 1024, 600_000_000_000, 60_000_000_000, 2_000_000_000].map(eight).concat();
    [before, number(1 << 20), behind].concat()
}

/// Encodes a derived group of two spans: g3.2, and g1.0 to g1.3.
fn roster() -> Vec<u8> {
    let spans =
        list(&[[number(3), number(2), number(1)].concat(), [number(1), number(0), number(4)].concat()]);
    [number(6), counted(b"kvs_x_6"), spans].concat()
}

/// Encodes choices in a split: a color and a key, and no color.
fn choices() -> Vec<u8> {
    let (colored, without) =
        ([vec![1], number(5), (-6_i32).to_le_bytes().to_vec()].concat(), [0, 0, 0, 0, 0]);
    list(&[
        [number(3), number(2), colored].concat(),
        [&[number(3), number(4)].concat()[..], &without].concat(),
    ])
}

/// Encodes what a fence brings: nothing.
fn nothing() -> Vec<u8> {
    [list(&[]), list(&[]), counted(b"")].concat()
}

/// Encodes a set: two processes.
fn members() -> Vec<u8> {
    [&[1][..], &list(&[vec![1, 0, 0, 0, 0, 0, 0, 0], vec![2, 0, 0, 0, 1, 0, 0, 0]])].concat()
}

/// Encodes a put.
fn entry() -> Vec<u8> {
    // The stamp: a clock, the member g3.1, and the number of its put.
    let stamp = [vec![2, 0, 0, 0, 0, 0, 0, 0], number(3), number(1), vec![7, 0, 0, 0, 0, 0, 0, 0]].concat();
    [counted(b"kvs"), pair(b"k", b"v"), stamp].concat()
}

/// The serial of a request and its answer.
const SERIAL: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

fn orders() -> Vec<Vec<u8>> {
    vec![
        [vec![0], list(&[number(0), number(1)]), limits()].concat(),
        [vec![2], meeting(&members()), vec![0]].concat(),
        [vec![3], meeting(&GROUP), vec![2], number(9)].concat(),
        [
            vec![4],
            meeting(&GROUP),
            list(&[DEATH.to_vec()]),
            vec![1],
            list(&[entry()]),
            list(&[]),
            counted(b"data"),
            vec![0],
        ]
        .concat(),
        [vec![4], meeting(&members()), list(&[]), vec![0], fault()].concat(),
        [vec![5], meeting(&GROUP), fault()].concat(),
        [vec![6], layout()].concat(),
        [vec![10], list(&[DEATH.to_vec(), DEATH.to_vec()])].concat(),
        [vec![15, 1, 7, 0, 0, 0, 0, 0, 0, 0, 12], number(3)].concat(),
        vec![17],
        [vec![19], meeting(&GROUP), vec![0]].concat(),
        // Merge, and split: the groups that they make.
        [vec![3], meeting(&GROUP), vec![3], number(3), number(1)].concat(),
        [vec![2], meeting(&GROUP), vec![4]].concat(),
        [vec![4], meeting(&GROUP), list(&[]), vec![1], nothing(), vec![12], list(&[roster(), roster()])]
            .concat(),
        [vec![15, 0], number(3), number(2), vec![28], number(6)].concat(),
        // A group of which `soft` has left no process.
        [
            vec![18],
            number(4),
            vec![0],
            counted(b"kvs_x_4"),
            list(&[]),
            list(&[]),
            vec![0],
            list(&[]),
            vec![0, 0],
        ]
        .concat(),
    ]
}

fn reports() -> Vec<Vec<u8>> {
    vec![
        [vec![1], list(&[entry()]), list(&[meeting(&GROUP), meeting(&members())]), counted(b""), list(&[])]
            .concat(),
        [vec![1], nothing(), choices()].concat(),
        [vec![5, 1, 12], list(&[roster()])].concat(),
        [
            vec![2],
            list(&[[number(0), vec![1], number(99)].concat(), [number(1), vec![0], number(2)].concat()]),
        ]
        .concat(),
        [vec![3, 1], counted(b"value")].concat(),
        [vec![5, 1, 4], number(3), list(&[number(0), number(2)]), vec![1]].concat(),
        [vec![5, 0], fault()].concat(),
        [vec![6], list(&[status()])].concat(),
        [vec![8], list(&[[number(1), number(3)].concat()]), vec![9, 0, 0, 0, 0, 0, 0, 0]].concat(),
        [vec![9], counted(b"two")].concat(),
        vec![11, 1, 1, 2, 1, 0],
    ]
}

fn requests() -> Vec<Vec<u8>> {
    let spec = [number(1), counted(b"p"), list(&[]), list(&[]), list(&[])].concat();
    vec![
        [vec![3], GROUP.to_vec(), vec![1], vec![0, 0, 0, 0, 1, 0, 0, 0]].concat(),
        [vec![6], list(&[spec]), list(&[pair(b"k", b"v")]), vec![1, 0]].concat(),
        [vec![16], counted(b"kvs"), pair(b"k", b"v"), vec![1], number(3)].concat(),
        [vec![22], members(), vec![0], counted(b"")].concat(),
        [vec![23, 3], counted(b"enough")].concat(),
        vec![24],
        [vec![7], number(3), number(1), vec![0]].concat(),
        [vec![28], number(6)].concat(),
        // A split without a color; a dup, which is a split of one color.
        [vec![29], number(6), vec![0], number(7), vec![0]].concat(),
        [vec![29], number(6), vec![1], number(0), number(0), vec![1], vec![0, 0, 0, 0, 1, 0, 0, 0]].concat(),
    ]
}

fn answers() -> Vec<Vec<u8>> {
    let identity = [number(1), number(2), number(4), vec![0], counted(b"kvs"), number(0)].concat();
    vec![
        [vec![0], SERIAL.to_vec(), vec![1, 1], identity, list(&[number(2)])].concat(),
        [vec![0], SERIAL.to_vec(), vec![1, 8], list(&[pair(b"a", b"1"), pair(b"b", b"")])].concat(),
        [vec![0], SERIAL.to_vec(), vec![0], fault()].concat(),
        [vec![0], SERIAL.to_vec(), vec![1, 10], limits()].concat(),
        [vec![0], SERIAL.to_vec(), vec![1, 12], list(&[roster()])].concat(),
        // Three processes, of which `soft` has left out the last.
        [
            vec![0],
            SERIAL.to_vec(),
            vec![1, 4],
            number(3),
            list(&[number(0), number(0), vec![255; 4]]),
            vec![1],
        ]
        .concat(),
        [vec![1], DEATH.to_vec()].concat(),
    ]
}

/// Returns seeds for the encodings: most orders, reports, requests and answers.
pub fn order_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = orders().iter().map(|order| [&AS[0], &order[..]].concat()).collect();
    seeds.extend(reports().iter().map(|report| [&AS[1], &report[..]].concat()));
    seeds.extend(requests().iter().map(|request| [&AS[2][..], &SERIAL, request].concat()));
    seeds.extend(answers().iter().map(|answer| [&AS[3], &answer[..]].concat()));
    seeds
}

/// Returns seeds for the frames: streams made from choices, and some plain bytes.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let frame = |body: &[u8]| counted(body);
    let lookup = |serial: u8| frame(&[&[serial, 0, 0, 0, 0, 0, 0, 0, 21][..], &counted(b"k")].concat());
    let stream = |options: u8, parts: &[Vec<u8>]| [&[options], &parts.concat()[..]].concat();
    let magic = b"BNR1".to_vec();
    // The serial, a short text, the message to the client, and the request to the node.
    let step = |serial: u8, down: u8, up: u8| vec![serial, 2, b'a', serial, down, up];
    let steps = |options: u8, steps: &[Vec<u8>], changes: &[u8]| {
        [&[options, 3, steps.len() as u8][..], &steps.concat(), changes].concat()
    };
    let all: Vec<Vec<u8>> = (0..8).map(|kind| step(kind, kind, kind)).collect();
    let span = |first: u32| [number(3), number(first), number(1)].concat();
    let continued = [number(6), counted(b""), list(&[span(0), span(1)])].concat();
    vec![
        stream(0, &[magic.clone(), lookup(1), lookup(2), lookup(1)]),
        stream(16, &[magic.clone(), lookup(1), lookup(2), lookup(1)]),
        stream(0, &[magic.clone(), frame(&[]), lookup(1)]),
        stream(0, &[magic.clone(), vec![255; 4]]),
        stream(0, &[b"cmd=init pmi_version=1 pmi_subversion=1\n".to_vec()]),
        stream(0, &[frame(&[&[1][..], &DEATH].concat()), frame(&[1])]),
        stream(0, &[frame(&[0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0]), vec![200, 0]]),
        steps(9, &all, &[0, 0]),
        steps(25, &all, &[0, 0]),
        steps(9, &all, &[1, 30, 0, 99, 2, 8, 0, 1, 9, 0, 77]),
        steps(9, &[step(3, 0, 7), step(3, 1, 6), step(4, 2, 3)], &[1, 4, 0, 250, 0]),
        steps(25, &[step(3, 0, 7), step(3, 1, 6), step(3, 2, 3)], &[0, 0]),
        // Groups made of others.
        steps(9, &(8..12).map(|kind| step(kind, kind, kind)).collect::<Vec<_>>(), &[0, 0]),
        stream(
            0,
            &[
                magic.clone(),
                frame(&[&[1, 0, 0, 0, 0, 0, 0, 0, 29][..], &number(6), &[0], &number(7), &[0]].concat()),
            ],
        ),
        stream(0, &[frame(&[&[0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 12][..], &list(&[roster()])].concat())]),
        // Two spans that are one: refused.
        stream(0, &[frame(&[&[0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 12][..], &list(&[continued])].concat())]),
    ]
}

//! Seeds of the IMPI targets, whose modules are not in this library.

/// Returns seeds for the server.
pub fn server_seeds() -> Vec<Vec<u8>> {
    [whole(), wrong(), bounds()].concat()
}

/// The settings: the number of clients; methods, checks and bounds.
fn of(clients: u8, options: u8) -> Vec<u8> {
    vec![clients - 1, options]
}

/// A new connection. The open connections are numbered in their order, from 0.
const CONNECT: [u8; 1] = [0];

/// A message on a connection, in one piece.
fn say(conn: u8, what: &[u8]) -> Vec<u8> {
    [&[3, conn], what, &[1]].concat()
}

/// A message on a connection, byte by byte.
fn bytewise(conn: u8, what: &[u8]) -> Vec<u8> {
    [&[3, conn], what, &[0]].concat()
}

fn join(conn: u8, rank: u8) -> Vec<u8> {
    [&CONNECT[..], &say(conn, &[3, rank, 0])].concat()
}

fn join_by_key(conn: u8, rank: u8) -> Vec<u8> {
    [&CONNECT[..], &say(conn, &[3, rank, 1])].concat()
}

/// Two clients, the second one first.
fn two() -> Vec<u8> {
    [join(0, 1), join(1, 0)].concat()
}

fn lose(conn: u8) -> Vec<u8> {
    vec![13, conn]
}

fn wait(low: u8, high: u8) -> Vec<u8> {
    vec![15, low, high]
}

/// A label, by its number in the target, with values of one byte each that are widened.
fn coll(conn: u8, label: u8, values: &[u8]) -> Vec<u8> {
    say(conn, &[&[5, label, values.len() as u8], values].concat())
}

fn long(conn: u8, label: u8, low: u8) -> Vec<u8> {
    say(conn, &[10, label, low, 4])
}

fn done(conn: u8) -> Vec<u8> {
    say(conn, &[11])
}

fn fini(conn: u8) -> Vec<u8> {
    say(conn, &[12])
}

/// DONE and FINI on the first `count` connections.
fn ends(count: u8) -> Vec<u8> {
    (0..count).flat_map(|conn| say(conn, &[13])).collect()
}

/// One host with one process, and values that fit them.
fn cluster(conn: u8) -> Vec<u8> {
    let values: [(u8, &[u8]); 8] = [
        (0, &[0, 0]),
        (1, &[1]),
        (2, &[1]),
        (5, &[0, 0, 0, 1]),
        (6, &[9]),
        (8, &[2]),
        (9, &[3]),
        (11, &[0, 7]),
    ];
    values.map(|(label, values)| coll(conn, label, values)).concat()
}

/// Values that are impossible.
fn doubtful(conn: u8) -> Vec<u8> {
    let values: [(u8, &[u8]); 10] = [
        (0, &[1]),
        (1, &[2]),
        (2, &[0]),
        (4, &[5]),
        (6, &[0, 0, 3]),
        (7, &[3]),
        (8, &[4]),
        (9, &[3]),
        (10, &[1; 8]),
        (11, &[0, 7, 0, 7]),
    ];
    values.map(|(label, values)| coll(conn, label, values)).concat()
}

/// Sessions that succeed.
fn whole() -> Vec<Vec<u8>> {
    let five = (0..5).rev().flat_map(|rank| join(4 - rank, rank)).collect();
    vec![
        [of(1, 0), join(0, 0), cluster(0), done(0), fini(0)].concat(),
        [of(1, 4), join(0, 0), doubtful(0), done(0), fini(0)].concat(),
        [of(2, 0), two(), cluster(0), cluster(1), ends(2)].concat(),
        [of(3, 1), join_by_key(0, 2), join_by_key(1, 0), join_by_key(2, 1), coll(1, 12, &[1, 2]), ends(3)]
            .concat(),
        [of(2, 0), two(), coll(0, 14, &[]), coll(1, 14, &[3]), ends(2)].concat(),
        [of(5, 0), five, cluster(3), cluster(0), ends(5)].concat(),
        [of(1, 3), CONNECT.to_vec(), bytewise(0, &[0, 2]), bytewise(0, &[1]), bytewise(0, &[2, 0]), ends(1)]
            .concat(),
        [of(2, 0), join(0, 0), cluster(0), ends(1), lose(0), two(), ends(2)].concat(),
    ]
}

/// Sessions with failures and doubtful values.
fn wrong() -> Vec<Vec<u8>> {
    vec![
        [of(1, 8), join(0, 0), doubtful(0)].concat(),
        [of(2, 4), two(), cluster(1), done(1), coll(0, 14, &[1]), fini(1), ends(1)].concat(),
        [of(2, 8), join(0, 0), doubtful(0), join(0, 0), join(1, 1), done(0), lose(1)].concat(),
        [of(2, 2), join_by_key(0, 1), join(1, 0), cluster(1), lose(1)].concat(),
        [of(2, 0), two(), done(0), done(1), lose(0), fini(0)].concat(),
        [of(2, 0), two(), done(0), done(1), done(0), fini(0)].concat(),
        [of(2, 0), two(), coll(0, 11, &[0, 1]), coll(0, 3, &[4]), coll(0, 15, &[4]), ends(2)].concat(),
    ]
}

/// Sessions with too many bytes, connections and seconds.
fn bounds() -> Vec<Vec<u8>> {
    vec![
        [of(2, 16), two(), long(0, 6, 50), long(1, 6, 60)].concat(),
        [of(2, 0), two(), long(0, 10, 255), long(0, 13, 255), long(0, 13, 255)].concat(),
        [of(2, 0), CONNECT.repeat(70), join(64, 0), join(64, 1), wait(0, 15), ends(2)].concat(),
        [of(2, 0), join(0, 0), CONNECT.to_vec(), wait(0, 15).repeat(3), wait(0, 15).repeat(14)].concat(),
        [of(1, 1), CONNECT.to_vec(), say(0, &[0, 2]), say(0, &[2, 0]), CONNECT.to_vec(), say(0, &[0, 1])]
            .concat(),
        [of(2, 0), two(), say(0, &[14, 9, 3]), say(0, b"\x0f\x0cCOLL\x7f\xff\xff\xff\0\0\x10\0")].concat(),
    ]
}

/// Returns seeds for the client: sessions with each kind of client, and streams that no server sends.
pub fn client_seeds() -> Vec<Vec<u8>> {
    // Three other clients, whose values fit one host and one process each.
    let honest = |options: u8| vec![options, 2, 3, 50, 3];
    // The first other client has an unusual value under the label at `place`.
    let strange = |options: u8, place: usize, choice: &[u8]| {
        [&[options, 1, 30, 1][..], &vec![0; place], choice].concat()
    };
    let number = |name: &[u8; 4], len: u8| [&name[..], &[0, 0, 0, len]].concat();
    let raw = |options: u8, commands: &[Vec<u8>]| [vec![options, 8], vec![0; 8], commands.concat()].concat();
    let joined = [number(b"IMPI", 4), vec![0, 0, 0, 1]].concat();
    let version = [number(b"COLL", 16), vec![0, 0, 0x10, 0, 0, 0, 0, 1], vec![0; 8]].concat();
    let mut seeds: Vec<Vec<u8>> = [0, 1, 2, 4, 8, 12, 16, 33].map(honest).into();
    // All clients know this project's own labels, and send them.
    seeds.push([&[0x29, 1, 9, 1, 1][..], &[0; 13], &[1, 0, 0]].concat());
    seeds.extend((0..14).map(|place| strange(0, place, &[1])));
    seeds.extend((0..14).map(|place| strange(8, place, &[2, 1, 2])));
    seeds.extend([
        // A port of 2 bytes, and a process number of 4.
        strange(0, 8, &[3, 2]),
        strange(0, 13, &[3, 4]),
        strange(0, 5, &[7]),
        strange(0, 1, &[4]),
        raw(0, &[joined.clone(), version.clone(), number(b"DONE", 0)]),
        raw(0, &[joined.clone(), number(b"NEWS", 3), vec![1, 2, 3], version, number(b"FINI", 0)]),
        raw(0, &[joined.clone(), joined, number(b"AUTH", 0)]),
        raw(16, &[number(b"IMPI", 4)]),
    ]);
    seeds
}

/// Returns seeds for a session whose owner chooses the labels.
pub fn exchange_seeds() -> Vec<Vec<u8>> {
    // A label by its number in the target, the byte of its values, and the number of these.
    let label = |label: u8, value: u8, count: u8| vec![label, value, count];
    let all = |labels: &[Vec<u8>]| [vec![labels.len() as u8], labels.concat()].concat();
    let broadcast = |place: u8, count: u8, mask: u8| vec![place, 1, count, mask];
    // The options, the cuts, the labels that are sent, the broadcasts and the changes.
    let session = |options: u8, cuts: &[u8], sends: &[Vec<u8>], said: &[Vec<u8>], changes: &[u8]| {
        [&[options, cuts.len() as u8][..], cuts, &all(sends), &all(said), changes].concat()
    };
    let raw = |options: u8, bytes: &[u8]| [&[options, 8, 0, 20][..], bytes].concat();
    let (hosts, own) = (label(1, 2, 1), label(4, 7, 2));
    // Two clients; this one is client 0, or client 1 with 1 in the options.
    let two = 8;
    vec![
        session(0, &[], std::slice::from_ref(&hosts), &[broadcast(1, 1, 1)], &[0]),
        session(two, &[], &[hosts.clone(), own.clone()], &[broadcast(1, 2, 3), broadcast(4, 2, 1)], &[0]),
        session(two, &[3], std::slice::from_ref(&hosts), &[broadcast(1, 1, 2), broadcast(1, 2, 3)], &[0]),
        session(two + 1, &[], std::slice::from_ref(&hosts), &[broadcast(1, 1, 1)], &[0]),
        session(two + 1, &[], std::slice::from_ref(&hosts), &[broadcast(1, 2, 3), broadcast(1, 1, 1)], &[0]),
        session(two, &[0, 5], &[], &[broadcast(1, 1, 1)], &[0]),
        session(two, &[], &[], &[broadcast(5, 2, 2), broadcast(2, 0, 0), broadcast(0, 1, 254)], &[0]),
        session(two, &[], &[hosts.clone(), hosts.clone()], &[broadcast(1, 2, 7)], &[0]),
        session(4, &[7], std::slice::from_ref(&own), &[broadcast(4, 2, 1), broadcast(0, 0, 253)], &[0]),
        session(64, &[], &[hosts], &[broadcast(1, 1, 1), broadcast(0, 0, 255)], &[0]),
        session(0, &[], &[own], &[broadcast(4, 2, 1)], &[1, 5, 0, 99]),
        session(0, &[], &[label(1, 1, 2), label(0, 1, 1)], &[broadcast(0, 1, 1)], &[0]),
        raw(0, b"\0\0\0\0\0\0\0\0IMPI\0\0\0\x04\0\0\0\x01DONE\0\0\0\0"),
        raw(0, b"\0\0\0\x09\0\0\0\0"),
        raw(0, b"\0\0\0\0\0\0\0\0IMPI\x7f\xff\xff\xff"),
    ]
}

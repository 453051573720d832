//! Seeds of the targets of IMPI, whose modules are not in this library.

/// Where fuzzing of the server begins: sessions that end well, and sessions to which things happen.
pub fn server_seeds() -> Vec<Vec<u8>> {
    // How many clients less one; methods, checks and bounds.
    let of = |clients: u8, options: u8| vec![clients - 1, options];
    let connect = [0u8];
    // All connections that are there have numbers in their order, from 0.
    let say = |conn: u8, what: &[u8]| [&[3, conn][..], what, &[1]].concat();
    let bytewise = |conn: u8, what: &[u8]| [&[3, conn][..], what, &[0]].concat();
    let join = |conn: u8, rank: u8| [&connect[..], &say(conn, &[3, rank, 0])].concat();
    let by_key = |conn: u8, rank: u8| [&connect[..], &say(conn, &[3, rank, 1])].concat();
    let lose = |conn: u8| vec![13, conn];
    let wait = |low: u8, high: u8| vec![15, low, high];
    let coll = |conn: u8, label: u8, values: &[u8]| {
        say(conn, &[&[5, label, values.len() as u8][..], values].concat())
    };
    let long = |conn: u8, label: u8, len: u8| say(conn, &[10, label, len, 4]);
    let (done, fini, both) =
        (|conn: u8| say(conn, &[11]), |conn: u8| say(conn, &[12]), |conn: u8| say(conn, &[13]));
    let two = [join(0, 1), join(1, 0)].concat();
    // One host, one process; what fits that, and what does not.
    let cluster = |conn: u8| {
        [
            (0, &[0, 0][..]),
            (1, &[1]),
            (2, &[1]),
            (5, &[0, 0, 0, 1]),
            (6, &[9]),
            (8, &[2]),
            (9, &[3]),
            (11, &[0, 7]),
        ]
        .map(|(label, values)| coll(conn, label, values))
        .concat()
    };
    let wrong = |conn: u8| {
        [
            (0, &[1][..]),
            (1, &[2]),
            (2, &[0]),
            (4, &[5]),
            (6, &[0, 0, 3]),
            (7, &[3]),
            (8, &[4]),
            (9, &[3]),
            (10, &[1; 8]),
            (11, &[0, 7, 0, 7]),
        ]
        .map(|(label, values)| coll(conn, label, values))
        .concat()
    };
    let ends = |count: u8| (0..count).flat_map(both).collect::<Vec<u8>>();
    vec![
        [of(1, 0), join(0, 0), cluster(0), done(0), fini(0)].concat(),
        [of(1, 4), join(0, 0), wrong(0), done(0), fini(0)].concat(),
        [of(1, 8), join(0, 0), wrong(0)].concat(),
        [of(2, 0), two.clone(), cluster(0), cluster(1), ends(2)].concat(),
        [of(2, 4), two.clone(), cluster(1), done(1), coll(0, 14, &[1]), fini(1), both(0)].concat(),
        [of(2, 8), join(0, 0), wrong(0), join(0, 0), join(1, 1), done(0), lose(1)].concat(),
        [of(3, 1), by_key(0, 2), by_key(1, 0), by_key(2, 1), coll(1, 12, &[1, 2]), ends(3)].concat(),
        [of(2, 2), by_key(0, 1), join(1, 0), cluster(1), lose(1)].concat(),
        [of(2, 0), two.clone(), done(0), done(1), lose(0), fini(0)].concat(),
        [of(2, 0), two.clone(), done(0), done(1), done(0), fini(0)].concat(),
        [of(2, 0), join(0, 0), cluster(0), both(0), lose(0), two.clone(), ends(2)].concat(),
        [of(2, 16), two.clone(), long(0, 6, 50), long(1, 6, 60)].concat(),
        [of(2, 0), two.clone(), long(0, 10, 255), long(0, 13, 255), long(0, 13, 255)].concat(),
        [of(2, 0), connect.repeat(70), join(5, 0), join(6, 1), wait(0, 15), ends(2)].concat(),
        [of(2, 0), join(0, 0), connect.to_vec(), wait(0, 15).repeat(3), wait(0, 15).repeat(14)].concat(),
        [of(1, 3), connect.to_vec(), bytewise(0, &[0, 2]), bytewise(0, &[1]), bytewise(0, &[2, 0]), ends(1)]
            .concat(),
        [of(1, 1), connect.to_vec(), say(0, &[0, 2]), say(0, &[2, 0]), connect.to_vec(), say(0, &[0, 1])]
            .concat(),
        [of(2, 0), two.clone(), say(0, &[14, 9, 3]), say(0, b"\x0f\x0cCOLL\x7f\xff\xff\xff\0\0\x10\0")]
            .concat(),
        [of(2, 0), two.clone(), coll(0, 14, &[]), coll(1, 14, &[3]), ends(2)].concat(),
        [of(2, 0), two, coll(0, 11, &[0, 1]), coll(0, 3, &[4]), coll(0, 15, &[4]), ends(2)].concat(),
        [
            of(5, 0),
            (0..5).rev().flat_map(|rank| join(4 - rank, rank)).collect(),
            cluster(3),
            cluster(0),
            ends(5),
        ]
        .concat(),
    ]
}

//! Seeds of the target `rendezvous`, whose module is not in this library.

/// Returns the seeds: resources that fill up, fail, are waited for and survive restarts.
pub fn seeds() -> Vec<Vec<u8>> {
    let create = |id: u8, capacity: u8, level: u8, options: u8| {
        // The token and the id follow the rank above, if there is one.
        let above: &[u8] = if options & 2 == 2 { &[3] } else { &[] };
        [&[0, 0, capacity, level, 0x70, 0x17, options][..], above, &[id, 0]].concat()
    };
    let register = |id: u8, rank: u8, token: u8, data: &[u8], life: u8| {
        [&[0, 2, id, rank, token][..], data, &[life]].concat()
    };
    let (plain, nested) = ([2, b'x', b'y'], [200, 2]);
    let (wait, pass) = ([0, 8, 1, 1, 0, 1, 1].to_vec(), |by: u8| vec![21, by, 1]);
    let (restart, lost) = (vec![19], |member: u8| vec![17, member]);
    let control = |life: u8| vec![0, 10, 1, 7, 3, 5, life];
    let two = |life: u8| {
        [create(1, 2, 1, 5), register(1, 9, 0, &plain, life), wait.clone(), register(1, 0, 1, &plain, life)]
            .concat()
    };
    let three = [create(1, 3, 1, 0), register(1, 1, 0, &plain, 100), wait.clone(), wait.clone()].concat();
    vec![
        two(0),
        [two(0), restart.clone(), wait.clone(), pass(200)].concat(),
        [create(1, 1, 1, 0), wait.clone(), register(1, 9, 0, &plain, 0), wait.clone()].concat(),
        [create(1, 2, 2, 2), register(1, 9, 0, &nested, 0), register(1, 9, 1, &plain, 0)].concat(),
        [create(1, 1, 1, 2), register(1, 9, 0, &plain, 0), vec![0, 8, 1, 0, 0, 0], vec![18, 1, 0]].concat(),
        [create(1, 1, 1, 2), vec![0, 8, 1, 0, 0, 0], vec![18, 1, 1], restart.clone()].concat(),
        [three.clone(), pass(30), pass(30), pass(30)].concat(),
        [three.clone(), control(100), wait.clone(), pass(40), restart.clone()].concat(),
        [create(1, 3, 1, 1), register(1, 1, 0, &plain, 161), control(162), wait.clone(), lost(2)].concat(),
        [create(1, 3, 1, 1), register(1, 1, 0, &plain, 161), wait.clone(), lost(2), vec![0, 14, 1, 0]]
            .concat(),
        [three.clone(), vec![0, 14, 0, 1], wait.clone()].concat(),
        [three.clone(), vec![0, 7, 1, 1, 0], vec![16, 3], register(1, 1, 2, &plain, 0)].concat(),
        [three, register(1, 1, 0, &plain, 0), register(1, 1, 0, &nested, 0), register(1, 7, 0, &plain, 0)]
            .concat(),
        (0..6).flat_map(|id| create(id, id, 1, 0)).collect(),
        [create(1, 7, 1, 0), create(1, 6, 0, 0), create(1, 6, 4, 0), create(1, 6, 1, 0), create(1, 6, 1, 0)]
            .concat(),
        [create(1, 6, 1, 0), (0..7).flat_map(|token| register(1, 9, token, &plain, 0)).collect()].concat(),
        [create(1, 6, 1, 0), wait.repeat(7)].concat(),
        [control(0), create(1, 2, 1, 0), control(70), vec![0, 12, 1, 7, 3, 1]].concat(),
    ]
}

/// Returns seeds for the events of a subscription: streams of this project's service, and what others may send.
pub fn event_seeds() -> Vec<Vec<u8>> {
    let stream =
        |most: u8, cuts: &[u8], text: &str| [&[most, cuts.len() as u8][..], cuts, text.as_bytes()].concat();
    vec![
        stream(200, &[], "event: tally\ndata: {\"registered\":1}\n\nevent: complete\ndata: {}\n\n"),
        stream(200, &[3, 0, 9], "event: tally\r\ndata: {}\r\n\r\n:\r\n\r\ndata: a\r\n\r\n"),
        stream(200, &[0], "event:fault\rdata:a\rdata:b\r\rdata: c\r\r"),
        stream(200, &[], "data\n\ndata:\n\ndata: \n\n"),
        stream(200, &[], "data: a\ndata: b\nid: 7\nretry: 10\n\n"),
        stream(200, &[1, 1], "event: x\n\ndata: y\n\n"),
        stream(200, &[], "event: a\nevent: b\ndata: c: d\n\n"),
        stream(8, &[], "data:1\n\ndata:12\n\ndata:1234\n\n"),
        stream(8, &[2], ": comment\n\n: c\n\n"),
        stream(8, &[], "event: a long name\ndata:1\n\n"),
        stream(0, &[], "\n\n\r\r\n"),
        stream(200, &[4], "data: cut"),
    ]
}

//! Seeds of the target `impi_client`, whose module is not in this library.

/// Where fuzzing begins: sessions of each kind of client, and streams that no server says.
pub fn seeds() -> Vec<Vec<u8>> {
    // Three other clients, each of which says what goes with one host and one process.
    let honest = |options: u8| vec![options, 2, 3, 50, 3];
    // One label of the first other client, which is the one at this place, is something else.
    let strange = |options: u8, place: usize, choice: &[u8]| {
        [&[options, 1, 30, 1][..], &vec![0; place], choice].concat()
    };
    let number = |name: &[u8; 4], len: u8| [&name[..], &[0, 0, 0, len]].concat();
    let raw = |options: u8, commands: &[Vec<u8>]| [vec![options, 8], vec![0; 8], commands.concat()].concat();
    let joined = [number(b"IMPI", 4), vec![0, 0, 0, 1]].concat();
    let version = [number(b"COLL", 16), vec![0, 0, 0x10, 0, 0, 0, 0, 1], vec![0; 8]].concat();
    let mut seeds: Vec<Vec<u8>> = [0, 1, 2, 4, 8, 12, 16, 33].map(honest).into();
    // All know the labels of this project, and say them.
    seeds.push([&[0x29, 1, 9, 1, 1][..], &[0; 13], &[1, 0, 0]].concat());
    seeds.extend((0..14).map(|place| strange(0, place, &[1])));
    seeds.extend((0..14).map(|place| strange(8, place, &[2, 1, 2])));
    seeds.extend([
        // One port of 2 bytes, one number of a process of 4.
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

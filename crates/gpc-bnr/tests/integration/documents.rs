//! Checks the numbers in docs/bnr.md against the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gpc_bnr::{FaultKind, Limits};

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bnr.md")).unwrap()
}

#[test]
fn the_faults() {
    let text = document();
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let (_, number, kind) = (cells.next()?, cells.next()?, cells.next()?);
        Some((number.parse::<u32>().ok()?, kind.to_owned()))
    });
    let written: BTreeMap<u32, String> = rows.collect();
    let kinds = FaultKind::ALL.map(|kind| (kind.number(), format!("{kind:?}")));
    assert_eq!(written, BTreeMap::from(kinds));
}

#[test]
fn the_limits() {
    let (text, limits) = (document(), Limits::default());
    assert_eq!((limits.key, limits.name), (256, 256));
    assert_eq!((limits.value, limits.database, limits.spawn), (64 << 10, 256 << 20, 16 << 20));
    assert_eq!((limits.fence.as_secs(), limits.ask.as_secs(), limits.grace.as_secs()), (600, 60, 2));
    for row in [
        "| a key, a global name, a tag | 256 bytes",
        "| a value | 64 KiB",
        "| one database | 256 MiB",
        "| programs, arguments and environments of one group | 16 MiB |",
        "| collective requests, starting and killing groups | 10 minutes;",
        "| other requests that go to another node | 1 minute |",
        "| between SIGTERM and SIGKILL | 2 s |",
    ] {
        assert!(text.contains(row), "{row}");
    }
    let thousands = |number: usize| {
        let digits = number.to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|chunk| str::from_utf8(chunk).unwrap()).collect();
        groups.join(",")
    };
    let counts = [limits.databases, limits.names, limits.group as usize, limits.groups, limits.waiting];
    for count in counts.map(thousands) {
        assert!(text.contains(&count), "{count}");
    }
}

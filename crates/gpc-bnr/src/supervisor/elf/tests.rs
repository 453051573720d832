//! Tests of the ELF reader: it reads what linkers write, and damaged files yield nothing and cost little.

use std::io::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn of(bytes: &[u8]) -> Elf {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    read(&file)
}

fn program_header(kind: u32, offset: u64, address: u64, size: u64) -> Vec<u8> {
    let mut header = [kind.to_ne_bytes(), [0; 4]].concat();
    for field in [offset, address, 0, size, size, 0] {
        header.extend(field.to_ne_bytes());
    }
    header
}

/// A file with the loader `ld` and two libraries, mapped 0x1000 above its offsets.
fn program() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes[4] = 2;
    bytes[5] = if cfg!(target_endian = "little") { 1 } else { 2 };
    bytes[32..40].copy_from_slice(&64_u64.to_ne_bytes());
    bytes[54..56].copy_from_slice(&56_u16.to_ne_bytes());
    bytes[56..58].copy_from_slice(&3_u16.to_ne_bytes());
    let (dynamic, strings) = (64 + 3 * 56, 64 + 3 * 56 + 4 * 16);
    bytes.extend(program_header(1, 0, 0x1000, 4096));
    bytes.extend(program_header(2, dynamic, 0x1000 + dynamic, 4 * 16));
    bytes.extend(program_header(3, strings + 1, 0, 3));
    for (kind, value) in [(1_u64, 4_u64), (5, 0x1000 + strings), (1, 17), (0, 0)] {
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
    }
    bytes.extend(b"\0ld\0libmpi.so.40\0libc.so.6\0");
    bytes
}

#[test]
fn the_loader_and_the_libraries_are_read() {
    let needed = vec![b"libmpi.so.40".to_vec(), b"libc.so.6".to_vec()];
    assert_eq!(of(&program()), Elf { loader: Some(b"ld".to_vec()), needed, folders: Vec::new() });
}

#[test]
fn the_folders_of_the_libraries_are_read() {
    // The second library becomes a list of folders.
    for kind in [15_u64, 29] {
        let mut bytes = program();
        let text = b"\0ld\0libmpi.so.40\0/a/lib:$ORIGIN:\0";
        let at = bytes.len() - b"\0ld\0libmpi.so.40\0libc.so.6\0".len();
        bytes.splice(at.., text.iter().copied());
        let entry = 64 + 3 * 56 + 2 * 16;
        bytes[entry..entry + 8].copy_from_slice(&kind.to_ne_bytes());
        let found = of(&bytes);
        assert_eq!(found.needed, [b"libmpi.so.40"]);
        assert_eq!(found.folders, [&b"/a/lib"[..], b"$ORIGIN", b""]);
    }
}

/// The test's own program.
#[test]
fn a_real_program_needs_the_c_library() {
    let own = File::open("/proc/self/exe").unwrap();
    let found = read(&own);
    let names: Vec<_> = found.needed.iter().map(|name| String::from_utf8_lossy(name)).collect();
    if cfg!(all(target_env = "gnu", target_pointer_width = "64")) {
        assert!(names.iter().any(|name| name.starts_with("libc.so")), "{names:?}");
        assert!(found.loader.is_some_and(|loader| loader.starts_with(b"/")));
    }
}

/// Whatever sizes and offsets a file has, the reader stays within its bounds and does not panic.
#[test]
fn broken_files_name_nothing() {
    let whole = program();
    for length in 0..whole.len() {
        of(&whole[..length]);
    }
    for (at, field) in [(32, u64::MAX), (64 + 8, u64::MAX), (64 + 56 + 8, u64::MAX), (64 + 56 + 32, u64::MAX)]
    {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&field.to_ne_bytes());
        assert_eq!(of(&bytes).needed, Vec::<Vec<u8>>::new(), "{at}");
    }
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0x7f; 200]] {
        assert_eq!(of(bytes), Elf::default());
    }
}

proptest! {
    #[test]
    fn changed_files_do_no_harm(changes in vec((0_usize..400, any::<u8>()), 1..12)) {
        let mut bytes = program();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        let found = of(&bytes);
        prop_assert!(found.needed.len() <= NEEDED_MAX && found.needed.iter().all(|name| name.len() <= NAME_MAX));
    }
}

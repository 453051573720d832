//! Reads the shared libraries, their folders and the dynamic loader that an executable file names: the ELF entries
//! `DT_NEEDED`, `DT_RUNPATH` (or `DT_RPATH`) and `PT_INTERP`.
//!
//! The file is not trusted: every number is checked, and the bytes read are bounded. A file of another word size or
//! byte order than this machine's yields nothing.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Most program headers that are read; linkers write about ten.
const HEADERS_MAX: u16 = 128;

/// Most bytes of the dynamic section that are read: 4,096 entries. Linkers write about forty.
const DYNAMIC_MAX: u64 = 64 << 10;

/// Most bytes of a name, the same as for file names.
const NAME_MAX: usize = 255;

/// Most bytes of a list of folders.
const FOLDERS_MAX: usize = 16 << 10;

/// Most libraries that are read.
const NEEDED_MAX: usize = 1024;

/// Types of program headers and of dynamic entries.
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// The names in an executable file. Empty if the file is not an ELF file of this machine, or is damaged.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Elf {
    /// Path of the dynamic loader.
    pub(super) loader: Option<Vec<u8>>,
    /// Names of the libraries.
    pub(super) needed: Vec<Vec<u8>>,
    /// The folders in which they are looked for first, with `$ORIGIN` as it stands.
    pub(super) folders: Vec<Vec<u8>>,
}

/// A segment of the file, as a program header describes it.
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    size: u64,
}

/// Reads an executable file.
pub(super) fn read(file: &File) -> Elf {
    let Some(segments) = segments(file) else { return Elf::default() };
    let of = |kind| segments.iter().find(move |segment| segment.kind == kind);
    let loader = of(PT_INTERP).and_then(|segment| text(file, segment.offset, NAME_MAX));
    let linked = of(PT_DYNAMIC).and_then(|dynamic| linked(file, dynamic, &segments));
    Elf { loader, ..linked.unwrap_or_default() }
}

fn segments(file: &File) -> Option<Vec<Segment>> {
    let head = bytes(file, 0, 64)?;
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if !head.starts_with(b"\x7fELF") || head[4] != 2 || head[5] != order {
        return None;
    }
    let (table, size, count) = (number(&head, 32, 8)?, number(&head, 54, 2)?, number(&head, 56, 2)?);
    if size < 56 {
        return None;
    }
    // Terminates: the count is bounded.
    (0..count.min(HEADERS_MAX.into()))
        .map(|index| {
            let header = bytes(file, table.checked_add(index * size)?, 56)?;
            Some(Segment {
                kind: number(&header, 0, 4)?,
                offset: number(&header, 8, 8)?,
                address: number(&header, 16, 8)?,
                size: number(&header, 32, 8)?,
            })
        })
        .collect()
}

/// The names of the libraries, and the folders.
fn linked(file: &File, dynamic: &Segment, segments: &[Segment]) -> Option<Elf> {
    let section = bytes(file, dynamic.offset, usize::try_from(dynamic.size.min(DYNAMIC_MAX)).ok()?)?;
    let entry = |entry: &[u8]| Some((number(entry, 0, 8)?, number(entry, 8, 8)?));
    let entries: Vec<(u64, u64)> = section.chunks_exact(16).filter_map(entry).collect();
    let (_, strings) = *entries.iter().find(|(kind, _)| *kind == DT_STRTAB)?;
    // The string table is given by its address in memory.
    let load = segments.iter().find(|segment| {
        let inside = strings.checked_sub(segment.address);
        segment.kind == PT_LOAD && inside.is_some_and(|inside| inside < segment.size)
    })?;
    let strings = load.offset.checked_add(strings - load.address)?;
    let string = |at: u64, room| text(file, strings.checked_add(at)?, room);
    let wanted = entries.iter().filter(|(kind, _)| *kind == DT_NEEDED).take(NEEDED_MAX);
    let needed = wanted.filter_map(|(_, at)| string(*at, NAME_MAX)).collect();
    let of = |wanted| entries.iter().find(move |(kind, _)| *kind == wanted);
    let folders = of(DT_RUNPATH).or_else(|| of(DT_RPATH)).and_then(|(_, at)| string(*at, FOLDERS_MAX));
    let folders = folders.map(|folders| folders.split(|byte| *byte == b':').map(<[u8]>::to_vec).collect());
    Some(Elf { loader: None, needed, folders: folders.unwrap_or_default() })
}

/// A string of at most this many bytes that ends with a zero byte.
fn text(file: &File, offset: u64, room: usize) -> Option<Vec<u8>> {
    let mut buffer = vec![0; room + 1];
    let count = file.read_at(&mut buffer, offset).ok()?;
    let end = buffer[..count].iter().position(|byte| *byte == 0)?;
    Some(buffer[..end].to_vec())
}

/// Reads `count` bytes of the file; callers ask for at most [`DYNAMIC_MAX`]. `None` if the file is shorter.
fn bytes(file: &File, offset: u64, count: usize) -> Option<Vec<u8>> {
    let mut buffer = vec![0; count];
    file.read_exact_at(&mut buffer, offset).ok()?;
    Some(buffer)
}

/// A number of 2, 4 or 8 bytes in this machine's byte order.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at + size)?;
    match size {
        2 => field.try_into().ok().map(u16::from_ne_bytes).map(u64::from),
        4 => field.try_into().ok().map(u32::from_ne_bytes).map(u64::from),
        _ => field.try_into().ok().map(u64::from_ne_bytes),
    }
}

#[cfg(test)]
mod tests;

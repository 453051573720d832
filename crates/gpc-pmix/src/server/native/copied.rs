//! Messages made of libpmix's arguments: they are copied at once, since libpmix may free them when an upcall returns.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::{ptr, slice};

use super::lent::{DEPTH_MAX, in_order};
use crate::abi::{self, App, ByteObject, DataArray, Proc};
use crate::server::open_mpi::is_of_job;
use crate::server::orders::{Application, Info, Process, Value, Variables};
use crate::server::values::{Items, width};

/// A list of libpmix; empty if the pointer is null.
///
/// # Safety
/// The pointer is null, or points to this many elements that do not change while the slice is used.
pub(in crate::server) unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(first, count) }
}

/// A process.
pub(in crate::server) fn process(proc: &Proc) -> Process {
    Process { namespace: until_zero(&proc.namespace), rank: proc.rank }
}

/// Processes.
///
/// # Safety
/// As for [`list`].
pub(in crate::server) unsafe fn processes(first: *const Proc, count: usize) -> Vec<Process> {
    // SAFETY: the caller guarantees it.
    unsafe { list(first, count) }.iter().map(process).collect()
}

/// Characters of a field, until a zero byte or its end.
fn until_zero(field: &[c_char]) -> String {
    let bytes: Vec<u8> =
        field.iter().map(|character| character.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text without its zero byte; empty if the pointer is null.
///
/// # Safety
/// The pointer is null, or points to bytes that end with a zero byte.
pub(in crate::server) unsafe fn text(characters: *const c_char) -> Vec<u8> {
    if characters.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(characters) }.to_bytes().to_vec()
}

/// Texts of a list that ends with a null pointer.
///
/// # Safety
/// The pointer is null, or points to such a list of texts.
pub(in crate::server) unsafe fn texts(mut first: *const *mut c_char) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    // SAFETY: the caller guarantees it: each element before the null pointer is a text, and one more element follows.
    unsafe {
        while !first.is_null() && !(*first).is_null() {
            texts.push(text(*first));
            first = first.add(1);
        }
    }
    texts
}

/// Directives: those with a value that has no meaning in another process are left out.
///
/// # Safety
/// As for [`list`], and each value is complete.
///
/// # Errors
/// The key of a required directive whose value has no meaning in another process.
pub(in crate::server) unsafe fn directives(
    first: *const abi::Info,
    count: usize,
) -> Result<Vec<Info>, String> {
    // SAFETY: the caller guarantees it.
    unsafe { infos(first, count, DEPTH_MAX, |info| info.flags & abi::INFO_REQUIRED != 0) }
}

/// Pairs that are all needed.
///
/// # Safety
/// As for [`directives`].
///
/// # Errors
/// The key of a pair whose value has no meaning in another process.
pub(in crate::server) unsafe fn pairs(first: *const abi::Info, count: usize) -> Result<Vec<Info>, String> {
    // SAFETY: the caller guarantees it.
    unsafe { infos(first, count, DEPTH_MAX, |_| true) }
}

unsafe fn infos(
    first: *const abi::Info,
    count: usize,
    depth: usize,
    is_needed: impl Fn(&abi::Info) -> bool,
) -> Result<Vec<Info>, String> {
    let mut found = Vec::new();
    // SAFETY: the caller guarantees it.
    for info in unsafe { list(first, count) } {
        let key = until_zero(&info.key);
        // SAFETY: the caller guarantees that the value is complete.
        match unsafe { value(&info.value, depth) } {
            Some(value) => {
                let required = info.flags & abi::INFO_REQUIRED != 0;
                found.push(Info { key, value, required });
            }
            None if is_needed(info) => return Err(key),
            None => {}
        }
    }
    Ok(found)
}

/// A value; `None` if it has no meaning in another process, or is too deep.
unsafe fn value(value: &abi::Value, depth: usize) -> Option<Value> {
    let kind = value.kind;
    // SAFETY: the value is complete: its kind says which member of the union was written, and pointers that are not
    // null point to what that kind has.
    let bytes = unsafe {
        match kind {
            abi::UNDEF => Vec::new(),
            abi::PROC => Value::process(&process(value.data.pointer.cast::<Proc>().as_ref()?)).bytes,
            abi::PROC_NSPACE => {
                let namespace = value.data.pointer.cast::<[c_char; abi::NAMESPACE_BYTES]>();
                until_zero(namespace.as_ref()?).into_bytes()
            }
            abi::DATA_ARRAY => {
                let array = value.data.pointer.cast::<DataArray>().as_ref()?;
                Value::array(&items(array, depth.checked_sub(1)?)?).bytes
            }
            kind => data(kind, ptr::from_ref(&value.data).cast())?,
        }
    };
    Some(Value { kind, bytes })
}

/// The items of an array.
unsafe fn items(array: &DataArray, depth: usize) -> Option<Items> {
    let (first, kind) = (array.array, array.kind);
    // SAFETY: the caller guarantees that the array is complete: it has this many elements of this kind.
    unsafe {
        let others = match kind {
            abi::INFO => return Some(Items::Infos(infos(first.cast(), array.size, depth, |_| true).ok()?)),
            abi::PROC => {
                let processes = processes(first.cast(), array.size);
                processes.iter().map(|process| Value::process(process).bytes).collect()
            }
            kind => {
                let size = match kind {
                    abi::STRING => size_of::<*const c_char>(),
                    abi::BYTE_OBJECT => size_of::<ByteObject>(),
                    kind => width(kind)?,
                };
                let count = if first.is_null() { 0 } else { array.size };
                let items = (0..count).map(|index| data(kind, first.cast::<u8>().add(index * size)));
                items.collect::<Option<Vec<_>>>()?
            }
        };
        Some(Items::Others(kind, others))
    }
}

/// The bytes of a value that an array holds as the union does.
///
/// # Safety
/// The pointer points to a complete value of this kind.
unsafe fn data(kind: u16, at: *const u8) -> Option<Vec<u8>> {
    // SAFETY: the caller guarantees it. No alignment is assumed.
    unsafe {
        match kind {
            abi::STRING => Some(text(at.cast::<*const c_char>().read_unaligned())),
            abi::BYTE_OBJECT | abi::COMPRESSED_STRING | abi::COMPRESSED_BYTE_OBJECT | abi::REGEX => {
                let object = at.cast::<ByteObject>().read_unaligned();
                Some(list(object.bytes.cast::<u8>(), object.size).to_vec())
            }
            abi::ENVAR => {
                let [name, value] = at.cast::<[*const c_char; 2]>().read_unaligned();
                let separator = at.add(size_of::<[*const c_char; 2]>()).read();
                Some([text(name), vec![0], text(value), vec![0, separator]].concat())
            }
            kind => {
                let mut bytes = list(at, width(kind)?).to_vec();
                in_order(&mut bytes);
                Some(bytes)
            }
        }
    }
}

/// An application to spawn.
///
/// # Safety
/// The application is complete: its lists end with a null pointer.
pub(in crate::server) unsafe fn application(app: &App) -> Result<Application, String> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let program = text(app.program);
        let mut arguments = texts(app.arguments);
        // PMIx has the program's name as the first argument, and libpmix adds its file name if there are none. Some
        // callers leave it out.
        if arguments.first().is_some_and(|first| file_name(first) == file_name(&program)) {
            arguments.remove(0);
        }
        let mut environment = variables(&texts(app.environment));
        environment.retain(|(name, _)| !is_of_job(name));
        Ok(Application {
            program,
            arguments,
            environment,
            folder: (!app.folder.is_null()).then(|| text(app.folder)),
            count: u32::try_from(app.count).unwrap_or_default(),
            info: directives(app.info, app.info_size)?,
        })
    }
}

/// The part of a path after the last slash.
fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Variables of texts such as `NAME=value`.
pub(in crate::server) fn variables(texts: &[Vec<u8>]) -> Variables {
    let split = |text: &Vec<u8>| {
        let at = text.iter().position(|&byte| byte == b'=')?;
        Some((text[..at].to_vec(), text[at + 1..].to_vec()))
    };
    texts.iter().filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::native::lent::Lent;

    /// `PMIX_POINTER`
    const POINTER: u16 = 31;

    fn info(key: &str, value: Value) -> Info {
        Info::new(key, value)
    }

    /// What is made for libpmix is read back as it was.
    #[test]
    fn all_values_survive_the_way_into_c_and_back() {
        let process = Process { namespace: "job".into(), rank: 3 };
        let mut all = vec![
            info("text", Value::text("a text")),
            info("empty", Value::text("")),
            info("process", Value::process(&process)),
            info("object", Value { kind: abi::BYTE_OBJECT, bytes: vec![0, 1, 0, 2] }),
            info("no object", Value { kind: abi::BYTE_OBJECT, bytes: Vec::new() }),
            info("namespace", Value { kind: abi::PROC_NSPACE, bytes: b"job".to_vec() }),
            info("variable", Value { kind: abi::ENVAR, bytes: b"PATH\0/bin\0:".to_vec() }),
            info("nothing", Value { kind: abi::UNDEF, bytes: Vec::new() }),
            Info { required: true, ..info("required", Value::boolean(true)) },
        ];
        for kind in 0..80 {
            if let Some(width) = width(kind) {
                let bytes: Vec<u8> = (1..).take(width).collect();
                all.push(info(&format!("number {kind}"), Value { kind, bytes: bytes.clone() }));
                let items = Items::Others(
                    kind,
                    vec![bytes.clone(), bytes.iter().map(|byte| byte + 1).collect(), bytes],
                );
                all.push(info(&format!("numbers {kind}"), Value::array(&items)));
            }
        }
        let others = [
            (abi::STRING, vec![b"one".to_vec(), Vec::new(), b"three".to_vec()]),
            (abi::BYTE_OBJECT, vec![vec![0], Vec::new()]),
            (abi::PROC, vec![Value::process(&process).bytes]),
            (abi::STRING, Vec::new()),
        ];
        for (kind, items) in others {
            all.push(info("items", Value::array(&Items::Others(kind, items))));
        }
        all.push(info("pairs", Value::array(&Items::Infos(all.clone()))));
        let mut lent = Lent::default();
        let first = lent.infos(&all).unwrap();
        // SAFETY: the pairs are complete, and live as long as `lent`.
        assert_eq!(unsafe { pairs(first, all.len()) }, Ok(all));
    }

    #[test]
    fn a_value_without_a_counterpart_is_refused_by_its_key() {
        let refused = |key: &str, value: Value| Lent::default().infos(&[info(key, value)]).is_err();
        assert!(refused("k", Value { kind: abi::UINT32, bytes: vec![1] }));
        assert!(refused("k", Value { kind: POINTER, bytes: vec![0; 8] }));
        assert!(refused("k", Value { kind: abi::STRING, bytes: vec![b'a', 0, b'b'] }));
        assert!(refused("k", Value { kind: abi::ENVAR, bytes: b"PATH".to_vec() }));
        assert!(refused(&"k".repeat(512), Value::text("")) && refused("k\0", Value::text("")));
        let mut deep = Value::text("inside");
        for _ in 0..=DEPTH_MAX {
            deep = Value::array(&Items::Infos(vec![info("k", deep)]));
        }
        assert!(refused("k", deep));
    }

    #[test]
    fn a_pointer_is_left_out_unless_it_is_needed() {
        let mut given = abi::Info {
            key: crate::library::characters(b"pointer"),
            flags: 0,
            value: abi::Value { kind: POINTER, data: abi::Data { words: [1, 0, 0] } },
        };
        // SAFETY: a value of this kind is not read.
        unsafe {
            assert_eq!(directives(&raw const given, 1), Ok(Vec::new()));
            assert_eq!(pairs(&raw const given, 1), Err("pointer".into()));
            given.flags = abi::INFO_REQUIRED;
            assert_eq!(directives(&raw const given, 1), Err("pointer".into()));
            assert_eq!(directives(ptr::null(), 7), Ok(Vec::new()));
        }
    }

    #[test]
    fn the_name_of_a_program_is_no_argument() {
        let run = |arguments: &[&CStr]| {
            let mut pointers: Vec<*mut c_char> =
                arguments.iter().map(|one| one.as_ptr().cast_mut()).collect();
            pointers.push(ptr::null_mut());
            let app = App {
                program: c"/bin/foo".as_ptr().cast_mut(),
                arguments: pointers.as_mut_ptr(),
                environment: ptr::null_mut(),
                folder: ptr::null_mut(),
                count: 2,
                info: ptr::null_mut(),
                info_size: 0,
            };
            // SAFETY: the texts and lists live until the call has returned.
            unsafe { application(&app) }.unwrap().arguments
        };
        let none: [Vec<u8>; 0] = [];
        assert_eq!(run(&[c"/bin/foo"]), none);
        assert_eq!(run(&[c"foo"]), none);
        assert_eq!(run(&[c"foo", c"foo"]), [b"foo"]);
        assert_eq!(run(&[c"bar", c"/bin/foo"]), [&b"bar"[..], b"/bin/foo"]);
        assert_eq!(run(&[]), none);
    }

    #[test]
    fn variables_are_split_at_the_first_sign() {
        let texts = [b"A=b=c".to_vec(), b"EMPTY=".to_vec(), b"none".to_vec()];
        let expected = [(b"A".to_vec(), b"b=c".to_vec()), (b"EMPTY".to_vec(), Vec::new())];
        assert_eq!(variables(&texts), expected);
    }
}

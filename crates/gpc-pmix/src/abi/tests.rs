//! Compares the declarations with the headers by a C program; without headers, with the recorded layout.

use std::mem::{align_of, offset_of, size_of};
use std::path::PathBuf;
use std::process::Command;

use super::*;

/// The lines that both sides print: a name, and a number or a text.
fn here() -> Vec<String> {
    let numbers = [
        ("sizeof proc", size_of::<Proc>()),
        ("alignof proc", align_of::<Proc>()),
        ("proc.nspace", offset_of!(Proc, namespace)),
        ("proc.rank", offset_of!(Proc, rank)),
        ("sizeof value", size_of::<Value>()),
        ("alignof value", align_of::<Value>()),
        ("value.type", offset_of!(Value, kind)),
        ("value.data", offset_of!(Value, data)),
        ("sizeof info", size_of::<Info>()),
        ("alignof info", align_of::<Info>()),
        ("info.key", offset_of!(Info, key)),
        ("info.flags", offset_of!(Info, flags)),
        ("info.value", offset_of!(Info, value)),
        ("sizeof scope", size_of::<u8>()),
        ("sizeof type", size_of::<u16>()),
        ("sizeof status", size_of::<Status>()),
        ("SUCCESS", SUCCESS.cast_unsigned() as usize),
        ("GLOBAL", GLOBAL.into()),
        ("BOOL", BOOL.into()),
        ("STRING", STRING.into()),
        ("INT", INT.into()),
        ("UINT32", UINT32.into()),
        ("WILDCARD", RANK_WILDCARD as usize),
        ("sizeof nspace", NAMESPACE_BYTES),
        ("sizeof key", KEY_BYTES),
    ];
    let texts = [
        ("JOB_SIZE", JOB_SIZE),
        ("LOCAL_SIZE", LOCAL_SIZE),
        ("COLLECT_DATA", COLLECT_DATA),
        ("TIMEOUT", TIMEOUT),
        ("IMMEDIATE", IMMEDIATE),
    ];
    let numbers = numbers.iter().map(|(name, number)| format!("{name} {number}"));
    numbers.chain(texts.iter().map(|(name, text)| format!("{name} {text}"))).collect()
}

/// The same for the headers. The functions are assigned to pointers of the types declared here, which `-Werror` checks.
const PROGRAM: &str = r#"
#include <pmix.h>
#include <stddef.h>
#include <stdio.h>
#define NUMBER(name, number) printf("%s %zu\n", name, (size_t)(number))
#define TEXT(name, text) printf("%s %s\n", name, text)
static const char *(*get_version)(void) = PMIx_Get_version;
static const char *(*error_string)(int) = PMIx_Error_string;
static int (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init;
static int (*put)(unsigned char, const char *, pmix_value_t *) = PMIx_Put;
static int (*commit)(void) = PMIx_Commit;
static int (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t) = PMIx_Fence;
static int (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **) = PMIx_Get;
static int (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize;
int main(void) {
    NUMBER("sizeof proc", sizeof(pmix_proc_t));
    NUMBER("alignof proc", _Alignof(pmix_proc_t));
    NUMBER("proc.nspace", offsetof(pmix_proc_t, nspace));
    NUMBER("proc.rank", offsetof(pmix_proc_t, rank));
    NUMBER("sizeof value", sizeof(pmix_value_t));
    NUMBER("alignof value", _Alignof(pmix_value_t));
    NUMBER("value.type", offsetof(pmix_value_t, type));
    NUMBER("value.data", offsetof(pmix_value_t, data));
    NUMBER("sizeof info", sizeof(pmix_info_t));
    NUMBER("alignof info", _Alignof(pmix_info_t));
    NUMBER("info.key", offsetof(pmix_info_t, key));
    NUMBER("info.flags", offsetof(pmix_info_t, flags));
    NUMBER("info.value", offsetof(pmix_info_t, value));
    NUMBER("sizeof scope", sizeof(pmix_scope_t));
    NUMBER("sizeof type", sizeof(pmix_data_type_t));
    NUMBER("sizeof status", sizeof(pmix_status_t));
    NUMBER("SUCCESS", PMIX_SUCCESS);
    NUMBER("GLOBAL", PMIX_GLOBAL);
    NUMBER("BOOL", PMIX_BOOL);
    NUMBER("STRING", PMIX_STRING);
    NUMBER("INT", PMIX_INT);
    NUMBER("UINT32", PMIX_UINT32);
    NUMBER("WILDCARD", PMIX_RANK_WILDCARD);
    NUMBER("sizeof nspace", sizeof(pmix_nspace_t));
    NUMBER("sizeof key", sizeof(pmix_key_t));
    TEXT("JOB_SIZE", PMIX_JOB_SIZE);
    TEXT("LOCAL_SIZE", PMIX_LOCAL_SIZE);
    TEXT("COLLECT_DATA", PMIX_COLLECT_DATA);
    TEXT("TIMEOUT", PMIX_TIMEOUT);
    TEXT("IMMEDIATE", PMIX_IMMEDIATE);
    return !(get_version && error_string && init && put && commit && fence && get && finalize);
}
"#;

/// The directory of the headers: as pkg-config reports it, or one of Debian's.
fn headers() -> Option<PathBuf> {
    let said = Command::new("pkg-config").args(["--variable=includedir", "pmix"]).output().ok();
    let said = said.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let of_each = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let debian = of_each.map(|entry| entry.path().join("pmix2/include"));
    let places = [PathBuf::from(said.trim()), PathBuf::from("/usr/include")].into_iter().chain(debian);
    places.into_iter().find(|place| place.join("pmix.h").is_file())
}

#[test]
fn the_declarations_are_those_of_the_headers() {
    let Some(headers) = headers() else {
        println!("skipped: needs the headers of PMIx (Debian: libpmix-dev)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("layout.c"), PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder.path()).args(["-Wall", "-Werror", "-o", "layout", "layout.c", "-I"]);
    let Ok(compiled) = compiler.arg(&headers).args(["-lpmix"]).output() else {
        println!("skipped: needs a C compiler");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let there = Command::new(folder.path().join("layout")).output().unwrap();
    let there = String::from_utf8(there.stdout).unwrap();
    assert_eq!(there.lines().collect::<Vec<_>>(), here());
}

#[test]
fn the_layout_is_the_one_that_was_written_down() {
    assert_eq!((size_of::<Proc>(), size_of::<Value>(), size_of::<Info>()), (260, 32, 552));
    assert_eq!((offset_of!(Value, data), offset_of!(Info, flags), offset_of!(Info, value)), (8, 512, 520));
}

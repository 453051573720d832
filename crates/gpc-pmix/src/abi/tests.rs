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

/// The places of the functions of a server.
fn slots() -> Vec<(&'static str, usize)> {
    use super::server::Module;
    macro_rules! places {
        ($($slot:ident)*) => { vec![$((concat!("module.", stringify!($slot)), offset_of!(Module, $slot))),*] };
    }
    places!(
        client_connected client_finalized abort fence_nb direct_modex publish lookup unpublish spawn connect
        disconnect register_events deregister_events listener notify_event job_control
    )
    .into_iter()
    .chain([
        ("module.group", offset_of!(Module, late.group)),
        ("module.fabric", offset_of!(Module, late.fabric)),
        ("module.client_connected2", offset_of!(Module, late.client_connected2)),
    ])
    .collect()
}

/// The numbers and offsets of the server side.
fn server() -> Vec<String> {
    let numbers = [
        ("sizeof byte_object", size_of::<ByteObject>()),
        ("byte_object.bytes", offset_of!(ByteObject, bytes)),
        ("byte_object.size", offset_of!(ByteObject, size)),
        ("sizeof data_array", size_of::<DataArray>()),
        ("data_array.type", offset_of!(DataArray, kind)),
        ("data_array.size", offset_of!(DataArray, size)),
        ("data_array.array", offset_of!(DataArray, array)),
        ("sizeof pdata", size_of::<PublishedData>()),
        ("pdata.proc", offset_of!(PublishedData, process)),
        ("pdata.key", offset_of!(PublishedData, key)),
        ("pdata.value", offset_of!(PublishedData, value)),
        ("sizeof app", size_of::<App>()),
        ("app.cmd", offset_of!(App, program)),
        ("app.argv", offset_of!(App, arguments)),
        ("app.env", offset_of!(App, environment)),
        ("app.cwd", offset_of!(App, folder)),
        ("app.maxprocs", offset_of!(App, count)),
        ("app.info", offset_of!(App, info)),
        ("app.ninfo", offset_of!(App, info_size)),
        ("INFO_REQD", INFO_REQUIRED as usize),
        ("RANGE_CUSTOM", RANGE_CUSTOM.into()),
        ("ERROR", ERROR.cast_unsigned() as usize),
        ("OUT_OF_RESOURCE", OUT_OF_RESOURCE.cast_unsigned() as usize),
        ("NOT_FOUND", NOT_FOUND.cast_unsigned() as usize),
        ("NOT_SUPPORTED", NOT_SUPPORTED.cast_unsigned() as usize),
        ("OPERATION_SUCCEEDED", OPERATION_SUCCEEDED.cast_unsigned() as usize),
        ("GROUP_CONSTRUCT", server::GROUP_CONSTRUCT.cast_unsigned() as usize),
        ("GROUP_DESTRUCT", server::GROUP_DESTRUCT.cast_unsigned() as usize),
    ];
    let numbers = numbers.into_iter().chain(kinds()).chain(slots());
    numbers.map(|(name, number)| format!("{name} {number}")).collect()
}

/// The types of values.
fn kinds() -> Vec<(&'static str, usize)> {
    vec![
        ("PROC", PROC.into()),
        ("INFO", INFO.into()),
        ("BYTE_OBJECT", BYTE_OBJECT.into()),
        ("DATA_ARRAY", DATA_ARRAY.into()),
        ("PROC_RANK", PROC_RANK.into()),
        ("UINT16", UINT16.into()),
        ("UNDEF", UNDEF.into()),
        ("BYTE", BYTE.into()),
        ("SIZE", SIZE.into()),
        ("PID", PID.into()),
        ("INT8", INT8.into()),
        ("INT16", INT16.into()),
        ("INT32", INT32.into()),
        ("INT64", INT64.into()),
        ("UINT", UINT.into()),
        ("UINT8", UINT8.into()),
        ("UINT64", UINT64.into()),
        ("FLOAT", FLOAT.into()),
        ("DOUBLE", DOUBLE.into()),
        ("TIMEVAL", TIMEVAL.into()),
        ("TIME", TIME.into()),
        ("STATUS", STATUS.into()),
        ("PERSIST", PERSIST.into()),
        ("SCOPE", SCOPE.into()),
        ("DATA_RANGE", DATA_RANGE.into()),
        ("INFO_DIRECTIVES", INFO_DIRECTIVES.into()),
        ("DATA_TYPE", DATA_TYPE.into()),
        ("PROC_STATE", PROC_STATE.into()),
        ("COMPRESSED_STRING", COMPRESSED_STRING.into()),
        ("ALLOC_DIRECTIVE", ALLOC_DIRECTIVE.into()),
        ("ENVAR", ENVAR.into()),
        ("REGEX", REGEX.into()),
        ("JOB_STATE", JOB_STATE.into()),
        ("LINK_STATE", LINK_STATE.into()),
        ("DEVTYPE", DEVTYPE.into()),
        ("LOCTYPE", LOCTYPE.into()),
        ("COMPRESSED_BYTE_OBJECT", COMPRESSED_BYTE_OBJECT.into()),
        ("PROC_NSPACE", PROC_NSPACE.into()),
    ]
}

/// The same for the headers of the server side. `-Werror` checks the types of the functions.
const SERVER_PROGRAM: &str = r#"
#include <pmix.h>
#include <pmix_server.h>
#include <stddef.h>
#include <stdio.h>
#define NUMBER(name, number) printf("%s %zu\n", name, (size_t)(number))
#define STATUS(name, number) NUMBER(name, (unsigned)(number))
static int (*init)(pmix_server_module_t *, pmix_info_t *, size_t) = PMIx_server_init;
static int (*finalize)(void) = PMIx_server_finalize;
static int (*register_nspace)(const char *, int, pmix_info_t *, size_t, void (*)(int, void *), void *) =
    PMIx_server_register_nspace;
static void (*deregister_nspace)(const char *, void (*)(int, void *), void *) = PMIx_server_deregister_nspace;
static int (*register_client)(const pmix_proc_t *, unsigned, unsigned, void *, void (*)(int, void *), void *) =
    PMIx_server_register_client;
static void (*deregister_client)(const pmix_proc_t *, void (*)(int, void *), void *) = PMIx_server_deregister_client;
static int (*setup_fork)(const pmix_proc_t *, char ***) = PMIx_server_setup_fork;
static int (*request)(const pmix_proc_t *, void (*)(int, char *, size_t, void *), void *) = PMIx_server_dmodex_request;
static int (*notify)(int, const pmix_proc_t *, unsigned char, const pmix_info_t *, size_t, void (*)(int, void *),
                     void *) = PMIx_Notify_event;
typedef void (*op)(int, void *);
typedef void (*release)(void *);
typedef void (*modex)(int, const char *, size_t, void *, release, void *);
typedef void (*infos)(int, pmix_info_t *, size_t, void *, release, void *);
typedef void (*found)(int, pmix_pdata_t *, size_t, void *);
typedef void (*spawned)(int, char *, void *);
/* Each slot that is used takes a function of the type that this crate declares for it. */
static struct {
    int (*client)(const pmix_proc_t *, void *, op, void *);
    int (*client2)(const pmix_proc_t *, void *, pmix_info_t *, size_t, op, void *);
    int (*abort)(const pmix_proc_t *, void *, int, const char *, pmix_proc_t *, size_t, op, void *);
    int (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, char *, size_t, modex, void *);
    int (*fetch)(const pmix_proc_t *, const pmix_info_t *, size_t, modex, void *);
    int (*publish)(const pmix_proc_t *, const pmix_info_t *, size_t, op, void *);
    int (*lookup)(const pmix_proc_t *, char **, const pmix_info_t *, size_t, found, void *);
    int (*unpublish)(const pmix_proc_t *, char **, const pmix_info_t *, size_t, op, void *);
    int (*spawn)(const pmix_proc_t *, const pmix_info_t *, size_t, const pmix_app_t *, size_t, spawned, void *);
    int (*connect)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t, op, void *);
    int (*register_events)(int *, size_t, const pmix_info_t *, size_t, op, void *);
    int (*deregister_events)(int *, size_t, op, void *);
    int (*event)(int, const pmix_proc_t *, unsigned char, pmix_info_t *, size_t, op, void *);
    int (*control)(const pmix_proc_t *, const pmix_proc_t *, size_t, const pmix_info_t *, size_t, infos, void *);
    int (*group)(pmix_group_operation_t, char *, const pmix_proc_t *, size_t, const pmix_info_t *, size_t, infos,
                 void *);
} ours;
int main(void) {
    pmix_server_module_t module = {
        .client_connected = ours.client, .client_finalized = ours.client, .abort = ours.abort,
        .fence_nb = ours.fence, .direct_modex = ours.fetch, .publish = ours.publish, .lookup = ours.lookup,
        .unpublish = ours.unpublish, .spawn = ours.spawn, .connect = ours.connect, .disconnect = ours.connect,
        .register_events = ours.register_events, .deregister_events = ours.deregister_events,
        .notify_event = ours.event, .job_control = ours.control,
        .group = ours.group, .client_connected2 = ours.client2,
    };
    (void)module;
    NUMBER("sizeof byte_object", sizeof(pmix_byte_object_t));
    NUMBER("byte_object.bytes", offsetof(pmix_byte_object_t, bytes));
    NUMBER("byte_object.size", offsetof(pmix_byte_object_t, size));
    NUMBER("sizeof data_array", sizeof(pmix_data_array_t));
    NUMBER("data_array.type", offsetof(pmix_data_array_t, type));
    NUMBER("data_array.size", offsetof(pmix_data_array_t, size));
    NUMBER("data_array.array", offsetof(pmix_data_array_t, array));
    NUMBER("sizeof pdata", sizeof(pmix_pdata_t));
    NUMBER("pdata.proc", offsetof(pmix_pdata_t, proc));
    NUMBER("pdata.key", offsetof(pmix_pdata_t, key));
    NUMBER("pdata.value", offsetof(pmix_pdata_t, value));
    NUMBER("sizeof app", sizeof(pmix_app_t));
    NUMBER("app.cmd", offsetof(pmix_app_t, cmd));
    NUMBER("app.argv", offsetof(pmix_app_t, argv));
    NUMBER("app.env", offsetof(pmix_app_t, env));
    NUMBER("app.cwd", offsetof(pmix_app_t, cwd));
    NUMBER("app.maxprocs", offsetof(pmix_app_t, maxprocs));
    NUMBER("app.info", offsetof(pmix_app_t, info));
    NUMBER("app.ninfo", offsetof(pmix_app_t, ninfo));
    NUMBER("INFO_REQD", PMIX_INFO_REQD);
    NUMBER("RANGE_CUSTOM", PMIX_RANGE_CUSTOM);
    STATUS("ERROR", PMIX_ERROR);
    STATUS("OUT_OF_RESOURCE", PMIX_ERR_OUT_OF_RESOURCE);
    STATUS("NOT_FOUND", PMIX_ERR_NOT_FOUND);
    STATUS("NOT_SUPPORTED", PMIX_ERR_NOT_SUPPORTED);
    STATUS("OPERATION_SUCCEEDED", PMIX_OPERATION_SUCCEEDED);
    NUMBER("GROUP_CONSTRUCT", PMIX_GROUP_CONSTRUCT);
    NUMBER("GROUP_DESTRUCT", PMIX_GROUP_DESTRUCT);
    NUMBER("PROC", PMIX_PROC);
    NUMBER("INFO", PMIX_INFO);
    NUMBER("BYTE_OBJECT", PMIX_BYTE_OBJECT);
    NUMBER("DATA_ARRAY", PMIX_DATA_ARRAY);
    NUMBER("PROC_RANK", PMIX_PROC_RANK);
    NUMBER("UINT16", PMIX_UINT16);
    NUMBER("UNDEF", PMIX_UNDEF);
    NUMBER("BYTE", PMIX_BYTE);
    NUMBER("SIZE", PMIX_SIZE);
    NUMBER("PID", PMIX_PID);
    NUMBER("INT8", PMIX_INT8);
    NUMBER("INT16", PMIX_INT16);
    NUMBER("INT32", PMIX_INT32);
    NUMBER("INT64", PMIX_INT64);
    NUMBER("UINT", PMIX_UINT);
    NUMBER("UINT8", PMIX_UINT8);
    NUMBER("UINT64", PMIX_UINT64);
    NUMBER("FLOAT", PMIX_FLOAT);
    NUMBER("DOUBLE", PMIX_DOUBLE);
    NUMBER("TIMEVAL", PMIX_TIMEVAL);
    NUMBER("TIME", PMIX_TIME);
    NUMBER("STATUS", PMIX_STATUS);
    NUMBER("PERSIST", PMIX_PERSIST);
    NUMBER("SCOPE", PMIX_SCOPE);
    NUMBER("DATA_RANGE", PMIX_DATA_RANGE);
    NUMBER("INFO_DIRECTIVES", PMIX_INFO_DIRECTIVES);
    NUMBER("DATA_TYPE", PMIX_DATA_TYPE);
    NUMBER("PROC_STATE", PMIX_PROC_STATE);
    NUMBER("COMPRESSED_STRING", PMIX_COMPRESSED_STRING);
    NUMBER("ALLOC_DIRECTIVE", PMIX_ALLOC_DIRECTIVE);
    NUMBER("ENVAR", PMIX_ENVAR);
    NUMBER("REGEX", PMIX_REGEX);
    NUMBER("JOB_STATE", PMIX_JOB_STATE);
    NUMBER("LINK_STATE", PMIX_LINK_STATE);
    NUMBER("DEVTYPE", PMIX_DEVTYPE);
    NUMBER("LOCTYPE", PMIX_LOCTYPE);
    NUMBER("COMPRESSED_BYTE_OBJECT", PMIX_COMPRESSED_BYTE_OBJECT);
    NUMBER("PROC_NSPACE", PMIX_PROC_NSPACE);
    NUMBER("module.client_connected", offsetof(pmix_server_module_t, client_connected));
    NUMBER("module.client_finalized", offsetof(pmix_server_module_t, client_finalized));
    NUMBER("module.abort", offsetof(pmix_server_module_t, abort));
    NUMBER("module.fence_nb", offsetof(pmix_server_module_t, fence_nb));
    NUMBER("module.direct_modex", offsetof(pmix_server_module_t, direct_modex));
    NUMBER("module.publish", offsetof(pmix_server_module_t, publish));
    NUMBER("module.lookup", offsetof(pmix_server_module_t, lookup));
    NUMBER("module.unpublish", offsetof(pmix_server_module_t, unpublish));
    NUMBER("module.spawn", offsetof(pmix_server_module_t, spawn));
    NUMBER("module.connect", offsetof(pmix_server_module_t, connect));
    NUMBER("module.disconnect", offsetof(pmix_server_module_t, disconnect));
    NUMBER("module.register_events", offsetof(pmix_server_module_t, register_events));
    NUMBER("module.deregister_events", offsetof(pmix_server_module_t, deregister_events));
    NUMBER("module.listener", offsetof(pmix_server_module_t, listener));
    NUMBER("module.notify_event", offsetof(pmix_server_module_t, notify_event));
    NUMBER("module.job_control", offsetof(pmix_server_module_t, job_control));
    NUMBER("module.group", offsetof(pmix_server_module_t, group));
    NUMBER("module.fabric", offsetof(pmix_server_module_t, fabric));
    NUMBER("module.client_connected2", offsetof(pmix_server_module_t, client_connected2));
    return !(init && finalize && register_nspace && deregister_nspace && register_client && deregister_client
             && setup_fork && request && notify);
}
"#;

/// A directory with the headers of another version, which may need the library of that version.
const HEADERS: &str = "GPC_TEST_PMIX_HEADERS";

/// The directory of the headers: as the variable or pkg-config reports it, or one of Debian's.
fn headers() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os(HEADERS) {
        return Some(given.into());
    }
    let said = Command::new("pkg-config").args(["--variable=includedir", "pmix"]).output().ok();
    let said = said.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let of_each = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let debian = of_each.map(|entry| entry.path().join("pmix2/include"));
    let places = [PathBuf::from(said.trim()), PathBuf::from("/usr/include")].into_iter().chain(debian);
    places.into_iter().find(|place| place.join("pmix.h").is_file())
}

/// The lines of a program; `None` without headers or compiler.
fn lines_of(program: &str) -> Option<Vec<String>> {
    let Some(headers) = headers() else {
        println!("skipped: needs the headers of PMIx (Debian: libpmix-dev)");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("layout.c"), program).unwrap();
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder.path()).args(["-Wall", "-Werror", "-o", "layout", "layout.c", "-I"]);
    let Ok(compiled) = compiler.arg(&headers).args(["-lpmix"]).output() else {
        println!("skipped: needs a C compiler");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let there = Command::new(folder.path().join("layout")).output().unwrap();
    let there = String::from_utf8(there.stdout).unwrap();
    Some(there.lines().map(str::to_owned).collect())
}

#[test]
fn the_declarations_are_those_of_the_headers() {
    let Some(there) = lines_of(PROGRAM) else { return };
    assert_eq!(there, here());
}

#[test]
fn the_declarations_of_the_server_are_those_of_the_headers() {
    let Some(there) = lines_of(SERVER_PROGRAM) else { return };
    assert_eq!(there, server());
}

#[test]
fn the_layout_is_the_one_that_was_written_down() {
    assert_eq!((size_of::<Proc>(), size_of::<Value>(), size_of::<Info>()), (260, 32, 552));
    assert_eq!((offset_of!(Value, data), offset_of!(Info, flags), offset_of!(Info, value)), (8, 512, 520));
}

#[test]
fn the_layout_of_the_server_is_the_one_that_was_written_down() {
    use super::server::{MODULE_POINTERS, Module};
    let sizes =
        (size_of::<ByteObject>(), size_of::<DataArray>(), size_of::<PublishedData>(), size_of::<App>());
    assert_eq!(sizes, (16, 24, 808, 56));
    let pointer = size_of::<usize>();
    assert_eq!(size_of::<Module>(), MODULE_POINTERS * pointer);
    let places = [
        offset_of!(Module, notify_event),
        offset_of!(Module, job_control),
        offset_of!(Module, late.group),
        offset_of!(Module, late.client_connected2),
    ];
    assert_eq!(places.map(|place| place / pointer), [14, 19, 25, 27]);
}

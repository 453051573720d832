//! `bnr.h`: programs in a domain of their own, as `gpc run` has it. The host of the domain is this process, and the
//! supervisor is this program, started again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpc_bnr::host::{Host, HostEvent, HostSettings, SupervisorCommand};
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::supervisor::{run as supervise, stdin_control};
use gpc_bnr::{Death, OnDeath, Readers, Spec};

use crate::package::{has, install, page, program};
use crate::programs::{compile, has_compiler, library_folder, package, sanitizers};
use crate::services::example;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Variable that tells this program to act as the supervisor.
const ROLE: &str = "GPC_TEST_SUPERVISOR";

/// The supervisor: runs if this program was started with [`supervisor`].
#[test]
fn the_supervisor_itself() {
    if std::env::var_os(ROLE).is_some() {
        exit(i32::from(supervise(stdin_control().unwrap()).is_err()));
    }
}

/// The command of the supervisor, from which all processes of the domain have these variables.
fn supervisor(variables: &[(&str, &str)]) -> SupervisorCommand {
    let mut args: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let exe = std::env::current_exe().unwrap();
    args.extend([format!("{ROLE}=1"), exe.to_str().unwrap().to_owned()]);
    let words = ["bnr::the_supervisor_itself", "--exact", "--nocapture", "--test-threads=1"];
    args.extend(words.map(str::to_owned));
    SupervisorCommand { program: "/usr/bin/env".into(), args: args.into_iter().map(Into::into).collect() }
}

/// How a program has run: the lines of all its processes, sorted, and the deaths of those that were started first.
struct Ran {
    lines: Vec<String>,
    errors: String,
    deaths: Vec<Death>,
}

impl Ran {
    #[track_caller]
    fn well(&self) {
        let bad: Vec<&Death> = self.deaths.iter().filter(|death| !death.is_clean()).collect();
        assert!(bad.is_empty(), "{bad:?}\n{:?}\n{}", self.lines, self.errors);
    }
}

/// Runs a program as so many processes of a domain, until they have ended.
fn run(program: &Path, count: u32, arguments: &[&str], option: &str) -> Ran {
    let library = library_folder(program);
    let option = format!("allocator_may_return_null=1:{option}");
    let variables = [("LD_LIBRARY_PATH", library.to_str().unwrap()), ("ASAN_OPTIONS", &option)];
    let mut settings = HostSettings::new(supervisor(&variables));
    let written = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let output = written.clone();
    settings.output = Some(Box::new(move |piece| {
        let mut output = output.lock().unwrap();
        match piece.stream {
            gpc_bnr::streams::Stream::Out => output.0.extend_from_slice(&piece.bytes),
            gpc_bnr::streams::Stream::Err => output.1.extend_from_slice(&piece.bytes),
        }
        Ok(())
    }));
    let host = Host::start(settings).unwrap();
    let args = arguments.iter().map(|word| word.as_bytes().to_vec()).collect();
    let spec = Spec { count, program: program.to_str().unwrap().into(), args, ..Spec::default() };
    let spawn = Request::SpawnMultiple {
        specs: vec![spec],
        preputs: Vec::new(),
        on_death: OnDeath::Notify,
        input: Readers::None,
    };
    let started = host.ask(spawn, PATIENCE);
    let Ok(Answer::Spawned { group, errors, .. }) = started else { panic!("{started:?}") };
    assert!(errors.iter().all(|error| *error == 0), "{errors:?}");
    host.ask(Request::Subscribe(group), PATIENCE).unwrap();
    let mut deaths = Vec::new();
    while deaths.len() < count as usize {
        match host.events().recv_timeout(PATIENCE) {
            Ok(HostEvent::Death(death)) if death.member.group == group => deaths.push(death),
            Ok(_) => {}
            Err(error) => {
                let written = written.lock().unwrap();
                let err = String::from_utf8_lossy(&written.1);
                panic!("{error}: {deaths:?}\n{}\n{err}", String::from_utf8_lossy(&written.0));
            }
        }
    }
    // Its end is without a message only if the domain has ended.
    let _ = host.drain().recv_timeout(PATIENCE);
    assert!(host.end(PATIENCE));
    let written = written.lock().unwrap();
    let mut lines: Vec<String> = String::from_utf8_lossy(&written.0).lines().map(str::to_owned).collect();
    lines.sort();
    Ran { lines, errors: String::from_utf8_lossy(&written.1).into_owned(), deaths }
}

/// Compiles a program of `tests/c`; none if there is no compiler.
fn compiled(compiler: &str, standard: &str, source: &str, folder: &Path) -> Option<PathBuf> {
    let program = folder.join("program");
    let found = has_compiler(compiler);
    found.then(|| compile(compiler, standard, sanitizers(compiler), source, &program));
    found.then_some(program)
}

/// Runs a role of `bnr.c` to a successful end.
fn plays(role: &str, count: u32) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("cc", "gnu11", "bnr.c", folder.path()) else { return };
    let ran = run(&program, count, &[role], "detect_leaks=1");
    ran.well();
    let done = ran.lines.iter().filter(|line| *line == "done").count();
    assert!(done >= count as usize, "{:?}\n{}", ran.lines, ran.errors);
}

#[test]
fn processes_share_databases() {
    plays("databases", 3);
}

#[test]
fn groups_have_databases_and_fences_of_their_own() {
    plays("groups", 2);
}

/// BNR_Group_Get_rank was formerly BNR_ERR_NOT_MEMBER in a group that was not the first one of its caller.
#[test]
fn merged_split_and_duplicated_groups_have_ranks_and_databases() {
    plays("merge", 2);
}

/// A notice could otherwise run on a thread of the library, beside the program.
#[test]
fn deaths_are_received_within_calls() {
    plays("deaths", 1);
}

#[test]
fn a_member_that_is_killed_fails_a_fence_and_is_reported_before() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("cc", "gnu11", "bnr.c", folder.path()) else { return };
    let ran = run(&program, 3, &["dies"], "detect_leaks=1");
    let ends: BTreeSet<u8> = ran.deaths.iter().map(|death| death.exit.status()).collect();
    assert_eq!(ends, BTreeSet::from([0, 137]), "{}", ran.errors);
    assert_eq!(ran.lines, ["done", "done"], "{}", ran.errors);
}

#[test]
fn spawns_have_hints_and_errors() {
    plays("spawns", 1);
}

#[test]
fn what_does_not_fit_is_an_error() {
    plays("sizes", 1);
}

#[test]
fn threads_use_a_process_at_the_same_time() {
    plays("threads", 2);
}

#[test]
fn signals_end_no_wait() {
    plays("interrupted", 2);
}

/// `BNR_Wait` was an error beside another thread that waited, and a wait did not end with `BNR_Finalize`.
#[test]
fn threads_wait_for_deaths_at_the_same_time() {
    plays("waiting", 1);
}

/// An exception must not pass through the library.
#[test]
fn a_function_that_throws_ends_the_process_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled("c++", "c++17", "bnr.cpp", folder.path()) else { return };
    let ran = run(&program, 1, &[], "");
    assert!(ran.errors.contains("threw an exception"), "{}", ran.errors);
    assert_eq!((ran.deaths[0].exit.status(), &ran.lines[..]), (134, &["literals are taken".to_owned()][..]));
}

/// Whoever looks for a prototype of the source finds it: the program declares each again, as the source has it.
#[test]
fn the_prototypes_of_the_source_are_those_of_the_header() {
    if !has_compiler("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The source has lengths of arrays where the header has pointers.
    for standard in ["c99", "c11", "c17"] {
        compile(
            "cc",
            standard,
            &["-Wno-array-parameter"],
            "bnr_prototypes.c",
            &folder.path().join("program"),
        );
    }
    let alone = Command::new(folder.path().join("program"))
        .env("LD_LIBRARY_PATH", library_folder(&folder.path().join("program")))
        .env_remove("GPC_BNR_FD")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.code() == Some(19) && said.contains("gpc run"), "{alone:?}");
}

/// A function of the header: its name, and the types of its parameters.
fn functions() -> Vec<(String, Vec<String>)> {
    let header = fs::read_to_string(package().join("include/bnr.h")).unwrap();
    let header = header.split("/* No info").next().unwrap();
    let starts = header.split("\nint BNR_").skip(1);
    let whole = starts.map(|rest| rest.split(");").next().unwrap());
    let parsed = whole.map(|text| {
        let (name, parameters) = text.split_once('(').unwrap();
        let kind = |parameter: &str| {
            let text = parameter.trim();
            let end = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
            end.trim_end().to_owned()
        };
        let kinds = parameters.split(',').map(kind).filter(|kind| !kind.is_empty()).collect();
        (format!("BNR_{name}"), kinds)
    });
    parsed.collect()
}

fn zero(kind: &str) -> &str {
    if kind.ends_with('*') || kind == "BNR_Info" || kind.ends_with("_fn") { "NULL" } else { "0" }
}

fn right(kind: &str) -> String {
    match kind {
        "char *" => "text".into(),
        "BNR_Info" => "NULL".into(),
        "BNR_Notify_fn" => "receives".into(),
        _ if kind.ends_with('*') => format!("({kind})(void *)room"),
        _ => "1".into(),
    }
}

fn call(name: &str, arguments: impl Iterator<Item = String>) -> String {
    format!("{name}({})", arguments.collect::<Vec<_>>().join(", "))
}

const START: &str = r#"
#include <sys/wait.h>
#include "bnr.h"
#include "check.h"

static char room[8192], text[BNR_MAX_VALUE_LEN] = "x=y";
static int receives(BNR_Group group, int rank, int exit_code) { return group + rank + exit_code; }
static void is(int expected, int number, const char *call) {
    if (number != expected) {
        fprintf(stderr, "%s is %d, not %d: %s\n", call, number, expected, cgpc_last_message());
        abort();
    }
}
static void is_no_group(int number, const char *call) {
    if (number != BNR_ERR_NO_GROUP && number != BNR_ERR_NOT_MEMBER) is(BNR_ERR_NO_GROUP, number, call);
}
#define IS_NOW(expected, call) is(expected, call, #call)
"#;

const END: &str = r#"
int main(void) {
    pid_t child;
    int status = 1;
    BNR_Info info, freed;
    IS_NOW(257, BNR_DB_Get_name_length_max());
    unlinked();
    nulls(BNR_ERR_LINK);
    IS_NOW(BNR_SUCCESS, BNR_Info_create(&info));
    freed = info;
    IS_NOW(BNR_SUCCESS, BNR_Info_free(&info));
    CHECK(info == BNR_INFO_NULL);
    IS_NOW(BNR_SUCCESS, BNR_Init());
    IS_NOW(BNR_ERR_BAD_REQUEST, BNR_Init());
    CHECK(strstr(cgpc_last_message(), "before") != NULL);
    nulls(BNR_ERR_BAD_REQUEST);
    IS_NOW(BNR_ERR_TIMED_OUT, BNR_Wait(0));
    IS_NOW(BNR_ERR_BAD_REQUEST, BNR_Wait(-1));
    IS_NOW(BNR_ERR_BAD_REQUEST, BNR_Info_set(freed, text, text));
    IS_NOW(BNR_ERR_BAD_REQUEST, BNR_Info_free(&freed));
    IS_NOW(BNR_ERR_BAD_REQUEST, BNR_I_Spawn(text, NULL, 1, freed));
    groups();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unlinked();
        IS_NOW(BNR_ERR_LINK, BNR_Init());
        CHECK(strstr(cgpc_last_message(), "forked") != NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    IS_NOW(BNR_SUCCESS, BNR_Barrier());
    IS_NOW(BNR_SUCCESS, BNR_Finalize());
    unlinked();
    nulls(BNR_ERR_LINK);
    IS_NOW(BNR_ERR_LINK, BNR_Init());
    puts("done");
    return 0;
}
"#;

/// Every function with null, at a wrong group, before BNR_Init, after BNR_Finalize, and in a forked child.
#[test]
fn every_function_refuses_what_is_wrong() {
    let functions = functions();
    assert!(functions.len() > 38, "{}", functions.len());
    let mut code = START.to_owned();
    let is_of_info = |name: &str| name.starts_with("BNR_Info_");
    let of_process: Vec<_> = functions
        .iter()
        .filter(|(name, _)| !is_of_info(name) && name != "BNR_Init" && name != "BNR_DB_Get_name_length_max")
        .collect();
    code.push_str("static void unlinked(void) {\n");
    for (name, kinds) in &of_process {
        let call = call(name, kinds.iter().map(|kind| right(kind)));
        writeln!(code, "IS_NOW(BNR_ERR_LINK, {call});").unwrap();
    }
    code.push_str("}\nstatic void nulls(int expected) {\n");
    for (name, kinds) in &of_process {
        // A barrier, and the end, have nothing to be wrong; a wait for no time neither.
        if !["BNR_Barrier", "BNR_Finalize", "BNR_Wait"].contains(&name.as_str()) {
            let call = call(name, kinds.iter().map(|kind| zero(kind).into()));
            writeln!(code, "IS_NOW(expected, {call});").unwrap();
        }
    }
    for (name, kinds) in functions.iter().filter(|(name, _)| is_of_info(name)) {
        let call = call(name, kinds.iter().map(|kind| zero(kind).into()));
        writeln!(code, "IS_NOW(BNR_ERR_BAD_REQUEST, {call});").unwrap();
    }
    code.push_str("}\nstatic void groups(void) {\n");
    for (name, kinds) in
        of_process.iter().filter(|(_, kinds)| kinds.first().is_some_and(|kind| kind == "BNR_Group"))
    {
        for group in ["4242", "-3"] {
            let rest = kinds[1..].iter().map(|kind| right(kind));
            let call = call(name, [group.to_owned()].into_iter().chain(rest));
            writeln!(code, "is_no_group({call}, \"{name}({group})\");").unwrap();
        }
    }
    code.push_str("}\n");
    code.push_str(END);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("every.c");
    fs::write(&source, code).unwrap();
    let Some(program) = compiled("cc", "gnu11", source.to_str().unwrap(), folder.path()) else { return };
    // A child lacks the threads whose stacks refer to the parent's memory, so that looks leaked there.
    let ran = run(&program, 1, &[], "detect_leaks=0");
    ran.well();
    assert_eq!(ran.lines, ["done"]);
}

/// The source's pseudo code: open, spawn, spawn, close; and merge.
#[test]
fn two_processes_open_a_group_spawn_into_it_twice_and_close_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = example(folder.path(), "groups") else { return };
    let ran = run(&program, 2, &[], "detect_leaks=1");
    ran.well();
    let expected = [
        "0 of 7 beside 1: pump",
        "1 of 7 beside 2: pump",
        "2 of 7 beside 3: ocean",
        "3 of 7 beside 4: ocean",
        "4 of 7 beside 5: air and ice",
        "5 of 7 beside 6: air and ice",
        "5 processes were spawned",
        "6 of 7 beside 0: air and ice",
        "rank 0 of 5: ocean, beside ocean",
        "rank 1 of 5: ocean, beside air and ice",
        "rank 2 of 5: air and ice, beside air and ice",
        "rank 3 of 5: air and ice, beside air and ice",
        "rank 4 of 5: air and ice, beside ocean",
    ];
    assert_eq!((&ran.lines[..], &*ran.errors), (&expected.map(str::to_owned)[..], ""));
}

/// What a reader of the page adds.
const USES_BNR: &str = r#"
int main(void) {
    exchange("card");
    return 0;
}
"#;

#[test]
fn the_program_of_the_page_for_bnr_holds() {
    if !(has("cc") && has("make") && has("pkg-config")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    let [.., bnr] = page();
    let code = ["#include <stdio.h>\n#include <stdlib.h>\n", &bnr, USES_BNR].concat();
    let ran = run(&program(folder.path(), "exchange", &code), 3, &[], "");
    ran.well();
    assert_eq!(ran.lines, ["0 beside card-1", "1 beside card-2", "2 beside card-0"]);
}

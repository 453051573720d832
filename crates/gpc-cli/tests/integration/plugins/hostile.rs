//! Libraries that are not plug-ins, plug-ins of another version or that refuse, and functions that misuse the tables.

use rustix::process::Signal;

use super::Built;
use crate::processes::support::{Gpc, coverage, json_of, run};

/// The cases of `hostile.c`.
#[derive(Clone, Copy, Debug)]
enum Case {
    OtherMajor,
    Newer,
    Older,
    NoMagic,
    NullLoad,
    AFunction,
    NoEntry,
    ReturnsSeven,
    ReturnsState,
    Refuses,
    Taken,
    TakenTree,
    Misuses,
    Unresolved,
}

/// Builds a case.
fn built(built: &Built, case: Case) -> String {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/plugins/hostile.c");
    built.library("cc", "gnu11", &source, &(case as u32).to_string())
}

/// What `load` of each plug-in prints.
const RUNS: &str = "load runs\n";

#[test]
fn what_is_no_plugin_for_this_program_ends_it_before_anything_runs() {
    let Some(folder) = Built::with("cc") else { return };
    let version = "and this program has 1.0: compile it with the chained_gpc_plugin.h of this program";
    for (case, why) in [
        (Case::OtherMajor, format!("it is for version 2.0 of the tables, {version}")),
        (Case::Newer, format!("it is for version 1.1 of the tables, {version}")),
        (
            Case::NoMagic,
            "its `cgpc_plugin_entry` does not begin as that of a plug-in (see chained_gpc_plugin.h)".into(),
        ),
        (
            Case::AFunction,
            "its `cgpc_plugin_entry` does not begin as that of a plug-in (see chained_gpc_plugin.h)".into(),
        ),
        (Case::NullLoad, "the field `load` of its cgpc_plugin_entry is null".into()),
        (
            Case::NoEntry,
            "it is no plug-in: it does not export `cgpc_plugin_entry` (see chained_gpc_plugin.h)".into(),
        ),
        (
            Case::Unresolved,
            "it is no shared library that can be used here: undefined symbol: cgpc_version".into(),
        ),
    ] {
        let library = built(&folder, case);
        let expected = format!("gpc: cannot load {library}: {why}\n");
        let ended = run(&format!("call echo -n 3 --load {library}"));
        assert_eq!((ended.code(), ended.stderr), (Some(1), expected.clone()), "{case:?}");
        // A node does not listen before.
        let peers = folder.path("peers");
        std::fs::write(&peers, format!("1 unix:{}\n", folder.path("1.sock").display())).unwrap();
        let ended = run(&format!("node --id 1 --peers {} --load {library}", peers.display()));
        assert_eq!((ended.code(), ended.stderr), (Some(1), expected), "{case:?}");
        assert!(!folder.path("1.sock").exists());
    }
}

#[test]
fn a_plugin_of_an_older_minor_version_works() {
    let Some(folder) = Built::with("cc") else { return };
    let value = run(&format!("call older -n 2 --load {} --output json", built(&folder, Case::Older)));
    assert_eq!((value.code(), value.stderr), (Some(0), RUNS.repeat(2)), "the root and id 1");
}

#[test]
fn a_plugin_says_why_it_cannot_be_used() {
    let Some(folder) = Built::with("cc") else { return };
    for (case, why) in [
        (Case::ReturnsSeven, "its function `load` returned 7"),
        (Case::ReturnsState, "its function `load` returned -2 (not possible in this state)"),
        (Case::Refuses, "there is no camera"),
        (
            Case::Taken,
            "a function named `echo` is registered already: give this one another name (this program has it)",
        ),
    ] {
        let library = built(&folder, case);
        let ended = run(&format!("call echo -n 3 --load {library}"));
        assert_eq!(ended.stderr, format!("{RUNS}gpc: cannot load {library}: {why}\n"), "{case:?}");
        assert_eq!(ended.code(), Some(1));
    }
    // An error of the first library is not the reason of the second.
    let (first, second) = (built(&folder, Case::Misuses), built(&folder, Case::ReturnsState));
    let ended = run(&format!("call echo -n 3 --load {first} --load {second}"));
    assert!(ended.said().ends_with("returned -2 (not possible in this state)"), "{}", ended.stderr);
    let taken = built(&folder, Case::TakenTree);
    let ended = run(&format!("call echo -n 3 --load {first} --load {taken}"));
    assert!(
        ended.said().ends_with(&format!("a tree named line is registered already ({first} has it)")),
        "{}",
        ended.stderr
    );
}

#[test]
fn one_library_is_named_once() {
    let Some(folder) = Built::with("cc") else { return };
    let library = built(&folder, Case::Older);
    let link = folder.path("link.so");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    let twice = |second: &str| {
        let ended = run(&format!("call older -n 2 --load {library} --load {second}"));
        assert_eq!(ended.code(), Some(2));
        ended.said().to_owned()
    };
    assert_eq!(twice(&library), format!("gpc: --load names {library} twice"));
    let link = link.to_str().unwrap();
    assert_eq!(twice(link), format!("gpc: --load names {link} twice, also as {library}"));
    // A copy is another library, with the same names.
    let copy = folder.path("copy.so");
    std::fs::copy(&library, &copy).unwrap();
    let ended = run(&format!("call older -n 2 --load {library} --load {}", copy.display()));
    let why = format!(
        "a function named `older` is registered already: give this one another name ({library} has it)"
    );
    assert_eq!(
        (ended.code(), ended.said()),
        (Some(1), &*format!("gpc: cannot load {}: {why}", copy.display()))
    );
}

#[test]
fn functions_that_misuse_the_tables_get_errors() {
    let Some(folder) = Built::with("cc") else { return };
    let library = built(&folder, Case::Misuses);
    let line = |func: &str, more: &str| format!("call {func} -n 4 --load {library} --output json {more}");
    let data = |func: &str| {
        let ended = run(&line(func, ""));
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        let value = ended.json();
        assert_eq!(coverage(&value), [4, 0, 0, 0]);
        value["replies"][3]["data"].as_str().unwrap().to_owned()
    };
    assert_eq!(data("misuse"), "survived");
    assert_eq!(data("twice"), "first");
    // A reply header may be longer than that of a request.
    let long = run(&line("header", "")).json();
    assert_eq!(long["replies"][1]["header"].as_str().unwrap().len(), 70_000);
    // The name of a built-in function stays that function.
    assert_eq!(data("echo"), "");
    let failed = |func: &str, more: &str| {
        let ended = run(&line(func, more));
        assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
        let value = ended.json();
        (value["cause"]["kind"].as_str().unwrap().to_owned(), ended.said().to_owned())
    };
    let (kind, said) = failed("dropped", "");
    assert_eq!(kind, "no-answer", "{said}");
    let (kind, said) = failed("forgotten", "--time-limit 300ms");
    assert_eq!(kind, "time-limit", "{said}");
    let (kind, said) = failed("crash", "");
    assert_eq!(kind, "link-lost", "{said}");
    assert!(said.contains("id 2 ") && said.contains("its process ended: "), "{said}");
    let ended = run(&line("echo", "--tree bad"));
    assert!(ended.code() == Some(2) && ended.said().starts_with("gpc: --tree bad: "), "{}", ended.stderr);
    assert_eq!(run(&line("echo", "--tree line")).json()["level"], 3);
}

#[test]
fn a_node_that_is_killed_inside_a_function_is_a_lost_id() {
    let Some(folder) = Built::with("cc") else { return };
    let library = built(&folder, Case::Misuses);
    let line = format!("call endless -n 4 --load {library} --time-limit 10m --output json");
    let call = Gpc::start(&line);
    call.until_said("id 2 is inside");
    call.node(2).kill(Signal::KILL);
    let ended = call.end();
    ended.blames_the_link_of(2, "a killed node");
    assert!(ended.said().contains("its process ended: killed by signal 9"), "{}", ended.stderr);
    let call = Gpc::start(&format!("{line} --partial"));
    call.until_said("id 2 is inside");
    call.node(2).kill(Signal::KILL);
    let ended = call.end();
    assert_eq!(coverage(&ended.json())[0], 3, "{}", ended.stderr);
}

/// The exit status tells a wrong path from a wrong argument.
#[test]
fn what_is_no_library_is_an_error_of_a_file() {
    for (path, why) in [
        ("/nowhere/a.so", "No such file or directory"),
        ("/", "it is not a file"),
        ("/dev/null", "it is not a file"),
        ("/etc/passwd", "it is no shared library that can be used here: "),
    ] {
        let ended = run(&format!("call echo -n 2 --load {path}"));
        let expected = format!("gpc: cannot load {path}: {why}");
        assert!(ended.code() == Some(1) && ended.said().starts_with(&expected), "{}", ended.stderr);
    }
    assert_eq!(json_of("call echo -n 2")["coverage"]["done"], 2);
}

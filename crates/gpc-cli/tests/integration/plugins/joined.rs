//! Libraries of nodes that run already, and of callers that join them.

use std::fs;

use rustix::process::Signal;

use super::Built;
use crate::processes::support::{Gpc, coverage, ids, json_of, run};

/// Nodes 1 to 3, each with its own libraries.
struct Set {
    folder: tempfile::TempDir,
    nodes: Vec<Gpc>,
}

impl Set {
    fn start(loads: [&str; 3]) -> Set {
        let folder = tempfile::tempdir().unwrap();
        let address = |id| format!("unix:{}/{id}.sock", folder.path().display());
        let lines: Vec<String> = (0..4).map(|id| format!("{id} {}\n", address(id))).collect();
        fs::write(folder.path().join("peers"), lines.concat()).unwrap();
        let mut set = Set { folder, nodes: vec![] };
        for (id, load) in (1..).zip(loads) {
            let node = Gpc::start(&format!("node --id {id} --peers {} {load}", set.peers()));
            node.until_said(&format!("gpc: id {id} listens"));
            set.nodes.push(node);
        }
        set
    }

    fn peers(&self) -> String {
        self.folder.path().join("peers").display().to_string()
    }

    fn line(&self, call: &str) -> String {
        format!("call {call} --peers {} --id 0", self.peers())
    }

    /// Makes a call that fails; returns the id that is blamed, and the line that the user gets.
    #[track_caller]
    fn fails(&self, call: &str) -> (Option<u64>, String) {
        let ended = run(&format!("{} --output json", self.line(call)));
        assert_eq!(ended.code(), Some(1), "{}", ended.stderr);
        (ended.json()["cause"]["id"].as_u64(), ended.said().to_owned())
    }

    fn end(self) {
        for node in self.nodes {
            node.process().kill(Signal::INT);
            assert_eq!(node.end().code(), Some(0));
        }
    }
}

/// The number of a function follows from its name, so a caller that only watches needs no library.
#[test]
fn a_caller_without_the_library_watches() {
    let Some(built) = Built::with("cc") else { return };
    let load = format!("--load {}", built.in_c());
    let set = Set::start([&load, &load, &load]);
    let value = json_of(&set.line("load --watch"));
    assert_eq!(ids(&value), [1, 2, 3]);
    assert_eq!(coverage(&json_of(&set.line("load --watch --no-reply"))), [3, 0, 0, 0]);
    // This process would execute it.
    let ended = run(&set.line("load"));
    let said = "gpc: id 0, this process, has no function named `load`; it has: digest, echo, facts, fail, fill, sleep, sum; --load LIB adds those of a library, and with --watch this process does not execute it\n";
    assert_eq!((ended.code(), &*ended.stderr), (Some(2), said));
    // A process that this one starts has no other functions.
    let ended = run("call load -n 3 --watch");
    assert!(
        ended.code() == Some(2) && ended.stderr.starts_with("gpc: id 0, this process"),
        "{}",
        ended.stderr
    );
    // It merges the replies of its children, also if it watches.
    let ended = run(&set.line("load --watch --callback least"));
    let said = "gpc: id 0, this process, has no function named `least`";
    assert!(ended.code() == Some(2) && ended.stderr.starts_with(said), "{}", ended.stderr);
    let value = json_of(&set.line(&format!("load --watch --callback least --tree thirds {load}")));
    assert_eq!((ids(&value), coverage(&value)), (vec![0], [3, 0, 0, 0]));
    set.end();
}

#[test]
fn a_node_that_lacks_the_library_is_named_with_the_function() {
    let Some(built) = Built::with("cc") else { return };
    let load = format!("--load {}", built.in_c());
    let set = Set::start([&load, "", &load]);
    let lacks = |what: &str| {
        format!(
            "its process has no {what}: load the library that registers it there, with --load, or run the same version of gpc everywhere"
        )
    };
    let (id, said) = set.fails("load --watch");
    assert_eq!((id, said.ends_with(&lacks("function `load`"))), (Some(2), true), "{said}");
    assert!(said.starts_with("gpc: id 2 failed at stage setup (unknown-function): "), "{said}");
    // In a chain, id 2 merges the reply of id 3.
    let (id, said) = set.fails(&format!("echo --callback least --tree chain {load}"));
    assert_eq!((id, said.ends_with(&lacks("function `least`"))), (Some(2), true), "{said}");
    // The receiver of a request looks its tree up, also if it has no children.
    let (id, said) = set.fails(&format!("echo --tree thirds {load}"));
    assert_eq!((id, said.ends_with(&lacks("tree `thirds`"))), (Some(2), true), "{said}");
    // A peer that asks for a function that no node has gets an error, and the nodes go on.
    for _ in 0..3 {
        let (_, said) = set.fails("nothing --watch");
        assert!(said.contains("unknown-function") && said.ends_with(&lacks("function `nothing`")), "{said}");
    }
    assert_eq!(ids(&json_of(&set.line("echo"))), [0, 1, 2, 3]);
    set.end();
}

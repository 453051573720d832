//! `gpc ps`, `gpc db` and `gpc kill` beside a run.

use rustix::process::Signal;
use serde_json::Value;

use super::nodes::{daemons, joined, tcp, unix};
use super::support::*;

#[test]
fn what_runs_is_shown_and_killed() {
    let place = Place::new();
    let run = Run::start(place.script("-n 3", "echo up; exec sleep 1000"));
    run.says("up", 3);
    let domain = place.domain_of(run.pid());
    let group = &domain["groups"][0];
    assert_eq!(
        (&group["group"], &group["state"], &group["program"]),
        (&"g1".into(), &"running".into(), &"bash".into())
    );
    let pids: Vec<i64> =
        group["members"].as_array().unwrap().iter().map(|member| member["pid"].as_i64().unwrap()).collect();
    let mut running: Vec<i64> =
        place.with("sleep 1000").iter().map(|process| process.pid.as_raw_nonzero().get().into()).collect();
    running.retain(|pid| pids.contains(pid));
    assert_eq!(running.len(), 3, "{pids:?}");
    let name = domain["domain"].as_str().unwrap();
    let table = ended(place.gpc(["ps", "--domain", &name[..4]]));
    let line: Vec<&str> = table.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((&line[..5], line[6]), (&[name, "g1", "0-2", "running", "0"][..], "bash"), "{}", table.out);
    let refused = ended(place.gpc(["kill", "g7", "--domain", name]));
    assert!(refused.status == 1 && refused.err.contains("g7"), "{}", refused.err);
    let killed = ended(place.gpc(["kill", "g1", "--domain", name]));
    assert_eq!((killed.status, killed.out.as_str(), killed.err.as_str()), (0, "", ""));
    let ended = run.ended();
    assert_eq!(ended.status, 143, "{}", ended.err);
    place.empty();
}

#[test]
fn databases_are_shown_and_harm_no_terminal() {
    let place = Place::new();
    let script = format!("{PMI} put key-$PMI_RANK $'a\\\\b\\x1b[2J\\xff'; fence; echo up; exec sleep 1000");
    let run = Run::start(place.script("-n 2", &script));
    run.says("up", 2);
    let shown = place.domain_of(run.pid());
    let domain = shown["domain"].as_str().unwrap();
    let names = place.json("db list --output json");
    let mut found = names["domains"].as_array().unwrap().iter();
    let names = found.find(|found| found["domain"] == domain).unwrap();
    let database = names["databases"][0].as_str().unwrap();
    assert_eq!(database, format!("kvs_{domain}_1"));
    let list = ended(place.gpc(["db", "list"]));
    assert!(list.out.contains(&format!("{domain}  {database}\n")), "{}", list.out);
    let shown = ended(place.gpc(["db", "show", database]));
    assert_eq!((shown.status, shown.err.as_str()), (0, ""));
    for rank in 0..2 {
        let line = shown.out.lines().find(|line| line.starts_with(&format!("key-{rank} "))).unwrap();
        assert!(line.ends_with("  a\\\\b\\u{1b}[2J\\xff"), "{line}");
    }
    let pairs = place.json(&format!("db show {database} --output json"));
    let pairs = pairs["pairs"].as_array().unwrap();
    assert!(
        pairs.iter().any(|pair| pair["key"] == "key-1" && pair["value"] == "a\\\\b\\u{1b}[2J\\xff"),
        "{pairs:?}"
    );
    let missing = ended(place.gpc(["db", "show", "nothing"]));
    assert!(missing.status == 1 && missing.err.contains("nothing"), "{}", missing.err);
    run.signal(Signal::TERM);
    run.ended();
}

#[test]
fn one_of_several_domains_is_chosen_and_none_is_said() {
    let place = Place::new();
    let none = ended(place.gpc(["kill", "g1"]));
    assert!(none.status == 1 && none.err.contains("this user runs nothing on this machine"), "{}", none.err);
    let none = ended(place.gpc(["ps"]));
    assert_eq!((none.status, none.out.lines().count()), (0, 1), "{}", none.out);
    let runs = [(); 2].map(|()| Run::start(place.script("-n 1", "echo up; exec sleep 1000")));
    runs.iter().for_each(|run| run.says("up", 1));
    assert_eq!(place.json("ps --output json")["domains"].as_array().unwrap().len(), 2);
    let several = ended(place.gpc(["kill", "g1"]));
    assert!(
        several.status == 2 && several.err.contains("2 domains are meant: choose one"),
        "{}",
        several.err
    );
    let database = place.json("db list --output json")["domains"][1]["databases"][0].clone();
    let shown = ended(place.gpc(["db", "show", database.as_str().unwrap()]));
    assert_eq!(shown.status, 0, "its name says the domain: {}", shown.err);
    for run in runs {
        run.signal(Signal::INT);
        assert_eq!(run.ended().status, 130);
    }
    place.empty();
}

/// A folder that others may have made is not used. The command reports that, and the run continues.
#[test]
fn a_folder_of_somebody_else_is_said_and_the_run_goes_on() {
    let place = Place::new();
    std::os::unix::fs::symlink("/", place.path("gpc-bnr")).unwrap();
    let ended = ended(place.script("-n 1", "echo up"));
    assert_eq!((ended.status, ended.out.as_str()), (0, "up\n"));
    assert!(
        ended.err.contains("will not find this run") && ended.err.contains("it is no folder"),
        "{}",
        ended.err
    );
}

/// As from another machine: the tools do not see the folder of the run's user.
#[test]
fn running_nodes_show_their_domains_to_who_has_their_secret() {
    let (place, away) = (Place::new(), Place::new());
    let mut nodes = daemons(&place, &tcp(), true);
    let secret = place.path("secret");
    let script = format!("{PMI} put key-$PMI_RANK here; fence; echo up; exec sleep 1000");
    let run =
        Run::start(joined(&place, 0, &format!("-n 4 --on-death notify --secret-file {secret}"), &script));
    run.says("up", 4);
    // Without the head, which would take the same user on this machine for one of its own.
    let peers = std::fs::read_to_string(place.path("peers")).unwrap();
    let nodes_alone: Vec<&str> = peers.lines().filter(|line| ["1", "2"].contains(&&line[..1])).collect();
    std::fs::write(place.path("nodes"), nodes_alone.join("\n")).unwrap();
    let by = format!("--peers {} --id 9 --secret-file {secret}", place.path("nodes"));
    let found = away.json(&format!("ps --output json {by}"));
    let domain = &found["domains"][0];
    assert_eq!((found["domains"].as_array().unwrap().len(), &domain["head"]), (1, &Value::Null));
    let members = domain["groups"][0]["members"].as_array().unwrap();
    let places: Vec<u64> = members.iter().map(|member| member["node"].as_u64().unwrap()).collect();
    assert_eq!(places, [1, 1, 2, 2]);
    let name = domain["domain"].as_str().unwrap();
    let table = ended(away.gpc(format!("ps --domain {} {by}", &name[..4]).split(' ')));
    assert!(table.out.contains(&format!("{name}  g1     0-1    running     1")), "{}", table.out);
    let database = format!("kvs_{name}_1");
    assert_eq!(away.json(&format!("db list --output json {by}"))["domains"][0]["databases"][0], *database);
    let pairs = away.json(&format!("db show {database} --output json {by}"));
    assert_eq!(pairs["pairs"][4]["key"], "key-3", "{pairs}");
    let missing = ended(away.gpc(format!("db show nothing {by}").split(' ')));
    assert!(missing.status == 1 && missing.err.contains("there is no database nothing"), "{}", missing.err);
    // With another secret, the tools see nothing and kill nothing.
    assert_eq!(ended(place.gpc(["secret", &place.path("other")])).status, 0);
    for words in ["ps", "db list", "kill g1"] {
        let words =
            format!("{words} --peers {} --id 9 --secret-file {}", place.path("nodes"), place.path("other"));
        let refused = ended(away.gpc(words.split(' ')));
        assert_eq!((refused.status, refused.out.as_str()), (1, ""), "{}", refused.err);
        assert!(refused.err.contains("no node of") && refused.err.contains("node 1"), "{}", refused.err);
    }
    // One node is enough, and the job without the other node is still killed.
    nodes.remove(0).signal(Signal::KILL);
    let killed = ended(away.gpc(format!("kill g1 {by}").split(' ')));
    assert_eq!((killed.status, killed.err.as_str()), (0, ""));
    assert_ne!(run.ended().status, 0);
    let none = ended(away.gpc(format!("kill g1 {by}").split(' ')));
    assert!(none.status == 1 && none.err.contains("that answer run nothing"), "{}", none.err);
    nodes.remove(0).signal(Signal::TERM);
    place.empty();
    away.empty();
}

#[test]
fn tools_need_an_id_of_their_own_and_a_node_that_runs() {
    let place = Place::new();
    let nodes = daemons(&place, &unix("tools"), false);
    let peers = place.path("peers");
    let shown = ended(place.gpc(["ps", "--peers", &peers, "--id", "9"]));
    assert_eq!((shown.status, shown.out.lines().count(), shown.err.as_str()), (0, 1, ""), "{}", shown.out);
    let taken = ended(place.gpc(["ps", "--peers", &peers, "--id", "1"]));
    assert!(taken.status == 1 && taken.err.contains("id 1 is running already"), "{}", taken.err);
    let without = ended(place.gpc(["ps", "--peers", &peers]));
    assert!(without.status == 2 && without.err.contains("--id"), "{}", without.err);
    let alone = ended(place.gpc(["ps", "--secret-file", &peers]));
    assert!(alone.status == 2 && alone.err.contains("goes with --peers"), "{}", alone.err);
    for node in nodes {
        node.signal(Signal::TERM);
        node.ended();
    }
    let gone = ended(place.gpc(["ps", "--peers", &peers, "--id", "9"]));
    assert!(gone.status == 1 && gone.err.contains("no node of"), "{}", gone.err);
    place.empty();
}

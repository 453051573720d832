//! Measurements over real processes: every output format, and every way to end.

use rustix::process::Signal;
use serde_json::Value;

use crate::processes::support::{Ended, Gpc, run};

/// Few enough calls to take no time.
const SMALL: &str = "--rounds 5 --repeat 2";

#[track_caller]
fn succeeds(line: &str) -> String {
    let Ended { status, stdout, stderr } = run(line);
    assert_eq!(status.code(), Some(0), "{line}: {stderr}");
    String::from_utf8(stdout).unwrap()
}

#[track_caller]
fn json(line: &str) -> Value {
    serde_json::from_str(&succeeds(&format!("{line} --output json"))).unwrap()
}

#[test]
fn rows_are_measured_and_printed_in_every_form() {
    let line = format!("bench -n 2,3 --tree flat,chain --link tcp,unix {SMALL}");
    let table = succeeds(&format!("{line} --histogram"));
    let heading = "echo: 64 bytes, 1 in flight, adaptive, polled root; 2 turns of 5 calls for each row, 50 % intervals\n";
    assert!(table.starts_with(heading), "{table}");
    assert_eq!(table.matches(": 10 calls\n").count(), 8, "{table}");
    let report = json(&line);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &report["func"], &report["interrupted"]), (8, &"echo".into(), &false.into()));
    for row in rows {
        assert_eq!(
            (row["calls"].as_u64(), row["rounds_ns"].as_array().unwrap().len()),
            (Some(10), 2),
            "{row}"
        );
        let [low, round, high] = ["low_ns", "round_ns", "high_ns"].map(|name| row[name].as_u64().unwrap());
        assert!(0 < low && low <= round && round <= high, "{row}");
        let counted =
            row["histogram"].as_array().unwrap().iter().map(|bucket| bucket["calls"].as_u64().unwrap());
        assert_eq!(counted.sum::<u64>(), 10);
        assert!(row["cpu_ns"].is_u64(), "{row}");
    }
    let csv = succeeds(&format!("{line} --output csv"));
    assert_eq!(csv.lines().count(), 9);
    assert!(csv.contains("\necho,3,chain,64,64,1,tcp,adaptive,polled,10,"), "{csv}");
}

#[test]
fn roots_waits_payloads_and_calls_in_flight_are_swept() {
    let report = json(&format!(
        "bench -n 4 --root polled,thread --wait block,spin:20us --in-flight 1,8 --bytes 0,20k --reply-bytes 3 {SMALL}"
    ));
    assert_eq!((report["rows"].as_array().unwrap().len(), &report["func"]), (16, &"fill".into()));
    let rows = json(&format!("bench sum -n 1,5 --forward-first {SMALL}"));
    assert_eq!(rows["rows"][1]["reply_bytes"], Value::Null);
}

#[test]
fn a_run_is_saved_drawn_and_compared_with_another() {
    let folder = tempfile::tempdir().unwrap();
    let [kept, drawn] = ["run.json", "run.svg"].map(|name| folder.path().join(name).display().to_string());
    let table = succeeds(&format!("bench -n 2,3 --rounds 5 --repeat 4 --save {kept} --svg {drawn}"));
    assert!(!table.contains("against"));
    let svg = std::fs::read_to_string(&drawn).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("</circle>").count() == 2, "{svg}");
    let later = format!("bench -n 3,4 --rounds 5 --repeat 4 --compare {kept}");
    let table = succeeds(&later);
    assert!(table.contains(&format!("\nagainst {kept}:\nn  then µs  now µs  ratio ")), "{table}");
    assert!(table.ends_with("only in this run: n 4\nonly in the earlier run: n 2\n"), "{table}");
    let comparison = &json(&later)["comparison"];
    let [low, ratio, high] =
        ["low", "ratio", "high"].map(|name| comparison["rows"][0][name].as_f64().unwrap());
    assert!(0.0 < low && low <= ratio && ratio <= high, "{comparison}");
    assert_eq!(
        (&comparison["only_now"][0]["n"], &comparison["only_earlier"][0]["n"]),
        (&4.into(), &2.into())
    );
}

#[test]
fn nodes_that_run_already_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    let address = |id| format!("unix:{}/{id}.sock", folder.path().display());
    std::fs::write(&path, format!("1 {}\n2 {}\n", address(1), address(2))).unwrap();
    let peers = format!("--peers {}", path.display());
    let nodes = [1, 2].map(|id| {
        let node = Gpc::start(&format!("node --id {id} --listen {} {peers}", address(id)));
        node.until_said(&format!("gpc: id {id} listens"));
        node
    });
    let report = json(&format!("bench {peers} --id 7 -n 2,3 {SMALL}"));
    assert_eq!((&report["rows"][1]["n"], &report["rows"][1]["link"]), (&3.into(), &"joined".into()));
    assert_eq!(report["rows"][1]["cpu_ns"], Value::Null, "their processes are not known");
    let [one, two] = nodes;
    two.process().kill(Signal::TERM);
    two.end();
    let ended = run(&format!("bench {peers} --id 7 {SMALL}"));
    assert_eq!(ended.code(), Some(1));
    let said = ended.said();
    assert!(
        said.starts_with("gpc: id 2 failed at stage link (unreachable): ")
            && said.ends_with("; see that `gpc node --id 2` runs there"),
        "{said}"
    );
    one.process().kill(Signal::TERM);
    one.end();
}

#[test]
fn a_call_that_fails_ends_the_measurement_with_its_cause() {
    let ended = run(&format!("bench fail -n 3 --header 1 {SMALL}"));
    assert_eq!((ended.code(), ended.stdout.len()), (Some(1), 0));
    assert_eq!(ended.said(), "gpc: id 1 failed at stage func: it was asked to fail here");
    let ended = run(&format!("bench sleep -n 3 --header 10m --time-limit 50ms --root thread {SMALL}"));
    assert!(ended.code() == Some(1) && ended.said().contains("failed at stage"), "{}", ended.stderr);
}

#[test]
fn a_process_that_dies_ends_the_measurement() {
    for (root, link) in [("polled", "unix"), ("thread", "tcp"), ("polled", "shm"), ("thread", "shm")] {
        let bench =
            Gpc::start(&format!("bench -n 4 --tree chain --root {root} --link {link} --time 20m --repeat 1"));
        bench.until_said("gpc: 1 row in 1 turn: about ");
        bench.node(2).kill(Signal::KILL);
        let ended = bench.end();
        let said = ended.said();
        assert!(ended.code() == Some(1) && said.starts_with("gpc: id 2 failed at stage link ("), "{said}");
        assert!(said.ends_with("its process ended: killed by signal 9 (SIGKILL)"), "{said}");
    }
}

#[test]
fn an_interrupt_ends_everything_and_prints_what_there_is() {
    let line = "bench -n 2,3 --rounds 5 --repeat 1000 --output json";
    let bench = Gpc::start_in(line, b"", &[("GPC_LOG", "debug")]);
    bench.until_said("a repetition has ended");
    bench.process().kill(Signal::INT);
    let ended = bench.end();
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&report["interrupted"], report["rows"].as_array().unwrap().len()), (&true.into(), 2));
    let bench = Gpc::start("bench -n 3 --time 20m --repeat 1");
    bench.until_said("gpc: 1 row in 1 turn: about ");
    bench.process().kill(Signal::TERM);
    let ended = bench.end();
    assert_eq!((ended.code(), ended.stdout.len()), (Some(143), 0), "no turn was whole");
}

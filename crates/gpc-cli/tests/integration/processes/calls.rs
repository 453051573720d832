//! Results of calls: in every tree, over both links, in every output format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chained_gpc::wire::level::{Leaves, Limits};
use ring::digest::{SHA256, digest};

use crate::processes::support::{Gpc, coverage, ids, json_of, run};

/// A file of this package, of some 30 KB.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/args.rs");

/// Returns the expected reply of `digest`.
fn digest_of(data: &[u8]) -> String {
    let hex: String = digest(&SHA256, data).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex} {}", data.len())
}

/// Creates a tree file over 8 positions whose preorder is not 0 to 7, in its own folder.
fn tree_file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.tree");
    std::fs::write(&path, "0: 5 1 # the root\n1: 2 7\n5: 6 3\n3: 4\n").unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn the_main_job_answers_from_64_processes() {
    let value = json_of(&format!("call digest -n 64 --tree binomial --data {FILE}"));
    let expected = digest_of(&std::fs::read(FILE).unwrap());
    assert_eq!((value["func"].as_str(), value["tree"].as_str()), (Some("digest"), Some("binomial")));
    assert_eq!((value["nodes"].as_u64(), value["level"].as_u64()), (Some(64), Some(6)));
    assert_eq!(coverage(&value), [64, 0, 0, 0]);
    assert!(value["cause"].is_null() && value["repeat"].is_null());
    assert_eq!(ids(&value), (0..64).collect::<Vec<_>>());
    assert!(value["replies"].as_array().unwrap().iter().all(|reply| reply["data"] == *expected));
}

#[test]
fn every_tree_and_link_carries_a_call() {
    let (_folder, path) = tree_file();
    let file = format!("file:{path}");
    for tree in ["binary", "binomial", "kary:3", "knomial:3", "chain", "flat", &file] {
        for link in ["tcp", "unix", "shm"] {
            for more in ["", "--execute-first"] {
                let value =
                    json_of(&format!("call digest -n 8 --tree {tree} --link {link} --data {FILE} {more}"));
                assert_eq!((value["tree"].as_str(), coverage(&value)), (Some(tree), [8, 0, 0, 0]));
                assert_eq!(ids(&value), [0, 1, 2, 3, 4, 5, 6, 7], "{tree} {link}");
                let expected = digest_of(&std::fs::read(FILE).unwrap());
                assert!(value["replies"].as_array().unwrap().iter().all(|reply| reply["data"] == *expected));
            }
        }
    }
}

#[test]
fn replies_stand_in_the_callers_order() {
    // The root takes part. It is put first if the list omits it.
    for (list, expected) in [
        ("5,0-2,7", vec![5, 0, 1, 2, 7]),
        ("7,3", vec![0, 7, 3]),
        ("0", vec![0]),
        ("3,2,1,0", vec![3, 2, 1, 0]),
    ] {
        for tree in ["binary", "binomial", "flat", "chain"] {
            let value = json_of(&format!("call facts -n 8 --ids {list} --tree {tree}"));
            assert_eq!(ids(&value), expected, "{list} {tree}");
            assert_eq!(coverage(&value), [expected.len() as u64, 0, 0, 0]);
            // Every reply comes from another process, so no reply has two ids.
            let pid = |reply: &serde_json::Value| {
                reply["data"].as_str().unwrap().split(' ').nth(1).unwrap().to_owned()
            };
            let mut pids: Vec<String> = value["replies"].as_array().unwrap().iter().map(pid).collect();
            pids.sort();
            pids.dedup();
            assert_eq!(pids.len(), expected.len(), "{value}");
        }
    }
    // Over a tree file with another preorder; `fail` names the ids that reply.
    let (_folder, path) = tree_file();
    let value = json_of(&format!("call facts -n 8 --ids 3,1,0,2,4-7 --tree file:{path}"));
    assert_eq!(ids(&value), [3, 1, 0, 2, 4, 5, 6, 7]);
}

#[test]
fn an_id_answers_for_itself() {
    // A merged reply names each id in tree order.
    let value = json_of("call fail -n 6 --tree chain --header 5:callback");
    assert_eq!(value["replies"][0]["data"], "0 ok\n1 ok\n2 ok\n3 ok\n4 ok\n5 ok");
    let value = json_of("call sum -n 20 --tree kary:3");
    assert_eq!((ids(&value), &value["replies"][0]["data"]), (vec![0], &"2870".into()));
}

#[test]
fn header_and_data_go_both_ways() {
    let value = json_of("call echo -n 5 --header h\u{e9}llo");
    for reply in value["replies"].as_array().unwrap() {
        assert_eq!((&reply["header"], &reply["data"]), (&"h\u{e9}llo".into(), &"".into()));
    }
    // Data that are not UTF-8 are returned as base64; they are sent through a pipe.
    let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    let ended = Gpc::start_with("call echo -n 5 --data - --output json", &bytes).end();
    let value = ended.json();
    assert_eq!((ended.code(), coverage(&value)), (Some(0), [5, 0, 0, 0]));
    for reply in value["replies"].as_array().unwrap() {
        assert_eq!(STANDARD.decode(reply["data"]["base64"].as_str().unwrap()).unwrap(), bytes);
    }
}

#[test]
fn many_calls_are_made_on_the_same_processes() {
    let value = json_of("call echo -n 8 --repeat 50 --header x");
    let repeat =
        ["calls", "median_us", "p90_us", "p99_us"].map(|name| value["repeat"][name].as_u64().unwrap());
    assert_eq!(repeat[0], 50);
    assert!(repeat[1] <= repeat[2] && repeat[2] <= repeat[3], "{value}");
    // The first failed call is the last one.
    let ended = run("call fail -n 4 --header 3 --repeat 50 --output json");
    assert_eq!((ended.code(), &ended.json()["repeat"]["calls"]), (Some(1), &1.into()));
}

#[test]
fn the_level_output_is_level_n_data_and_nothing_else() {
    let expected = digest_of(&std::fs::read(FILE).unwrap());
    for (tree, level) in [("binary", 4), ("binomial", 4), ("flat", 1), ("chain", 15)] {
        let line = format!("call digest -n 16 --tree {tree} --data {FILE}");
        assert_eq!(json_of(&line)["level"], level);
        let ended = run(&format!("{line} --output level"));
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""));
        let leaves: Result<Vec<&[u8]>, _> = Leaves::new(level, &ended.stdout, Limits::default()).collect();
        assert_eq!(leaves.unwrap(), vec![expected.as_bytes(); 16]);
    }
    // A failed call has no level-n data.
    let ended = run("call fail -n 4 --header 2 --output level");
    assert_eq!((ended.code(), ended.stdout.len()), (Some(1), 0));
}

/// `--ids 1-3` called four ids without saying so, and it was impossible to call just these three.
#[test]
fn a_root_that_the_list_leaves_out_takes_part_and_is_named_unless_it_watches() {
    let value = json_of("call echo -n 4 --ids 1-3");
    assert_eq!(
        (ids(&value), &value["root"], &value["root_part"]),
        (vec![0, 1, 2, 3], &0.into(), &"added".into())
    );
    let text = String::from_utf8(run("call echo -n 4 --ids 1-3").stdout).unwrap();
    assert!(
        text.contains("echo over 4 ids, id 0 among them as the root, which --ids leaves out: "),
        "{text}"
    );
    for (list, expected) in [("--ids 3,1", vec![3, 1]), ("", vec![1, 2, 3])] {
        for tree in ["binary", "flat", "chain"] {
            let value = json_of(&format!("call echo -n 4 {list} --watch --tree {tree}"));
            let nodes = expected.len() as u64;
            assert_eq!(
                (ids(&value), coverage(&value)[0], &value["nodes"]),
                (expected.clone(), nodes, &nodes.into())
            );
        }
    }
    let value = json_of("call sum -n 4 --watch");
    assert_eq!((&value["replies"][0]["data"], &value["root_part"]), (&"29".into(), &"watching".into()));
    let text = String::from_utf8(run("call echo -n 4 --watch").stdout).unwrap();
    assert!(text.contains("echo over 3 ids, called by id 0, which only watches: "), "{text}");
    let ended = run("call fail -n 4 --header 2 --watch --output json");
    let missing = &ended.json()["missing"];
    let failed: Vec<_> = missing.as_array().unwrap().iter().filter(|one| one["status"] == "failed").collect();
    assert_eq!((ended.code(), failed.len(), &failed[0]["id"]), (Some(1), 1, &2.into()), "{missing}");
}

#[test]
fn the_table_is_for_people() {
    let ended = run("call echo -n 3 --header hello");
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.starts_with(
        "id  header  data\n 0  hello\n 1  hello\n 2  hello\n\necho over 3 ids: flat tree, 1 level\n"
    ));
    assert!(text.contains("done 3 of 3 in ") && text.ends_with(" per level\n"), "{text}");
    // No progress is shown without a terminal.
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let alone = String::from_utf8(run("call sum -n 1").stdout).unwrap();
    assert!(
        alone.starts_with("id  data\n 0  1\n\nsum over 1 id: flat tree, 0 levels\ndone 1 of 1 in "),
        "{alone}"
    );
    let failed = run("call fail -n 3 --header 0 --repeat 9 --execute-first");
    let text = String::from_utf8(failed.stdout).unwrap();
    assert!(
        text.starts_with("fail over 3 ids: flat tree, 1 level\ndone 0 of 3, failed 1, unreached 2 in "),
        "{text}"
    );
    assert!(text.contains("\n1 call: median "), "{text}");
}

#[test]
fn logs_go_to_standard_error_when_they_are_asked_for() {
    let ended = Gpc::start_in("call echo -n 4 --output json", b"", &[("GPC_LOG", "debug")]).end();
    assert_eq!((ended.code(), coverage(&ended.json())), (Some(0), [4, 0, 0, 0]));
    // Logs of started processes are included, and a file gets no colours.
    assert!(ended.stderr.contains("call ended") && ended.stderr.contains("link up id=3"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
    let ended = Gpc::start_in("call echo -n 4", b"", &[("GPC_LOG", "a=b=c")]).end();
    assert_eq!((ended.code(), ended.stdout.len()), (Some(2), 0));
    assert!(ended.stderr.starts_with("gpc: GPC_LOG=\"a=b=c\": "), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_called_is_said_before_anything_starts() {
    for (line, expected) in [
        (
            "call nothing -n 4",
            "gpc: id 0, this process, has no function named `nothing`; it has: digest, echo, facts, fail, fill, sleep, sum; --load LIB adds those of a library",
        ),
        (
            "call echo -n 4 --ids 4",
            "gpc: --ids names id 4, but with -n 4 the ids are 0 to 3: raise -n or correct the list",
        ),
        (
            "call echo -n 4 --tree oak",
            "gpc: no tree is named `oak`; write binary, binomial, kary:K, knomial:K, chain, flat, loggp:LAG, file:PATH or hosts:PATH+TREE, or load the library that registers it with --load",
        ),
        ("call echo -n 4 --time-limit 0s", "gpc: --time-limit 0s leaves no time for the call"),
        ("call echo -n 4 --id 2", "gpc: --id 2 goes with --peers FILE; with -n this process is id 0"),
    ] {
        let ended = run(line);
        assert_eq!((ended.code(), ended.stdout.len(), ended.stderr.trim_end()), (Some(2), 0, expected));
    }
    // With other files the same arguments could be right.
    for (line, expected) in [
        (
            "call echo -n 4 --data /nowhere",
            "gpc: cannot read the data of --data /nowhere: No such file or directory (os error 2)",
        ),
        (
            "call echo -n 4 --tree file:/nowhere",
            "gpc: cannot read the tree file /nowhere: No such file or directory (os error 2)",
        ),
    ] {
        let ended = run(line);
        assert_eq!((ended.code(), ended.stdout.len(), ended.stderr.trim_end()), (Some(1), 0, expected));
    }
    let (_folder, path) = tree_file();
    let ended = run(&format!("call echo -n 9 --tree file:{path}"));
    assert!(
        ended.code() == Some(2) && ended.stderr.contains(&path) && ended.stderr.contains('8'),
        "{}",
        ended.stderr
    );
    // Without any of them, the error names all ways to select nodes.
    let ended = run("call echo");
    assert!(ended.code() == Some(2) && ended.stderr.contains("-n N"), "{}", ended.stderr);
    for way in ["--hosts LIST", "--peers FILE --id I", "mpiexec"] {
        assert!(ended.stderr.contains(way), "{way}: {}", ended.stderr);
    }
}

#[test]
fn fail_fails_where_it_is_told_to() {
    for (header, id, stage) in [
        ("5", 5, "func"),
        ("3:func", 3, "func"),
        ("0:callback", 0, "callback"),
        ("1:callback", 1, "callback"),
    ] {
        for tree in ["binary", "binomial", "chain"] {
            for more in ["", "--execute-first"] {
                // In a binomial tree id 1 is a leaf, which merges nothing.
                if (tree, header) == ("binomial", "1:callback") {
                    continue;
                }
                let ended =
                    run(&format!("call fail -n 8 --header {header} --tree {tree} {more} --output json"));
                let cause = serde_json::json!({"id": id, "stage": stage, "kind": "failed", "code": 0, "message": "it was asked to fail here"});
                let value = ended.json();
                assert_eq!((ended.code(), &value["cause"]), (Some(1), &cause));
                assert_eq!(
                    ended.said(),
                    format!("gpc: id {id} failed at stage {stage}: it was asked to fail here")
                );
                assert!(coverage(&value)[1] == 1 && ids(&value).is_empty(), "{value}");
            }
        }
    }
}

/// Numbers that the functions of all processes write are reduced, and shown as numbers.
#[test]
fn replies_are_reduced_to_numbers() {
    let fill = u64::from_le_bytes([b'.'; 8]);
    for (reduction, wanted) in
        [("sum:u64", fill.wrapping_mul(5)), ("min:u64", fill), ("max:u64", fill), ("xor", 0)]
    {
        let value = json_of(&format!("call fill -n 5 --header 16 --reduce {reduction}"));
        assert_eq!(value["callback"], reduction);
        match reduction {
            "xor" => assert!(value["reduced"].is_null()),
            _ => assert_eq!(value["reduced"], serde_json::json!([wanted, wanted])),
        }
    }
    let ended = run("call fill -n 3 --header 24 --reduce top:f64:2");
    assert!(ended.status.success(), "{}", ended.stderr);
    let odd = run("call fill -n 3 --header 7 --reduce sum:u32");
    assert!(odd.stderr.contains("7 bytes are no whole numbers of 4 bytes (u32)"), "{}", odd.stderr);
    let phased = run("call sum -n 3 --reduce sum:u32");
    assert!(phased.stderr.contains("`sum` merges replies itself"), "{}", phased.stderr);
    let unknown = run("call fill -n 3 --reduce product:f64");
    assert!(unknown.stderr.contains("`product:f64` is no reduction: write sum"), "{}", unknown.stderr);
}

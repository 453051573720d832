//! Programs that violate the protocol: half lines, too long lines, wrong versions, closed links; and daemons that try
//! to stay.

use super::support::*;

/// Functions of bash to speak PMI without an initialization.
const RAW: &str = r#"
say() { printf '%s\n' "$1" >&"$PMI_FD"; }
hear() { IFS= read -r line <&"$PMI_FD" || line=nothing; }
ask() { say "$1"; hear; }
"#;

/// Runs a program of one process; returns its output, its status and the complaints.
#[track_caller]
fn alone(script: &str) -> Ended {
    let place = Place::new();
    let ended = ended(place.script("-n 1 --time-limit 60s", &format!("{RAW}{script}")));
    place.empty();
    ended
}

#[test]
fn a_version_that_nobody_speaks_is_refused_and_another_may_be_asked_for() {
    let script = "for version in 'pmi_version=7 pmi_subversion=0' 'pmi_version=x' '' 'pmi_version=1 pmi_subversion=1'; do ask \"cmd=init $version\"; echo \"$line\"; done; ask cmd=finalize; echo \"$line\"";
    let ended = alone(script);
    let refused = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n";
    let agreed = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=finalize_ack\n";
    assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{}", ended.out);
    assert_eq!(ended.out, format!("{refused}{refused}{refused}{agreed}"));
}

#[test]
fn what_is_too_long_or_the_servers_own_is_refused_and_the_process_goes_on() {
    let place = Place::new();
    let script = format!(
        "{PMI} long=$(printf '%300s' | tr ' ' k); put $long 1; echo \"$line\"; longer=$(printf '%70000s' | tr ' ' v); put key $longer; echo \"$line\"; put PMI_key 1; echo \"$line\"; put key 1; echo \"$line\"; get $long; echo \"$line\"; finalize"
    );
    let ended = ended(place.script("-n 1", &script));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{}", ended.out);
    let answers: Vec<&str> = ended.out.lines().collect();
    assert!(answers[..3].iter().all(|answer| answer.starts_with("cmd=put_result rc=-1 msg=")), "{answers:?}");
    assert_eq!(answers[3], "cmd=put_result rc=0 msg=success");
    assert!(answers[4].starts_with("cmd=get_result rc=-1 msg="), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.len() < 1024), "as long as clients read: {answers:?}");
}

#[test]
fn a_line_without_an_end_harms_nobody() {
    // The process ends before it takes part.
    let ended = alone("printf cmd=ini >&$PMI_FD; echo over");
    assert_eq!((ended.status, ended.out.as_str(), ended.err.as_str()), (0, "over\n", ""));
    // The process takes part, and its last line has no end.
    let ended = alone("ask 'cmd=init pmi_version=1 pmi_subversion=1'; printf cmd=finali >&$PMI_FD");
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.err.contains("g1.0: ended with status 0, but without finalizing"), "{}", ended.err);
}

#[test]
fn a_line_of_more_than_a_mebibyte_closes_the_link() {
    let ended = alone(
        "ask 'cmd=init pmi_version=1 pmi_subversion=1'; { printf 'cmd=put key='; head -c 1100000 /dev/zero | tr '\\0' x; } >&$PMI_FD 2>/dev/null; hear; echo \"$line\"; exit 3",
    );
    assert_eq!((ended.status, ended.out.as_str()), (3, "nothing\n"), "{}", ended.err);
    assert!(
        ended.err.contains("process g1.0 is not answered any more: a line of more than"),
        "{}",
        ended.err
    );
    assert!(ended.err.len() < 1024, "{}", ended.err);
}

/// The request was accepted and answered.
#[test]
fn what_is_asked_after_the_goodbye_is_not_answered() {
    let place = Place::new();
    let script = format!("{PMI} finalize; echo \"$line\"; put key 1; echo \"answer: $line\"");
    let ended = ended(place.script("-n 1", &script));
    assert!(ended.out.starts_with("cmd=finalize_ack\n"), "{}", ended.out);
    assert!(!ended.out.contains("success"), "{}", ended.out);
    assert!(ended.err.contains("process g1.0 is not answered any more"), "{}", ended.err);
    // The process had sent its goodbye, and has succeeded.
    assert_eq!(ended.status, 0, "{}", ended.err);
}

#[test]
fn a_goodbye_may_be_followed_by_a_new_beginning() {
    let place = Place::new();
    let script = format!("{PMI} finalize; {PMI} put key 1; echo \"$line\"; finalize; echo \"$line\"");
    let ended = ended(place.script("-n 1", &script));
    let expected = "cmd=put_result rc=0 msg=success\ncmd=finalize_ack\n";
    assert_eq!((ended.status, ended.out.as_str()), (0, expected), "{}", ended.err);
}

#[test]
fn who_closes_its_link_before_it_takes_part_is_a_program_like_others() {
    let ended = alone("exec {PMI_FD}>&-; echo goes on");
    assert_eq!((ended.status, ended.out.as_str(), ended.err.as_str()), (0, "goes on\n", ""));
}

/// The other processes waited for it in their fence as long as it ran.
#[test]
fn who_closes_its_link_and_goes_on_fails_its_job() {
    for words in ["", "--nodes 2"] {
        let place = Place::new();
        let script = format!(
            "{PMI} [ $PMI_RANK = 1 ] && {{ exec {{PMI_FD}}>&-; echo closed; exec sleep 1000; }}; fence; echo \"after: $line\"; finalize"
        );
        let ended = ended(place.script(&format!("-n 3 {words}"), &script));
        ended.failed(1, "gpc: g1.1 has ended the job with status 1: its link to node");
        assert!(!ended.out.contains("barrier_out"), "{}", ended.out);
        place.nothing_left();
    }
}

#[test]
fn who_speaks_nonsense_and_goes_on_fails_its_job() {
    let place = Place::new();
    let script = format!(
        "{PMI} [ $PMI_RANK = 1 ] && {{ say 'cmd=no_such_thing'; exec sleep 1000; }}; fence; echo \"after: $line\"; finalize"
    );
    let ended = ended(place.script("-n 3", &script));
    ended.failed(1, "gpc: process g1.1 is not answered any more");
    assert!(ended.err.contains("gpc: g1.1 has ended the job with status 1"), "{}", ended.err);
    place.nothing_left();
}

#[test]
fn nobody_finalizes() {
    for words in ["-n 4", "-n 4 --nodes 2"] {
        let place = Place::new();
        let ended = ended(place.script(words, &format!("{PMI} fence; exit 0")));
        assert_eq!(ended.status, 1, "{}", ended.err);
        let line = ended.err.lines().next().unwrap();
        assert!(line.contains("ended with status 0, but without finalizing"), "{}", ended.err);
        place.nothing_left();
    }
}

#[test]
fn who_hangs_after_the_beginning_ends_with_the_time_limit() {
    for words in ["-n 3", "-n 3 --nodes 3", "-n 3 --on-death notify"] {
        let place = Place::new();
        // One process hangs in the middle of a line, others in a fence, and all ignore SIGTERM.
        let script = format!(
            "trap '' TERM; {PMI} [ $PMI_RANK = 1 ] && {{ printf cmd=barr >&$PMI_FD; while :; do sleep 1; done; }}; fence; echo \"after: $line\""
        );
        let ended = ended(place.script(&format!("{words} --time-limit 1s"), &script));
        assert_eq!(ended.status, 124, "{}", ended.err);
        assert!(ended.err.contains("they ran for longer than 1s"), "{}", ended.err);
        assert!(!ended.out.contains("barrier_out"), "{}", ended.out);
        place.nothing_left();
    }
}

/// Whether there is a process with a unique text in its command line.
fn there_is(line: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let found = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&found).replace('\0', " ").contains(line)
    })
}

/// A daemon as in textbooks: two forks, a session, no descriptors; here also without an environment.
#[test]
fn daemons_go_with_their_job_however_it_ends() {
    for (end, status, limit) in [("exit 0", 0, 120), ("kill -9 $$", 137, 120), ("sleep 1000", 124, 20)] {
        let place = Place::new();
        let folder = tempfile::tempdir().unwrap();
        let line = format!("sleep 1000{}", std::process::id());
        let up = format!("{}/up$PMI_RANK", folder.path().display());
        let script = format!(
            "(env -i setsid bash -c 'bash -c \": >'{up}'; exec {line}\" & exit' </dev/null >/dev/null 2>&1); until [ -e {up} ]; do :; done; echo up; {end}"
        );
        let ended = ended(place.script(&format!("-n 2 --nodes 2 --time-limit {limit}s"), &script));
        assert_eq!(ended.status, status, "{}", ended.err);
        place.nothing_left();
        until("the daemons are gone", || !there_is(&line));
    }
}

/// PMI 1.2 is for processes that request it. A process that requests 1.1 gets barriers without tags and groups.
#[test]
fn barriers_of_groups_are_for_those_who_ask_for_1_2() {
    let place = Place::new();
    let script = format!(
        "{RAW} ask 'cmd=init pmi_version=1 pmi_subversion=2'; echo \"$line\"; mine=$((PMI_RANK / 2 * 2)); for group in '' \" group=$mine,$((mine + 1)):5\" ' group=WORLD:6' ' group=NODE:7' ' group=WORLD'; do ask \"cmd=barrier_in$group\"; echo \"$line\"; done; ask cmd=finalize; echo \"$line\""
    );
    for words in ["-n 4", "-n 4 --nodes 2"] {
        let ended = ended(place.script(words, &script));
        let lines = [
            "cmd=response_to_init pmi_version=1 pmi_subversion=2 rc=0",
            "cmd=barrier_out tag=0",
            "cmd=barrier_out tag=5",
            "cmd=barrier_out tag=6",
            "cmd=barrier_out tag=7",
            "cmd=barrier_out tag=0",
            "cmd=finalize_ack",
        ];
        ended.well(lines.iter().flat_map(|line| [*line; 4]));
        place.empty();
    }
    let plain = alone(
        "ask 'cmd=init pmi_version=1 pmi_subversion=1'; echo \"$line\"; ask cmd=barrier_in; echo \"$line\"; ask cmd=finalize",
    );
    assert_eq!(plain.out, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=barrier_out\n");
}

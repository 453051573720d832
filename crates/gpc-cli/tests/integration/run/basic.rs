//! Runs without faults, and runs that cannot begin.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::support::*;

#[test]
fn four_processes_say_hello() {
    let place = Place::new();
    let ended = ended(place.script("-n 4", "echo hello from $PMI_RANK of $PMI_SIZE, $GPC_BNR_GROUP"));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    let group = ended.lines()[0].rsplit_once(", ").unwrap().1;
    let expected: Vec<String> = (0..4).map(|rank| format!("hello from {rank} of 4, {group}")).collect();
    assert_eq!(ended.lines(), expected);
    let (domain, name) = group.split_once('/').unwrap();
    assert!(name == "g1" && domain.len() == 16, "{group}");
    place.empty();
}

#[test]
fn many_processes_run_and_all_they_say_is_written() {
    let place = Place::new();
    let ended = ended(place.script("-n 48", "echo $PMI_RANK; echo $PMI_RANK >&2"));
    let mut ranks: Vec<u32> = ended.out.lines().map(|line| line.parse().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!((ended.status, ranks), (0, (0..48).collect()));
    assert_eq!(ended.err.lines().count(), 48);
    place.empty();
}

#[test]
fn programs_stand_behind_each_other_in_one_group() {
    let place = Place::new();
    fs::create_dir(place.path("there")).unwrap();
    let there = place.path("there");
    let words = format!("run -n 1 --env A=one sh -c E : -n 2 --env A=two --env A_ --wdir {there} sh -c E");
    let script = "echo $PMI_RANK of $PMI_SIZE $A $A_ $(basename $PWD)";
    let words = words.split_whitespace().map(|word| if word == "E" { script } else { word });
    let mut command = place.gpc(words);
    command.env("A", "mine").env("A_", "own").current_dir("/");
    let ended = ended(command);
    assert_eq!(ended.lines(), ["0 of 3 one own /", "1 of 3 two own there", "2 of 3 two own there"]);
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
}

#[test]
fn lines_have_tags() {
    let place = Place::new();
    let ended =
        ended(place.script("-n 2 --tag-output", "echo a; printf 'b\\n'; printf c; echo e$PMI_RANK >&2"));
    ended.well((0..2).flat_map(|rank| ["a", "b", "c"].map(|text| format!("[g1.{rank}] {text}"))));
    let mut errors: Vec<&str> = ended.err.lines().collect();
    errors.sort_unstable();
    assert_eq!(errors, ["[g1.0] e0", "[g1.1] e1"]);
}

#[test]
fn rank_0_reads_standard_input_and_nobody_else_does() {
    let place = Place::new();
    let mut command = place.script("-n 3", "echo $PMI_RANK $(wc -c)");
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    // More than pipes hold.
    run.write(&"0123456789".repeat(100_000));
    let ended = run.ended();
    ended.well(["0 1000000", "1 0", "2 0"]);
}

#[test]
fn another_rank_reads_or_all_have_a_copy() {
    let place = Place::new();
    let reads = |words: &str| {
        let mut command = place.script(&format!("-n 3 {words}"), "echo $PMI_RANK $(md5sum)");
        command.stdin(Stdio::piped());
        let mut run = Run::start(command);
        // More than pipes hold.
        run.write(&"0123456789".repeat(100_000));
        let ended = run.ended();
        assert_eq!(ended.status, 0, "{words}: {}", ended.err);
        ended.lines().iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = reads("--stdin all");
    assert!(all[0] == all[1] && all[0] == all[2], "{all:?}");
    let nothing = "d41d8cd98f00b204e9800998ecf8427e";
    assert_ne!(all[0], nothing);
    assert_eq!(reads("--stdin all --nodes 2"), all);
    one_node_that_reads_nothing_delays_none_of_the_others(&place, &all[0]);
    for words in ["--stdin 2", "--stdin 2 --nodes 2"] {
        assert_eq!(reads(words), [nothing, nothing, &all[0]], "{words}");
    }
    let wrong = ended(place.script("-n 3 --stdin 3", "true"));
    wrong.failed(2, "gpc: --stdin 3: the ranks are 0 to 2");
    let wrong = ended(place.script("--stdin some", "true"));
    wrong.failed(2, "gpc: --stdin some: write a rank, none or all");
    place.empty();
}

/// The others waited for ever: the node's refusal of a piece was that of all, and the end of the input was not sent.
fn one_node_that_reads_nothing_delays_none_of_the_others(place: &Place, sum: &str) {
    let program = "[ $PMI_RANK = 1 ] && exec true; echo $PMI_RANK $(md5sum)";
    let mut command = place.script("-n 3 --nodes 3 --stdin all", program);
    command.stdin(Stdio::piped());
    let mut run = Run::start(command);
    run.write(&"0123456789".repeat(100_000));
    let ended = run.ended();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let mut lines = ended.lines();
    lines.sort();
    assert!(lines.len() == 2 && lines[0].starts_with(&format!("0 {sum}")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("2 {sum}")), "{lines:?}");
}

/// If a program reads nothing, the command must end although its input does not.
#[test]
fn input_that_nobody_reads_keeps_nobody() {
    let place = Place::new();
    let mut command = place.script("-n 2", "exec <&-; echo ready");
    let (from, mut to) = std::io::pipe().unwrap();
    command.stdin(from);
    let run = Run::start(command);
    let _ = to.write_all(&[b'x'; 10]);
    let ended = run.ended();
    ended.well(["ready"; 2]);
    drop(to);
    place.empty();
}

#[test]
fn the_exit_status_is_that_of_the_first_that_fails() {
    let place = Place::new();
    for (script, status, said) in [
        ("exit 0", 0, ""),
        ("[ $PMI_RANK != 2 ] || exit 7; sleep 1000", 7, "gpc: g1.2: ended with status 7\n"),
        (
            "[ $PMI_RANK != 1 ] || kill -SEGV $$; sleep 1000",
            139,
            "gpc: g1.1: killed by signal 11 (SIGSEGV)\n",
        ),
        ("exit 255", 255, "ended with status 255\n"),
    ] {
        let ended = ended(place.script("-n 3", script));
        assert_eq!(ended.status, status, "{script}: {}", ended.err);
        assert!(ended.err.contains(said) && (!said.is_empty() || ended.err.is_empty()), "{}", ended.err);
        place.empty();
    }
}

#[test]
fn the_others_go_on_where_a_death_is_no_more_than_told() {
    let place = Place::new();
    let ended = ended(
        place.script("-n 3 --on-death notify", "[ $PMI_RANK != 1 ] || kill -9 $$; echo done $PMI_RANK"),
    );
    assert_eq!((ended.status, ended.lines()), (137, vec!["done 0", "done 2"]));
    assert_eq!(ended.err, "gpc: g1.1: killed by signal 9 (SIGKILL)\n");
}

#[test]
fn what_cannot_be_started_is_named() {
    let place = Place::new();
    let text = place.path("text");
    fs::write(&text, "no program").unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o644)).unwrap();
    for (words, status, said) in [
        (
            format!("run -n 2 {}", place.path("nothing")),
            127,
            "): there is no such program: No such file or directory",
        ),
        ("run no-such-program-anywhere".into(), 127, "cannot start no-such-program-anywhere (rank 0, host "),
        (format!("run {text}"), 126, "Permission denied"),
        (
            "run --wdir /nowhere true".into(),
            126,
            "cannot enter the folder /nowhere: No such file or directory",
        ),
        // One program cannot be started, so none is.
        ("run -n 2 sleep 1000 : no-such-program-anywhere".into(), 127, "(rank 2, host "),
    ] {
        let ended = ended(place.gpc(words.split_whitespace()));
        assert_eq!((ended.status, ended.out.as_str()), (status, ""), "{words}: {}", ended.err);
        assert!(ended.err.contains(said), "{words}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        place.empty();
    }
}

/// A script without `#!` was refused with "Exec format error", although every shell and `execvp` run it. If the
/// interpreter of a script was missing, the error was "there is no such program".
#[test]
fn scripts_run_as_execvp_runs_them_and_a_missing_interpreter_is_named() {
    let place = Place::new();
    let script = |name: &str, text: &str| {
        let path = place.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let plain = script("plain", "echo $0 \"$@\" $PMI_RANK\n");
    let ran = ended(place.gpc(["run", "-n", "2", &plain, "a b"]));
    ran.well((0..2).map(|rank| format!("{plain} a b {rank}")));
    let lost = script("lost", "#!/nowhere/sh -e\ntrue\n");
    let refused = ended(place.gpc(["run", &lost]));
    assert_eq!(refused.status, 126, "{}", refused.err);
    let why = format!("the script {lost} needs the interpreter /nowhere/sh: No such file or directory\n");
    assert!(refused.err.ends_with(&why), "{}", refused.err);
    // A binary file is not a script.
    let binary = script("binary", "a\0b\n");
    let refused = ended(place.gpc(["run", &binary]));
    assert!(refused.status == 126 && refused.err.contains("Exec format error"), "{}", refused.err);
}

#[test]
fn wrong_usage_exits_with_2() {
    let place = Place::new();
    for (words, said) in [
        ("run", "<PROGRAM>"),
        ("run -n 0 true", "-n 0: write a number from 1 to 1048576"),
        ("run --bogus true", "--bogus"),
        ("run true :", "program 2: no program stands there"),
        ("run true : --nodes 2 true", "program 2: there is no argument `--nodes`"),
        ("run --time-limit 0s true", "leaves no time"),
        ("run --time-limit soon true", "is no length of time"),
        ("run --peers peers true", "--id"),
        ("run --nodes 2 --peers peers --id 0 true", "cannot be used with"),
        ("run --hosts a --nodes 2 true", "cannot be used with"),
        ("run --hosts a --peers peers --id 0 true", "cannot be used with"),
        ("run --rsh ssh true", "--rsh goes with --hosts"),
        ("run --secret-file f true", "--secret-file goes with --peers"),
        ("run --env =V true", "no variable is named"),
        ("run --bind board true", "--bind board: write none, core, socket or numa"),
        ("run --rank-file f --map-by node true", "cannot be used with"),
        ("run --rank-file f --nodes 2 true", "--rank-file goes with --hosts"),
        ("run -n 1048576 true : true", "a group has at most"),
        ("kill one", "a group is written g and its number"),
        ("kill", "<GROUP>"),
        ("db", "Usage: gpc db"),
    ] {
        let ended = ended(place.gpc(words.split_whitespace()));
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{words}: {}", ended.err);
        assert!(ended.err.contains(said), "{words}: {}", ended.err);
    }
    let ended = ended(place.gpc(["run", "--peers", "/nowhere/peers", "--id", "0", "true"]));
    assert!(
        ended.status == 1 && ended.err.starts_with("gpc: cannot read the peers file /nowhere/peers: "),
        "{}",
        ended.err
    );
}

#[test]
fn help_has_examples() {
    let place = Place::new();
    for (words, said) in [
        ("run --help", "gpc run -n 1 ./leader : -n 7 ./worker --fast"),
        ("ps --help", "gpc ps --domain 3f --output json"),
        ("db show --help", "\\xff"),
        ("kill --help", "gpc kill g2"),
        ("node --help", "--exec-allowed"),
        ("exec --help", "such as a,b[01-64]; --launcher says"),
        ("--help", "gpc run -n 4 ./hello"),
    ] {
        let ended = ended(place.gpc(words.split_whitespace()));
        assert!(ended.status == 0 && ended.out.contains(said), "{words}: {}", ended.out);
        let lists = |line: &str| line.trim_start().starts_with("keep");
        assert!(!ended.out.lines().any(lists), "what nodes start is for nobody else: {}", ended.out);
    }
    let ended = ended(place.gpc(["keep"]));
    assert!(ended.status == 1 && ended.err.contains("is started by nodes"), "{}", ended.err);
}

/// The processes of an inner run took the variables of the outer run for their own.
#[test]
fn a_run_in_a_run_is_a_run_of_its_own() {
    let place = Place::new();
    let inner = format!("{EXE} run -n 2 sh -c 'echo $PMI_RANK of $PMI_SIZE in '$PMI_RANK' $GPC_BNR_GROUP'");
    let ended = ended(place.script("-n 3", &inner));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    let ranks: Vec<&str> = ended.lines().iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    let expected = ["0 of 2 in 0", "0 of 2 in 1", "0 of 2 in 2", "1 of 2 in 0", "1 of 2 in 1", "1 of 2 in 2"];
    assert_eq!(ranks, expected);
    place.empty();
}

/// A process took itself for one of another launcher.
#[test]
fn what_other_launchers_say_stays_outside() {
    let place = Place::new();
    let mut command = place.script("-n 1 --pmix never", "env");
    for (name, value) in [("PMIX_RANK", "7"), ("PMI_ID", "7"), ("SLURM_PROCID", "7"), ("PMI_PORT", "x:1")] {
        command.env(name, value);
    }
    command.env("SLURM_JOB_ID", "17");
    let ended = ended(command);
    let has = |begin: &str| ended.out.lines().any(|line| line.starts_with(begin));
    assert!(has("PMI_RANK=0") && has("PMI_FD=") && has("SLURM_JOB_ID=17"), "{}", ended.out);
    for name in ["PMIX_RANK", "PMI_ID", "SLURM_PROCID", "PMI_PORT"] {
        assert!(!has(name), "{name}");
    }
}

/// A job that hung was killed before anything could say where.
#[test]
fn a_command_and_a_signal_come_before_the_kill() {
    let place = Place::new();
    let file = place.path("pids");
    let command = format!("echo $GPC_PIDS > {file}; echo said");
    let words =
        ["run", "-n", "2", "--time-limit", "500ms", "--timeout-signal", "USR1", "--on-timeout", &command];
    let script = "trap 'echo $PMI_RANK dumps; exit 0' USR1; while :; do sleep 0.05; done";
    let ended = ended(place.gpc(words.into_iter().chain(["bash", "-c", script])));
    assert_eq!((ended.status, ended.lines()), (124, vec!["0 dumps", "1 dumps"]), "{}", ended.err);
    assert!(ended.err.starts_with("said\n"), "{}", ended.err);
    assert_eq!(fs::read_to_string(file).unwrap().split_whitespace().count(), 2);
    place.empty();
}

#[test]
fn time_that_has_passed_ends_it() {
    let place = Place::new();
    let ended = ended(
        place.script("-n 2 --time-limit 300ms", "trap 'echo last words; exit 3' TERM; sleep 1000 & wait"),
    );
    assert_eq!(ended.status, 124, "{}", ended.err);
    assert_eq!(ended.err, "gpc: the processes were killed: they ran for longer than 300ms\n");
    place.empty();
}

#[test]
fn whoever_reads_no_more_ends_it() {
    let place = Place::new();
    let script = format!("{EXE} run -n 2 yes | head -n 3; echo ${{PIPESTATUS[0]}}");
    let mut command = std::process::Command::new("bash");
    // The same folder, through a shell.
    let model = place.gpc(["ps"]);
    for (name, value) in model.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command.args(["-c", &script]).stdin(Stdio::null());
    let ended = ended(command);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("y\ny\ny\n141\n", ""));
    place.empty();
}

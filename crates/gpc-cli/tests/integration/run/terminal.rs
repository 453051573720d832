//! Runs at a terminal: what is typed, the keys that interrupt and stop, and jobs in the background.

use std::fs;
use std::process::{Command, Stdio};

use super::support::*;

/// A shell at a terminal, which runs a script; `None` without the command `script`, which makes the terminal.
fn at_terminal(place: &Place, text: &str) -> Option<Run> {
    if !Command::new("script").arg("--version").output().is_ok_and(|output| output.status.success()) {
        skipped("script of util-linux");
        return None;
    }
    let shell = place.path("shell");
    fs::write(&shell, text.replace("GPC", EXE)).unwrap();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("bash {shell}"), "/dev/null"]).stdin(Stdio::piped());
    let gpc = place.gpc([""; 0]);
    command.envs(gpc.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(Run::start(command))
}

/// Rank 0 read a pipe: it was no terminal, and could not ask for a password.
#[test]
fn rank_0_has_the_terminal_and_the_others_have_nothing() {
    let place = Place::new();
    let program = "if [ -t 0 ]; then read -r line; echo $PMI_RANK has $line; read -r line </dev/tty; echo $line; else echo $PMI_RANK has $(wc -c); fi";
    let Some(mut run) = at_terminal(&place, &format!("GPC run -n 2 bash -c '{program}'\necho ended $?\n"))
    else {
        return;
    };
    run.says("1 has 0", 1);
    run.write("words\n");
    run.says("0 has words", 1);
    run.write("more\n");
    run.says("ended 0", 1);
    assert_eq!(run.ended().status, 0);
    place.empty();
}

#[test]
fn an_interrupt_reaches_each_process_once() {
    let place = Place::new();
    let program = "n=0; trap \"n=\\$((n + 1)); echo int \\$PMI_RANK \\$n\" INT; echo up; until [ -e $go ]; do sleep 0.05; done; echo over";
    let go = place.path("go");
    let text = format!("export go={go}\nGPC run -n 3 bash -c '{program}'\necho ended $?\n");
    let Some(mut run) = at_terminal(&place, &text) else { return };
    run.says("up", 3);
    run.write("\x03");
    (0..3).for_each(|rank| run.says(&format!("int {rank} 1"), 1));
    fs::write(&go, "").unwrap();
    run.says("over", 3);
    let ended = run.ended();
    assert!(!ended.out.contains("int 0 2") && !ended.out.contains("int 1 2"), "{}", ended.out);
    place.empty();
}

#[test]
fn a_job_is_stopped_and_brought_back_and_reads_on() {
    let place = Place::new();
    let program = "echo up $PMI_RANK; while read -r line; do echo $PMI_RANK has $line; done";
    let text = format!("set -m\nGPC run -n 2 bash -c '{program}'\necho stopped $?\nfg\necho ended $?\n");
    let Some(mut run) = at_terminal(&place, &text) else { return };
    run.says("up", 2);
    run.write("one\n");
    run.says("0 has one", 1);
    run.write("\x1a");
    // By SIGSTOP or SIGTSTP.
    run.says("stopped 14", 1);
    run.write("two\n");
    run.says("0 has two", 1);
    run.write("\x04");
    run.says("ended 0", 1);
    run.ended();
    place.empty();
}

/// A command in the background read what was typed at the shell, or its program was never told to stop.
#[test]
fn a_job_in_the_background_is_stopped_when_it_reads() {
    let place = Place::new();
    let text = "set -m\nGPC run -n 1 cat &\nwhile [ -z \"$(jobs -s)\" ]; do sleep 0.05; done\nread -r line\necho shell has $line\nfg\necho ended $?\n";
    let Some(mut run) = at_terminal(&place, text) else { return };
    run.write("one\n");
    run.says("shell has one", 1);
    run.write("two\n");
    // The terminal echoes it, and cat prints it.
    run.says("two", 2);
    run.write("\x04");
    run.says("ended 0", 1);
    run.ended();
    place.empty();
}

/// The shell's own terminal came back only at the end of the shell.
#[test]
fn the_time_limit_ends_a_process_that_reads_the_terminal() {
    let place = Place::new();
    let text = "GPC run --time-limit 500ms -n 1 bash -c 'cat; sleep 1000'\necho ended $?\nread -r line\necho shell has $line\n";
    let Some(mut run) = at_terminal(&place, text) else { return };
    run.says("ended 124", 1);
    run.write("one\n");
    run.says("shell has one", 1);
    run.ended();
    place.empty();
}

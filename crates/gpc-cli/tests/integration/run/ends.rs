//! Unplanned ends of processes, supervisors and the command. Nothing is left.

use rustix::process::Signal;

use super::support::*;

/// Returns the number of script processes that sleep.
fn sleepers(place: &Place) -> usize {
    place.with("sleep 1000").iter().filter(|process| process.line.starts_with("sleep")).count()
}

#[test]
fn a_rank_that_is_killed_takes_its_group_along() {
    let place = Place::new();
    let run = Run::start(place.script("-n 4", "echo pid $PMI_RANK $$; exec sleep 1000"));
    run.says("pid", 4);
    until("all sleep", || sleepers(&place) == 4);
    place
        .with("sleep 1000")
        .iter()
        .find(|process| process.line.starts_with("sleep"))
        .unwrap()
        .signal(Signal::KILL);
    let ended = run.ended();
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(ended.err.contains("killed by signal 9 (SIGKILL)\n"), "{}", ended.err);
    assert!(ended.err.contains("3 more processes of g1 were killed since then"), "{}", ended.err);
    place.empty();
}

#[test]
fn a_rank_that_is_killed_in_a_fence_ends_the_others() {
    let place = Place::new();
    let script = format!(
        "{PMI} echo in $$; [ $PMI_RANK = 3 ] && exec sleep 1000; fence; echo \"after: $line\"; finalize"
    );
    let run = Run::start(place.script("-n 4", &script));
    run.says("in", 4);
    until("rank 3 sleeps", || sleepers(&place) == 1);
    place
        .with("sleep 1000")
        .iter()
        .find(|process| process.line.starts_with("sleep"))
        .unwrap()
        .signal(Signal::KILL);
    let ended = run.ended();
    assert_eq!(ended.status, 137, "{}", ended.err);
    assert!(
        !ended.out.contains("after: cmd=barrier_out")
            && ended.err.starts_with("gpc: g1.3: killed by signal 9"),
        "{}",
        ended.err
    );
    place.empty();
}

#[test]
fn children_of_processes_go_with_them() {
    let place = Place::new();
    // One in its own session, one whose parent has ended, one that ignores SIGTERM.
    let script = "setsid sleep 1000 & (sleep 1000 &); (trap '' TERM; exec sleep 1000) & until [ $(jobs -p | wc -l) = 2 ]; do :; done; echo forked; wait";
    let run = Run::start(place.script("-n 2", script));
    run.says("forked", 2);
    until("all sleep", || sleepers(&place) == 6);
    run.signal(Signal::TERM);
    let ended = run.ended();
    assert_eq!(ended.status, 143, "{}", ended.err);
    place.empty();
}

#[test]
fn what_processes_leave_behind_at_their_own_end_goes() {
    let place = Place::new();
    let ended = ended(place.script("-n 2", "setsid sleep 1000 >/dev/null 2>&1 & exit 0"));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    place.empty();
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing() {
    let place = Place::new();
    let run = Run::start(place.script("-n 3", "echo up; exec sleep 1000"));
    run.says("up", 3);
    let supervisors = place.with(" keep ");
    assert_eq!(supervisors.len(), 1, "{supervisors:?}");
    supervisors[0].signal(Signal::KILL);
    let ended = run.ended();
    assert_ne!(ended.status, 0, "{}", ended.err);
    place.empty();
}

#[test]
fn the_command_that_is_killed_leaves_nothing_whatever_it_does() {
    let place = Place::new();
    let kill = |run: Run| {
        run.signal(Signal::KILL);
        assert_eq!(run.ended().status, 137);
        place.empty();
    };
    // During the start.
    let run = Run::start(place.script("-n 150", "exec sleep 1000"));
    until("some have started", || place.processes().len() > 10);
    kill(run);
    // In a fence.
    let script = format!("{PMI} echo in; [ $PMI_RANK = 0 ] && exec sleep 1000; fence; echo out");
    let run = Run::start(place.script("-n 4", &script));
    run.says("in", 4);
    kill(run);
    // During output.
    let run = Run::start(place.script("-n 4", "yes $PMI_RANK"));
    run.says("2", 1);
    kill(run);
    // With child processes that have left their group.
    let run = Run::start(place.script("-n 2", "setsid sleep 1000 & echo up; wait"));
    run.says("up", 2);
    until("all sleep", || sleepers(&place) == 2);
    kill(run);
}

/// A killed run with a socket in the user's folder is not shown, and its socket is removed.
#[test]
fn a_killed_command_is_not_shown_any_more() {
    let place = Place::new();
    let run = Run::start(place.script("-n 1", "echo up; exec sleep 1000"));
    run.says("up", 1);
    let sockets = || std::fs::read_dir(place.path("gpc-bnr")).unwrap().count();
    assert_eq!(sockets(), 1);
    run.signal(Signal::KILL);
    run.ended();
    let ended = ended(place.gpc(["ps", "--output", "json"]));
    assert_eq!((ended.status, ended.out.as_str()), (0, "{\"domains\":[]}\n"));
    assert_eq!(sockets(), 0);
    place.empty();
}

#[test]
fn signals_are_the_jobs() {
    let place = Place::new();
    let script = "trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo ends; exit 5' INT; echo up; while :; do sleep 0.05; done";
    // Each ends by itself: otherwise the end of the first may kill the second before its output.
    let run = Run::start(place.script("-n 2 --on-death notify", script));
    run.says("up", 2);
    run.signal(Signal::USR1);
    run.says("one", 2);
    run.signal(Signal::USR2);
    run.says("two", 2);
    run.signal(Signal::INT);
    let ended = run.ended();
    assert_eq!((ended.status, ended.out.matches("ends").count()), (5, 2), "{}", ended.err);
    // The shell itself also reports children that a signal has ended.
    assert!(ended.err.ends_with("gpc: g1.0-1: ended with status 5\n"), "{}", ended.err);
    place.empty();
}

#[test]
fn a_second_interrupt_kills_who_ignores_the_first() {
    let place = Place::new();
    let run = Run::start(place.script("-n 2", "trap 'echo no' INT; echo up; while :; do sleep 0.05; done"));
    run.says("up", 2);
    run.signal(Signal::INT);
    run.says("no", 2);
    run.signal(Signal::INT);
    let ended = run.ended();
    assert_eq!(ended.status, 130, "{}", ended.err);
    assert!(ended.err.contains("the processes were killed, after signal 2 (SIGINT)"), "{}", ended.err);
    place.empty();
}

/// Returns the state of a process from /proc: `T` if it is stopped.
fn state(pid: rustix::process::Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_terminal_stops_the_job_and_continues_it() {
    let place = Place::new();
    let run = Run::start(place.script("-n 2", "echo up; exec sleep 1000"));
    run.says("up", 2);
    until("all sleep", || sleepers(&place) == 2);
    let sleepers: Vec<_> =
        place.with("sleep 1000").into_iter().filter(|process| process.line.starts_with("sleep")).collect();
    run.signal(Signal::TSTP);
    until("the command is stopped", || state(run.pid()) == 'T');
    until("its processes are", || sleepers.iter().all(|process| state(process.pid) == 'T'));
    run.signal(Signal::CONT);
    until("they go on", || sleepers.iter().all(|process| state(process.pid) == 'S'));
    run.signal(Signal::TERM);
    assert_eq!(run.ended().status, 143);
    place.empty();
}

#[test]
fn nohup_is_obeyed() {
    let place = Place::new();
    let mut command = std::process::Command::new("nohup");
    let model = place.script("-n 1", "echo up; read line; echo $line");
    command.arg(EXE).args(model.get_args());
    for (name, value) in model.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    command.stdin(std::process::Stdio::piped());
    let mut run = Run::start(command);
    run.says("up", 1);
    run.signal(Signal::HUP);
    run.write("still here\n");
    let ended = run.ended();
    assert_eq!((ended.status, ended.out.as_str()), (0, "up\nstill here\n"), "{}", ended.err);
}

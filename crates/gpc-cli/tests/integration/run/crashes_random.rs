//! `kill -9` of any process at any moment: a generator with a fixed seed selects the process, and the progress of the
//! program before.
#![allow(clippy::print_stderr, reason = "a failed test shows what it has killed")]

use rustix::process::Signal;

use super::support::*;

/// Rounds of a seed; each takes about a second.
const ROUNDS: u64 = 12;

/// Fences, spawns, both kinds of output and child processes, again and again, with a line for each step.
const STEPS: &str = r#"
for step in 1 2 3 4 5 6 7 8 9; do
    echo "step $step"
    put "key-$step-$PMI_RANK" "$step"
    fence
    get "key-$step-$(((PMI_RANK + 1) % PMI_SIZE))"
    echo "some $PMI_RANK of $step" >&2
    (setsid sleep 1000 >/dev/null 2>&1 &)
    if [ $step = 4 ] && [ $PMI_RANK = 0 ]; then
        spawn 3 bash -c 'echo step of a child; sleep 0.2'
    fi
done
finalize
"#;

/// Xorshift: the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Selects the process that a round kills.
fn victim(place: &Place, run: &Run, numbers: &mut Numbers) -> Option<Process> {
    let mut found = place.processes();
    found.sort_by_key(|process| process.pid.as_raw_nonzero());
    let head = |process: &Process| process.pid == run.pid();
    let of_kind = |process: &Process, kind: u64| match kind {
        0 => head(process),
        1 => process.line.contains(" keep "),
        2 => process.line.contains("node --launched"),
        _ => !process.line.starts_with(EXE) && !head(process),
    };
    let kind = numbers.below(6);
    found.retain(|process| of_kind(process, kind));
    let place = numbers.below(found.len().max(1) as u64) as usize;
    found.into_iter().nth(place)
}

fn crashes(seed: u64) {
    let mut numbers = Numbers(seed);
    for round in 0..ROUNDS {
        let place = Place::new();
        let nodes = 1 + numbers.below(3);
        let on_death = ["kill", "notify"][numbers.below(2) as usize];
        let words = format!("-n 5 --nodes {nodes} --on-death {on_death} --time-limit 120s");
        let run = Run::start(place.script(&words, &format!("{PMI}{STEPS}")));
        // Of 45 steps; before the first one there is the start.
        run.says("step", numbers.below(45) as usize);
        let victim = victim(&place, &run, &mut numbers);
        let head = victim.as_ref().is_some_and(|victim| victim.pid == run.pid());
        if let Some(victim) = &victim {
            victim.signal(Signal::KILL);
        }
        let ended = run.ended();
        let what = format!("seed {seed}, round {round}, {words}, {victim:?}: {}", ended.err);
        if head {
            assert_eq!(ended.status, 137, "{what}");
        } else {
            // The killed process may have been finished already.
            let is_failure = |line: &str| line.starts_with("gpc: ") && !line.ends_with("it had none left");
            let told = ended.err.lines().any(is_failure);
            assert_eq!(ended.status == 0, !told, "what fails is said: {what}");
            assert!(!ended.err.contains("panicked"), "{what}");
        }
        // Shown if something is left.
        eprintln!("{what}");
        place.nothing_left();
    }
}

#[test]
fn anybody_is_killed_at_any_moment() {
    crashes(0x9e37_79b9_7f4a_7c15);
}

#[test]
fn and_with_other_numbers() {
    crashes(0x0123_4567_89ab_cdef);
}

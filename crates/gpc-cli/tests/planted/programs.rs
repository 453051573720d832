//! Runs tests of a test build: a bug is caught if a test that its entry names fails.
//!
//! A run that does not end is no proof: on a busy machine a test may be slow without any bug.

#![allow(
    clippy::disallowed_methods,
    reason = "how long the tests take without a bug says when one with a bug never ends"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use super::bug::{Bug, Tests};
use super::build::{self, TestProgram, VARIABLE};

/// A run does not end if it takes more than this multiple of the time without a bug, plus [`BESIDES`].
const SLOWER: u32 = 5;

/// Constant part of the limit; see [`SLOWER`].
const BESIDES: Duration = Duration::from_secs(20);

/// Time limit of a run without a bug, and maximum of the limit with a bug.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often a program is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// How long the rest of the output of a program that has ended is read. Nothing holds its output any more, in general.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Maximum memory of a process: a bug may take all of it.
const MEMORY_KIB: u64 = 8 << 20;

/// How often processes of a run are killed, at most: a test that is killed may have just started another one.
const KILLS_MAX: u32 = 50;

/// Environment variable that marks all processes of a run.
const MARK: &str = "GPC_PLANTED_RUN";

/// Test programs of a test build.
pub(super) struct Programs {
    /// Copy of the sources.
    copy: PathBuf,
    /// By package.
    of: BTreeMap<String, Vec<Program>>,
    /// Results without a bug.
    sound: Mutex<BTreeMap<Tests, Arc<Sound>>>,
}

/// A test program, and the names of its tests.
struct Program {
    name: String,
    path: PathBuf,
    tests: Vec<String>,
}

/// The test that fails, and after what time.
pub(super) type Failed = (String, Duration);

/// The time that tests take without a bug, once it is known.
type Sound = OnceLock<Result<Duration, Missed>>;

/// Why tests do not catch a bug.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Missed {
    #[error("its tests pass")]
    Passed,
    #[error("its tests do not end within {} s", .0.as_secs())]
    TooLong(Duration),
    /// The tests cannot judge it.
    #[error("{0}")]
    Unfit(String),
}

/// Result of a run of tests.
enum Outcome {
    Passed,
    /// The test that failed, or how the program ended.
    Failed(String),
    TooLong,
}

impl Programs {
    /// Returns the programs of a test build.
    pub(super) fn of(folder: &str, messages: &str) -> Programs {
        let mut of: BTreeMap<String, Vec<Program>> = BTreeMap::new();
        for TestProgram { package, name, path } in build::programs(messages) {
            let output =
                Command::new(&path).args(["--list", "--format", "terse"]).env_remove(VARIABLE).output();
            let listed = output.map(|output| output.stdout).unwrap_or_default();
            let tests = String::from_utf8_lossy(&listed)
                .lines()
                .filter_map(|line| line.strip_suffix(": test").map(str::to_owned))
                .collect();
            of.entry(package).or_default().push(Program { name, path, tests });
        }
        Programs { copy: build::copied(folder), of, sound: Mutex::default() }
    }

    /// Tries a bug with the tests of its entry.
    pub(super) fn try_bug(&self, bug: &Bug) -> Result<Failed, Missed> {
        match &bug.tests {
            Some(tests) => self.try_with(&bug.name, tests),
            None => Err(Missed::Unfit("its entry names no tests".into())),
        }
    }

    /// Tries a bug with these tests.
    pub(super) fn try_with(&self, bug: &str, tests: &Tests) -> Result<Failed, Missed> {
        let cell = Arc::clone(self.sound.lock().unwrap().entry(tests.clone()).or_default());
        let sound = cell.get_or_init(|| self.try_sound(tests)).clone()?;
        let limit = (sound * SLOWER + BESIDES).min(PATIENCE);
        let mut missed = Missed::Passed;
        for (program, names) in self.matching(tests)? {
            let begun = Instant::now();
            match self.run(program, tests, &names, Some(bug), limit) {
                Outcome::Failed(by) => return Ok((by, begun.elapsed())),
                Outcome::TooLong => missed = Missed::TooLong(limit),
                Outcome::Passed => {}
            }
        }
        Err(missed)
    }

    /// Runs tests without a bug, which must pass; returns the time that they take.
    fn try_sound(&self, tests: &Tests) -> Result<Duration, Missed> {
        let begun = Instant::now();
        for (program, names) in self.matching(tests)? {
            match self.run(program, tests, &names, None, PATIENCE) {
                Outcome::Passed => {}
                Outcome::Failed(by) => return Err(Missed::Unfit(format!("{by} fails without a bug, too"))),
                Outcome::TooLong => {
                    return Err(Missed::Unfit(format!("{} does not end without a bug either", program.name)));
                }
            }
        }
        Ok(begun.elapsed())
    }

    /// Returns the programs that have matching tests, with the names of these. A program's own name is the first part
    /// of its tests' names. Without a filter all tests match.
    ///
    /// # Errors
    /// A message, if a filter matches no test.
    fn matching<'a>(&'a self, tests: &Tests) -> Result<Vec<(&'a Program, Vec<&'a str>)>, Missed> {
        let Tests { package, filters } = tests;
        let programs = self.of.get(package);
        let programs =
            programs.ok_or_else(|| Missed::Unfit(format!("{package} is no package with tests")))?;
        let fits = |program: &Program, test: &str, filter: &str| {
            test.contains(filter) || format!("{}::{test}", program.name).contains(filter)
        };
        for filter in filters {
            let has = |program: &Program| program.tests.iter().any(|test| fits(program, test, filter));
            if !programs.iter().any(has) {
                return Err(Missed::Unfit(format!("no test of {package} has `{filter}` in its name")));
            }
        }
        let matching = programs.iter().map(|program| {
            let names = program.tests.iter().filter(|test| {
                filters.is_empty() || filters.iter().any(|filter| fits(program, test, filter))
            });
            (program, names.map(String::as_str).collect::<Vec<_>>())
        });
        Ok(matching.filter(|(_, names)| !names.is_empty()).collect())
    }

    fn run(
        &self,
        program: &Program,
        tests: &Tests,
        names: &[&str],
        bug: Option<&str>,
        limit: Duration,
    ) -> Outcome {
        let folder = self.copy.join(Tests::folder(&tests.package));
        let mut run = Run::start(program, &folder, names, bug);
        let until = Instant::now() + limit;
        let mut failed = None;
        while failed.is_none() && Instant::now() < until {
            match run.lines.recv_timeout(POLL) {
                Ok(line) => failed = failed_test(&line),
                Err(RecvTimeoutError::Timeout) if !run.has_ended() => {}
                Err(RecvTimeoutError::Timeout) => break,
                // It may close its output before its end.
                Err(RecvTimeoutError::Disconnected) => match run.has_ended() {
                    true => break,
                    false => std::thread::sleep(POLL),
                },
            }
        }
        let ended = run.end();
        while failed.is_none()
            && let Ok(line) = run.lines.recv_timeout(LAST_LINES)
        {
            failed = failed_test(&line);
        }
        match (failed, ended) {
            (Some(test), _) => Outcome::Failed(test),
            (None, Some(true)) => Outcome::Passed,
            // It panicked outside a test, or was killed by a signal.
            (None, Some(false)) => Outcome::Failed(format!("the end of {}", program.name)),
            (None, None) => Outcome::TooLong,
        }
    }
}

/// Returns the test that a line of output says has failed.
fn failed_test(line: &str) -> Option<String> {
    let test = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
    Some(test.to_owned())
}

/// A running test program, in a process group of its own.
struct Run {
    child: Child,
    lines: Receiver<String>,
    mark: String,
}

impl Run {
    fn start(program: &Program, folder: &Path, names: &[&str], bug: Option<&str>) -> Run {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut command = bounded(&program.path);
        command
            .arg("--exact")
            .args(names)
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env(MARK, &mark);
        // The same inputs in each run; a failure need not be shortened, and is not kept for the next bug.
        command.env("PROPTEST_RNG_SEED", "1").env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        command.env_remove(VARIABLE).envs(bug.map(|bug| (VARIABLE, bug)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.path.display()));
        let mut stdout = BufReader::new(child.stdout.take().expect("it has a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while stdout.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
                let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                bytes.clear();
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Run { child, lines, mark }
    }

    /// Whether the program has ended. It stays a zombie, so that its id, which is that of the group, is not reused.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.child)), options).is_ok_and(|status| status.is_some())
    }

    /// Kills what still runs: the group, and processes that tests have started in groups of their own. Returns whether
    /// the program has succeeded, or `None` if it had not ended.
    fn end(&mut self) -> Option<bool> {
        let had_ended = self.has_ended();
        // An error says that nothing runs.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let status = self.child.wait().expect("it is a child");
        for _ in 0..KILLS_MAX {
            let marked = marked(&format!("{MARK}={}", self.mark));
            if marked.is_empty() {
                break;
            }
            for pid in marked {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(POLL);
        }
        had_ended.then(|| status.success())
    }
}

/// Returns the processes with this entry in their environment. There are none where the system has no `/proc`.
fn marked(entry: &str) -> Vec<Pid> {
    let has = |pid: Pid| {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|other| other == entry.as_bytes())
    };
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| Pid::from_raw(folder.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| has(*pid)).collect()
}

/// Returns a command whose memory is limited to [`MEMORY_KIB`], in a process group of its own.
fn bounded(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"")]).arg(program);
    command.process_group(0);
    command
}

/// Returns a line of the table: the test that fails and after what time, or why the bug is not caught.
pub(super) fn line_of_tests(bug: &Bug, result: &Result<Failed, Missed>) -> String {
    let (name, tests) = (&bug.name, bug.tests.as_ref().map(Tests::written).unwrap_or_default());
    match result {
        Ok((test, after)) => format!("{name:<44} tests {:>25.1} s {test}", after.as_secs_f64()),
        Err(why) => format!("{name:<44} not caught: {why} ({tests})"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn of(folder: &Path, name: &str, tests: &[&str]) -> Program {
        let tests = tests.iter().map(|&test| test.to_owned()).collect();
        Program { name: name.into(), path: folder.join(name), tests }
    }

    fn programs(folder: &Path, of: Vec<Program>) -> Programs {
        Programs { copy: folder.into(), of: [("gpc-x".to_owned(), of)].into(), sound: Mutex::default() }
    }

    fn tests_of(filters: &[&str]) -> Tests {
        Tests { package: "gpc-x".into(), filters: filters.iter().map(|&filter| filter.to_owned()).collect() }
    }

    #[test]
    fn filters_choose_tests_of_all_programs() {
        let folder = Path::new("/nowhere");
        let programs = programs(
            folder,
            vec![of(folder, "gpc_x", &["a::one", "b::two"]), of(folder, "worlds", &["one"])],
        );
        let chosen = |filters: &[&str]| {
            let matching = programs.matching(&tests_of(filters));
            matching.map(|all| {
                all.into_iter().map(|(program, names)| (program.name.as_str(), names)).collect::<Vec<_>>()
            })
        };
        assert_eq!(chosen(&["one"]).unwrap(), [("gpc_x", vec!["a::one"]), ("worlds", vec!["one"])]);
        assert_eq!(chosen(&["worlds::"]).unwrap(), [("worlds", vec!["one"])]);
        assert_eq!(chosen(&["b::"]).unwrap(), [("gpc_x", vec!["b::two"])]);
        assert_eq!(chosen(&[]).unwrap().len(), 2);
        assert!(matches!(chosen(&["one", "three"]), Err(Missed::Unfit(why)) if why.contains("`three`")));
    }

    #[test]
    fn a_run_ends_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let program = of(folder.path(), name, &["a"]);
            fs::write(&program.path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&program.path, fs::Permissions::from_mode(0o755)).unwrap();
            program
        };
        fs::create_dir_all(folder.path().join("crates/gpc-x")).unwrap();
        let programs = programs(folder.path(), Vec::new());
        let run = |program: &Program, limit: Duration| {
            programs.run(program, &tests_of(&["a"]), &["a"], None, limit)
        };

        // A process in a session of its own is not in the group.
        let started = format!("echo \"${MARK}\" >{}/mark; setsid sleep 600 &", folder.path().display());
        let fails = script("fails", &format!("{started}\necho 'test a ... FAILED'\nwait"));
        assert!(matches!(run(&fails, PATIENCE), Outcome::Failed(test) if test == "a"));
        let mark = fs::read_to_string(folder.path().join("mark")).unwrap();
        assert_eq!(marked(&format!("{MARK}={}", mark.trim())), []);

        let hangs = script("hangs", "setsid sleep 600 &\nwait");
        assert!(matches!(run(&hangs, POLL), Outcome::TooLong));
        let panics = script("panics", "exit 101");
        assert!(matches!(run(&panics, PATIENCE), Outcome::Failed(by) if by == "the end of panics"));
        assert!(matches!(run(&script("passes", "echo 'test a ... ok'"), PATIENCE), Outcome::Passed));
    }
}

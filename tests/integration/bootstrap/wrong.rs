//! Failures during bootstrap: every process that is left ends within the limit, with an error that names the cause.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use chained_gpc::Id;
use chained_gpc::bootstrap::{Bootstrap, BootstrapError, Meeting, MeetingLimit, Space, SpaceError};

use super::fake::{FakeSpace, Table};
use super::{functions, processes};

/// Short enough to wait for, and longer than a success takes.
const SHORT: Duration = Duration::from_secs(3);

fn join(table: &Arc<Table>, id: Id, count: u32, limit: Duration) -> Result<(), BootstrapError> {
    let bootstrap = Bootstrap::with_space(Box::new(table.space(id, count)))?;
    let mut member = bootstrap.limit(limit).start(&functions(), |builder| builder)?;
    member.serve_until_left()?;
    member.finish(Duration::ZERO)
}

/// A space that runs `F` when its process gets its first value after the fence.
struct HookedSpace<F>(FakeSpace, F);

impl<F: Fn() + Send> Space for HookedSpace<F> {
    fn launcher(&self) -> &'static str {
        self.0.launcher()
    }

    fn id(&self) -> Id {
        self.0.id()
    }

    fn count(&self) -> u32 {
        self.0.count()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn one_host(&self) -> Option<bool> {
        Some(true)
    }

    fn value_max(&self) -> usize {
        self.0.value_max()
    }

    fn put(&mut self, key: &str, value: &str, limit: Duration) -> Result<(), SpaceError> {
        self.0.put(key, value, limit)
    }

    fn fence(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.0.fence(limit)
    }

    fn get(&mut self, _: Id, _: &str, _: Duration) -> Result<String, SpaceError> {
        (self.1)();
        Err(SpaceError { launcher: "fake", doing: "to go on".into(), why: "it was killed".into() })
    }

    fn finish(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.0.finish(limit)
    }
}

/// A process that fails after the fence.
fn join_and(space: FakeSpace, hook: impl Fn() + Send + 'static) -> Result<(), BootstrapError> {
    let bootstrap = Bootstrap::with_space(Box::new(HookedSpace(space, hook)))?;
    let error = bootstrap.limit(SHORT).start(&functions(), |builder| builder).map(drop).unwrap_err();
    assert!(error.to_string().contains("it was killed"), "{error}");
    Ok(())
}

#[test]
fn a_process_that_never_comes_is_named_at_the_fence() {
    let table = Table::new();
    let errors = processes(4, move |id| match id {
        2 => Ok(()),
        _ => join(&table, id, 4, Duration::from_millis(300)),
    });
    for (id, error) in errors.into_iter().enumerate().filter(|(id, _)| *id != 2) {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("fence: id [2] did not come"), "id {id}: {error}");
    }
}

/// A process that failed after the fence reported an orderly end to its launcher, which then had no reason to end the
/// others.
#[test]
fn who_fails_behind_the_fence_tells_the_launcher_nothing() {
    let table = Table::new();
    let spaces = table.clone();
    let errors = processes(3, move |id| match id {
        2 => join_and(spaces.space(id, 3), || {}),
        _ => join(&spaces, id, 3, SHORT),
    });
    assert!(errors[0].is_err() && errors[1].is_err());
    assert_eq!(table.finished(), Vec::<Id>::new());
}

/// A process reaches the fence, and has ended when the others connect to it.
#[test]
fn a_process_that_dies_behind_the_fence_is_named() {
    for dead in [0, 1, 5, 6] {
        let table = Table::new();
        let errors = processes(8, move |id| match id == dead {
            true => join_and(table.space(id, 8), || {}),
            false => join(&table, id, 8, SHORT),
        });
        for (id, error) in (0..).zip(errors).filter(|(id, _)| *id != dead) {
            let error = error.unwrap_err().to_string();
            // The ids below it name it as the lost one. The others learn of it from id 0, or see that the id above them
            // has ended because of it.
            let ends = ["has gone", "did not come from id"].iter().any(|end| error.contains(end));
            let named = error.contains(&format!("id {dead}")) || ends;
            assert!(named, "id {id}, without id {dead}: {error}");
            assert!(id > 0 || error.contains(&format!("id {dead}")), "id 0, without id {dead}: {error}");
        }
    }
}

/// A process has put its entry and listens, but never answers, as if it were stopped.
#[test]
fn a_process_that_is_silent_behind_the_fence_is_named_by_id_0() {
    let (table, over) = (Table::new(), Arc::new(Barrier::new(3)));
    let errors = processes(3, move |id| {
        let ended = over.clone();
        if id == 2 {
            return join_and(table.space(id, 3), move || {
                ended.wait();
            });
        }
        let joined = join(&table, id, 3, SHORT);
        over.wait();
        joined
    });
    let error = errors[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("id 2"), "{error}");
    let error = errors[1].as_ref().unwrap_err().to_string();
    assert!(error.contains("id 2") || error.contains("id 0"), "{error}");
}

#[test]
fn what_is_put_that_makes_no_sense_is_said_of_whom_it_came() {
    for (key, change, why) in [
        ("gpc.job", "nonsense", "id 0 says of itself is of no use: it does not say how long it is"),
        ("gpc.job", "1:1,00,11", "id 0 says of itself is of no use: it is no job"),
        ("gpc.at.0", "1:1,h", "id 0 says of itself is of no use"),
        ("gpc.at.0", "1:1,h,0123456789abcdef,-,unix:@x", "id 0 on host h listens for its own host alone"),
    ] {
        let table = Table::new();
        let errors = processes(2, move |id| {
            if id == 1 {
                return join(&table, 1, 2, SHORT);
            }
            let mut space = table.space(0, 2);
            let job = format!("1:1,{},{}", "1d".repeat(16), "5b".repeat(32));
            for (known, value) in [("gpc.job", job.as_str()), ("gpc.at.0", "1:")] {
                space.put(known, if known == key { change } else { value }, SHORT)?;
            }
            Ok(space.fence(SHORT)?)
        });
        let error = errors[1].as_ref().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!error.contains("5b5b"), "a secret is not quoted: {error}");
    }
}

#[test]
fn functions_of_another_member_are_refused() {
    let functions = functions();
    let start = || {
        let bootstrap = Bootstrap::with_space(Box::new(Table::new().space(0, 1))).unwrap();
        bootstrap.start(&functions, |builder| builder)
    };
    let first = start().unwrap();
    let error = start().map(drop).unwrap_err().to_string();
    assert!(error.contains("each member needs functions of its own"), "{error}");
    drop(first);
}

/// The time in which a process had reached its launcher was not a part of the time limit.
#[test]
#[allow(clippy::disallowed_methods, reason = "a program names a moment of its clock")]
fn a_time_limit_counts_from_the_moment_that_the_program_names() {
    let is_over = |limited: &dyn Fn(Bootstrap) -> Bootstrap| {
        let meet =
            |_: &str, within: MeetingLimit| Err::<Meeting, _>(format!("over: {}", within.left.is_zero()));
        let bootstrap = Bootstrap::with_meeting("test", meet).host_address([127, 0, 0, 1].into());
        let error = limited(bootstrap).start(&functions(), |builder| builder).map(drop).unwrap_err();
        error.to_string().ends_with("over: true")
    };
    let begun = Instant::now().checked_sub(SHORT).unwrap();
    let long = 1000 * SHORT;
    assert!(is_over(&|bootstrap| bootstrap.limit_since(begun, SHORT)));
    assert!(!is_over(&|bootstrap| bootstrap.limit_since(begun, long)));
    assert!(!is_over(&|bootstrap| bootstrap.limit_since(begun, SHORT).limit(long)));
}

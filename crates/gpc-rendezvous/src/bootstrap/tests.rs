//! Tests of a process whose service is unavailable, and of one that gives up.

use std::sync::Mutex;

use super::*;
use crate::machine::{Fault, Properties, Registration, join_data};
use bytes::Bytes;

/// Result of a wait.
enum Answer {
    Unreached,
    Destroyed,
    Complete,
    Late,
}

/// A service that answers waits with given results, and records its requests.
#[derive(Clone)]
struct FakeService(Arc<Inner>);

struct Inner {
    waits: Mutex<Vec<Answer>>,
    asked: Mutex<Vec<String>>,
    limits: Mutex<Vec<Duration>>,
    data: Mutex<Bytes>,
    /// Whether the service controls the unit.
    controls: Mutex<bool>,
}

impl FakeService {
    /// The last result of the list is used first.
    fn new(waits: Vec<Answer>) -> FakeService {
        let (asked, limits, data, controls) = Default::default();
        FakeService(Arc::new(Inner { waits: Mutex::new(waits), asked, limits, data, controls }))
    }

    fn note(&self, text: String) {
        self.0.asked.lock().unwrap().push(text);
    }

    fn asked(&self) -> Vec<String> {
        self.0.asked.lock().unwrap().clone()
    }
}

impl Resource for FakeService {
    fn within(&self, limit: Duration) -> Box<dyn Resource + '_> {
        self.0.limits.lock().unwrap().push(limit);
        Box::new(self.clone())
    }

    fn register(&self, _: RankChoice, _: &Token, data: Bytes) -> Result<Registration, Fault> {
        *self.0.data.lock().unwrap() = data;
        Ok(Registration { rank: 0, tally: 1, capacity: 1 })
    }

    fn withdraw(&self, rank: u64, _: &Token) -> Result<(), Fault> {
        self.note(format!("withdraw {rank}"));
        Ok(())
    }

    fn wait(&self, _: Scope, _: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
        match self.0.waits.lock().unwrap().pop() {
            Some(Answer::Unreached) => Err(Fault::new(FaultKind::Unavailable, "nobody listens there")),
            Some(Answer::Destroyed) => Err(Fault::new(FaultKind::Destroyed, "destroyed on request")),
            Some(Answer::Complete) => {
                let data = join_data(1, [&*self.0.data.lock().unwrap()].into_iter()).0;
                Ok(Some(Completion { level: 1, data, joint: None }))
            }
            Some(Answer::Late) | None => {
                // Takes as long as a wait that times out.
                let (_open, over) = std::sync::mpsc::channel::<()>();
                let _ = over.recv_timeout(limit);
                Ok(None)
            }
        }
    }

    fn control(&self, unit: Unit, _: &str, _: &Token) -> Result<(), Fault> {
        self.note(format!("control {unit:?}"));
        Ok(())
    }

    fn release(&self, unit: Unit, _: &Token, lost: Option<String>) -> Result<(), Fault> {
        self.note(format!("release {unit:?} {lost:?}"));
        Ok(())
    }

    fn properties(&self) -> Result<Properties, Fault> {
        Ok(Properties {
            id: crate::machine::ResourceId([1; 16]),
            level: 1,
            capacity: 3,
            tally: 1,
            missing: vec![1, 2],
            bytes: 0,
            completed: false,
            failed: None,
            waiting: 0,
            created: 0,
            expires: 0,
            job: None,
            above: self.0.controls.lock().unwrap().then(|| "http://above".to_owned()),
        })
    }
}

fn meet(job: &FakeService, multijob: Option<&FakeService>, limit: Duration) -> String {
    let multijob = multijob.map(|multijob| Arc::new(multijob.clone()) as Arc<dyn Resource>);
    let resources = Resources {
        job: Arc::new(job.clone()),
        rank: RankChoice::Assign,
        multijob,
        subjob: RankChoice::Rank(4),
    };
    resources
        .meet("1,host,0123456789abcdef,-,unix:@a", MeetingLimit { limit, left: limit })
        .unwrap_err()
        .to_string()
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// A service was restarted while processes waited. Each wait is cut in slices; if one ended while the service was down,
/// the bootstrap failed although minutes were left.
#[test]
fn a_service_that_is_away_for_a_while_ends_nothing() {
    let job = FakeService::new(vec![Answer::Complete, Answer::Unreached, Answer::Unreached]);
    let error = meet(&job, None, LONG);
    // It has received the completion, which has no joint job here.
    assert!(error.contains("create the resource at the top with --joint"), "{error}");
    // If the service stays away, the error has the reason.
    let unreached = (0..9).map(|_| Answer::Unreached).collect();
    let error = meet(&FakeService::new(unreached), None, Duration::from_millis(10));
    assert!(error.contains("nobody listens there"), "{error}");
}

/// Each request of a bootstrap was tried for 10 s, however long the bootstrap itself had: it ended early, or long after
/// its limit.
#[test]
fn requests_have_what_is_left_of_the_limit() {
    let job = FakeService::new(vec![Answer::Complete]);
    meet(&job, None, LONG);
    let limits = job.0.limits.lock().unwrap();
    assert!(limits[..2].iter().all(|limit| *limit <= LONG && *limit > LONG / 2), "{limits:?}");
}

/// A process that gave up stayed registered until its lease expired: its replacement was rejected because its rank or
/// its unit was taken.
#[test]
fn who_gives_up_is_forgotten_at_once() {
    let (job, top) = (FakeService::new(vec![Answer::Late]), FakeService::new(vec![]));
    let error = meet(&job, Some(&top), Duration::from_millis(20));
    assert!(error.contains("within 20ms; 1 of 3 have registered; the ranks 1, 2 are missing"), "{error}");
    assert_eq!(job.asked(), ["withdraw 0"]);
    let asked = top.asked();
    assert_eq!(asked.last().unwrap(), "release Rank(4) None", "{asked:?}");
    // The tasks that wait at the parent learn of a subjob that cannot register any more.
    let (job, top) = (FakeService::new(vec![Answer::Destroyed]), FakeService::new(vec![]));
    meet(&job, Some(&top), LONG);
    let asked = top.asked();
    assert_eq!(asked.last().unwrap(), "release Rank(4) Some(\"destroyed on request\")", "{asked:?}");
    // Its registration at the parent is withdrawn, too.
    let (job, top) = (FakeService::new(vec![Answer::Complete]), FakeService::new(vec![Answer::Late]));
    meet(&job, Some(&top), Duration::from_millis(20));
    let asked = top.asked();
    assert_eq!(asked[asked.len() - 2..], ["withdraw 0", "release Rank(4) None"], "{asked:?}");
}

/// A service that controls the unit registers it above, so the process with rank 0 does not.
#[test]
fn a_unit_is_registered_above_by_its_service_or_by_rank_0() {
    for controls in [false, true] {
        let complete = || FakeService::new(vec![Answer::Complete, Answer::Complete]);
        let (job, top) = (complete(), complete());
        *job.0.controls.lock().unwrap() = controls;
        let error = meet(&job, Some(&top), LONG);
        assert!(error.contains("--joint"), "{error}");
        assert_eq!(top.asked().iter().any(|asked| asked == "control Rank(4)"), !controls);
    }
}

/// A token file that everybody could read was accepted, although `gpc rendezvous show` rejects it.
#[cfg(feature = "client")]
#[test]
fn a_token_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "ab".repeat(32)).unwrap();
    assert!(env::read_token(file.path().to_owned()).is_ok());
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = env::read_token(file.path().to_owned()).unwrap_err().to_string();
    assert!(error.contains("others may read or write it") && error.contains("chmod 600"), "{error}");
    assert!(error.ends_with("(from GPC_RENDEZVOUS_TOKEN_FILE or --token-file)"), "{error}");
}

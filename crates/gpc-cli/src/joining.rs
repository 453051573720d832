//! Checks before a call on running nodes: the id of this process must be free, and the called nodes must be up.
//!
//! An id belongs to one process. Other nodes take a second process for a later run of the same id, and refuse the first
//! one from then on. So a wrong `--id` is rejected before any message is sent.

use std::time::Duration;

use gpc_trees::Id;

use super::say;
use chained_gpc::Clock;
use chained_gpc::runtime::{AbsentPeers, Peers};

/// Time limit for a node on another machine to answer the check.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Rejects an id that is in use.
///
/// # Errors
/// If a process answers at the address of this id; the message says what to do.
pub(super) fn refuse_taken(root: Id, peers: &Peers) -> Result<(), String> {
    match peers.address(root) {
        Some(address) if address.is_answered(PROBE_LIMIT) => Err(format!(
            "id {root} is running already, at {address}: join with another --id, which the peers file need not have"
        )),
        _ => Ok(()),
    }
}

/// Longest wait for nodes between two checks for a signal: too short to be noticed after Ctrl-C.
const TURN: Duration = Duration::from_millis(500);

/// Calls `wait` with a time limit until the nodes are up, and prints the ids that are missing.
///
/// # Errors
/// If the nodes are not up within `patience` (the error names them), or the wait is interrupted.
pub(super) fn until_up(
    patience: Duration,
    clock: &Clock,
    interrupted: impl Fn() -> bool,
    mut wait: impl FnMut(Duration) -> Result<(), AbsentPeers>,
) -> Result<(), AbsentPeers> {
    let limit = clock.limit(patience);
    let mut said = false;
    loop {
        let left = limit.left().unwrap_or_default();
        match wait(left.min(TURN)) {
            Err(AbsentPeers::Late { ids, why, .. }) if left <= TURN || interrupted() => {
                return Err(AbsentPeers::Late { ids, limit: patience, why });
            }
            Err(AbsentPeers::Late { ids, .. }) => {
                if !said {
                    say(&format!("waiting for id {ids}"));
                }
                said = true;
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use gpc_trees::IdList;

    use super::*;
    use chained_gpc::runtime::Listener;

    #[test]
    fn an_id_is_taken_where_somebody_answers() {
        let listen = |address: &str| Listener::bind(&address.parse().unwrap()).unwrap();
        let name = format!("unix:@gpc-taken-{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let path = format!("unix:{}/3.sock", folder.path().display());
        for listener in [listen("127.0.0.1:0"), listen(&name), listen(&path)] {
            let address = listener.address().unwrap();
            let peers: Peers =
                format!("3 {address}\n4 unix:/nowhere/4.sock\n5 unix:@{address}").parse().unwrap();
            let error = refuse_taken(3, &peers).unwrap_err();
            assert!(error.starts_with(&format!("id 3 is running already, at {address}: ")), "{error}");
            assert!([4, 5, 6].iter().all(|&id| refuse_taken(id, &peers).is_ok()));
        }
    }

    #[test]
    fn what_is_waited_for_comes_or_is_named_with_the_whole_time() {
        let late = |limit| AbsentPeers::Late { ids: IdList::range(3..5), limit, why: "no".into() };
        let patience = Duration::from_secs(60);
        let mut turns = 0;
        let (millis, clock) = hand_clock();
        let comes = until_up(
            patience,
            &clock,
            || false,
            |limit| {
                turns += 1;
                if turns < 3 { Err(late(limit)) } else { Ok(()) }
            },
        );
        assert_eq!((comes, turns), (Ok(()), 3));
        let short = TURN / 2;
        assert_eq!(until_up(short, &clock, || false, |_| Err(late(TURN))), Err(late(short)));
        assert_eq!(
            until_up(patience, &clock, || false, |_| Err(AbsentPeers::Ended)),
            Err(AbsentPeers::Ended)
        );
        // Each wait takes its whole limit.
        let begun = clock.now();
        let ended = until_up(
            patience,
            &clock,
            || false,
            |limit| {
                millis.fetch_add(limit.as_millis() as u64, Ordering::Relaxed);
                Err(late(limit))
            },
        );
        assert_eq!((ended, clock.now() - begun), (Err(late(patience)), patience));
    }

    /// A clock that the test moves.
    fn hand_clock() -> (Arc<AtomicU64>, Clock) {
        let millis = Arc::new(AtomicU64::new(0));
        let read = millis.clone();
        (millis, Clock::reading(move || Duration::from_millis(read.load(Ordering::Relaxed))))
    }
}

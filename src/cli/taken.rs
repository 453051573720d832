//! Whether an id that is to join running nodes is running already.
//!
//! An id has one process. To the others a second one would be a later run of the same id, and they would not let the first one in any more.
//! So a slip of the pen in `--id` is found before anything is said to anybody.

use std::time::Duration;

use gpc_trees::Id;

use crate::runtime::Peers;

/// How long a node on another machine may take to show that it is there.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Refuses an id that is running.
///
/// # Errors
/// When a process answers where this id would listen; the text says what to do.
pub(super) fn refuse_taken(root: Id, peers: &Peers) -> Result<(), String> {
    match peers.address(root) {
        Some(address) if address.is_answered(PROBE_LIMIT) => Err(format!(
            "id {root} is running already, at {address}: join with another --id, which the peers file need not have"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Listener;

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
}

//! Collective calls that cannot be told to the node as they are. No I/O.

use super::orders::{Info, LOCAL_STATUS, Upcall, Value};
use crate::abi::Status;

/// The same call without its data and with the mark that it fails: the node enters it as failed, so that the other
/// nodes do not wait for it. `None` if the call is not collective.
pub(super) fn as_failed(upcall: &Upcall, status: Status) -> Option<Upcall> {
    let info = vec![Info { key: LOCAL_STATUS.into(), value: Value::status(status) }];
    match upcall {
        Upcall::Fence { processes, .. } => {
            Some(Upcall::Fence { processes: processes.clone(), data: Vec::new(), info })
        }
        Upcall::Connect { processes, .. } => Some(Upcall::Connect { processes: processes.clone(), info }),
        Upcall::Disconnect { processes, .. } => {
            Some(Upcall::Disconnect { processes: processes.clone(), info })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::codec::{Events, FRAME_MAX};
    use crate::server::orders::{ALL, Event, Process};
    use crate::server::outbox::{NotQueued, Outbox};

    /// A fence with too much data, and one for which the queue had no room, were answered here alone: the other nodes
    /// waited for this one.
    #[test]
    fn a_fence_that_cannot_be_queued_reaches_the_node_as_failed() {
        let processes = vec![Process { namespace: "job".into(), rank: ALL }];
        let fence =
            |length| Upcall::Fence { processes: processes.clone(), data: vec![7; length], info: Vec::new() };
        let info = vec![Info { key: LOCAL_STATUS.into(), value: Value::status(-29) }];
        let failed = as_failed(&fence(9), -29).unwrap();
        assert_eq!(
            failed,
            Upcall::Fence { processes: processes.clone(), data: Vec::new(), info: info.clone() }
        );

        let outbox = Outbox::new();
        let event = |upcall: &Upcall| Event::Upcall { serial: 1, upcall: upcall.clone() };
        assert_eq!(outbox.put(&event(&fence(FRAME_MAX))), Err(NotQueued::TooLong));
        assert_eq!(outbox.put(&event(&failed)), Ok(()));
        let half = event(&fence(FRAME_MAX / 2));
        let queued = (0..10).take_while(|_| outbox.put(&half).is_ok()).count();
        assert_eq!((queued, outbox.put(&event(&failed))), (4, Err(NotQueued::Full)));
        assert_eq!(outbox.put_beyond(&event(&failed)), Ok(()));
        outbox.close();
        let mut written = Vec::new();
        outbox.write_to(&mut written).unwrap();
        let mut events = Events::default();
        events.push(&written);
        let found: Vec<Event> = std::iter::from_fn(|| events.next_event().unwrap()).collect();
        assert_eq!((found.first(), found.last()), (Some(&event(&failed)), Some(&event(&failed))));
        assert_eq!(found.len(), 6);

        let connect = as_failed(&Upcall::Connect { processes: processes.clone(), info: Vec::new() }, -29);
        assert_eq!(connect, Some(Upcall::Connect { processes: processes.clone(), info: info.clone() }));
        let disconnect =
            as_failed(&Upcall::Disconnect { processes: processes.clone(), info: Vec::new() }, -29);
        assert_eq!(disconnect, Some(Upcall::Disconnect { processes: processes.clone(), info }));
        assert_eq!(as_failed(&Upcall::Finalized(processes[0].clone()), -29), None);
    }
}

//! Collective calls that cannot be told to the node as they are, or need not be. No I/O.

use super::orders::{Info, LOCAL_ONLY, LOCAL_STATUS, Upcall, Value};
use crate::abi::Status;

/// The same call without its data and with the mark that it fails: the node enters it as failed, so that the other
/// nodes do not wait for it. `None` if the call is not collective.
pub(super) fn as_failed(upcall: &Upcall, status: Status) -> Option<Upcall> {
    let info = vec![Info::new(LOCAL_STATUS, Value::status(status))];
    match upcall {
        Upcall::Fence { processes, .. } => {
            Some(Upcall::Fence { processes: processes.clone(), data: Vec::new(), info })
        }
        Upcall::Connect { processes, .. } => Some(Upcall::Connect { processes: processes.clone(), info }),
        Upcall::Disconnect { processes, .. } => {
            Some(Upcall::Disconnect { processes: processes.clone(), info })
        }
        Upcall::Group { constructs, name, processes, .. } => {
            let (constructs, name, processes) = (*constructs, name.clone(), processes.clone());
            Some(Upcall::Group { constructs, name, processes, info })
        }
        _ => None,
    }
}

/// Whether a group ends whose members are all on this node. Other nodes do not know the group.
pub(super) fn is_local_destruct(upcall: &Upcall) -> bool {
    let Upcall::Group { constructs: false, info, .. } = upcall else { return false };
    info.iter().any(|info| info.key == LOCAL_ONLY && info.value.bytes.iter().all(|byte| *byte != 0))
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
        let info = vec![Info::new(LOCAL_STATUS, Value::status(-29))];
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
        assert_eq!(disconnect, Some(Upcall::Disconnect { processes: processes.clone(), info: info.clone() }));
        let group =
            |info| Upcall::Group { constructs: true, name: "g".into(), processes: processes.clone(), info };
        assert_eq!(
            as_failed(&group(vec![Info::new("pmix.grp.endpt", Value::text("data"))]), -29),
            Some(group(info))
        );
        assert_eq!(as_failed(&Upcall::Finalized(processes[0].clone()), -29), None);
    }

    /// libpmix 5.0.11 calls up twice for a group that ends on one node, unless it is done at once.
    #[test]
    fn a_group_that_ends_on_one_node_is_done_at_once() {
        let local = |flag| vec![Info::new(LOCAL_STATUS, Value::status(0)), Info::new("pmix.grp.lcl", flag)];
        let group = |constructs, info| {
            let processes = vec![Process { namespace: "job".into(), rank: 1 }];
            Upcall::Group { constructs, name: "g".into(), processes, info }
        };
        assert!(is_local_destruct(&group(false, local(Value::boolean(true)))));
        assert!(!is_local_destruct(&group(false, local(Value::boolean(false)))));
        assert!(!is_local_destruct(&group(true, local(Value::boolean(true)))));
        assert!(!is_local_destruct(&group(false, Vec::new())));
    }
}

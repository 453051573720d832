//! A call that waits for its func or for its children, in little room: what it goes on with, without the room that it works in.
//!
//! Of a large world nearly every id has such a call at the same time, and a whole one would be three times as large.

use std::sync::Arc;

use gpc_trees::Group;

use super::arrived::Arrived;
use super::call::{Call, Child, ChildAnswer, JobState, Origin, Own};
use super::holding::Held;
use super::{Reply, Time};
use crate::wire::Request;

/// A call between two inputs.
#[derive(Debug)]
pub(super) enum Waiting {
    /// One that has nothing but what most have.
    Plain(Plain),
    /// Any other, as it is.
    Whole(Box<Call>),
}

/// A child of such a call.
#[derive(Clone, Copy, Debug)]
struct Asked {
    group: Group,
    answer: ChildAnswer,
    fresh: bool,
}

impl Asked {
    fn of(child: &Child) -> Asked {
        Asked { group: child.group, answer: child.answer, fresh: child.fresh }
    }

    fn child(self, request: &Request) -> Child {
        let Asked { group, answer, fresh } = self;
        let id = request.ids.id(group.start).unwrap_or_default();
        Child { id, group, answer, skipped: 0, fresh, report: None }
    }
}

/// The call in flight at an id to which nothing unusual has happened.
#[derive(Debug)]
pub(super) struct Plain {
    request: Arc<Request>,
    origin: Origin,
    deadline: Time,
    until: Time,
    begun: Time,
    /// A reply that is nothing but data, as most are.
    data: Option<Box<[u8]>>,
    /// Any other, or that there is none; both are `None` where func has not run.
    own: Option<Box<Own>>,
    children: Option<Box<[Asked]>>,
    /// `None` where no reply waits.
    arrived: Option<Box<Arrived>>,
    held: Held,
    awaited: u32,
    running: bool,
    adopted: bool,
}

impl Waiting {
    /// When it must have ended.
    pub(super) fn deadline(&self) -> Time {
        match self {
            Waiting::Plain(plain) => plain.deadline,
            Waiting::Whole(call) => call.due(),
        }
    }

    /// Where the parts lie that this names: their bytes.
    #[inline]
    pub(super) fn parts(&self) -> [Option<(*const u8, usize)>; 2] {
        match self {
            Waiting::Plain(Plain { request, children, .. }) => {
                [Some(bytes_of(&**request)), children.as_deref().map(bytes_of)]
            }
            Waiting::Whole(call) => [Some(bytes_of(&**call)), None],
        }
    }
}

/// Where something lies, and how long it is.
pub(super) fn bytes_of<T: ?Sized>(what: &T) -> (*const u8, usize) {
    (std::ptr::from_ref(what).cast(), size_of_val(what))
}

impl Plain {
    /// Takes a call's part out of it, if that is all that it has; what is left is to be emptied.
    pub(super) fn take(call: &mut Call) -> Option<Plain> {
        let awaited = u32::try_from(call.awaited).ok().filter(|_| call.is_plain())?;
        let (data, own) = match std::mem::replace(&mut call.own, Own::Lent) {
            Own::Pending => (None, None),
            Own::Ready(Reply { header, data, shared }) if header.is_empty() && shared.is_empty() => {
                (Some(data.into_boxed_slice()), None)
            }
            own => (None, Some(Box::new(own))),
        };
        Some(Plain {
            request: Arc::clone(&call.request),
            origin: call.origin,
            deadline: call.deadline,
            until: call.until,
            begun: call.begun,
            data,
            own,
            children: call.children.take().map(|children| children.iter().map(Asked::of).collect()),
            arrived: (!call.arrived.is_empty()).then(|| Box::new(std::mem::take(&mut call.arrived))),
            held: std::mem::take(&mut call.held),
            awaited,
            running: call.job == JobState::Running,
            adopted: call.adopted,
        })
    }

    /// Makes an [emptied](Call::empty) call that which it was taken out of.
    pub(super) fn put_into(self, call: &mut Call) {
        let Plain {
            request,
            origin,
            deadline,
            until,
            begun,
            data,
            own,
            children,
            arrived,
            held,
            awaited,
            running,
            adopted,
        } = self;
        call.renew(request, origin, begun);
        (call.deadline, call.until) = (deadline, until);
        let reply = |data: Box<[u8]>| Own::Ready(Reply { data: data.into_vec(), ..Reply::default() });
        call.own = data.map(reply).or(own.map(|own| *own)).unwrap_or(Own::Pending);
        let asked = |all: Box<[Asked]>| all.iter().map(|asked| asked.child(&call.request)).collect();
        call.children = children.map(asked);
        arrived.into_iter().for_each(|arrived| call.arrived = *arrived);
        (call.held, call.awaited, call.adopted) = (held, awaited as usize, adopted);
        call.job = if running { JobState::Running } else { JobState::Idle };
    }
}

#[cfg(test)]
mod tests {
    use gpc_trees::IdList;
    use proptest::prelude::*;

    use super::*;
    use crate::chain::load::Unasked;
    use crate::wire::message::SubtreeReply;
    use crate::wire::{CallId, Coverage, Report, Status};

    fn call() -> Call {
        let request =
            Request { partial: true, ..Request::new(CallId { root: 1, sequence: 2 }, IdList::range(3..30)) };
        Call::new(
            Arc::new(request),
            Origin::Parent { id: 1, skipped: 2, credit_owed: true },
            Time::from_nanos(4),
        )
    }

    fn child(start: u32) -> Child {
        let group = Group { start, len: 1 };
        Child {
            id: start + 3,
            group,
            answer: ChildAnswer::Awaited,
            skipped: 0,
            fresh: start.is_multiple_of(2),
            report: None,
        }
    }

    proptest! {
        /// What waits in little room and goes on in the room of another call is the call that it was.
        #[test]
        fn it_goes_on_as_what_it_was(header: Option<bool>, children: Option<u8>, replies in 0u32..4, running: bool, adopted: bool, later in 1u64..9) {
            let mut call = call();
            if let Some(header) = header {
                let header = if header { vec![1] } else { Vec::new() };
                call.own = Own::Ready(Reply { header, data: vec![2, 3], ..Reply::default() });
            }
            let children = children.map(|children| u32::from(children % 16));
            children.into_iter().for_each(|children| call.forwarded((1..=children).map(child).collect()));
            (0..replies).for_each(|place| call.arrived.push(place, SubtreeReply::default()));
            call.job = if running { JobState::Running } else { JobState::Idle };
            call.adopted = adopted;
            call.deadline = call.deadline.plus(std::time::Duration::from_nanos(later));
            let before = format!("{call:?}");
            let nothing = Arc::new(Request::new(CallId { root: 0, sequence: 0 }, IdList::range(0..0)));
            let mut room = self::call();
            (room.own, room.awaited, room.job) = (Own::Given, 7, JobState::Running);
            room.arrived.push(9, SubtreeReply::default());
            room.empty(&nothing);
            let plain = Plain::take(&mut call).expect("nothing unusual has happened");
            plain.put_into(&mut room);
            prop_assert_eq!(format!("{room:?}"), before);
        }
    }

    /// Calls take the room of those that have ended: what one leaves there would be the next one's.
    #[test]
    fn a_call_that_is_emptied_leaves_nothing() {
        let mut full = call();
        full.request = Arc::new(Request { callback: Some(2), ..(*full.request).clone() });
        full.forwarded((1..=20).map(child).collect());
        let [asked, unasked] = [25, 26].map(|start| Group { start, len: 1 });
        full.asks(&[asked], 1, true);
        let unasked = Unasked::new([unasked].into_iter().collect(), 1, true);
        full.unasked.get_or_insert_default().push_back(unasked);
        (full.orphans, full.awaited, full.is_delayed) = (2, 22, true);
        full.own = Own::Ready(Reply { header: vec![1], ..Reply::default() });
        full.early = Some(Box::new(Ok(Reply::default())));
        full.job = JobState::Running;
        full.arrived.push(9, SubtreeReply::default());
        full.rising = Some(Box::default());
        full.merged.push(SubtreeReply::default());
        full.report =
            Some(Box::new(Report { coverage: Coverage::all(Status::Failed, 1), causes: Vec::new() }));
        full.adopted = true;
        full.empty(&Arc::new(Request::new(CallId { root: 0, sequence: 0 }, IdList::range(0..0))));
        let new = call();
        full.renew(Arc::clone(&new.request), new.origin, new.begun);
        assert_eq!(format!("{full:?}"), format!("{new:?}"));
    }

    #[test]
    fn what_is_unusual_waits_as_it_is() {
        let mut call = call();
        call.report =
            Some(Box::new(Report { coverage: Coverage::all(Status::Failed, 1), causes: Vec::new() }));
        assert!(Plain::take(&mut call).is_none());
        assert!(call.report.is_some());
    }
}

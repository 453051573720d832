//! The holder of a lock, those that wait for it, and the watch over the holder.

use std::collections::VecDeque;

use chained_gpc::Deferred;
use chained_gpc::runtime::Canceller;

/// The lock of this process, and those that wait for it.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) holder: Option<u32>,
    pub(super) waiting: VecDeque<(u32, Deferred)>,
    /// Number of holders so far, which names the present one.
    pub(super) holders: u64,
    /// The watch over the present holder.
    pub(super) watch: Watch,
}

/// The watch over the holder of a lock.
#[derive(Default)]
pub(super) enum Watch {
    #[default]
    None,
    /// The call is being started.
    Starting,
    Watching(Canceller),
}

impl Queue {
    /// Makes a caller the holder, or frees the lock. Returns the watch over the holder before.
    pub(super) fn pass_to(&mut self, holder: Option<u32>) -> Watch {
        self.holder = holder;
        self.holders += 1;
        std::mem::take(&mut self.watch)
    }

    /// The present holder, and its number, if it is to be watched now.
    pub(super) fn begin_watch(&mut self, me: u32) -> Option<(u32, u64)> {
        let holder = self.holder.filter(|holder| *holder != me && matches!(self.watch, Watch::None))?;
        self.watch = Watch::Starting;
        Some((holder, self.holders))
    }
}

impl Watch {
    pub(super) fn end(self) {
        if let Watch::Watching(canceller) = self {
            canceller.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_watched_once_and_by_others() {
        let mut queue = Queue::default();
        assert_eq!(queue.begin_watch(0), None, "it is free");
        assert!(matches!(queue.pass_to(Some(3)), Watch::None));
        assert_eq!(queue.begin_watch(3), None, "a process does not watch itself");
        assert_eq!((queue.begin_watch(0), queue.begin_watch(0)), (Some((3, 1)), None));
        assert!(matches!(queue.pass_to(Some(4)), Watch::Starting));
        assert_eq!(queue.begin_watch(0), Some((4, 2)));
    }
}

//! The pace of a link: how fast the system takes long data, and how much of them is given to it at a time.
//!
//! What lies in a socket cannot be overtaken: a small call that comes behind it waits until the wire has taken it, and so does a heartbeat request. So long data are cut to what the wire takes in
//! [`AT_A_TIME`], and the next piece follows when the system says that it has room; of a fast link that is as long as a segment may be, and then the system is given as much as it takes. Without a socket and
//! without a clock: the [link](super::Link) brings both.

use std::time::Duration;

use crate::chain::Time;
use crate::wire::frame::SEGMENT;

/// What the wire takes in so long may lie between a small call and the wire.
const AT_A_TIME: Duration = Duration::from_millis(50);

/// Least bytes of a segment: below it the frames and the system's calls cost more than they bring.
const SEGMENT_MIN: usize = 16 << 10;

/// Bytes of a segment while nothing is known of the link: one that takes 1 MB/s is through with them in 65 ms, and one of any speed takes them in a call of the system.
const SEGMENT_UNKNOWN: usize = 64 << 10;

/// Shortest time that says how fast the link is, but for so many segments that were taken before.
const MEASURED: Duration = Duration::from_millis(100);
const MEASURED_SEGMENTS: usize = 4;

/// How much longer segments become at once: what a socket takes into its own buffers seems to be fast.
const GROWTH: usize = 4;

/// How fast a link is, and what may be given to the system before it says that it has room.
#[derive(Debug)]
pub(super) struct Pace {
    segment: usize,
    /// When the round began: a segment, or what has been written until the system took no more. None while nothing waits to be written.
    since: Option<Time>,
    /// Bytes written in it.
    round: usize,
    /// Whether it is the first one since there was nothing to write. It says how much the system takes into its buffers.
    first: bool,
    /// What rounds have taken that have ended with room for the next, since the pace was last set.
    taken: usize,
    took: Duration,
}

impl Pace {
    /// Of a link of which nothing is known.
    pub(super) fn new() -> Pace {
        Pace { segment: SEGMENT_UNKNOWN, since: None, round: 0, first: true, taken: 0, took: Duration::ZERO }
    }

    /// Bytes of a segment.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    /// Bytes of long data that may be given to the system before it says that it has room.
    pub(super) fn allowance(&self) -> usize {
        if self.segment == SEGMENT { usize::MAX } else { self.segment }
    }

    /// Long data are about to be written; says whether there was nothing to write before.
    pub(super) fn begin(&mut self, now: impl FnOnce() -> Time) -> bool {
        let rested = self.since.is_none();
        if rested {
            self.since = Some(now());
        }
        rested
    }

    /// The system has taken so many bytes.
    pub(super) fn written(&mut self, bytes: usize) {
        self.round += bytes;
    }

    /// The system has room for more; says whether the pace is another one now.
    pub(super) fn room(&mut self, now: Time) -> bool {
        let Some(since) = self.since.replace(now) else { return false };
        let bytes = std::mem::take(&mut self.round);
        if std::mem::take(&mut self.first) {
            return false;
        }
        self.taken += bytes;
        self.took += now.since(since);
        (self.took >= MEASURED || self.taken >= MEASURED_SEGMENTS * self.segment) && self.set()
    }

    /// There is nothing to write for the moment.
    pub(super) fn rest(&mut self) {
        (self.since, self.round, self.first) = (None, 0, true);
    }

    fn set(&mut self) -> bool {
        let (taken, took) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.took));
        let wanted = taken as u128 * AT_A_TIME.as_nanos() / took.as_nanos().max(1);
        let wanted = usize::try_from(wanted).unwrap_or(SEGMENT).clamp(SEGMENT_MIN, SEGMENT);
        // Powers of two, so that it does not change all the time.
        let segment = (1 << wanted.ilog2()).min(self.segment * GROWTH);
        std::mem::replace(&mut self.segment, segment) != segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wire with a buffer before it, of which the system says that it has room when it holds less than a quarter of a segment.
    struct Wire {
        now_us: u64,
        bytes_per_s: u64,
        held: u64,
        /// What it takes at once where nothing is under way.
        window: u64,
    }

    impl Wire {
        fn time(&self) -> Time {
            Time::from_nanos(self.now_us * 1000)
        }

        /// Sends so many bytes; the most that a small message would have waited, microseconds.
        fn send(&mut self, pace: &mut Pace, mut bytes: usize) -> u64 {
            let mut longest = 0;
            self.held = self.held.saturating_sub(self.window);
            pace.begin(|| self.time());
            while bytes > 0 {
                let piece = pace.segment().min(bytes);
                pace.written(piece);
                (self.held, bytes) = (self.held + piece as u64, bytes - piece);
                longest = longest.max(self.held * 1_000_000 / self.bytes_per_s);
                let more = self.held.saturating_sub(pace.segment() as u64 / 4);
                self.now_us += more * 1_000_000 / self.bytes_per_s + 5;
                self.held -= more;
                pace.room(self.time());
            }
            pace.rest();
            longest
        }
    }

    fn wire(bytes_per_s: u64) -> (Wire, Pace) {
        (Wire { now_us: 0, bytes_per_s, held: 0, window: 14_600 }, Pace::new())
    }

    #[test]
    fn a_segment_is_what_the_wire_takes_in_fifty_milliseconds() {
        for (bytes_per_s, segment) in [
            (20_000, 16 << 10),
            (200_000, 16 << 10),
            (500_000, 16 << 10),
            (1_000_000, 32 << 10),
            (3_000_000, 128 << 10),
            (6_000_000, SEGMENT),
            (1_000_000_000, SEGMENT),
        ] {
            let (mut wire, mut pace) = wire(bytes_per_s);
            wire.send(&mut pace, 2 << 20);
            assert_eq!(pace.segment(), segment, "{bytes_per_s} bytes a second");
            let longest_ms = wire.send(&mut pace, 8 << 20) / 1000;
            assert!(
                bytes_per_s < 500_000 || longest_ms <= 75,
                "{longest_ms} ms at {bytes_per_s} bytes a second"
            );
        }
    }

    /// Messages that fit the system's buffers say nothing of the wire behind them.
    #[test]
    fn what_a_socket_takes_at_once_is_no_measure() {
        let (mut wire, mut pace) = wire(20_000);
        for _ in 0..100 {
            wire.send(&mut pace, 20_000);
            wire.now_us += 5_000_000;
            wire.held = 0;
        }
        assert_eq!(pace.segment(), SEGMENT_UNKNOWN);
    }

    #[test]
    fn a_fast_link_is_known_after_a_few_segments_and_a_slow_one_after_the_next() {
        let (mut wire, mut pace) = wire(1_000_000_000);
        wire.send(&mut pace, SEGMENT_UNKNOWN * (MEASURED_SEGMENTS + 2));
        assert_eq!((pace.segment(), pace.allowance()), (SEGMENT, usize::MAX));
        wire.bytes_per_s = 100_000;
        wire.send(&mut pace, 4 * SEGMENT);
        assert_eq!((pace.segment(), pace.allowance()), (SEGMENT_MIN, SEGMENT_MIN));
    }

    /// What is waited for in between is no part of the measure.
    #[test]
    fn data_that_come_slowly_make_no_slow_link() {
        let (mut wire, mut pace) = wire(1_000_000_000);
        for _ in 0..50 {
            wire.send(&mut pace, 4 * SEGMENT_UNKNOWN);
            wire.now_us += 1_000_000;
        }
        assert_eq!(pace.segment(), SEGMENT);
    }
}

//! Pace of a link: limits the long data in the buffer of the socket, so that small messages pass soon.
//!
//! Bytes in the buffer of a socket cannot be overtaken: a small message or a PING behind them waits until the wire has
//! carried them. So long data are cut to segments that the wire carries in [`SEGMENT_TIME`]. The next segment follows
//! once the system reports free space. A fast link has segments of the full length, and no limit. The
//! [link](super::Link) supplies socket and clock.

use std::time::Duration;

use crate::chain::Time;
use crate::wire::frame::SEGMENT;

/// Time in which the wire carries a segment: the delay of a small message behind it.
const SEGMENT_TIME: Duration = Duration::from_millis(50);

/// Minimum length of a segment: shorter ones cost more in frames and system calls than they gain.
const SEGMENT_MIN: usize = 16 << 10;

/// Length of a segment on a link of unknown speed. A link of 1 MB/s carries it in 65 ms, and a link of any speed in one
/// system call.
const SEGMENT_UNKNOWN: usize = 64 << 10;

/// Minimum time of a measurement. It ends earlier after [`MEASURE_SEGMENTS_MIN`] segments.
const MEASURE_TIME_MIN: Duration = Duration::from_millis(100);

/// Number of segments after which a measurement ends, however short it was.
const MEASURE_SEGMENTS_MIN: usize = 4;

/// Maximum growth of the length of segments at once: a link seems fast while its socket fills its own buffer.
const GROWTH: usize = 4;

/// Speed of a link, and the bytes that may be written before the system reports free space.
#[derive(Debug)]
pub(super) struct Pace {
    segment: usize,
    /// Start of the round: a segment, or the bytes until the system accepted no more. `None` while nothing is to be
    /// written.
    round_start: Option<Time>,
    /// Bytes written in the round.
    round_bytes: usize,
    /// Whether the round is the first since the link was idle. It measures the buffer of the system, not the wire.
    is_first_round: bool,
    /// Bytes and time of the complete rounds since the last update.
    measured_bytes: usize,
    measured_time: Duration,
}

impl Pace {
    /// Returns the pace of a link of unknown speed.
    pub(super) fn new() -> Pace {
        Pace {
            segment: SEGMENT_UNKNOWN,
            round_start: None,
            round_bytes: 0,
            is_first_round: true,
            measured_bytes: 0,
            measured_time: Duration::ZERO,
        }
    }

    /// Length of a segment.
    pub(super) fn segment(&self) -> usize {
        self.segment
    }

    /// Number of bytes of long data that may be written before the system reports free space.
    pub(super) fn allowance(&self) -> usize {
        if self.segment == SEGMENT { usize::MAX } else { self.segment }
    }

    /// Starts a round; returns whether no round was in progress.
    pub(super) fn start(&mut self, now: impl FnOnce() -> Time) -> bool {
        let was_idle = self.round_start.is_none();
        if was_idle {
            self.round_start = Some(now());
        }
        was_idle
    }

    /// Counts bytes that the system has accepted.
    pub(super) fn mark_written(&mut self, bytes: usize) {
        self.round_bytes += bytes;
    }

    /// Ends a round and starts the next: the system has free space. Returns whether the length of segments has changed.
    pub(super) fn continue_round(&mut self, now: Time) -> bool {
        let Some(since) = self.round_start.replace(now) else { return false };
        let bytes = std::mem::take(&mut self.round_bytes);
        if std::mem::take(&mut self.is_first_round) {
            return false;
        }
        self.measured_bytes += bytes;
        self.measured_time += now.since(since);
        (self.measured_time >= MEASURE_TIME_MIN || self.measured_bytes >= MEASURE_SEGMENTS_MIN * self.segment)
            && self.update()
    }

    /// Ends the round without a measurement: nothing is to be written.
    pub(super) fn stop(&mut self) {
        (self.round_start, self.round_bytes, self.is_first_round) = (None, 0, true);
    }

    fn update(&mut self) -> bool {
        let (bytes, time) =
            (std::mem::take(&mut self.measured_bytes), std::mem::take(&mut self.measured_time));
        let wanted = bytes as u128 * SEGMENT_TIME.as_nanos() / time.as_nanos().max(1);
        let wanted = usize::try_from(wanted).unwrap_or(SEGMENT).clamp(SEGMENT_MIN, SEGMENT);
        // Powers of two: the length changes seldom.
        let segment = (1 << wanted.ilog2()).min(self.segment * GROWTH);
        std::mem::replace(&mut self.segment, segment) != segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wire behind a buffer. The system reports free space when the buffer has less than a quarter of a segment.
    struct Wire {
        now_us: u64,
        bytes_per_s: u64,
        held: u64,
        /// Bytes that the wire accepts at once after a rest.
        window: u64,
    }

    impl Wire {
        fn time(&self) -> Time {
            Time::from_nanos(self.now_us * 1000)
        }

        /// Sends bytes. Returns the maximum delay of a small message, in microseconds.
        fn send(&mut self, pace: &mut Pace, mut bytes: usize) -> u64 {
            let mut longest = 0;
            self.held = self.held.saturating_sub(self.window);
            pace.start(|| self.time());
            while bytes > 0 {
                let piece = pace.segment().min(bytes);
                pace.mark_written(piece);
                (self.held, bytes) = (self.held + piece as u64, bytes - piece);
                longest = longest.max(self.held * 1_000_000 / self.bytes_per_s);
                let more = self.held.saturating_sub(pace.segment() as u64 / 4);
                self.now_us += more * 1_000_000 / self.bytes_per_s + 5;
                self.held -= more;
                pace.continue_round(self.time());
            }
            pace.stop();
            longest
        }
    }

    fn wire(bytes_per_s: u64) -> (Wire, Pace) {
        (Wire { now_us: 0, bytes_per_s, held: 0, window: 14_600 }, Pace::new())
    }

    #[test]
    fn a_segment_takes_the_wire_fifty_milliseconds() {
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

    /// Messages that fit into the buffer of the system do not measure the wire behind it.
    #[test]
    fn the_buffer_of_a_socket_is_not_measured() {
        let (mut wire, mut pace) = wire(20_000);
        for _ in 0..100 {
            wire.send(&mut pace, 20_000);
            wire.now_us += 5_000_000;
            wire.held = 0;
        }
        assert_eq!(pace.segment(), SEGMENT_UNKNOWN);
    }

    #[test]
    fn segments_grow_on_a_fast_link_and_shrink_on_a_slow_one() {
        let (mut wire, mut pace) = wire(1_000_000_000);
        wire.send(&mut pace, SEGMENT_UNKNOWN * (MEASURE_SEGMENTS_MIN + 2));
        assert_eq!((pace.segment(), pace.allowance()), (SEGMENT, usize::MAX));
        wire.bytes_per_s = 100_000;
        wire.send(&mut pace, 4 * SEGMENT);
        assert_eq!((pace.segment(), pace.allowance()), (SEGMENT_MIN, SEGMENT_MIN));
    }

    /// The time between messages does not count.
    #[test]
    fn slow_data_do_not_make_a_slow_link() {
        let (mut wire, mut pace) = wire(1_000_000_000);
        for _ in 0..50 {
            wire.send(&mut pace, 4 * SEGMENT_UNKNOWN);
            wire.now_us += 1_000_000;
        }
        assert_eq!(pace.segment(), SEGMENT);
    }
}

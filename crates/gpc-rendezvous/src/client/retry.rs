//! Decides whether a request is repeated, and when. No I/O: its input is the failure of each attempt, and the time
//! left.

use std::time::Duration;

use crate::machine::{Fault, FaultKind};

/// First and longest pause before a retry.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// Faults that mean that a resource is destroyed. A service that was restarted has forgotten why resources ended.
pub(crate) const DESTROYED: &[FaultKind] = &[FaultKind::Destroyed, FaultKind::UnknownResource];

/// Why an attempt has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// There is no answer.
    NoAnswer {
        /// The reason.
        why: String,
        /// Whether the service may have received the request.
        sent: bool,
        /// Whether a retry would give the same result.
        hopeless: bool,
    },
    /// A fault: the service has not carried out the request.
    Fault(Fault),
    /// A fault of a service that may have carried out the request.
    Uncertain(Fault),
    /// A proxy reports that the service does not answer. It may have passed the request on.
    Gateway(String),
    /// The answer is malformed.
    Malformed(String),
}

/// The attempts of one request.
#[derive(Debug)]
pub(crate) struct Retry {
    /// Whether the service carries out the request once, however often it receives it.
    again: bool,
    /// Whether it may have carried out an attempt whose answer is missing.
    reached: bool,
    pause: Duration,
}

impl Retry {
    pub(crate) fn new(again: bool) -> Retry {
        Retry { again, reached: false, pause: AGAIN_FIRST }
    }

    /// Whether a fault means that an earlier attempt was carried out, whose answer is missing. `gone` are the faults
    /// for a repetition of the request.
    pub(crate) fn is_done(&self, fault: FaultKind, gone: &[FaultKind]) -> bool {
        self.reached && gone.contains(&fault)
    }

    /// Whether the request may have been carried out, and a repetition would carry it out again.
    pub(crate) fn is_unsure(&self) -> bool {
        self.reached && !self.again
    }

    /// Records the failure of an attempt, and returns whether the request may be repeated.
    pub(crate) fn failed(&mut self, failure: &Failure) -> bool {
        let passes = match failure {
            Failure::NoAnswer { sent, hopeless, .. } => {
                self.reached |= sent;
                !hopeless
            }
            Failure::Gateway(_) | Failure::Uncertain(_) => {
                self.reached = true;
                true
            }
            // The service may have room, be restarted, or write its store again.
            Failure::Fault(fault) => matches!(fault.kind, FaultKind::ServiceFull | FaultKind::Unavailable),
            Failure::Malformed(_) => false,
        };
        passes && !self.is_unsure()
    }

    /// The pause before the next attempt, if any time is left. It is between half of the present pause and all of it,
    /// by `share` of 1024, so that many clients that lose the same service do not return at once.
    pub(crate) fn pause(&mut self, left: Duration, share: u32) -> Option<Duration> {
        if left.is_zero() {
            return None;
        }
        let pause = self.pause * (512 + share.min(1024) / 2) / 1024;
        self.pause = (self.pause * 2).min(AGAIN_MOST);
        Some(pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_answer(sent: bool, hopeless: bool) -> Failure {
        Failure::NoAnswer { why: "gone".into(), sent, hopeless }
    }

    fn fault(kind: FaultKind) -> Fault {
        Fault::new(kind, "no")
    }

    /// A creation was repeated after a proxy's 502 or 504, although the service may have carried it out: two resources
    /// were created.
    #[test]
    fn a_creation_is_repeated_only_if_it_was_surely_not_carried_out() {
        for (failure, creation, others) in [
            (no_answer(false, false), true, true),
            (no_answer(true, false), false, true),
            (no_answer(false, true), false, false),
            (no_answer(true, true), false, false),
            (Failure::Gateway("status 502".into()), false, true),
            (Failure::Uncertain(fault(FaultKind::Unavailable)), false, true),
            (Failure::Fault(fault(FaultKind::Unavailable)), true, true),
            (Failure::Malformed("nonsense".into()), false, false),
        ] {
            assert_eq!(Retry::new(false).failed(&failure), creation, "{failure:?}");
            assert_eq!(Retry::new(true).failed(&failure), others, "{failure:?}");
        }
        for kind in FaultKind::ALL.iter().copied() {
            let passes = matches!(kind, FaultKind::ServiceFull | FaultKind::Unavailable);
            for again in [false, true] {
                let mut retry = Retry::new(again);
                assert_eq!(retry.failed(&Failure::Fault(fault(kind))), passes, "{kind:?}");
                assert!(!is_reached(&retry) && !retry.is_unsure());
            }
        }
    }

    fn is_reached(retry: &Retry) -> bool {
        assert!(!retry.is_done(FaultKind::Expired, DESTROYED));
        retry.is_done(FaultKind::Destroyed, DESTROYED)
    }

    /// What an earlier attempt may have done is remembered: an end that a lost attempt has carried out is no fault.
    #[test]
    fn an_attempt_that_may_have_arrived_is_remembered() {
        let lost = [
            no_answer(true, false),
            Failure::Gateway("504".into()),
            Failure::Uncertain(fault(FaultKind::Unavailable)),
        ];
        for failure in lost {
            let mut retry = Retry::new(true);
            assert!(retry.failed(&no_answer(false, false)) && !is_reached(&retry));
            assert!(retry.failed(&failure) && is_reached(&retry));
            assert!(retry.failed(&no_answer(false, false)) && is_reached(&retry));
            assert!(!retry.is_unsure());
        }
        let mut creation = Retry::new(false);
        assert!(!creation.failed(&no_answer(true, false)));
        assert!(creation.is_unsure() && !creation.failed(&Failure::Fault(fault(FaultKind::ServiceFull))));
    }

    #[test]
    fn pauses_double_up_to_two_seconds_and_end_with_the_time() {
        let (mut most, mut least) = (Retry::new(true), Retry::new(true));
        let long = Duration::from_secs(99);
        let millis = |retry: &mut Retry, share| retry.pause(long, share).unwrap().as_millis();
        let pauses: Vec<u128> = (0..9).map(|_| millis(&mut most, 1024)).collect();
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        let pauses: Vec<u128> = (0..9).map(|_| millis(&mut least, 0)).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(most.pause(Duration::from_millis(7), 512), Some(Duration::from_millis(7)));
        assert_eq!(most.pause(Duration::ZERO, 512), None);
    }
}

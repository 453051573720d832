//! State of the root's call that waits at a process, from its begin to its answer or end. The call may end before the
//! token that answers it is stored.

/// A call `C`, and the token `T` that answers it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) enum PendingCall<C, T> {
    /// There is no call.
    #[default]
    Nothing,
    /// A call has begun, and may end at any moment; its token is still to be stored.
    Begun(C),
    /// A call waits, with its token.
    Waiting(C, T),
    /// The call has ended before it was answered. Its token is useless.
    Ended(Option<T>),
}

impl<C: Copy + PartialEq, T> PendingCall<C, T> {
    /// Begins a call. Returns whether it may wait: at most one call does.
    pub(super) fn begin(&mut self, call: C) -> bool {
        let free = matches!(self, PendingCall::Nothing | PendingCall::Ended(_));
        if free {
            *self = PendingCall::Begun(call);
        }
        free
    }

    /// Stores the token of the call that has begun. If the call has ended meanwhile, returns the token.
    pub(super) fn store_token(&mut self, call: C, token: T) -> Option<T> {
        match self {
            PendingCall::Begun(begun) if *begun == call => {
                *self = PendingCall::Waiting(call, token);
                None
            }
            _ => Some(token),
        }
    }

    /// Ends a call. Returns whether it was this one.
    pub(super) fn end(&mut self, call: C) -> bool {
        match std::mem::take(self) {
            PendingCall::Begun(own) if own == call => *self = PendingCall::Ended(None),
            PendingCall::Waiting(own, token) if own == call => *self = PendingCall::Ended(Some(token)),
            other => {
                *self = other;
                return false;
            }
        }
        true
    }

    /// Whether the call has ended; true once for each end.
    pub(super) fn take_end(&mut self) -> bool {
        let ended = self.has_ended();
        if ended {
            *self = PendingCall::Nothing;
        }
        ended
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self, PendingCall::Ended(_))
    }

    /// Takes the token of the waiting call, to answer it.
    pub(super) fn take(&mut self) -> Option<T> {
        match std::mem::take(self) {
            PendingCall::Waiting(_, token) => Some(token),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Whether there is no call, or one whose end was taken.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, PendingCall::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A call could end between the registration of this process's cancel handler and the moment at which its token was
    /// stored. The token stayed, and the process took its root for alive.
    #[test]
    fn a_call_that_ends_before_its_token_is_stored_does_not_wait() {
        let mut pending = PendingCall::default();
        assert!(pending.begin(1) && pending.end(1));
        assert_eq!(pending.store_token(1, "token"), Some("token"));
        assert!(pending.take_end() && pending.is_nothing() && !pending.take_end());
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin(u8),
        Store(u8),
        End(u8),
        TakeEnd,
        Answer,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..3_u8).prop_map(Step::Begin),
            (0..3_u8).prop_map(Step::Store),
            (0..3_u8).prop_map(Step::End),
            Just(Step::TakeEnd),
            Just(Step::Answer),
        ]
    }

    proptest! {
        /// In any order of steps, a stored token belongs to a call that has begun and has not ended.
        #[test]
        fn only_a_call_in_progress_waits(steps in prop::collection::vec(step(), 0..40)) {
            let mut pending = PendingCall::default();
            // The call in progress, whether its token is stored, and whether an end is to be taken.
            let (mut under_way, mut kept, mut ended) = (None, false, false);
            for step in steps {
                match step {
                    Step::Begin(call) => {
                        prop_assert_eq!(pending.begin(call), under_way.is_none());
                        if under_way.is_none() {
                            (under_way, kept, ended) = (Some(call), false, false);
                        }
                    }
                    Step::Store(call) => {
                        let fits = under_way == Some(call) && !kept;
                        prop_assert_eq!(pending.store_token(call, call), (!fits).then_some(call));
                        kept |= fits;
                    }
                    Step::End(call) => {
                        prop_assert_eq!(pending.end(call), under_way == Some(call));
                        if under_way == Some(call) {
                            (under_way, kept, ended) = (None, false, true);
                        }
                    }
                    Step::TakeEnd => prop_assert_eq!(pending.take_end(), std::mem::take(&mut ended)),
                    Step::Answer => {
                        prop_assert_eq!(pending.take(), under_way.filter(|_| kept));
                        if kept {
                            (under_way, kept) = (None, false);
                        }
                    }
                }
                prop_assert_eq!(pending.is_nothing(), under_way.is_none() && !ended);
            }
        }
    }
}

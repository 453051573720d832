//! The call of the root that waits at a process, from its begin until it is answered or has ended. The token by which it is answered is there a moment after that could have happened.

/// A call `C`, and the token `T` by which it is answered.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) enum Held<C, T> {
    /// There is none.
    #[default]
    Nothing,
    /// It has begun, and may end at any moment.
    Begun(C),
    /// It waits.
    Waits(C, T),
    /// It has ended before it was answered. Its token is of no use.
    Ended(Option<T>),
}

impl<C: Copy + PartialEq, T> Held<C, T> {
    /// A call begins; says whether it may wait: one does at a time.
    pub(super) fn begin(&mut self, call: C) -> bool {
        let free = matches!(self, Held::Nothing | Held::Ended(_));
        if free {
            *self = Held::Begun(call);
        }
        free
    }

    /// The call that has begun waits from now on. Gives the token back if it has ended meanwhile.
    pub(super) fn keep(&mut self, call: C, token: T) -> Option<T> {
        match self {
            Held::Begun(begun) if *begun == call => {
                *self = Held::Waits(call, token);
                None
            }
            _ => Some(token),
        }
    }

    /// A call has ended; says whether it was this one.
    pub(super) fn end(&mut self, call: C) -> bool {
        match std::mem::take(self) {
            Held::Begun(own) if own == call => *self = Held::Ended(None),
            Held::Waits(own, token) if own == call => *self = Held::Ended(Some(token)),
            other => {
                *self = other;
                return false;
            }
        }
        true
    }

    /// Whether it has ended, which is said once.
    pub(super) fn take_end(&mut self) -> bool {
        let ended = self.has_ended();
        if ended {
            *self = Held::Nothing;
        }
        ended
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Held::Ended(_))
    }

    /// The token of the call that waits, to answer it.
    pub(super) fn take(&mut self) -> Option<T> {
        match std::mem::take(self) {
            Held::Waits(_, token) => Some(token),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Whether none is under way.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Held::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A call could end between the moment at which this process asked to be told of that and the one at which its token was kept: the token stayed, and the process took its root for there.
    #[test]
    fn a_call_that_ends_before_its_token_is_kept_is_not_held() {
        let mut held = Held::default();
        assert!(held.begin(1) && held.end(1));
        assert_eq!(held.keep(1, "token"), Some("token"));
        assert!(held.take_end() && held.is_nothing() && !held.take_end());
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin(u8),
        Keep(u8),
        End(u8),
        Heard,
        Answer,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..3_u8).prop_map(Step::Begin),
            (0..3_u8).prop_map(Step::Keep),
            (0..3_u8).prop_map(Step::End),
            Just(Step::Heard),
            Just(Step::Answer),
        ]
    }

    proptest! {
        /// Whatever comes in which order: a token that is held is one of a call that has begun and has not ended.
        #[test]
        fn only_a_call_that_is_under_way_is_held(steps in prop::collection::vec(step(), 0..40)) {
            let mut held = Held::default();
            // Which call is under way, and whether its token is there.
            let (mut under_way, mut kept, mut ended) = (None, false, false);
            for step in steps {
                match step {
                    Step::Begin(call) => {
                        prop_assert_eq!(held.begin(call), under_way.is_none());
                        if under_way.is_none() {
                            (under_way, kept, ended) = (Some(call), false, false);
                        }
                    }
                    Step::Keep(call) => {
                        let fits = under_way == Some(call) && !kept;
                        prop_assert_eq!(held.keep(call, call), (!fits).then_some(call));
                        kept |= fits;
                    }
                    Step::End(call) => {
                        prop_assert_eq!(held.end(call), under_way == Some(call));
                        if under_way == Some(call) {
                            (under_way, kept, ended) = (None, false, true);
                        }
                    }
                    Step::Heard => prop_assert_eq!(held.take_end(), std::mem::take(&mut ended)),
                    Step::Answer => {
                        prop_assert_eq!(held.take(), under_way.filter(|_| kept));
                        if kept {
                            (under_way, kept) = (None, false);
                        }
                    }
                }
                prop_assert_eq!(held.is_nothing(), under_way.is_none() && !ended);
            }
        }
    }
}

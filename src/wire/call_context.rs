//! The context of a call at one id: a value of the application that its functions share. It is never sent.
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC": nbh "also acts as a context
//! for each individual GPC".

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value of any type.
type Value = Box<dyn Any + Send>;

/// A place for one value, which belongs to the request of a call at one id: the value is dropped with it, once.
///
/// A request that is copied, for example to another id, has an empty place. The drop of a value may panic: the panic
/// ends here, because the thread of the node drops what a call has left.
#[derive(Default)]
pub struct CallContext(Mutex<Option<Value>>);

impl CallContext {
    /// Puts a value into the place. The previous one is dropped.
    pub fn put<T: Any + Send>(&self, value: T) {
        let previous = self.held().replace(Box::new(value));
        discard(previous);
    }

    /// Takes the value out if it has this type.
    pub fn take<T: Any + Send>(&self) -> Option<T> {
        self.take_boxed().map(|value| *value)
    }

    /// Calls `act` with the value, if it has this type. The place is empty meanwhile. A value that `act` puts into it
    /// replaces the previous one.
    pub fn with<T: Any + Send, R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut value = self.take_boxed::<T>()?;
        let result = act(&mut value);
        let mut held = self.held();
        let replaced = match &*held {
            Some(_) => Some(value as Value),
            None => held.replace(value),
        };
        drop(held);
        discard(replaced);
        Some(result)
    }

    fn take_boxed<T: Any + Send>(&self) -> Option<Box<T>> {
        self.held().take_if(|value| value.is::<T>())?.downcast().ok()
    }

    /// A panic cannot leave the place half filled, so a poisoned lock is usable.
    fn held(&self) -> MutexGuard<'_, Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn discard(value: Option<Value>) {
    if let Some(value) = value {
        // The panic hook has reported a panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

impl Drop for CallContext {
    #[inline]
    fn drop(&mut self) {
        let held = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            discard(held.take());
        }
    }
}

impl Clone for CallContext {
    /// Returns an empty place.
    fn clone(&self) -> CallContext {
        CallContext::default()
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallContext(used: {})", self.held().is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts its drops.
    struct Counted(Arc<AtomicUsize>, u32);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_value_is_dropped_once_when_it_is_replaced_or_its_place_goes() {
        let drops = Arc::<AtomicUsize>::default();
        let dropped = || drops.load(Ordering::SeqCst);
        let context = CallContext::default();
        context.put(Counted(drops.clone(), 1));
        assert_eq!(context.take::<u32>(), None, "another type");
        assert_eq!(context.with(|value: &mut u32| *value), None);
        context.put(Counted(drops.clone(), 2));
        assert_eq!(dropped(), 1);
        assert_eq!(context.with(|value: &mut Counted| value.1), Some(2));
        let copy = context.clone();
        assert!(copy.take::<Counted>().is_none(), "a copy has a place of its own");
        drop((copy, context));
        assert_eq!(dropped(), 2);
    }

    #[test]
    fn a_value_that_is_taken_out_belongs_to_its_taker() {
        let drops = Arc::<AtomicUsize>::default();
        let context = CallContext::default();
        context.put(Counted(drops.clone(), 1));
        let taken = context.take::<Counted>().expect("it was put there");
        assert!(context.take::<Counted>().is_none());
        drop(context);
        assert_eq!((taken.1, drops.load(Ordering::SeqCst)), (1, 0));
    }

    #[test]
    fn a_value_in_use_may_be_replaced() {
        let drops = Arc::<AtomicUsize>::default();
        let context = CallContext::default();
        context.put(Counted(drops.clone(), 1));
        context.with(|_: &mut Counted| context.put(Counted(drops.clone(), 2)));
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert_eq!(context.with(|value: &mut Counted| value.1), Some(2));
    }

    #[test]
    fn a_panic_in_a_drop_ends_here() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("the drop of a value")
            }
        }
        let context = CallContext::default();
        context.put(Bomb);
        context.put(7);
        assert_eq!(context.take(), Some(7));
        context.put(Bomb);
        drop(context);
    }
}

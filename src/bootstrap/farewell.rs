//! What a process says at the end, when its node has left: to its launcher, and to whom it has met the others by.

use std::fmt;
use std::time::Duration;

use super::{BootstrapError, Space};

/// How long a launcher may take to hear that this process ends.
const FINISH_LIMIT: Duration = Duration::from_secs(10);

/// One thing that is to be said.
type Word = Box<dyn FnOnce() -> Result<(), BootstrapError> + Send>;

/// What is to be said by a process that ends in order, behind its node: nothing by default. A [`Member`](super::Member) says it when it leaves; where there comes none of it, and where a process panics, it is dropped, and nothing is said.
#[derive(Default)]
pub struct Farewell {
    words: Vec<Word>,
}

impl Farewell {
    /// This. It is called once, perhaps on another thread, and has a limit of its own.
    pub fn new<E: fmt::Display>(say: impl FnOnce() -> Result<(), E> + Send + 'static) -> Farewell {
        Farewell::of(move || say().map_err(|error| BootstrapError::Farewell(error.to_string())))
    }

    /// That this process ends, to the launcher of this space.
    pub(super) fn to_launcher(mut space: Box<dyn Space>) -> Farewell {
        Farewell::of(move || Ok(space.finish(FINISH_LIMIT)?))
    }

    fn of(say: impl FnOnce() -> Result<(), BootstrapError> + Send + 'static) -> Farewell {
        Farewell { words: vec![Box::new(say)] }
    }

    /// This, and `next` behind it.
    #[must_use]
    pub fn then(mut self, next: Farewell) -> Farewell {
        self.words.extend(next.words);
        self
    }

    /// Says all of it, whatever comes of each.
    ///
    /// # Errors
    /// The first one's that could not be said.
    pub fn say(self) -> Result<(), BootstrapError> {
        self.words.into_iter().map(|say| say()).fold(Ok(()), Result::and)
    }
}

impl fmt::Debug for Farewell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Farewell({} to say)", self.words.len())
    }
}

/// What a member says when it goes, in order or not.
#[derive(Debug)]
pub(super) struct AtEnd(pub(super) Farewell);

impl AtEnd {
    /// From now on it is the caller's to say.
    pub(super) fn take(&mut self) -> Farewell {
        std::mem::take(&mut self.0)
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        // A process that fails ends without a word, so that the launcher ends the others.
        if !std::thread::panicking() {
            let _ = self.take().say();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A farewell of these words, and what has been said; the words `no...` cannot be said.
    fn farewell(words: &[&'static str]) -> (Farewell, Arc<Mutex<Vec<&'static str>>>) {
        let said = Arc::<Mutex<Vec<&str>>>::default();
        let one = |word: &'static str| {
            let said = said.clone();
            Farewell::new(move || {
                said.lock().unwrap().push(word);
                if word.starts_with("no") { Err(word) } else { Ok(()) }
            })
        };
        (words.iter().map(|word| one(word)).fold(Farewell::default(), Farewell::then), said)
    }

    #[test]
    fn all_is_said_in_order_and_the_first_error_counts() {
        assert!(Farewell::default().say().is_ok());
        let (all, said) = farewell(&["a", "no b", "no c", "d"]);
        assert_eq!(format!("{all:?}"), "Farewell(4 to say)");
        assert_eq!(all.say().unwrap_err().to_string(), "the farewell of this process: no b");
        assert_eq!(*said.lock().unwrap(), ["a", "no b", "no c", "d"]);
    }

    #[test]
    fn it_is_said_by_who_leaves_and_not_by_who_panics() {
        let (dropped, said) = farewell(&["a"]);
        drop(dropped);
        assert!(said.lock().unwrap().is_empty(), "nobody has left");
        let (mine, said) = farewell(&["a"]);
        drop(AtEnd(mine));
        assert_eq!(*said.lock().unwrap(), ["a"]);
        let (mine, said) = farewell(&["a"]);
        let at_end = AtEnd(mine);
        let panicked = std::thread::spawn(move || {
            let _at_end = at_end;
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert!(said.lock().unwrap().is_empty());
    }
}

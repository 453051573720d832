//! Data that are on their way to clients: how many bytes of them there may be together. A client that does not take its answer keeps data in memory, also those of a resource that was destroyed meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::options::RATE_MIN;
use super::problem::Problem;
use crate::machine::{Fault, FaultKind};

/// Slowest that an answer may be taken while more than half of the budget is, bytes a second. Below that, slow clients stand in nobody's way: ten thousand tasks that share one network take the same data slowly, and they are counted once.
const RATE_TIGHT: u64 = 256 << 10;

/// How many bytes may be on their way.
#[derive(Debug)]
pub(super) struct Answers {
    most: u64,
    out: Mutex<Out>,
}

/// What is on its way: the same data, which lie at the same place, are counted once however many take them.
#[derive(Default, Debug)]
struct Out {
    bytes: u64,
    takers: BTreeMap<(usize, usize), usize>,
}

/// Data that are on their way until the last part of them is written.
#[derive(Debug)]
pub(super) struct OnTheWay {
    answers: Arc<Answers>,
    data: Bytes,
}

impl Answers {
    pub(super) fn new(most: u64) -> Arc<Answers> {
        Arc::new(Answers { most, out: Mutex::default() })
    }

    /// Sends data on their way while the bound is not reached, so that data which are longer than the whole bound can be had too.
    pub(super) fn send(self: &Arc<Answers>, data: Bytes) -> Result<Arc<OnTheWay>, Problem> {
        let mut out = self.out();
        let known = out.takers.contains_key(&place(&data));
        if !known && out.bytes >= self.most {
            let message = "the service is full: too many bytes are on their way to clients that take them slowly; ask again a little later";
            return Err(Fault::new(FaultKind::ServiceFull, message).into());
        }
        if !data.is_empty() {
            *out.takers.entry(place(&data)).or_default() += 1;
            out.bytes += if known { 0 } else { data.len() as u64 };
        }
        drop(out);
        Ok(Arc::new(OnTheWay { answers: Arc::clone(self), data }))
    }

    /// How slowly an answer may be taken now, bytes a second.
    pub(super) fn rate(&self) -> u64 {
        if self.out().bytes > self.most / 2 { RATE_TIGHT } else { RATE_MIN }
    }

    /// Nothing that is done under this lock can panic.
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing else lies there for as long as they do.
fn place(data: &Bytes) -> (usize, usize) {
    (data.as_ptr() as usize, data.len())
}

impl OnTheWay {
    pub(super) fn data(&self) -> &Bytes {
        &self.data
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        let mut out = self.answers.out();
        let place = place(&self.data);
        let Some(takers) = out.takers.get_mut(&place) else { return };
        *takers -= 1;
        if *takers == 0 {
            out.takers.remove(&place);
            out.bytes -= self.data.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_data_are_counted_once_and_come_back() {
        let answers = Answers::new(1000);
        let data = Bytes::from(vec![1; 600]);
        let many: Vec<_> = (0..100).map(|_| answers.send(data.clone()).unwrap()).collect();
        let bytes = || answers.out().bytes;
        assert_eq!((bytes(), answers.rate()), (600, RATE_TIGHT));
        // One that is longer than what is left, and then none but the same.
        let long = answers.send(Bytes::from(vec![2; 5000])).unwrap();
        assert!(answers.send(Bytes::from(vec![3; 1])).is_err());
        assert!(answers.send(Bytes::new()).is_err());
        drop(answers.send(data.clone()).unwrap());
        assert_eq!(bytes(), 5600);
        drop((long, many));
        assert_eq!((bytes(), answers.rate()), (0, RATE_MIN));
        assert!(answers.out().takers.is_empty());
        drop(answers.send(Bytes::new()).unwrap());
    }
}

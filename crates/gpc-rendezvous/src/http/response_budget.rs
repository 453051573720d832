//! Budget for response data that clients have yet to take. A slow client keeps its data in memory, even those of a
//! resource that was destroyed meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::options::RATE_MIN;
use super::problem::Problem;
use crate::machine::{Fault, FaultKind};

/// Lowest rate at which a client must take an answer while more than half of the budget is used, bytes a second. Below
/// that use slow clients do no harm: ten thousand tasks on one network take the same data slowly, and these are counted
/// once.
const RATE_TIGHT: u64 = 256 << 10;

/// Budget for response data in progress.
#[derive(Debug)]
pub(super) struct ResponseBudget {
    most: u64,
    out: Mutex<Usage>,
}

/// Response data in progress. Data at the same address count once, for any number of clients.
#[derive(Default, Debug)]
struct Usage {
    bytes: u64,
    takers: BTreeMap<(usize, usize), usize>,
}

/// Data that count as in progress until their last part is written.
#[derive(Debug)]
pub(super) struct InFlightData {
    response_budget: Arc<ResponseBudget>,
    data: Bytes,
}

impl ResponseBudget {
    pub(super) fn new(most: u64) -> Arc<ResponseBudget> {
        Arc::new(ResponseBudget { most, out: Mutex::default() })
    }

    /// Counts data as in progress, unless the budget is used up by other data. The last data may exceed the budget, so
    /// that data longer than the whole budget can be sent too.
    pub(super) fn send(self: &Arc<ResponseBudget>, data: Bytes) -> Result<Arc<InFlightData>, Problem> {
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
        Ok(Arc::new(InFlightData { response_budget: Arc::clone(self), data }))
    }

    /// Lowest rate at which a client must take an answer now, bytes a second.
    pub(super) fn rate(&self) -> u64 {
        if self.out().bytes > self.most / 2 { RATE_TIGHT } else { RATE_MIN }
    }

    /// Locks the state. Code under this lock cannot panic, so a poisoned lock is still consistent.
    fn out(&self) -> MutexGuard<'_, Usage> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Address and length of data. While the data exist, no other data have this address.
fn place(data: &Bytes) -> (usize, usize) {
    (data.as_ptr() as usize, data.len())
}

impl InFlightData {
    pub(super) fn data(&self) -> &Bytes {
        &self.data
    }
}

impl Drop for InFlightData {
    fn drop(&mut self) {
        let mut out = self.response_budget.out();
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
        let response_budget = ResponseBudget::new(1000);
        let data = Bytes::from(vec![1; 600]);
        let many: Vec<_> = (0..100).map(|_| response_budget.send(data.clone()).unwrap()).collect();
        let bytes = || response_budget.out().bytes;
        assert_eq!((bytes(), response_budget.rate()), (600, RATE_TIGHT));
        // Data longer than what is left are admitted; after that only data already in progress.
        let long = response_budget.send(Bytes::from(vec![2; 5000])).unwrap();
        assert!(response_budget.send(Bytes::from(vec![3; 1])).is_err());
        assert!(response_budget.send(Bytes::new()).is_err());
        drop(response_budget.send(data.clone()).unwrap());
        assert_eq!(bytes(), 5600);
        drop((long, many));
        assert_eq!((bytes(), response_budget.rate()), (0, RATE_MIN));
        assert!(response_budget.out().takers.is_empty());
        drop(response_budget.send(Bytes::new()).unwrap());
    }
}

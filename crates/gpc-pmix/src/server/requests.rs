//! Requests of the node for the data of local processes that libpmix has not answered yet.
//!
//! libpmix never answers for a process that ends before it has committed data, so these requests are closed then.

use std::collections::BTreeMap;

use super::orders::Process;

/// The process of each open request, by the number of the request.
pub(super) struct Requests {
    open: BTreeMap<u64, Process>,
}

impl Requests {
    pub(super) const fn new() -> Requests {
        Requests { open: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, serial: u64, process: Process) {
        self.open.insert(serial, process);
    }

    /// Closes a request. Returns whether it was open: only then its answer is for the node.
    pub(super) fn close(&mut self, serial: u64) -> bool {
        self.open.remove(&serial).is_some()
    }

    /// Closes the requests for the processes that are like this. Returns their numbers.
    pub(super) fn close_all(&mut self, mut is_it: impl FnMut(&Process) -> bool) -> Vec<u64> {
        self.open.extract_if(.., |_, process| is_it(process)).map(|(serial, _)| serial).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_by_libpmix_or_by_the_end_of_its_process() {
        let process = |rank| Process { namespace: "job".into(), rank };
        let mut requests = Requests::new();
        for (serial, rank) in [(1, 0), (2, 1), (3, 0)] {
            requests.insert(serial, process(rank));
        }
        assert!(requests.close(1) && !requests.close(1));
        assert_eq!(requests.close_all(|of| *of == process(0)), [3]);
        assert!(!requests.close(3) && requests.close(2));
    }
}

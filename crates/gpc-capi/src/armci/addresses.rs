//! Addresses of the memory of ARMCI_Malloc in each process, without the memory.
//!
//! Each process frees for itself, and the system gives freed addresses out again. So an address counts in the newest
//! allocation that has it, and processes tell the others what they have freed with their next collective operation.

/// The allocations that this process has not freed.
#[derive(Default)]
pub(super) struct Memory {
    /// The newest one last.
    allocations: Vec<Segments>,
    /// Numbers of allocations that this process has freed, and the others do not know.
    freed: Vec<u64>,
}

/// The memory of one ARMCI_Malloc: a segment of each process.
pub(super) struct Segments {
    /// The same in each process.
    pub(super) number: u64,
    /// By process and owner: the address at which the process has the owner's segment; 0 if it has not.
    pub(super) views: Vec<Vec<u64>>,
    /// The length of each owner's segment.
    pub(super) lengths: Vec<u64>,
}

impl Memory {
    /// Adds an allocation, in all processes before any uses it.
    pub(super) fn add(&mut self, segments: Segments) {
        self.allocations.push(segments);
    }

    /// Takes the allocation out in which this process has its own segment at an address.
    pub(super) fn remove(&mut self, me: usize, address: u64) -> Option<Segments> {
        let place = self.allocations.iter().rposition(|segments| segments.views[me][me] == address)?;
        let segments = self.allocations.remove(place);
        self.freed.push(segments.number);
        Some(segments)
    }

    /// Takes all allocations out.
    pub(super) fn take_all(&mut self) -> Vec<Segments> {
        std::mem::take(&mut self.allocations)
    }

    /// What the others do not know to be freed.
    pub(super) fn freed(&self) -> Vec<u64> {
        self.freed.clone()
    }

    /// The others know that these are freed here.
    pub(super) fn told(&mut self, freed: &[u64]) {
        self.freed.retain(|number| !freed.contains(number));
    }

    /// A process has freed an allocation: its addresses are not of this one any more.
    pub(super) fn freed_at(&mut self, process: usize, number: u64) {
        let segments = self.allocations.iter_mut().find(|segments| segments.number == number);
        if let Some(views) = segments.and_then(|segments| segments.views.get_mut(process)) {
            views.fill(0);
        }
    }

    /// Translates an address of process `from` to the address of the same memory in process `proc`; `None` if that
    /// process does not have the memory.
    pub(super) fn translate(&self, address: u64, proc: usize, from: usize) -> Option<u64> {
        self.allocations.iter().rev().find_map(|segments| {
            let mut owners = segments.views[from].iter().zip(&segments.lengths).enumerate();
            let has = |start: u64, length: u64| start != 0 && address.wrapping_sub(start) < length;
            let (owner, (start, _)) = owners.find(|(_, (start, length))| has(**start, **length))?;
            // In this allocation, which is the newest, `proc` may not have the memory.
            Some(
                Some(segments.views[proc][owner])
                    .filter(|view| *view != 0)
                    .map(|view| view + (address - start)),
            )
        })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes, which have each other's segments of 16 bytes at these addresses.
    fn allocation(number: u64, views: [[u64; 2]; 2]) -> Segments {
        Segments { number, views: views.map(Vec::from).to_vec(), lengths: vec![16; 2] }
    }

    #[test]
    fn an_address_is_translated_within_its_segment() {
        let mut memory = Memory::default();
        memory.add(allocation(0, [[100, 200], [300, 0]]));
        assert_eq!(
            [100, 115, 116, 99].map(|at| memory.translate(at, 1, 0)),
            [Some(300), Some(315), None, None]
        );
        assert_eq!(memory.translate(200, 1, 0), None, "process 1 does not have it");
        assert_eq!([memory.translate(303, 0, 1), memory.translate(0, 0, 1)], [Some(103), None]);
        assert_eq!(memory.translate(u64::MAX, 0, 0), None);
    }

    /// Process 0 frees, allocates anew, and gets the same addresses. Process 1 has not freed the first allocation, and
    /// translated into it.
    #[test]
    fn an_address_that_is_used_again_is_that_of_the_newest_allocation() {
        let mut memory = Memory::default();
        memory.add(allocation(0, [[100, 200], [300, 400]]));
        memory.add(allocation(1, [[100, 200], [500, 0]]));
        assert_eq!(memory.translate(107, 1, 0), Some(507));
        assert_eq!(memory.translate(207, 1, 0), None, "in the newest one, process 1 has no such memory");
        assert_eq!(memory.remove(1, 0).map(|segments| segments.number), Some(1));
        assert_eq!(memory.translate(107, 1, 0), Some(307));
    }

    /// Process 0 has freed, and has other memory at its addresses.
    #[test]
    fn memory_that_a_process_has_freed_has_no_address_there() {
        let mut memory = Memory::default();
        memory.add(allocation(7, [[100, 200], [300, 400]]));
        memory.freed_at(0, 6);
        memory.freed_at(9, 7);
        assert_eq!(memory.translate(100, 1, 0), Some(300));
        memory.freed_at(0, 7);
        assert_eq!([memory.translate(100, 1, 0), memory.translate(300, 0, 1)], [None, None]);
        assert_eq!(memory.translate(400, 1, 1), Some(400));
    }

    #[test]
    fn what_was_freed_is_told_once() {
        let mut memory = Memory::default();
        (0..3).for_each(|number| memory.add(allocation(number, [[100 + number, 1], [2, 3]])));
        assert!(memory.remove(0, 99).is_none());
        assert_eq!(memory.remove(0, 101).map(|segments| segments.number), Some(1));
        let freed = memory.freed();
        assert_eq!(freed, [1]);
        memory.remove(0, 100);
        memory.told(&freed);
        assert_eq!(memory.freed(), [0]);
        assert_eq!(memory.take_all().len(), 1);
    }
}

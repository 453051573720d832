//! A queue of outputs in blocks. The requests to a million children are not moved while the queue grows, and each block
//! is freed as soon as it is empty.

use std::collections::VecDeque;

use super::Output;
use crate::branch_hint::likely;

/// Outputs per block, and the number that needs no further block: some hundred KiB.
const BLOCK: usize = 1 << 11;

/// Outputs for a driver, in order. The driver owns the queue, one for any number of nodes, and empties it after each
/// input.
#[derive(Debug, Default)]
pub struct Outputs {
    first: VecDeque<Output>,
    /// Further blocks, all full except the last one.
    #[allow(clippy::box_collection, reason = "seldom there, and the queue is swapped at every input")]
    rest: Option<Box<VecDeque<VecDeque<Output>>>>,
}

impl Outputs {
    /// Returns an empty queue.
    pub fn new() -> Outputs {
        Outputs::default()
    }

    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.first.len() + self.rest.iter().flat_map(|rest| rest.iter()).map(VecDeque::len).sum::<usize>()
    }

    /// Whether the queue is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // Further blocks exist only while the first block is not empty.
        self.first.is_empty()
    }

    /// The outputs in order, without removing them.
    pub fn iter(&self) -> impl Iterator<Item = &Output> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter().flatten()))
    }

    #[inline(always)]
    pub(super) fn push_back(&mut self, output: Output) {
        if likely(self.rest.is_none() && self.first.len() < BLOCK) {
            self.first.push_back(output);
        } else {
            self.push_behind(output);
        }
    }

    #[cold]
    fn push_behind(&mut self, output: Output) {
        let rest = self.rest.get_or_insert_default();
        match rest.back_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => block.push_back(output),
            None => {
                let mut block = VecDeque::with_capacity(BLOCK);
                block.push_back(output);
                rest.push_back(block);
            }
        }
    }

    /// Removes the first output.
    #[inline(always)]
    pub fn pop_front(&mut self) -> Option<Output> {
        let output = self.first.pop_front();
        if self.rest.is_some() && self.first.is_empty() {
            self.next_block();
        }
        output
    }

    #[cold]
    fn next_block(&mut self) {
        if let Some(rest) = &mut self.rest {
            self.first = rest.pop_front().unwrap_or_default();
        }
        self.rest.take_if(|rest| rest.is_empty());
    }

    /// Removes the outputs one after another, until the queue is empty.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> {
        std::iter::from_fn(|| self.pop_front())
    }

    /// Drops all outputs.
    pub fn clear(&mut self) {
        self.first.clear();
        self.rest = None;
    }

    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.first.shrink_to_fit();
    }
}

impl IntoIterator for Outputs {
    type Item = Output;
    type IntoIter = std::iter::Chain<
        std::collections::vec_deque::IntoIter<Output>,
        std::iter::Flatten<std::collections::vec_deque::IntoIter<VecDeque<Output>>>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        let rest = self.rest.map(|rest| *rest).unwrap_or_default();
        self.first.into_iter().chain(rest.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(output: Output) -> u32 {
        let Output::Consumed { from } = output else { panic!("{output:?} was not put in") };
        from
    }

    #[test]
    fn they_come_out_in_the_order_in_which_they_went_in() {
        let mut outputs = Outputs::new();
        let (mut next, mut first) = (0, 0);
        let most = 3 * BLOCK as u32;
        // Two are pushed for each one that is popped; then they are only popped.
        while first < most {
            for _ in 0..2 {
                if next < most {
                    outputs.push_back(Output::Consumed { from: next });
                    next += 1;
                }
            }
            assert_eq!(outputs.len(), (next - first) as usize);
            assert_eq!(outputs.iter().count(), outputs.len());
            assert_eq!(outputs.pop_front().map(from), Some(first));
            first += 1;
            assert_eq!(outputs.is_empty(), first == next);
        }
        assert!(outputs.pop_front().is_none());
    }

    #[test]
    fn all_are_taken_out_at_once() {
        let mut outputs = Outputs::new();
        for from in 0..2 * BLOCK as u32 + 1 {
            outputs.push_back(Output::Consumed { from });
        }
        assert!(outputs.drain().map(from).eq(0..2 * BLOCK as u32 + 1));
        assert!(outputs.is_empty());
        outputs.push_back(Output::Consumed { from: 1 });
        outputs.clear();
        assert!(outputs.is_empty() && outputs.pop_front().is_none());
    }
}

//! Standard input and output of the processes of this node, and output on its way to the head.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;

use chained_gpc::trees::Id;
use chained_gpc::wire::CauseKind;
use chained_gpc::{Deferred, Reply};

use super::input::{HostInput, InputQueue};
use super::outflow::Outflow;
use super::processes::Output;
use crate::causes::is_loss;

/// Input and output.
pub(super) struct Stdio {
    pub(super) input: InputQueue,
    /// Nodes that get no more input: they have not taken a piece, since their processes read no more, or the node is
    /// lost. A later piece would leave a gap.
    pub(super) left_out: BTreeSet<Id>,
    /// Standard input that rank 0 gets itself.
    pub(super) own_input: Option<HostInput>,
    /// Pipes of processes, by number.
    pub(super) outputs: BTreeMap<u64, Output>,
    pub(super) outflow: Outflow,
    /// Other nodes that wait until all output is written.
    pub(super) flushes: Vec<Deferred>,
    /// Threads of this process that wait for it.
    pub(super) drains: Vec<SyncSender<()>>,
    /// Unfinished flush calls to other nodes, while a drain waits.
    pub(super) flushing: usize,
}

impl Stdio {
    pub(super) fn new(outflow: Outflow) -> Stdio {
        Stdio {
            input: InputQueue::default(),
            left_out: BTreeSet::new(),
            own_input: None,
            outputs: BTreeMap::new(),
            outflow,
            flushes: Vec::new(),
            drains: Vec::new(),
            flushing: 0,
        }
    }

    /// Returns which of these nodes get a piece of input. The end goes to all: those that miss a piece would wait.
    pub(super) fn fed(&self, mut readers: Vec<Id>, is_end: bool) -> Vec<Id> {
        readers.retain(|id| is_end || !self.left_out.contains(id));
        readers
    }

    /// A piece of input was passed to these nodes. Returns whether one of them has taken it, and the others, which are
    /// left out from now on.
    pub(super) fn passed(&mut self, ids: &[Id], took: impl Fn(Id) -> bool) -> (bool, Vec<Id>) {
        let (taken, mut failed): (Vec<Id>, Vec<Id>) = ids.iter().partition(|id| took(**id));
        failed.retain(|id| self.left_out.insert(*id));
        (!taken.is_empty(), failed)
    }

    /// Informs those that wait for all output to be written.
    pub(super) fn answer_flushed(&mut self) {
        if !self.outputs.is_empty() || !self.outflow.is_empty() {
            return;
        }
        self.flushes.drain(..).for_each(|answer| answer.reply(Reply::default()));
        if self.flushing == 0 {
            // The receiver may have stopped waiting.
            for done in self.drains.drain(..) {
                let _ = done.send(());
            }
        }
    }
}

/// Whether a node whose part of a call ended for this cause may have processes that read on. Readers that have closed
/// their input refuse it, and the loss of a node is reported with its processes.
pub(super) fn is_cut(cause: Option<CauseKind>) -> bool {
    cause.is_none_or(|kind| kind != CauseKind::Failed && !is_loss(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::outflow::Destination;

    /// One node whose process had closed its input ended that of all.
    #[test]
    fn a_node_that_takes_a_piece_no_more_is_left_out_until_the_end() {
        let mut stdio = Stdio::new(Outflow::new(0, vec![0, 1, 2], Destination::Sent));
        let all = || vec![0, 1, 2];
        assert_eq!(stdio.fed(all(), false), all());
        assert_eq!(stdio.passed(&all(), |id| id != 1), (true, vec![1]));
        assert_eq!(stdio.fed(all(), false), [0, 2]);
        assert_eq!(stdio.fed(all(), true), all());
        assert_eq!(stdio.passed(&all(), |_| false), (false, vec![0, 2]));
        assert!(stdio.fed(all(), false).is_empty());
    }

    /// Input that did not reach some nodes ended there without a word: their commands had read a part of it.
    #[test]
    fn input_is_cut_where_neither_the_readers_nor_a_loss_explain_its_end() {
        assert!(is_cut(None) && is_cut(Some(CauseKind::TimeLimit)));
        assert!(!is_cut(Some(CauseKind::Failed)) && !is_cut(Some(CauseKind::LinkLost)));
    }
}

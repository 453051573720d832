//! Standard input and output of the processes of this node, and output on its way to the head.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;

use chained_gpc::{Deferred, Reply};

use super::input::{HostInput, InputQueue};
use super::outflow::Outflow;
use super::processes::Output;

/// Input and output.
pub(super) struct Stdio {
    pub(super) input: InputQueue,
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
            own_input: None,
            outputs: BTreeMap::new(),
            outflow,
            flushes: Vec::new(),
            drains: Vec::new(),
            flushing: 0,
        }
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

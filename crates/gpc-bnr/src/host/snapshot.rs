//! What a node of a domain holds, counted by itself. For tests.

use chained_gpc::Snapshot;

use super::engine::Engine;
use super::sources::Source;

impl Engine {
    /// The counts of this node, of its domain, and of its supervisor.
    pub(super) fn snapshot(&self) -> Snapshot {
        let (stdio, links, local) = (&self.stdio, &self.links, &self.local);
        let is_listener = |source: &Source| {
            matches!(source, Source::Tools | Source::Port | Source::Supervisor | Source::Pmix)
        };
        let mut counts = vec![
            ("watched descriptors", self.sources.all().filter(|source| !is_listener(source)).count()),
            ("inputs of the machine", self.inputs.len()),
            ("calls", self.calls.as_ref().map_or(0, |calls| calls.len())),
            ("orders", self.orders.len()),
            ("requests of the application", self.owner.len()),
            ("links", links.clients.len()),
            ("links without a process", links.unidentified.len()),
            ("delayed links", links.put_off.len()),
            ("secrets", links.listeners.secrets()),
            ("groups", local.groups.len()),
            ("groups with private files", local.private.len()),
            ("groups that start", local.starting.len()),
            ("groups and processes of the PMIx server", self.pmix.len()),
            ("processes", local.alive.len()),
            ("silent processes", local.silent.len()),
            ("programs", local.programs.lock().len()),
            ("output pipes", stdio.outputs.len()),
            ("queued input", stdio.input.len()),
            ("input pipes", stdio.input.open_pipes()),
            ("waits for output", stdio.flushes.len() + stdio.drains.len() + stdio.flushing),
        ];
        counts.extend(links.unread.counts());
        counts.extend(stdio.outflow.counts());
        counts.extend(self.domain.held());
        counts.extend(self.supervisor.process.iter().flat_map(|supervisor| supervisor.counts()));
        Snapshot::new(counts)
    }
}

//! Output of `gpc sim --fit`. The structs are exactly the JSON.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::file::FitFile;
use super::live::{Kind, Times};
use gpc_sim::{HostCost, LinkCost, Sharing};

/// Measured, fitted and predicted values.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fitted {
    file: String,
    link: &'static str,
    machine_cores: u32,
    costs: CostsSummary,
    /// The calls from which the costs were fitted.
    probes: Vec<Row>,
    /// Tree of the calls below.
    tree: String,
    /// The calls that the costs predict.
    calls: Vec<Row>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct CostsSummary {
    cores: u32,
    latency_ns: u64,
    overhead_ns: u64,
    gap_ns: u64,
    byte_ps: u64,
    wake_ns: u64,
    cold_ns: u64,
}

/// One kind of call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    tree: String,
    nodes: u32,
    data_bytes: u32,
    calls: usize,
    live_quarter_ns: u64,
    live_median_ns: u64,
    live_three_quarters_ns: u64,
    predicted_ns: u64,
    /// Difference between the prediction and the median, in percent of the median.
    error_percent: f64,
}

impl Row {
    pub(super) fn new(kind: &Kind, times: &Times, predicted_ns: u64) -> Row {
        let ratio = predicted_ns as f64 / times.median_ns.max(1) as f64;
        Row {
            tree: kind.tree.to_string(),
            nodes: kind.n,
            data_bytes: kind.data_bytes,
            calls: times.calls,
            live_quarter_ns: times.quarter_ns,
            live_median_ns: times.median_ns,
            live_three_quarters_ns: times.three_quarters_ns,
            predicted_ns,
            error_percent: ((ratio - 1.0) * 1000.0).round() / 10.0,
        }
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let us = |ns: u64| format!("{}.{}", ns / 1000, ns % 1000 / 100);
        let Row { tree, nodes, data_bytes, calls, .. } = self;
        let (quarter, median) = (us(self.live_quarter_ns), us(self.live_median_ns));
        let (three, predicted) = (us(self.live_three_quarters_ns), us(self.predicted_ns));
        let error = format!("{:+.1} %", self.error_percent);
        writeln!(
            out,
            "{tree:<10} {nodes:>5} {data_bytes:>7} {calls:>7} {quarter:>11} {median:>11} {three:>11} {predicted:>11} {error:>9}"
        )
    }
}

impl Fitted {
    pub(super) fn new(
        path: &Path,
        file: &FitFile,
        tree: String,
        probes: Vec<Row>,
        calls: Vec<Row>,
    ) -> Fitted {
        let FitFile { link, machine_cores, cost: HostCost { link: cost, sharing } } = *file;
        let LinkCost { latency_ns, overhead_ns, gap_ns, byte_ps } = cost;
        let Sharing { cores, wake_ns, cold_ns } = sharing;
        Fitted {
            file: path.display().to_string(),
            link: link.name(),
            machine_cores: machine_cores.get(),
            costs: CostsSummary {
                cores: cores.get(),
                latency_ns,
                overhead_ns,
                gap_ns,
                byte_ps,
                wake_ns,
                cold_ns,
            },
            probes,
            tree,
            calls,
        }
    }

    pub(super) fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let CostsSummary { cores, latency_ns, overhead_ns, byte_ps, wake_ns, cold_ns, .. } = self.costs;
        let Fitted { file, link, machine_cores, .. } = self;
        writeln!(
            out,
            "fitted to {} kinds of calls between processes of this machine, over {link} links:",
            self.probes.len()
        )?;
        writeln!(out, "  latency L        {latency_ns:>7} ns")?;
        writeln!(
            out,
            "  overhead o       {overhead_ns:>7} ns, of the sender and of the receiver; no gap g beyond it"
        )?;
        writeln!(out, "  per byte G       {:>7} ns", format!("{}.{:03}", byte_ps / 1000, byte_ps % 1000))?;
        writeln!(
            out,
            "  waking a process {wake_ns:>7} ns, and up to {cold_ns} ns where others have run since"
        )?;
        writeln!(
            out,
            "  cores            {cores:>7}    that the processes get, of {machine_cores} of the machine"
        )?;
        writeln!(out, "written to {file}: use it with `gpc sim -n N --fit {file}`\n")?;
        heading("the calls they were fitted to", out)?;
        self.probes.iter().try_for_each(|row| row.write(out))?;
        writeln!(out)?;
        heading("other calls, predicted from those (2 ids are the same pair, measured again)", out)?;
        self.calls.iter().try_for_each(|row| row.write(out))
    }
}

fn heading(title: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{title}, microseconds:")?;
    writeln!(
        out,
        "{:<10} {:>5} {:>7} {:>7} {:>11} {:>11} {:>11} {:>11} {:>9}",
        "tree", "ids", "data", "calls", "live 25 %", "live median", "live 75 %", "predicted", "error"
    )
}

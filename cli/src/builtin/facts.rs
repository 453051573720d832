//! `facts`: what a node says about its process and its machine.
//!
//! It reads what is not everybody's business, and so replies to links that are proved alone: over TCP to those of nodes that have the secret of the job.
//!
//! Read from /proc as Linux keeps it. What cannot be read, as on another system, is `unknown`: a missing fact fails no call.

use std::fmt;
use std::fs;

use chained_gpc::Access;
use chained_gpc::runtime::{Functions, FunctionsError};

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    functions
        .access(Access::Proved)
        .func("facts", |_, reply| {
            reply.data = Facts::read().to_string().into_bytes();
            Ok(())
        })
        .map(drop)
}

/// Facts about this process and its machine; `None` is what could not be read.
///
/// As text one line: `host=NAME pid=N load=1.05 rss=3.1MiB mem=1.2GiB/7.8GiB`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// Name of the machine.
    pub host: Option<String>,
    /// This process.
    pub pid: u32,
    /// Load average of the last minute.
    pub load: Option<f64>,
    /// Resident memory of this process, KiB.
    pub resident_kib: Option<u64>,
    /// Memory of the machine in use: all but what is available to new programs, KiB.
    pub used_kib: Option<u64>,
    /// All memory of the machine, KiB.
    pub total_kib: Option<u64>,
}

impl Facts {
    /// Reads them now.
    pub fn read() -> Facts {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Facts {
            pid: std::process::id(),
            ..Facts::parse(
                &read("/proc/sys/kernel/hostname"),
                &read("/proc/loadavg"),
                &read("/proc/self/status"),
                &read("/proc/meminfo"),
            )
        }
    }

    /// From the texts of the four files.
    fn parse(hostname: &str, load: &str, status: &str, memory: &str) -> Facts {
        let host = hostname.trim();
        let total_kib = field_kib(memory, "MemTotal:");
        let available_kib = field_kib(memory, "MemAvailable:");
        Facts {
            host: (!host.is_empty()).then(|| host.to_owned()),
            pid: 0,
            load: load.split_whitespace().next().and_then(|first| first.parse().ok()),
            resident_kib: field_kib(status, "VmRSS:"),
            used_kib: total_kib.zip(available_kib).map(|(total, available)| total.saturating_sub(available)),
            total_kib,
        }
    }
}

/// The number of a line `NAME:   123 kB`.
fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { host, pid, load, resident_kib, used_kib, total_kib } = self;
        write!(f, "host={} pid={pid} load=", host.as_deref().unwrap_or("unknown"))?;
        match load {
            Some(load) => write!(f, "{load:.2}")?,
            None => f.write_str("unknown")?,
        }
        write!(f, " rss={} mem={}/{}", Memory(*resident_kib), Memory(*used_kib), Memory(*total_kib))
    }
}

/// An amount of memory in the unit that fits, with one decimal.
struct Memory(Option<u64>);

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Amounts far under 2^53 KiB: exact enough for one decimal.
        match self.0 {
            None => f.write_str("unknown"),
            Some(kib) if kib < 1 << 10 => write!(f, "{kib}KiB"),
            Some(kib) if kib < 1 << 20 => write!(f, "{:.1}MiB", kib as f64 / f64::from(1 << 10)),
            Some(kib) => write!(f, "{:.1}GiB", kib as f64 / f64::from(1 << 20)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_from_the_texts_of_the_system() {
        let facts = Facts::parse(
            "box\n",
            "1.05 0.70 0.33 2/345 6789\n",
            "Name:\tgpc\nVmHWM:\t    9000 kB\nVmRSS:\t    3174 kB\n",
            "MemTotal:        8178892 kB\nMemFree:          100 kB\nMemAvailable:    6920601 kB\n",
        );
        let text = Facts { pid: 7, ..facts }.to_string();
        assert_eq!(text, "host=box pid=7 load=1.05 rss=3.1MiB mem=1.2GiB/7.8GiB");
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let unknown = "host=unknown pid=0 load=unknown rss=unknown mem=unknown/unknown";
        assert_eq!(Facts::parse("", "", "", "").to_string(), unknown);
        assert_eq!(Facts::parse(" \n", "x", "VmRSS: 5", "MemTotal: kB").to_string(), unknown);
        let facts = Facts::parse("", "", "", "MemTotal: 512 kB");
        assert!(facts.to_string().ends_with("mem=unknown/512KiB"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn on_linux_all_of_them_are_known() {
        let facts = Facts::read();
        assert_eq!(facts.pid, std::process::id());
        assert!(!facts.to_string().contains("unknown"), "{facts}");
        assert!(facts.used_kib <= facts.total_kib && facts.resident_kib < facts.total_kib);
    }
}

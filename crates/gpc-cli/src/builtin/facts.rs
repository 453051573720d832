//! `facts`: reports about the process of a node and its machine.
//!
//! The facts are not public, so only proved links get a reply: over TCP, those to nodes that have the secret of the
//! job.
//!
//! The facts come from /proc, as Linux provides it. A fact that cannot be read, as on another system, is `unknown`: a
//! missing fact fails no call.

use std::fmt;
use std::fs;
use std::sync::OnceLock;

use chained_gpc::runtime::{Functions, FunctionsError};
use chained_gpc::{Access, Secret};
use ring::digest::{Context, SHA256};

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    functions
        .access(Access::Proved)
        .func("facts", |_, reply| {
            reply.data = Facts::read().to_string().into_bytes();
            Ok(())
        })
        .map(drop)
}

/// Mark of this process's secret, or `none` if its user named no secret. Unset for a secret that a launch generated,
/// since all its nodes have the same one.
static MARK: OnceLock<String> = OnceLock::new();

/// Hashed before the secret, so that the mark differs from every other hash of it.
const LABEL: &[u8] = b"gpc facts secret mark 1";

/// Adds the mark of this secret to the facts, or that there is no secret. Nodes of one host do not compare secrets, and
/// so link with a wrong one.
pub(crate) fn set_secret_mark(secret: Option<&Secret>) {
    // A process has one node that its user set up.
    let _ = MARK.set(mark(secret));
}

/// Returns eight hexadecimal digits that differ for different secrets. They are part of a hash, which reveals nothing
/// of 32 random bytes.
fn mark(secret: Option<&Secret>) -> String {
    let Some(secret) = secret else { return "none".into() };
    let mut hash = Context::new(&SHA256);
    hash.update(LABEL);
    hash.update(secret.as_bytes());
    hash.finish().as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Facts about this process and its machine; `None` for a fact that could not be read.
///
/// Formatted in one line: `host=NAME pid=N load=1.05 rss=3.1MiB mem=1.2GiB/7.8GiB`, with ` secret=5d0c2e9a` if a user
/// set up the node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    /// Name of the machine.
    pub host: Option<String>,
    /// Process number of this process.
    pub pid: u32,
    /// Load average of the last minute.
    pub load: Option<f64>,
    /// Resident memory of this process, in KiB.
    pub resident_kib: Option<u64>,
    /// Memory in use on the machine: all but what is available to new programs, in KiB.
    pub used_kib: Option<u64>,
    /// Total memory of the machine, in KiB.
    pub total_kib: Option<u64>,
    /// Mark of the node's secret, or `none`; `None` if a launch set up the node.
    pub secret: Option<String>,
}

impl Facts {
    /// Reads the current facts.
    pub fn read() -> Facts {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Facts {
            pid: std::process::id(),
            secret: MARK.get().cloned(),
            ..Facts::parse(
                &read("/proc/sys/kernel/hostname"),
                &read("/proc/loadavg"),
                &read("/proc/self/status"),
                &read("/proc/meminfo"),
            )
        }
    }

    /// Parses the texts of the four files.
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
            secret: None,
        }
    }
}

/// Returns the number in a line `NAME:   123 kB`.
fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { host, pid, load, resident_kib, used_kib, total_kib, secret } = self;
        write!(f, "host={} pid={pid} load=", host.as_deref().unwrap_or("unknown"))?;
        match load {
            Some(load) => write!(f, "{load:.2}")?,
            None => f.write_str("unknown")?,
        }
        write!(f, " rss={} mem={}/{}", Memory(*resident_kib), Memory(*used_kib), Memory(*total_kib))?;
        secret.as_ref().map_or(Ok(()), |mark| write!(f, " secret={mark}"))
    }
}

/// An amount of memory, formatted in a suitable unit with one decimal.
struct Memory(Option<u64>);

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Amounts are far below 2^53 KiB, so one decimal is exact enough.
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

    /// Nodes of one host with different secrets linked, since the user of the other process proves a Unix socket.
    /// Neither log nor facts reported it.
    #[test]
    fn different_secrets_have_different_marks() {
        let secret = |byte| Secret::new(&[byte; 32]).unwrap();
        let (one, other) = (mark(Some(&secret(1))), mark(Some(&secret(2))));
        assert_eq!((one.len(), mark(Some(&secret(1))), mark(None).as_str()), (8, one.clone(), "none"));
        assert!(one != other && one != "01010101");
        let facts = Facts { secret: Some(one.clone()), ..Facts::default() };
        assert!(facts.to_string().ends_with(&format!(" secret={one}")));
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

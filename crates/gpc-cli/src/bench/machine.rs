//! The machine and its other load, read from /proc as Linux provides it. A value that cannot be read is unknown.

use std::fs;

use serde::{Deserialize, Serialize};

/// Length of a tick of /proc, in nanoseconds: there are 100 a second on every relevant architecture.
const TICK_NS: u64 = 10_000_000;

/// The machine of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Cores that this process may use.
    pub(super) cores: usize,
    /// Name of the processor.
    pub(super) processor: Option<String>,
    /// Release of the kernel.
    pub(super) kernel: Option<String>,
}

impl Machine {
    pub(super) fn read() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor(&read("/proc/cpuinfo")),
            kernel: Some(kernel.trim().to_owned()).filter(|kernel| !kernel.is_empty()),
        }
    }
}

fn processor(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches(|c: char| c == ':' || c.is_whitespace()).to_owned())
}

/// Returns the number of processes that currently want a core, without this one.
pub(super) fn others_runnable() -> Option<u32> {
    runnable(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn runnable(loadavg: &str) -> Option<u32> {
    let counts = loadavg.split_whitespace().nth(3)?;
    let running: u32 = counts.split('/').next()?.parse().ok()?;
    Some(running.saturating_sub(1))
}

/// CPU time of all processes of the machine since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AllCores {
    busy_ns: u64,
    /// Idle time included.
    all_ns: u64,
}

impl AllCores {
    pub(super) fn read() -> Option<AllCores> {
        AllCores::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the line `cpu user nice system idle iowait irq softirq steal`. Interrupts belong to no process; time
    /// taken by another guest of the host counts as busy.
    fn parse(stat: &str) -> Option<AllCores> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let mut ticks = [0u64; 8];
        for (place, number) in ticks.iter_mut().zip(line.split_whitespace()) {
            *place = number.parse().ok()?;
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
        let busy = [user, nice, system, steal].iter().fold(0u64, |sum, &ticks| sum.saturating_add(ticks));
        let rest = [idle, iowait, irq, softirq].iter().fold(busy, |sum, &ticks| sum.saturating_add(ticks));
        Some(AllCores { busy_ns: busy.saturating_mul(TICK_NS), all_ns: rest.saturating_mul(TICK_NS) })
    }

    /// Returns the fraction of all cores, 0 to 1, that other processes have used since an earlier moment; `None` if the
    /// time is too short to tell.
    pub(super) fn taken_by_others(self, earlier: AllCores, own_ns: u64) -> Option<f64> {
        let all = self.all_ns.saturating_sub(earlier.all_ns);
        let others = self.busy_ns.saturating_sub(earlier.busy_ns).saturating_sub(own_ns);
        (all >= 10 * TICK_NS).then(|| others as f64 / all as f64)
    }
}

/// Returns the CPU time of a process since it started, in nanoseconds.
pub(super) fn cpu_ns(pid: u32) -> Option<u64> {
    // The kernel may report nanoseconds, but only for each thread.
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let exact =
        tasks.filter_map(|task| schedstat(&fs::read_to_string(task.path().join("schedstat")).ok()?)).sum();
    if exact > 0 {
        return Some(exact);
    }
    stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn schedstat(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Parses user and system time, fields 14 and 15. The name, field 2, may contain any character.
fn stat(text: &str) -> Option<u64> {
    let (_, behind_name) = text.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()?.saturating_add(next()?).saturating_mul(TICK_NS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(runnable("5.41 12.80 15.31 9/142 13894\n"), Some(8));
        assert_eq!(runnable("0.00 0.00 0.00 1/142 13894\n"), Some(0));
        assert_eq!(runnable(""), None);
        assert_eq!(
            processor("vendor_id\t: X\nmodel name\t: Some CPU @ 2 GHz\n"),
            Some("Some CPU @ 2 GHz".into())
        );
        assert_eq!(processor(""), None);
        assert_eq!(schedstat("123456 789 3\n"), Some(123_456));
        let fields = "S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0";
        assert_eq!(stat(&format!("77 (a) b) {fields}")), Some(42 * TICK_NS));
        assert_eq!(stat("77 (a"), None);
    }

    #[test]
    fn what_others_take_is_what_this_does_not() {
        let at = |user: u64, idle: u64| {
            AllCores::parse(&format!("cpu  {user} 0 0 {idle} 0 7 0 0 0 0\ncpu0 1\n")).unwrap()
        };
        let taken = at(160, 140).taken_by_others(at(100, 100), 20 * TICK_NS);
        assert_eq!(taken, Some(0.4));
        assert_eq!(at(160, 140).taken_by_others(at(100, 100), 90 * TICK_NS), Some(0.0));
        assert_eq!(at(101, 101).taken_by_others(at(100, 100), 0), None);
        assert_eq!(AllCores::parse("cpu x"), None);
        assert_eq!(
            AllCores::parse("cpu  18446744073709551615 18446744073709551615 1 1 1 1 1 1").unwrap().busy_ns,
            u64::MAX
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn on_linux_all_of_it_is_known() {
        let machine = Machine::read();
        assert!(machine.cores > 0 && machine.kernel.is_some());
        assert!(others_runnable().is_some() && AllCores::read().is_some());
        assert!(cpu_ns(std::process::id()).unwrap() > 0);
        assert_eq!(cpu_ns(u32::MAX), None);
    }
}

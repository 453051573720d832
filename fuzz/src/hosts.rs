//! The texts that name hosts: lists of `--hosts`, host files of other launchers, and the variables of batch systems.
//!
//! An accepted text has hosts and slots within their bounds, each host once, and is the same when it is written and
//! read again. A refused one has an error for people.
//!
//! Input: a byte that chooses the kind of text, a byte that chooses a batch system, and the text.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use chained_gpc::bootstrap::{
    Allocation, HOSTS_MAX, HostList, SLOTS_MAX, SlotList, Variables, read_host_file,
};

use super::input::Input;

/// The variables by which an allocation is recognized; the text is the value of one, or the file that it names.
const SYSTEMS: [&str; 5] =
    ["SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"];

/// Longest text of a list, in bytes.
const TEXT_MAX: usize = 128 << 10;

/// Longest error, in bytes. It names a few hosts at most.
const ERROR_MAX: usize = 8192;

/// Reads a text.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (kind, choice) = (input.byte(), input.byte());
    let Ok(text) = std::str::from_utf8(input.rest()) else { return };
    match kind % 4 {
        0 => names(text),
        1 => slots(text.parse::<SlotList>()),
        2 => slots(read_host_file(text)),
        _ => allocation(text, choice),
    }
}

fn names(text: &str) {
    let Some(hosts) = read(text.parse::<HostList>()) else { return };
    assert!((1..=HOSTS_MAX).contains(&hosts.len()));
    assert!(hosts.iter().all(|name| !name.is_empty() && !name.contains(|c: char| c.is_whitespace())));
    reads_back(&hosts);
    let again = HostList::new(hosts.iter().map(str::to_owned));
    assert!(again.as_ref() == Ok(&hosts), "{text}");
}

/// Checks hosts with slots. They read back from a list, and from the files of Open MPI and SGE.
fn slots<E: Display>(parsed: Result<SlotList, E>) {
    let Some(hosts) = read(parsed) else { return };
    assert!((1..=HOSTS_MAX).contains(&hosts.len()));
    assert!(hosts.iter().all(|host| (1..=SLOTS_MAX).contains(&host.slots)));
    let distinct: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(distinct.len(), hosts.len(), "a host is there twice");
    assert_eq!(hosts.slots(), hosts.iter().map(|host| u64::from(host.slots)).sum::<u64>());
    let file = |form: fn(&str, u32) -> String| -> String {
        hosts.iter().map(|host| form(&host.name, host.slots)).collect()
    };
    let columns = file(|name, slots| format!("{name} {slots} q r\n"));
    let variables = Variables::from([("PE_HOSTFILE".to_owned(), "f".to_owned())]);
    let allocation = Allocation::find(&variables).expect("the variable is set");
    assert!(allocation.hosts(&columns).as_ref() == Ok(&hosts), "{:.200}", columns);
    let lines = file(|name, slots| format!("{name} slots={slots}\n"));
    assert!(read_host_file(&lines).as_ref() == Ok(&hosts), "{:.200}", lines);
    reads_back(&hosts);
}

/// Checks that a list reads back as it is written, unless that is longer than lists may be: not all names that one pair
/// of brackets gives are written with one.
fn reads_back<T: Display + FromStr + PartialEq>(hosts: &T) {
    let text = hosts.to_string();
    if text.len() <= TEXT_MAX {
        assert!(text.parse().is_ok_and(|again: T| again == *hosts), "{text:.200}");
    }
}

fn allocation(text: &str, choice: u8) {
    let (value, counts) = text.split_once('\n').unwrap_or((text, "1"));
    let name = SYSTEMS[usize::from(choice) % SYSTEMS.len()];
    let variables = [(name, value), ("SLURM_TASKS_PER_NODE", counts)];
    let variables: Variables =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let Some(allocation) = Allocation::find(&variables) else {
        return assert!(value.trim().is_empty(), "{value}");
    };
    slots(allocation.hosts(text));
}

/// The value, if the text is accepted; otherwise its error is one for people.
fn read<T, E: Display>(parsed: Result<T, E>) -> Option<T> {
    let error = match parsed {
        Ok(value) => return Some(value),
        Err(error) => error.to_string(),
    };
    assert!((1..ERROR_MAX).contains(&error.len()), "{error}");
    assert!(!error.chars().any(char::is_control), "an error has control characters: {error:?}");
    None
}

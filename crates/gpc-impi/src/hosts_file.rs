//! The hosts file of a client: the processes of its cluster, and their addresses.
//!
//! The file has a line `ADDRESS:PORT [PID [KEY]]` for each process; `-` stands for no PID or key, and `#` begins a
//! comment. Processes with the same address are one host, whose port is that of its first process. Hosts are in the
//! order of their first processes.
//!
//! IMPI has a port for each host. If processes have no ports of their own, the lines after the first one of a host
//! leave the port out: `ADDRESS [PID [KEY]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use chained_gpc::{PublicKey, Shown};

use crate::client::{Host, Proc, from_ip, to_ip};

/// Most processes of one file. Their values are far below what a server accepts from one client.
pub const PROCS_MAX: usize = 1 << 20;

/// Most characters of a word that are quoted: enough for an address or a key.
const QUOTED_MAX: usize = 80;

/// Why a hosts file is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostsFileError {
    /// The file has no processes.
    #[error("it names no process: write a line `ADDRESS:PORT [PID [KEY]]` for each, such as `10.0.0.1:4000`")]
    Empty,
    /// A line is invalid.
    #[error("line {line}: {fault}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The fault.
        fault: LineFault,
    },
}

/// Why a line is invalid. Long words are quoted in part.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// The word is not an address with a port.
    #[error("`{}` is no address: write IP:PORT with a port from 1 on, as in 10.0.0.1:4000 or [fd00::1]:4000", Shown(.0))]
    Address(String),
    /// The first line of a host lacks the host's port.
    #[error(
        "{0} has no port: the first line of a host is `ADDRESS:PORT`, and those after it may leave the port out"
    )]
    NoPort(IpAddr),
    /// The address cannot be one of a host.
    #[error("{0} is no address by which a host is reached from others: write one of its own")]
    Unusable(IpAddr),
    /// The word is not the number of a process.
    #[error("`{}` is no PID: write a number from 0 to {max}, or - for none", Shown(.0), max = u64::MAX)]
    Pid(String),
    /// The word is not a public key.
    #[error("`{}` is no public key: write the one that `gpc secret --key` prints, or - for none", Shown(.0))]
    Key(String),
    /// The line has more words than columns.
    #[error("`{}` is one word too many: a line is `ADDRESS:PORT [PID [KEY]]`", Shown(.0))]
    More(String),
    /// Another process listens at this address.
    #[error("{address} stands in line {line}, too: each process has a port of its own")]
    Twice {
        /// The address.
        address: SocketAddr,
        /// The first line with this address.
        line: usize,
    },
    /// Another process of the host has this number.
    #[error("PID {pid} of {ip} stands in line {line}, too: each process of an address has its own")]
    PidTwice {
        /// The number.
        pid: u64,
        /// The address.
        ip: IpAddr,
        /// The first line with this number.
        line: usize,
    },
    /// The file has too many processes.
    #[error("there are more than {PROCS_MAX} processes")]
    TooMany,
}

/// Parses the hosts of a file.
///
/// # Errors
/// Returns the first fault with its line, or an error if there are no processes.
pub fn parse(text: &str) -> Result<Vec<Host>, HostsFileError> {
    let mut read = Read::default();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let mut words = text.split_whitespace();
        if let Some(address) = words.next() {
            read.line(line, address, words).map_err(|fault| HostsFileError::Line { line, fault })?;
        }
    }
    if read.hosts.is_empty() {
        return Err(HostsFileError::Empty);
    }
    // Either all processes of a client have ports of their own, or none: one label carries them all.
    if read.by_host {
        read.hosts.iter_mut().flat_map(|host| &mut host.procs).for_each(|proc| proc.port = None);
    }
    Ok(read.hosts)
}

/// Why hosts cannot be written as a file. Hosts are numbered from 0, processes from 0 within their host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A host has no address.
    #[error("host {0} has no address, by which a line begins")]
    NoAddress(usize),
    /// A process has no port.
    #[error("process {proc} of host {host} has no port from 1 to 65535, by which its line begins")]
    NoPort {
        /// Number of its host.
        host: usize,
        /// Its number on the host.
        proc: usize,
    },
    /// A process has another address than its host.
    #[error("process {proc} of host {host} has the address {address}: lines of one host have one address")]
    Elsewhere {
        /// Number of its host.
        host: usize,
        /// Its number on the host.
        proc: usize,
        /// Its address.
        address: IpAddr,
    },
    /// Two hosts have the same address, which identifies a host in the file.
    #[error("hosts {one} and {other} have both the address {address}: a file makes one host of them")]
    SameHost {
        /// Number of the first host.
        one: usize,
        /// Number of the second host.
        other: usize,
        /// Their address.
        address: IpAddr,
    },
    /// [`parse`] would reject the file. It has a line for each process, in order.
    #[error("the file would be refused: {0}")]
    Refused(#[from] HostsFileError),
}

/// Writes hosts as the text of a file. Values without a column are left out: ackmark, hiwater, and a port of a host
/// that differs from that of its first process.
///
/// # Errors
/// Returns the first host or process that a line cannot represent, or the fault that [`parse`] would return.
pub fn text(hosts: &[Host]) -> Result<String, TextError> {
    let mut text = String::new();
    let mut numbers = BTreeMap::new();
    let by_host = hosts.iter().flat_map(|host| &host.procs).all(|proc| proc.port.is_none());
    for (number, host) in hosts.iter().enumerate() {
        let address = to_ip(host.address.ok_or(TextError::NoAddress(number))?);
        if let Some(one) = numbers.insert(address, number) {
            return Err(TextError::SameHost { one, other: number, address });
        }
        for (proc, process) in host.procs.iter().enumerate() {
            let at = match by_host {
                false => process.port.map(Some),
                true if proc == 0 => host.port.map(Some),
                true => Some(None),
            };
            text += &line_of(address, at, process).map_err(|fault| match fault {
                None => TextError::NoPort { host: number, proc },
                Some(address) => TextError::Elsewhere { host: number, proc, address },
            })?;
        }
    }
    parse(&text)?;
    Ok(text)
}

/// The line of a process on a host with this address. `port` is `Some(Some(port))` for a line with a port, and
/// `Some(None)` for one without. The error is the process's own address if it differs, else `None` for a missing or
/// invalid port.
fn line_of(host: IpAddr, port: Option<Option<u32>>, process: &Proc) -> Result<String, Option<IpAddr>> {
    if let Some(other) = process.address.map(to_ip).filter(|address| *address != host) {
        return Err(Some(other));
    }
    let address = match port.ok_or(None)? {
        Some(port) => {
            let port = u16::try_from(port).ok().filter(|port| *port > 0);
            SocketAddr::new(host, port.ok_or(None)?).to_string()
        }
        None => host.to_string(),
    };
    let pid = process.pid.map(|pid| pid.to_string());
    Ok(match (pid, process.key) {
        (pid, Some(key)) => format!("{address} {} {key}\n", pid.as_deref().unwrap_or("-")),
        (Some(pid), None) => format!("{address} {pid}\n"),
        (None, None) => format!("{address}\n"),
    })
}

/// State of the parser.
#[derive(Default)]
struct Read {
    hosts: Vec<Host>,
    /// Number of processes.
    procs: usize,
    /// Whether a process has no port of its own.
    by_host: bool,
    /// Index of the host with each address.
    by_ip: BTreeMap<IpAddr, usize>,
    /// Line of each address.
    listening: BTreeMap<SocketAddr, usize>,
    /// Line of each process number.
    pids: BTreeMap<(IpAddr, u64), usize>,
}

impl Read {
    fn line<'a>(
        &mut self,
        line: usize,
        address: &str,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), LineFault> {
        let address = listens(address)?;
        let pid = words.next().filter(|word| *word != "-").map(pid).transpose()?;
        let key = words.next().filter(|word| *word != "-").map(key).transpose()?;
        if let Some(more) = words.next() {
            return Err(LineFault::More(cut(more)));
        }
        let (ip, port) = address;
        let listens = port.map(|port| SocketAddr::new(ip, port));
        if let Some((address, &line)) = listens.and_then(|at| Some((at, self.listening.get(&at)?))) {
            return Err(LineFault::Twice { address, line });
        }
        if let Some((pid, &line)) = pid.and_then(|pid| Some((pid, self.pids.get(&(ip, pid))?))) {
            return Err(LineFault::PidTwice { pid, ip, line });
        }
        if self.procs == PROCS_MAX {
            return Err(LineFault::TooMany);
        }
        let at = match (self.by_ip.get(&ip), port) {
            (Some(at), _) => *at,
            (None, None) => return Err(LineFault::NoPort(ip)),
            (None, Some(port)) => {
                self.hosts.push(Host::new(from_ip(ip), port, Vec::new()));
                self.by_ip.insert(ip, self.hosts.len() - 1);
                self.hosts.len() - 1
            }
        };
        self.procs += 1;
        self.by_host |= port.is_none();
        self.listening.extend(listens.map(|address| (address, line)));
        self.pids.extend(pid.map(|pid| ((ip, pid), line)));
        let port = port.map(u32::from);
        self.hosts[at].procs.push(Proc { address: Some(from_ip(ip)), pid, port, key });
        Ok(())
    }
}

/// The quoted part of a word.
fn cut(word: &str) -> String {
    word.chars().take(QUOTED_MAX).collect()
}

/// Address of a process in its usual form, and the port if there is one.
fn listens(word: &str) -> Result<(IpAddr, Option<u16>), LineFault> {
    let wrong = || LineFault::Address(cut(word));
    let (ip, port) = match word.parse::<IpAddr>() {
        Ok(ip) => (ip, None),
        Err(_) => {
            let address: SocketAddr = word.parse().map_err(|_| wrong())?;
            // The scope id of an address has no meaning on another host.
            let scoped = matches!(address, SocketAddr::V6(address) if address.scope_id() != 0);
            if address.port() == 0 || scoped {
                return Err(wrong());
            }
            (address.ip(), Some(address.port()))
        }
    };
    let ip = to_ip(from_ip(ip));
    match ip.is_unspecified() || ip.is_multicast() {
        true => Err(LineFault::Unusable(ip)),
        false => Ok((ip, port)),
    }
}

fn pid(word: &str) -> Result<u64, LineFault> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| digits).ok_or_else(|| LineFault::Pid(cut(word)))
}

fn key(word: &str) -> Result<PublicKey, LineFault> {
    // On the wire, an all-zero key means no key.
    let key = word.parse().ok().filter(|key: &PublicKey| key.0 != [0; 32]);
    key.ok_or_else(|| LineFault::Key(cut(word)))
}

/// Numbers the processes without a number: each gets the lowest number that no other process of its host has, from
/// `RANK * 1,048,576 + 1` on.
///
/// So clients whose hosts share an address (on one machine, behind one router) choose different numbers. Each rank has
/// as many numbers as a file has processes at most.
pub fn number(hosts: &mut [Host], rank: u32) {
    let before = u64::from(rank) * PROCS_MAX as u64;
    for host in hosts {
        let taken: BTreeSet<u64> = host.procs.iter().filter_map(|proc| proc.pid).collect();
        let mut free = (before + 1..).filter(|pid| !taken.contains(pid));
        for proc in &mut host.procs {
            proc.pid = proc.pid.or_else(|| free.next());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn processes_of_one_address_are_one_host() {
        let key = "ab".repeat(32);
        let hosts = parse(&format!(
            "# a cluster\n10.0.0.1:4000 17\n\n10.0.0.2:4000\r\n[::ffff:10.0.0.1]:4001 - {key}  # the same host\n[fd00::1]:5 0 -\n"
        ))
        .unwrap();
        let shape: Vec<(String, Option<u32>, Vec<Option<u64>>)> = hosts
            .iter()
            .map(|host| {
                let pids = host.procs.iter().map(|proc| proc.pid).collect();
                (to_ip(host.address.unwrap()).to_string(), host.port, pids)
            })
            .collect();
        assert_eq!(
            shape,
            [
                ("10.0.0.1".into(), Some(4000), vec![Some(17), None]),
                ("10.0.0.2".into(), Some(4000), vec![None]),
                ("fd00::1".into(), Some(5), vec![Some(0)]),
            ]
        );
        assert_eq!(hosts[0].procs[1].key.unwrap().to_string(), key);
        assert_eq!(hosts[0].procs[1].port, Some(4001));
    }

    /// IMPI has a port for each host, but a file had to have one for each process.
    #[test]
    fn a_host_needs_one_port() {
        let text = "10.0.0.1:4000 17\n10.0.0.1 18\n10.0.0.1\n[fd00::1]:5 3\nfd00::1 4\n";
        let hosts = parse(text).unwrap();
        let ports: Vec<Option<u32>> = hosts.iter().map(|host| host.port).collect();
        assert_eq!(ports, [Some(4000), Some(5)]);
        assert_eq!(pids(&hosts), [vec![17, 18], vec![3, 4]]);
        assert!(hosts.iter().flat_map(|host| &host.procs).all(|proc| proc.port.is_none()));
        assert_eq!(super::text(&hosts).unwrap(), text);
        // If only some processes have ports, these cannot be sent, so all are dropped.
        let hosts = parse("10.0.0.1:4000\n10.0.0.1:4001\n10.0.0.1").unwrap();
        assert!(hosts[0].procs.iter().all(|proc| proc.port.is_none()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            ("", "it names no process"),
            ("# nothing\n\n", "it names no process"),
            ("10.0.0.1:4000\nhost:4000", "line 2: `host:4000` is no address: write IP:PORT"),
            ("10.0.0.1 7\n10.0.0.1:4000", "line 1: 10.0.0.1 has no port: the first line of a host is"),
            ("10.0.0.1:1\n0.0.0.0", "line 2: 0.0.0.0 is no address by which"),
            ("10.0.0.1:1 7\n10.0.0.1 7", "line 2: PID 7 of 10.0.0.1 stands in line 1, too"),
            ("10.0.0.1:0", "a port from 1 on"),
            ("[fe80::1%3]:4000", "is no address"),
            ("0.0.0.0:4000", "0.0.0.0 is no address by which a host is reached"),
            ("[ff02::1]:4000", "ff02::1 is no address by which"),
            ("10.0.0.1:1 -5", "`-5` is no PID"),
            ("10.0.0.1:1 +5", "`+5` is no PID"),
            ("10.0.0.1:1 18446744073709551616", "is no PID"),
            ("10.0.0.1:1 5 abc", "`abc` is no public key: write the one that `gpc secret --key` prints"),
            ("10.0.0.1:1 5 - more", "`more` is one word too many"),
            ("10.0.0.1:1\n[::10.0.0.1]:1", "line 2: 10.0.0.1:1 stands in line 1, too"),
            ("10.0.0.1:1 7\n10.0.0.2:1 7\n10.0.0.1:2 7", "line 3: PID 7 of 10.0.0.1 stands in line 1, too"),
        ] {
            assert!(said(text).contains(expected), "{text:?}: {}", said(text));
        }
        assert!(said(&format!("10.0.0.1:1 5 {}", "00".repeat(32))).contains("is no public key"));
        let long = said(&"\u{1b}[2J".repeat(10_000));
        assert!(long.len() < 1000 && !long.contains('\u{1b}'), "{long}");
    }

    #[test]
    fn a_file_has_a_bounded_number_of_processes() {
        let mut read = Read { procs: PROCS_MAX - 1, ..Read::default() };
        let line = |read: &mut Read, address: &str| read.line(1, address, std::iter::empty());
        assert_eq!(line(&mut read, "10.0.0.1:1"), Ok(()));
        assert_eq!(line(&mut read, "10.0.0.1:2"), Err(LineFault::TooMany));
        assert_eq!(read.procs, PROCS_MAX);
    }

    #[test]
    fn numbers_are_chosen_that_nobody_has() {
        let mut hosts = parse("10.0.0.1:1\n10.0.0.1:2 1\n10.0.0.1:3\n10.0.0.2:1").unwrap();
        number(&mut hosts, 0);
        assert_eq!(pids(&hosts), [vec![2, 1, 3], vec![1]]);
    }

    fn pids(hosts: &[Host]) -> Vec<Vec<u64>> {
        hosts.iter().map(|host| host.procs.iter().filter_map(|proc| proc.pid).collect()).collect()
    }

    /// Two clients on one machine, whose files had no numbers, both chose 1, and their processes could not be told
    /// apart.
    #[test]
    fn clients_that_share_an_address_choose_different_numbers() {
        let text: String = (1..=3).map(|port| format!("127.0.0.1:{port}\n")).collect();
        let mut seen = BTreeSet::new();
        for rank in 0..32 {
            let mut hosts = parse(&text).unwrap();
            number(&mut hosts, rank);
            assert!(pids(&hosts).concat().into_iter().all(|pid| seen.insert(pid) && pid < 1 << 31));
        }
        let mut hosts = parse("127.0.0.1:1 1048577\n127.0.0.1:2").unwrap();
        number(&mut hosts, 1);
        assert_eq!(pids(&hosts), [[1_048_577, 1_048_578]]);
    }

    #[test]
    fn what_no_file_can_say_is_refused() {
        let of = |text: &str| parse(text).unwrap();
        let mut hosts = of("10.0.0.1:1 7\n10.0.0.2:1\n10.0.0.2:2");
        let said = |hosts: &[Host]| text(hosts).unwrap_err().to_string();
        assert!(said(&[]).contains("it names no process"));
        let mut wrong = |what: fn(&mut [Host]), expected: &str| {
            let before = hosts.clone();
            what(&mut hosts);
            assert!(said(&hosts).contains(expected), "{expected}: {}", said(&hosts));
            hosts = before;
        };
        wrong(|hosts| hosts[1].address = None, "host 1 has no address");
        wrong(|hosts| hosts[1].procs[1].port = None, "process 1 of host 1 has no port");
        wrong(|hosts| hosts[1].procs[1].port = Some(0), "process 1 of host 1 has no port");
        wrong(|hosts| hosts[1].procs[1].port = Some(65_536), "process 1 of host 1 has no port");
        wrong(|hosts| hosts[1].procs[1].port = Some(1), "line 3: 10.0.0.2:1 stands in line 2, too");
        wrong(|hosts| hosts[0].procs[0].key = Some(PublicKey([0; 32])), "line 1: `000");
        wrong(
            |hosts| hosts[0].procs[0].address = hosts[1].address,
            "process 0 of host 0 has the address 10.0.0.2",
        );
        wrong(|hosts| hosts[1] = hosts[0].clone(), "hosts 0 and 1 have both the address 10.0.0.1");
        wrong(
            |hosts| {
                hosts[0].address = Some(from_ip([224, 0, 0, 1].into()));
                hosts[0].procs[0].address = None;
            },
            "line 1: 224.0.0.1 is no address by which a host is reached",
        );
        wrong(
            |hosts| hosts[1].procs.iter_mut().for_each(|proc| proc.pid = Some(1)),
            "line 3: PID 1 of 10.0.0.2 stands in line 2, too",
        );
        assert_eq!(text(&hosts).unwrap(), "10.0.0.1:1 7\n10.0.0.2:1\n10.0.0.2:2\n");
    }

    fn ips() -> impl Strategy<Value = IpAddr> {
        let usable = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_multicast();
        let any = prop_oneof![
            any::<u32>().prop_map(|ip| IpAddr::V4(ip.into())),
            any::<u128>().prop_map(|ip| IpAddr::V6(ip.into())),
            (1u8..4).prop_map(|last| IpAddr::from([10, 0, 0, last])),
        ];
        any.prop_map(|ip| to_ip(from_ip(ip))).prop_filter("an address of a host", usable)
    }

    prop_compose! {
        fn procs()(
            ports in prop::collection::btree_set(1u16.., 1..5),
            pids in prop::collection::btree_set(any::<u64>(), 5),
            has in prop::collection::vec(any::<(bool, Option<u8>)>(), 5),
        ) -> Vec<(u16, Option<u64>, Option<PublicKey>)> {
            let parts = ports.into_iter().zip(pids).zip(has);
            parts.map(|((port, pid), (has, key))| {
                (port, has.then_some(pid), key.map(|key| PublicKey([key | 1; 32])))
            }).collect()
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(parts in prop::collection::btree_map(ips(), procs(), 1..6)) {
            let hosts: Vec<Host> = parts.into_iter().map(|(ip, procs)| {
                let first = procs[0].0;
                let address = from_ip(ip);
                let procs = procs.into_iter().map(|(port, pid, key)| {
                    Proc { address: Some(address), pid, port: Some(port.into()), key }
                });
                Host::new(address, first, procs.collect())
            }).collect();
            prop_assert_eq!(text(&hosts).map(|text| parse(&text)), Ok(Ok(hosts)));
        }

        #[test]
        fn no_text_does_harm(text in "[0-9a-f:.\\[\\]# \n-]{0,80}") {
            if let Ok(hosts) = parse(&text) {
                prop_assert_eq!(super::text(&hosts).map(|text| parse(&text)), Ok(Ok(hosts)));
            }
        }
    }
}

//! The arguments of `gpc impi`.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use chained_gpc::runtime::loopback;
use clap::builder::NonEmptyStringValueParser;
use clap::{Subcommand, ValueEnum};
use gpc_impi::book::Ports;
use gpc_impi::server::Check;
use gpc_impi::wire::{CLIENTS_MAX, Method};

use crate::duration::Span;

/// Arguments of `gpc impi`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImpiArgs {
    /// Sub-command.
    #[command(subcommand)]
    pub command: ImpiCommand,
}

const EXAMPLES: &str = "\
The spelling of other implementations is the same, and exits with 1 where it is wrong:
  gpc impi -server N [-port P] [-auth LIST] [-v]
  gpc impi -client RANK HOST:PORT --hosts FILE

Examples:
  gpc impi server 2                              clients of this machine, without a proof
  IMPI_AUTH_KEY=13577531 gpc impi server 3 --bind 0.0.0.0 --port 4100 --trace
  gpc impi client 0 127.0.0.1:4100 --hosts cluster.txt";

/// Sub-commands of `gpc impi`.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum ImpiCommand {
    /// Serve the start-up of one job; print the address to standard output, and nothing else
    Server(ServerArgs),
    /// Take part as a client: send the values of a cluster, and print those of the others
    Client(ClientArgs),
}

/// Arguments of `gpc impi server`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub struct ServerArgs {
    /// Number of clients, one for each cluster
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    pub clients: u32,

    /// Port to listen at; with 0 the system chooses one
    #[arg(long, value_name = "P", default_value_t = 0)]
    pub port: u16,

    /// Address to listen at: an IP address of this machine, or localhost for its loopback address. For 0.0.0.0 or ::,
    /// all addresses, the address on the route to the rest of the world is printed
    #[arg(long, value_name = "ADDR", default_value_t = loopback(), value_parser = own_address)]
    pub bind: IpAddr,

    /// Methods by which clients may authenticate: none, key, or both with a comma; if both sides have a key, it is
    /// used. The key is the number in IMPI_AUTH_KEY in the environment. Default: key if that is set, and none if
    /// IMPI_AUTH_NONE is set; if neither is set, none on loopback, and an error beyond it
    #[arg(long, value_name = "LIST")]
    pub auth: Option<AuthList>,

    /// Time limit for all clients to send all their labels, such as 30s, 10m or 1h. The wait for the end of the job has
    /// no limit
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Span,

    /// Reaction to impossible values, such as fewer or more addresses than hosts
    #[arg(long, value_enum, default_value_t = CheckKind::Warn)]
    pub check: CheckKind,

    /// Trace events on standard error, label by label
    #[arg(long)]
    pub trace: bool,
}

const SERVER_EXAMPLES: &str = "\
The exit status is 0 when all clients have sent FINI, 1 when one was lost or broke the protocol, or
they were not done in time; standard error says which one, and where.

Examples:
  gpc impi server 2                              for clients of this machine
  IMPI_AUTH_KEY=13577531 gpc impi server 3 --bind 0.0.0.0 --port 4100
  gpc impi server 3 --bind 192.168.1.7 --auth none --trace";

/// Arguments of `gpc impi client`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = CLIENT_EXAMPLES)]
pub struct ClientArgs {
    /// Rank of this client, from 0; it decides the order of the clusters
    #[arg(value_name = "RANK", value_parser = clap::value_parser!(u32).range(0..i64::from(CLIENTS_MAX)))]
    pub rank: u32,

    /// Address that the server printed
    #[arg(value_name = "HOST:PORT", value_parser = NonEmptyStringValueParser::new())]
    pub server: String,

    /// Required: file of the processes of this cluster, a line `ADDRESS:PORT [PID [KEY]]` for each; - is standard
    /// input. The lines after the first one of a host may omit the port
    #[arg(long, value_name = "FILE")]
    pub hosts: PathBuf,

    /// Methods by which this client can authenticate: none, key, or both with a comma. The key is the number in
    /// IMPI_AUTH_KEY in the environment. Default: key if that is set, and none if IMPI_AUTH_NONE is set or neither is
    #[arg(long, value_name = "LIST")]
    pub auth: Option<AuthList>,

    /// Time limit for all clients to send all their labels, such as 30s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Span,

    /// Output format
    #[arg(long, value_enum, default_value_t = ClientOutput::Table)]
    pub output: ClientOutput,

    /// Also write a peers file of all processes, as with --output peers
    #[arg(long, value_name = "FILE")]
    pub peers_out: Option<PathBuf>,

    /// Also write a hosts file of all processes, as with --output hosts
    #[arg(long, value_name = "FILE")]
    pub hosts_out: Option<PathBuf>,

    /// In peers and hosts files: ports of processes after the first of a host, if their client does not send them
    #[arg(long, value_enum, default_value_t = PortsKind::First)]
    pub ports: PortsKind,

    /// Omit the labels of this project: ports and public keys of processes
    #[arg(long)]
    pub plain: bool,

    /// Trace events on standard error, label by label
    #[arg(long)]
    pub trace: bool,

    /// Values of this cluster.
    #[command(flatten)]
    pub values: Values,

    /// Program with its arguments, after --. It runs when all clients have met; the session lasts until it ends, and
    /// its exit status is that of this command
    #[arg(value_name = "PROGRAM", last = true)]
    pub command: Vec<OsString>,
}

/// Output of `gpc impi client`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ClientOutput {
    /// A line for each host, and the values that all have agreed on
    Table,
    /// One JSON object with everything
    Json,
    /// A peers file of all processes, for `gpc node --peers`
    Peers,
    /// A hosts file of all processes, which keeps those of a cluster together, for `--tree hosts:FILE+TREE`
    Hosts,
}

/// Values that a client sends beside its hosts.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(next_help_heading = "Values of the cluster; with none a label is left out")]
pub struct Values {
    /// Longest packet of data, bytes (C_DATALEN)
    #[arg(long, value_name = "BYTES", default_value = "65536", value_parser = one_or_more)]
    pub datalen: Value<u32>,

    /// Largest tag, from 32767 on (C_TAGUB)
    #[arg(long, value_name = "TAG", default_value = "2147483647", value_parser = tag_bound)]
    pub tag_ub: Value<i32>,

    /// Smallest size of long collectives, in bytes; -1 for the default of 1024 (C_COLL_XSIZE)
    #[arg(long, value_name = "BYTES", default_value = "-1", value_parser = or_default, allow_negative_numbers = true)]
    pub coll_xsize: Value<i32>,

    /// Largest number of hosts for linear collectives; -1 for the default of 4 (C_COLL_MAXLINEAR)
    #[arg(long, value_name = "HOSTS", default_value = "-1", value_parser = or_default, allow_negative_numbers = true)]
    pub coll_maxlinear: Value<i32>,

    /// Number of packets after which each host acknowledges (H_ACKMARK); 16 by default, or --hiwater if that is less
    #[arg(long, value_name = "PACKETS", value_parser = one_or_more)]
    pub ackmark: Option<Value<u32>>,

    /// Maximum number of unacknowledged packets at each host (H_HIWATER); 32 by default, or --ackmark if that is more
    #[arg(long, value_name = "PACKETS", value_parser = one_or_more)]
    pub hiwater: Option<Value<u32>>,
}

/// A value, or `None` to omit its label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value<T>(pub Option<T>);

/// Parses `none`, or a number within these bounds.
fn value<T: TryFrom<i64>>(text: &str, least: i64, most: i64) -> Result<Value<T>, String> {
    if text == "none" {
        return Ok(Value(None));
    }
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number
        .map(|number| Value(Some(number)))
        .ok_or_else(|| format!("write a number from {least} to {most}, or none"))
}

fn one_or_more(text: &str) -> Result<Value<u32>, String> {
    value(text, 1, u32::MAX.into())
}

fn tag_bound(text: &str) -> Result<Value<i32>, String> {
    value(text, 32_767, i32::MAX.into())
}

fn or_default(text: &str) -> Result<Value<i32>, String> {
    value(text, -1, i32::MAX.into())
}

fn own_address(text: &str) -> Result<IpAddr, &'static str> {
    match text {
        "localhost" => Ok(loopback()),
        _ => {
            text.parse().map_err(|_| "write an IP address of this machine, such as 127.0.0.1, 0.0.0.0 or ::1")
        }
    }
}

/// Ports of processes whose client does not send them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PortsKind {
    /// The first process of a host listens at the port of the host; the others are omitted
    First,
    /// Each process listens at the port of its host plus its number there, from 0, if all clients agreed on that
    PlusRank,
}

impl From<PortsKind> for Ports {
    fn from(kind: PortsKind) -> Ports {
        match kind {
            PortsKind::First => Ports::OwnOrFirst,
            PortsKind::PlusRank => Ports::PlusLocalRank,
        }
    }
}

// Lines have at most 96 characters, so that clap does not break them at its width of 100.
const CLIENT_EXAMPLES: &str = "\
A hosts file has a line for each process. Processes with one address are one host, whose port is
that of its first process. - stands for no PID or key; a PID is chosen. # begins a comment:
  10.0.0.1:7000 4711
  10.0.0.1:7001 4712
  [fd00::2]:7000

The client sends FINI as soon as it has printed what it has learned; the exit status is 0 then.

Examples:
  gpc impi client 0 127.0.0.1:4100 --hosts cluster.txt
  gpc impi client 1 127.0.0.1:4100 --hosts other.txt --peers-out peers.txt --hosts-out all.txt
  gpc impi client 1 127.0.0.1:4100 --hosts other.txt --plain --tag-ub none --datalen 16384";

/// Methods of authentication, each at most once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthList(pub Vec<Method>);

impl FromStr for AuthList {
    type Err = &'static str;

    /// Parses each method by its name, or by its number on the wire.
    fn from_str(text: &str) -> Result<AuthList, &'static str> {
        let mut methods = Vec::new();
        for name in text.split(',') {
            let method = match name.trim() {
                "none" | "0" => Method::None,
                "key" | "1" => Method::Key,
                _ => return Err("write none, key, or none,key"),
            };
            if methods.contains(&method) {
                return Err("a method stands there twice");
            }
            methods.push(method);
        }
        Ok(AuthList(methods))
    }
}

/// Reaction to impossible values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CheckKind {
    /// Warn, and broadcast them
    Warn,
    /// End the session
    Refuse,
    /// Broadcast them
    Off,
}

impl From<CheckKind> for Check {
    fn from(kind: CheckKind) -> Check {
        match kind {
            CheckKind::Warn => Check::Warn,
            CheckKind::Refuse => Check::Refuse,
            CheckKind::Off => Check::Off,
        }
    }
}

impl fmt::Display for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CheckKind::Warn => "warn",
            CheckKind::Refuse => "refuse",
            CheckKind::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_names_and_numbers() {
        let list = |text: &str| text.parse::<AuthList>().map(|list| list.0);
        assert_eq!(list("none"), Ok(vec![Method::None]));
        assert_eq!(list("key, none"), Ok(vec![Method::Key, Method::None]));
        assert_eq!(list("0,1"), Ok(vec![Method::None, Method::Key]));
        for bad in ["", "none,", "keys", "2", "none key"] {
            assert!(list(bad).is_err(), "{bad}");
        }
        assert!(list("key,1").unwrap_err().contains("twice"));
    }

    #[test]
    fn values_have_bounds_and_can_be_left_out() {
        assert_eq!(one_or_more("none"), Ok(Value(None)));
        assert_eq!(one_or_more("4294967295"), Ok(Value(Some(u32::MAX))));
        assert_eq!((tag_bound("32767"), or_default("-1")), (Ok(Value(Some(32_767))), Ok(Value(Some(-1)))));
        for bad in [one_or_more("0"), one_or_more("4294967296"), one_or_more(""), one_or_more("None")] {
            assert_eq!(bad, Err("write a number from 1 to 4294967295, or none".into()));
        }
        for bad in [tag_bound("32766"), tag_bound("2147483648"), or_default("-2"), or_default("1.5")] {
            assert!(bad.is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_server_listens_at_an_address_of_this_machine() {
        assert_eq!(own_address("localhost"), Ok(loopback()));
        assert!(own_address("::1").is_ok_and(|address| address.is_loopback()));
        assert!(own_address("head.example").unwrap_err().contains("an IP address"));
    }
}

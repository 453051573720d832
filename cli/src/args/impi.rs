//! The arguments of `gpc impi`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::NonEmptyStringValueParser;
use clap::{Subcommand, ValueEnum};
use gpc_impi::server::Check;
use gpc_impi::wire::{CLIENTS_MAX, Method};

use crate::duration::Span;

/// Arguments of `gpc impi`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImpiArgs {
    /// What to do.
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

/// What can be done.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum ImpiCommand {
    /// Serve the start-up of one job; standard output is the address, and nothing else
    Server(ServerArgs),
    /// Take part as a client: say what a cluster is, and print what the others are
    Client(ClientArgs),
}

/// Arguments of `gpc impi server`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = SERVER_EXAMPLES)]
pub struct ServerArgs {
    /// How many clients there are, one for each cluster
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    pub clients: u32,

    /// The port to listen at; with 0 the system chooses one
    #[arg(long, value_name = "P", default_value_t = 0)]
    pub port: u16,

    /// The address to listen at. Of 0.0.0.0 or ::, all addresses of this machine, the one on the route to the rest of the world is printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: IpAddr,

    /// How clients prove that they may take part: none, key, or both with a comma; where both sides have a key, it is used. The key is the number in IMPI_AUTH_KEY in the environment. By default key where that is set, and none where IMPI_AUTH_NONE is set; where neither is, none on loopback, and nothing beyond
    #[arg(long, value_name = "LIST")]
    pub auth: Option<AuthList>,

    /// How long it may take until all clients have sent all their labels, such as 30s, 10m or 1h. Waiting for the end of the job has no limit
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Span,

    /// What to do about values that cannot be, such as addresses that are not as many as the hosts
    #[arg(long, value_enum, default_value_t = CheckKind::Warn)]
    pub check: CheckKind,

    /// Broadcasts go through the clients' own nodes, along this tree: binary, binomial, kary:K, knomial:K, chain or flat. So the server sends them once, if all clients are of this project and at least two have nodes; by default it sends them to each client
    #[arg(long, value_name = "TREE")]
    pub relay: Option<String>,

    /// Show what happens, label by label, on standard error
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
    /// The rank of this client: 0 for the first one, and so on; it decides in which order clusters stand
    #[arg(value_name = "RANK", value_parser = clap::value_parser!(u32).range(0..i64::from(CLIENTS_MAX)))]
    pub rank: u32,

    /// The address that the server has printed
    #[arg(value_name = "HOST:PORT", value_parser = NonEmptyStringValueParser::new())]
    pub server: String,

    /// Required: the processes of this cluster, a line `ADDRESS:PORT [PID [KEY]]` for each; - is standard input
    #[arg(long, value_name = "FILE")]
    pub hosts: PathBuf,

    /// How this client can prove that it may take part: none, key, or both with a comma. The key is the number in IMPI_AUTH_KEY in the environment. By default key where that is set, and none where IMPI_AUTH_NONE is set, or neither is
    #[arg(long, value_name = "LIST")]
    pub auth: Option<AuthList>,

    /// How long it may take until all clients have sent all their labels, such as 30s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub time_limit: Span,

    /// What to print
    #[arg(long, value_enum, default_value_t = ClientOutput::Table)]
    pub output: ClientOutput,

    /// Leave out the labels of this project: ports and public keys of processes
    #[arg(long)]
    pub plain: bool,

    /// The secret of all nodes, which clients prove to each other where the server's broadcasts go through their own nodes (--relay); by default the file that GPC_SECRET_FILE names. Without one they come from the server beyond this machine
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Show what happens, label by label, on standard error
    #[arg(long)]
    pub trace: bool,
}

/// What `gpc impi client` prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ClientOutput {
    /// A line for each host, and what all have agreed on
    Table,
    /// One JSON object with everything
    Json,
    /// A peers file of all processes, as `gpc node --peers` reads it
    Peers,
    /// A hosts file of all processes, which keeps those of a cluster together, as `--tree hosts:FILE+TREE` reads it
    Hosts,
}

const CLIENT_EXAMPLES: &str = "\
A hosts file has a line for each process; processes with one address are one host, whose port is that
of its first process. - stands for no PID or key: a PID is chosen. # begins a comment:
  10.0.0.1:7000 4711
  10.0.0.1:7001 4712
  [fd00::2]:7000

The client sends FINI as soon as it has printed what it has learned. The exit status is 0 when it has.

Examples:
  gpc impi client 0 127.0.0.1:4100 --hosts cluster.txt
  gpc impi client 1 127.0.0.1:4100 --hosts other.txt --output peers > peers.txt";

/// Methods of proof, each at most once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuthList(pub Vec<Method>);

impl FromStr for AuthList {
    type Err = &'static str;

    /// By name, or by the number that the method has on the wire.
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

/// What is done about values that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CheckKind {
    /// Say so, and broadcast them
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
}

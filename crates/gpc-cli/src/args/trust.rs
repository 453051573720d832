//! Arguments that select the peers of a node, and the arguments of `gpc secret`.

use std::path::PathBuf;

/// Heading of these arguments in the help of a call or a measurement.
pub(super) const TRUST_HEADING: &str = "With --peers: whom to link with over TCP";

/// Nodes that a node, or the root of a call on running nodes, links with over TCP.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct TrustArgs {
    /// File with the secret of the job: over TCP the node links only with nodes that have the same one. By default the
    /// file that GPC_SECRET_FILE in the environment names. With --peers, or if GPC_IMPI_SERVER in the environment names
    /// an IMPI server
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// File with the private key of this id, if the peers file lists the public one. By default the file that
    /// GPC_KEY_FILE in the environment names
    #[arg(long, value_name = "FILE", requires = "peers")]
    pub key_file: Option<PathBuf>,

    /// Do not encrypt links between machines, with nodes that have the same option. The secret still proves the peer,
    /// but an attacker that can change bytes on the wire can then inject anything
    #[arg(long, requires = "peers")]
    pub no_encrypt: bool,

    /// Listen and connect beyond this machine without a secret. Any process that reaches a node there can call its
    /// functions and forge replies
    #[arg(long, requires = "peers")]
    pub insecure: bool,
}

/// Arguments of `gpc secret`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = SECRET_EXAMPLES, override_usage = SECRET_USAGE)]
pub struct SecretArgs {
    /// New file for the secret of a job
    #[arg(value_name = "FILE", required_unless_present = "key", conflicts_with = "key")]
    pub file: Option<PathBuf>,

    /// Generate the key of a node instead: write its private half to this new file, and print its public half
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,

    /// With --key: generate nothing, and print the public half of the key in the file
    #[arg(long, requires = "key", conflicts_with = "file")]
    pub show: bool,
}

const SECRET_USAGE: &str = "\
gpc secret <FILE>
       gpc secret --key <FILE> [--show]";

pub(super) const SECRET_EXAMPLES: &str = "\
A file is only ever made, never replaced, and its owner alone can read it; a file that others may
read or write is refused by whoever is to use it.

Who has the secret of a job can take part in it: copy it to the machines of its nodes, and to
nobody else. Where a node has a key, whose public half stands in its line of the peers files, no
other member can speak for its id.

Examples:
  gpc secret job.secret
  gpc secret --key node-1.key                    prints the third column of its line in peers files
  gpc secret --key node-1.key --show             prints it again
  gpc node --id 1 --peers peers.txt --secret-file job.secret --key-file node-1.key
  gpc call facts --peers peers.txt --id 0 --secret-file job.secret";

//! The arguments of `gpc rendezvous`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use chained_gpc::Job;
use chained_gpc::runtime::loopback;
use clap::{Subcommand, ValueEnum};
use gpc_rendezvous::client::ServiceUrl;
use gpc_rendezvous::{Handle, Scope, Token};

use super::above::{AboveArgs, RankWanted};
use crate::duration::Span;

/// Arguments of `gpc rendezvous`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RendezvousArgs {
    /// Sub-command.
    #[command(subcommand)]
    pub command: RendezvousCommand,
}

/// Sub-commands of `gpc rendezvous`.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum RendezvousCommand {
    /// Serve rendezvous over HTTP until SIGINT, SIGTERM or SIGHUP; the first line of standard output is the URL
    Serve(ServeArgs),
    /// Create a resource where tasks meet, and print its handle
    Create(CreateArgs),
    /// Register data, and print the rank
    Register(RegisterArgs),
    /// Wait until all tasks have registered, and print the data of all
    Wait(WaitArgs),
    /// Show the progress of a rendezvous
    Show(ShowArgs),
    /// Destroy a resource, or all resources of a job
    Destroy(DestroyArgs),
    /// Print the token of the services of a job, which gives access to them
    Token(TokenArgs),
    /// Start processes that meet at a resource: `gpc run --rendezvous URL` with all its options
    #[cfg(feature = "bnr")]
    Run(Box<super::run::RunArgs>),
}

/// Access to a service.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct AccessArgs {
    /// File with the token of the service. By default the file that GPC_RENDEZVOUS_TOKEN_FILE in the environment names
    #[arg(long, value_name = "FILE", conflicts_with = "secret_file")]
    pub token_file: Option<PathBuf>,

    /// File with the secret of the job, from which the token is derived. By default the file that GPC_SECRET_FILE in
    /// the environment names
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// File with the certificates (PEM) of the authority that signed the certificate of a service over https. By
    /// default the file that GPC_RENDEZVOUS_CA_FILE in the environment names
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Time to try to reach the service, such as 500ms, 10s or 1h; 10s by default
    #[arg(long, value_name = "TIME")]
    pub try_for: Option<Span>,
}

/// Selects a resource.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct HandleArgs {
    /// Handle of the resource, in quotes, since it contains a `?`. By default that in GPC_JOB_HANDLE or
    /// GLOBUS_GRAM_JOB_HANDLE in the environment
    #[arg(value_name = "HANDLE", conflicts_with = "multijob")]
    pub handle: Option<Handle>,

    /// Use the handle of the resource above, where subjobs meet, from GPC_MULTIJOB_HANDLE or
    /// GLOBUS_GRAM_MULTIJOB_HANDLE
    #[arg(long)]
    pub multijob: bool,
}

/// Arguments of `gpc rendezvous serve`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct ServeArgs {
    /// Address to listen at; with port 0 the system chooses one
    #[arg(long, value_name = "IP:PORT", default_value_t = SocketAddr::new(loopback(), 0))]
    pub listen: SocketAddr,

    /// URL by which clients reach the service, if it differs from the address of --listen; handles contain it. At
    /// 0.0.0.0 or ::, the default is the address on the route to other networks; over https the URL is required there
    #[arg(long, value_name = "URL")]
    pub url: Option<ServiceUrl>,

    /// File with the secret of the job, from which the token that clients need is derived. By default the file that
    /// GPC_SECRET_FILE in the environment names
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,

    /// Write the token that clients need to this new file, which only its owner can read; without a secret one is
    /// generated. If the file exists, its token is used. It is deleted at the end, except with --store, where the token
    /// stays valid for the stored data
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Store registered data in this file, so that they survive every end and restart of the service
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,

    /// File with the service's certificates (PEM), its own first; clients then use https
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// File with the private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// File with the certificates (PEM) of the authority that signed those of services above over https
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Service on another host that gets the token over plain http when the data of units are registered there; may be
    /// repeated. Services over https and on this host get the token; all others are asked without it
    #[arg(long, value_name = "URL")]
    pub above: Vec<ServiceUrl>,

    /// Listen beyond this machine without a secret or token. Every client that reaches the port can then do everything
    #[arg(long, conflicts_with_all = ["secret_file", "token_file"])]
    pub insecure: bool,

    /// Largest capacity of a resource; 1048576 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = LIMITS)]
    pub capacity_max: Option<u32>,

    /// Maximum data of a registrant, such as 64k or 16M; 64M by default
    #[arg(long, value_name = "BYTES", help_heading = LIMITS)]
    pub data_max: Option<Size>,

    /// Maximum data of all resources together; 2G by default
    #[arg(long, value_name = "BYTES", help_heading = LIMITS)]
    pub held_max: Option<Size>,

    /// Maximum number of resources; 65536 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = LIMITS)]
    pub resources_max: Option<u32>,

    /// Maximum number of waiting clients; 131072 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = LIMITS)]
    pub waiting_max: Option<u32>,

    /// Maximum number of connections; 16384 by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = LIMITS)]
    pub connections_max: Option<u32>,

    /// Maximum lifetime of a resource, such as 10m, 2h or 7d; 30d by default
    #[arg(long, value_name = "TIME", help_heading = LIMITS)]
    pub lifetime_max: Option<Span>,
}

/// Help heading of the limits.
const LIMITS: &str = "Limits";

/// Number of bytes, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Size, &'static str> {
        let (digits, shift) = match text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&text[..at], 10),
            Some((at, 'm' | 'M')) => (&text[..at], 20),
            Some((at, 'g' | 'G')) => (&text[..at], 30),
            _ => (text, 0),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        let size = number.filter(|&number| number > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()));
        size.map(Size).ok_or("write a number of bytes from 1 on, as in 4096, 64k, 16M or 2G")
    }
}

/// Arguments of `gpc rendezvous create`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct CreateArgs {
    /// URL of the service
    #[arg(long, value_name = "URL")]
    pub service: ServiceUrl,

    /// Number of registrants that complete the resource, at least 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub capacity: u64,

    /// Level of its data: 1 if processes register, 2 if subjobs do, and so on; by default one below that of a --parent
    /// on the same service, else 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub level: Option<u64>,

    /// Maximum lifetime, such as 500ms, 10s or 2h; by default that of the service, 1h
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub lifetime: Option<Span>,

    /// Generate a job and a secret for the registrants, and send them with the completion
    #[arg(long)]
    pub joint: bool,

    /// Job of the resource, 32 hexadecimal digits; the resource is destroyed with it
    #[arg(long, value_name = "JOB")]
    pub job: Option<Job>,

    /// Resource above, where this one registers when it is complete.
    #[command(flatten)]
    pub above: AboveArgs,

    /// Access to the service.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Arguments of `gpc rendezvous register`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct RegisterArgs {
    /// Resource to register with.
    #[command(flatten)]
    pub at: HandleArgs,

    /// Data to register; - is standard input
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,

    /// Rank to register with, or `assign`
    #[arg(long, value_name = "R", default_value = "assign", allow_hyphen_values = true)]
    pub rank: RankWanted,

    /// Token that identifies the registrant in a repeated request: the same token gets the same answer. By default one
    /// is generated
    #[arg(long, value_name = "T", value_parser = token)]
    pub token: Option<Token>,

    /// Withdraw the registrant after this time without a request from it, such as 10s or 1m; `wait --token T` is such a
    /// request
    #[arg(long, value_name = "TIME", requires = "token")]
    pub lease: Option<Span>,

    /// Access to the service.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Parses a lifetime: at least 1 ms, since lifetimes are whole milliseconds.
fn lifetime(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: crate::duration::SpanError| error.to_string())?;
    match span.duration().as_millis() {
        0 => Err("a resource lives for 1ms at least".into()),
        _ => Ok(span),
    }
}

fn token(text: &str) -> Result<Token, &'static str> {
    Token::new(text).ok_or("a token has 1 to 128 printable letters of ASCII without spaces")
}

/// Arguments of `gpc rendezvous wait`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct WaitArgs {
    /// Resource to wait for.
    #[command(flatten)]
    pub at: HandleArgs,

    /// Completion to wait for: that of the resource itself, or that of the highest above it
    #[arg(long, value_enum, default_value_t = OfKind::Own)]
    pub of: OfKind,

    /// Maximum time to wait, such as 500ms, 10s or 1h
    #[arg(long, value_name = "TIME", default_value = "1m")]
    pub limit: Span,

    /// Token of a registrant; its lease holds during this wait
    #[arg(long, value_name = "T", value_parser = token)]
    pub token: Option<Token>,

    /// Output format
    #[arg(long, value_enum, default_value_t = WaitOutput::Level)]
    pub output: WaitOutput,

    /// Access to the service.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Completion to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OfKind {
    /// That of the resource itself
    Own,
    /// That of the highest resource above it
    Top,
}

impl From<OfKind> for Scope {
    fn from(of: OfKind) -> Scope {
        match of {
            OfKind::Own => Scope::Own,
            OfKind::Top => Scope::Top,
        }
    }
}

/// Output of `gpc rendezvous wait`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WaitOutput {
    /// Only the raw level-n data
    Level,
    /// One JSON object: the level, the data as nested arrays, and the job and secret of the registrants
    Json,
}

/// Arguments of `gpc rendezvous show`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct ShowArgs {
    /// Resource to show.
    #[command(flatten)]
    pub at: HandleArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t = ShowOutput::Table)]
    pub output: ShowOutput,

    /// Access to the service.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Output of `gpc rendezvous show`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ShowOutput {
    /// Lines for people
    Table,
    /// One JSON object
    Json,
}

/// Arguments of `gpc rendezvous destroy`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct DestroyArgs {
    /// Resource to destroy.
    #[command(flatten)]
    pub at: HandleArgs,

    /// With --job: URL of the service
    #[arg(long, value_name = "URL", requires = "job", conflicts_with_all = ["handle", "multijob"])]
    pub service: Option<ServiceUrl>,

    /// Destroy all resources of this job
    #[arg(long, value_name = "JOB", requires = "service")]
    pub job: Option<Job>,

    /// Access to the service.
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Arguments of `gpc rendezvous token`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct TokenArgs {
    /// File with the secret of the job. By default the file that GPC_SECRET_FILE in the environment names
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

pub(crate) const EXAMPLES: &str = "\
A resource is where tasks meet: each registers its data, and gets the data of
all when as many are there as it has room for. Its handle, `URL?ID`, is all
that a task needs to know, beside the token of the service. At resources of
level 2 and above whole units meet, each with the data of all its tasks; a
resource that is created with --parent is registered there by its service.

Who has a handle and the token can take part. Without a secret or token a
service listens on loopback only, and lets everybody there in.

Examples:
  gpc secret job.secret
  gpc rendezvous serve --secret-file job.secret --store meet.db
  gpc rendezvous create --service http://127.0.0.1:4000 --capacity 2 --level 2
  gpc rendezvous create --service http://127.0.0.1:4000 --capacity 3 --joint
  gpc rendezvous register --data contact.txt     the handle is in the environment
  gpc rendezvous wait --of top --output json --limit 30s
  gpc rendezvous show --output json
  gpc rendezvous destroy --service http://127.0.0.1:4000 --job 5b1f0c2e9a7d4c3f8e6a1b2c3d4e5f60
  gpc run -n 3 --rendezvous http://127.0.0.1:4000 ./task.sh with arguments
  gpc rendezvous token --secret-file job.secret   for clients in other languages

The exit status is 0 if it was done, 1 if not, which standard error explains,
and 2 for arguments that make no sense.";

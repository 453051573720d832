//! Arguments of commands that start processes on other hosts: which hosts, and how to reach them.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::launcher::Launcher;
use crate::allocated::hosts_of_allocation;
use crate::duration::Span;
use crate::files::{read_peers, read_text, shown};
use crate::launching::AGENT;
use crate::refused::Refused;
use crate::words::split;
use chained_gpc::bootstrap::{HostListError, HostSlots, SlotList, read_host_file};
use gpc_launch::program_file;
use gpc_launch::remote::{Network, REMOTE_PROCESSES_MAX, RemotePlan};

/// Heading of these arguments in the help.
pub(super) const OVER_HEADING: &str = "Other hosts";

/// Processes on other hosts.
#[derive(Clone, PartialEq, Debug, clap::Args)]
pub struct OverArgs {
    /// Start the processes on these hosts, such as a:2,b[01-64], through a tree of ssh. `:K` is the number of processes
    /// on the host, 1 by default. This process is id 0, and ids from 1 on follow the list. `alloc` stands for the hosts
    /// of the job of Slurm, PBS, LSF or SGE that includes this process
    #[arg(long, value_name = "LIST", conflicts_with = "peers", value_parser = hosts)]
    pub hosts: Option<HostChoice>,

    /// Like --hosts, with the hosts of a file: a line for each, as mpiexec reads them (HOST, HOST:K, or HOST slots=K)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "peers"])]
    pub hostfile: Option<PathBuf>,

    /// Number of processes on each host, whatever the list or file says
    #[arg(long, visible_alias = "ppn", value_name = "K", value_parser = clap::value_parser!(u32).range(1..=i64::from(REMOTE_PROCESSES_MAX)))]
    pub per_host: Option<u32>,

    /// What starts the processes on the hosts; by default that of the job of Slurm, LSF or SGE that includes this
    /// process and the hosts, and `ssh` for others
    #[arg(long, value_name = "HOW", value_enum)]
    pub launcher: Option<Launcher>,

    /// Command that runs another one on a host, instead of `ssh -o BatchMode=yes`; the host's name and that command are
    /// its next words, or the name replaces {host}. Quotes keep words together
    #[arg(long, value_name = "CMD")]
    pub rsh: Option<Words>,

    /// Path of gpc on the hosts; by default its path on this machine
    #[arg(long, value_name = "PATH")]
    pub remote_gpc: Option<PathBuf>,

    /// Number of hosts that a process starts itself, each of which starts its share of the others; 8 by default, for
    /// `gpc exec` 64, and all of them with LSF and SGE
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub fan_out: Option<u32>,

    /// Give up a host that does not answer within this time; 30s by default
    #[arg(long, value_name = "TIME")]
    pub start_limit: Option<Span>,

    /// Network through which the processes reach each other, such as 10.1.0.0/16; by default the one by which ssh
    /// reached them
    #[arg(long, value_name = "ADDR/BITS")]
    pub network: Option<Network>,
}

/// The hosts of `--hosts`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostChoice {
    /// Those of the allocation that includes this process.
    Allocation,
    /// A list.
    List(SlotList),
}

/// Parses the list of `--hosts`. A peers file there was the option of `gpc run` for running nodes.
fn hosts(text: &str) -> Result<HostChoice, String> {
    let path = Path::new(text);
    if text == "alloc" {
        return Ok(HostChoice::Allocation);
    }
    match text.parse() {
        _ if path.is_file() && read_peers(path).is_ok_and(|peers| !peers.is_empty()) => Err(format!(
            "{text} is a file of running nodes: join them with --peers {text}; --hosts has names of hosts"
        )),
        parsed => parsed.map(HostChoice::List).map_err(|error: HostListError| error.to_string()),
    }
}

/// A command as words, cut at white space. Quotes of either kind keep the text between them together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words(pub Vec<OsString>);

impl OverArgs {
    /// Whether the processes run on other hosts.
    pub fn is_given(&self) -> bool {
        self.hosts.is_some() || self.hostfile.is_some()
    }

    /// Rejects options for hosts if no host is named.
    fn check(&self) -> Result<(), String> {
        let given = [
            (self.per_host.is_some(), "--per-host"),
            (self.launcher.is_some(), "--launcher"),
            (self.rsh.is_some(), "--rsh"),
            (self.remote_gpc.is_some(), "--remote-gpc"),
            (self.fan_out.is_some(), "--fan-out"),
            (self.start_limit.is_some(), "--start-limit"),
            (self.network.is_some(), "--network"),
        ];
        match given.iter().find(|(given, _)| *given && !self.is_given()) {
            Some((_, name)) => Err(format!("{name} goes with --hosts LIST or --hostfile FILE")),
            None => Ok(()),
        }
    }

    /// Returns the hosts and their slots; `None` if no host is named. Reads the file of `--hostfile`, or that of the
    /// allocation.
    ///
    /// # Errors
    /// If the file cannot be read or is not a host file, or this process is in no allocation.
    pub fn slots(&self) -> Result<Option<SlotList>, Refused> {
        let named = match &self.hostfile {
            None => match &self.hosts {
                Some(HostChoice::Allocation) => Some(hosts_of_allocation()?),
                Some(HostChoice::List(hosts)) => Some(hosts.clone()),
                None => None,
            },
            Some(path) => {
                let text = read_text(path, "host file").map_err(Refused::File)?;
                let refused = |error| Refused::File(format!("host file {}, {error}", shown(path)));
                Some(read_host_file(&text).map_err(refused)?)
            }
        };
        Ok(match self.per_host {
            Some(slots) => named.map(|hosts| hosts.with_slots(slots)),
            None => named,
        })
    }

    /// Returns the processes to start on the hosts, one in each slot; `None` if no host is named. All other settings
    /// are the defaults of the library.
    ///
    /// # Errors
    /// What is wrong with the arguments or the file of `--hostfile`, as a message for the user.
    pub fn plan(&self) -> Result<Option<RemotePlan>, Refused> {
        self.check()?;
        self.slots()?.map(|hosts| self.plan_of(&hosts, |host| host.slots)).transpose()
    }

    /// Rejects a number of processes for a command that starts one on each host.
    ///
    /// # Errors
    /// If there is one.
    pub fn check_one_each(&self) -> Result<(), String> {
        match self.per_host {
            Some(_) => {
                Err("--per-host (--ppn): this command has one process on each host; leave it out".into())
            }
            None => Ok(()),
        }
    }

    /// Returns a process to start on each host, and the slots of the hosts; `None` if no host is named.
    ///
    /// # Errors
    /// As for [`plan`](Self::plan).
    pub fn plan_of_hosts(&self) -> Result<Option<(RemotePlan, SlotList)>, Refused> {
        self.check()?;
        let Some(hosts) = self.slots()? else { return Ok(None) };
        let plan = self.plan_of(&hosts, |_| 1)?;
        Ok(Some((plan, hosts)))
    }

    fn plan_of(
        &self,
        hosts: &SlotList,
        processes: impl Fn(&HostSlots) -> u32,
    ) -> Result<RemotePlan, Refused> {
        let program = match &self.remote_gpc {
            Some(path) => path.clone(),
            None => program_file().map_err(|error| format!("cannot find this program: {error}"))?,
        };
        let names = hosts.iter().map(|host| HostSlots { slots: processes(host), ..host.clone() });
        let mut plan = RemotePlan::new(names, program, &AGENT);
        plan.network = self.network;
        let launcher = self.launcher_for(hosts)?;
        if let Some(rsh) = self.rsh_words(launcher)? {
            plan.rsh = rsh;
        }
        let all = u32::try_from(hosts.len()).ok().and_then(NonZeroU32::new);
        match (self.fan_out.and_then(NonZeroU32::new), all.filter(|_| launcher.is_flat())) {
            (Some(fan_out), Some(all)) if fan_out < all => {
                return Err(format!(
                    "--fan-out {fan_out}: this launcher reaches hosts from here alone: leave --fan-out out, or write --launcher ssh"
                )
                .into());
            }
            (Some(fan_out), _) => plan.fan_out = fan_out,
            (None, Some(all)) => plan.fan_out = all,
            (None, None) => {}
        }
        match self.start_limit {
            Some(limit) if limit.duration().is_zero() => {
                return Err("--start-limit 0s leaves no time to answer".into());
            }
            Some(limit) => plan.start_limit = limit.into(),
            None => {}
        }
        let option = if self.hostfile.is_some() { "--hostfile" } else { "--hosts" };
        plan.check().map_err(|error| format!("{option}: {error}"))?;
        Ok(plan)
    }
}

impl OverArgs {
    /// Returns what starts the processes on the hosts.
    fn launcher_for(&self, hosts: &SlotList) -> Result<Launcher, Refused> {
        match (self.launcher, &self.rsh) {
            (None | Some(Launcher::Ssh), Some(_)) => Ok(Launcher::Ssh),
            (Some(_), Some(_)) => Err("--rsh goes with --launcher ssh: leave one of them out".into()),
            (Some(Launcher::Fork), None) if self.remote_gpc.is_some() => {
                Err("--launcher fork starts this program: leave --remote-gpc out".into())
            }
            (launcher, None) => Ok(launcher.unwrap_or_else(|| Launcher::of(hosts))),
        }
    }

    /// Returns the command that starts a process on a host; `None` for the default.
    fn rsh_words(&self, launcher: Launcher) -> Result<Option<Vec<OsString>>, Refused> {
        match &self.rsh {
            Some(Words(rsh)) => Ok(Some(rsh.clone())),
            None => Ok(launcher.words()?),
        }
    }
}

impl FromStr for Words {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Words, Self::Err> {
        let words = split(text, false).map_err(|_| "a quote is not closed")?;
        match words.is_empty() {
            true => Err("a command has a word at least, such as ssh"),
            false => Ok(Words(words.into_iter().map(OsString::from).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_cut_into_words() {
        let words = |text: &str| text.parse::<Words>().map(|words| words.0);
        for (text, expected) in [
            ("ssh", &["ssh"][..]),
            (" ip  netns exec ", &["ip", "netns", "exec"]),
            (r#"sh -c 'exec "$@"'"#, &["sh", "-c", r#"exec "$@""#]),
            (r#"ssh -o "Proxy Command=a b" ''"#, &["ssh", "-o", "Proxy Command=a b", ""]),
            ("a'b c'd", &["ab cd"]),
        ] {
            assert_eq!(words(text), Ok(expected.iter().map(OsString::from).collect()), "{text}");
        }
        assert_eq!(
            (words(" "), words("sh 'a")),
            (Err("a command has a word at least, such as ssh"), Err("a quote is not closed"))
        );
    }
}

//! Costs of messages in a run of `gpc sim`: given, fitted, or the defaults.

use std::num::NonZeroU32;
use std::time::Duration;

use gpc_trees::Lag;

use super::fit::read_fit;
use crate::args::SimArgs;
use crate::duration::Span;
use crate::refused::Refused;
use gpc_sim::{Costs, HostCost, LinkCost, Sharing};

/// Costs of messages in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunCosts {
    /// Costs by class of link.
    pub(super) costs: Costs,
    /// Resources that the processes of a host share.
    pub(super) sharing: Option<Sharing>,
}

impl RunCosts {
    /// Reads the file of `--fit`, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, or two options contradict each other.
    pub(super) fn new(args: &SimArgs) -> Result<RunCosts, Refused> {
        let host = match &args.fit {
            Some(path) => Some(read_fit(path).map_err(Refused::File)?.cost),
            None => None,
        };
        refuse_doubles(args)?;
        let usual = Costs::default();
        // `--link-cost` is the cost of every link without one of its own. So is that of a fitted host, unless `--hosts`
        // tells hosts apart.
        let all = args.link_cost.or(host.map(|host| host.link).filter(|_| args.hosts.is_none()));
        let other = |given: Option<LinkCost>, usual| given.or(all).unwrap_or(usual);
        let costs = Costs {
            host: other(args.host_cost.or(host.map(|host| host.link)), usual.host),
            rack: other(args.rack_cost, usual.rack),
            elsewhere: other(None, usual.elsewhere),
        };
        Ok(RunCosts { costs, sharing: sharing(args, host) })
    }

    /// Returns the lag of these costs: the number of messages that a node can send until one has been received and its
    /// receiver is awake. `None` if there is no time between two messages.
    pub(super) fn lag(&self, data_bytes: u32) -> Option<Lag> {
        let LinkCost { latency_ns, overhead_ns, gap_ns, byte_ps } = self.costs.elsewhere;
        let waking = self.sharing.map_or(0, |sharing| sharing.wake_ns.saturating_add(sharing.cold_ns));
        let delay = latency_ns.saturating_add(waking);
        Lag::of_costs(delay, overhead_ns, gap_ns, byte_ps as f64 / 1000.0, u64::from(data_bytes) + 1)
    }
}

fn refuse_doubles(args: &SimArgs) -> Result<(), String> {
    if args.fit.is_some() && args.hosts.is_none() && (args.link_cost.is_some() || args.rack_cost.is_some()) {
        return Err("--fit says what a message costs on one host, and without --hosts all ids are on one: leave --link-cost and \
                    --rack-cost out, or spread the ids with --hosts H"
            .into());
    }
    match args.fit.is_some() && args.host_cost.is_some() {
        true => Err("--fit and --host-cost both say what a message costs on one host: leave one out".into()),
        false => Ok(()),
    }
}

/// `--cores` takes precedence over the fit; 0 stands for no sharing.
fn sharing(args: &SimArgs, host: Option<HostCost>) -> Option<Sharing> {
    let nanos = |span: Option<Span>| {
        let span = span.map(Duration::from).unwrap_or_default();
        u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
    };
    let given =
        || Sharing { cores: NonZeroU32::MIN, wake_ns: nanos(args.wake_cost), cold_ns: nanos(args.cold_cost) };
    let fitted = host.map(|host| host.sharing);
    match args.cores.map(NonZeroU32::new) {
        None => fitted,
        Some(None) => None,
        Some(Some(cores)) => Some(Sharing { cores, ..fitted.unwrap_or_else(given) }),
    }
}

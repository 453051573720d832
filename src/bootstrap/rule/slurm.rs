//! A step of Slurm without a PMI server (`srun --mpi=none`): derives a rule from its variables.
//!
//! On one node the ids listen at abstract Unix sockets. On several nodes, the ids of each node listen at consecutive
//! TCP ports. The first port follows from the numbers of job and step, `16384 + 128 * ((7 * job + step) mod 128)`, so
//! that concurrent steps seldom share ports. All ports are below those that the system assigns to connections.
//! `GPC_PORT` names another first port.
//!
//! A batch script has the variables of its job but is one process without a step. The same holds for the shells that
//! `salloc` and `srun --pty` start for people.

use super::tasks::{Counts, Order, Tasks};
use super::{LauncherVariables, Places, Rule};
use crate::bootstrap::{BootstrapError, HostList, Variables};
use crate::runtime::AddressRow;
use crate::wire::Shown;

/// The launcher's name in errors.
const LAUNCHER: &str = "Slurm";

/// Step numbers from here on are Slurm's own: a batch script, a shell for people.
const SPECIAL_STEPS: u32 = 0xffff_fff0;

/// The lowest port of the rule, the number of steps with separate ports, and the number of ports of each. The highest
/// port is 32767; Linux assigns ports from 32768 on to connections.
const FIRST_PORT: u32 = 16_384;
const STEPS: u32 = 128;
const PORTS_OF_STEP: u32 = 128;

/// What to do if the rule lacks information.
const ADVICE: &str = "start it with `srun --mpi=pmi2` or `--mpi=pmix`, which need no rule";

/// Returns the rule of the step that includes this process as a task; `None` if the process is not a task of a step.
pub(in crate::bootstrap) fn find(variables: &Variables) -> Option<Result<Rule, BootstrapError>> {
    let given = LauncherVariables { launcher: LAUNCHER, variables };
    given.get("SLURM_STEP_ID").or_else(|| given.get("SLURM_STEPID"))?;
    given.get("SLURM_PROCID")?;
    match step(&given) {
        Ok(step) if step >= SPECIAL_STEPS => None,
        Ok(step) => Some(rule(&given, step)),
        Err(error) => Some(Err(error)),
    }
}

/// Whether this process is a task of a step. If the number of its step is invalid, it counts as one: a task that takes
/// a whole allocation for itself does more harm than a script that does not.
pub(in crate::bootstrap) fn is_task(variables: &Variables) -> bool {
    find(variables).is_some()
}

fn step(given: &LauncherVariables<'_>) -> Result<u32, BootstrapError> {
    given.number_if("SLURM_STEP_ID")?.map_or_else(|| given.number("SLURM_STEPID", ""), Ok)
}

fn rule(given: &LauncherVariables<'_>, step: u32) -> Result<Rule, BootstrapError> {
    let text = |first: &str, second: &str| {
        given.get(first).map_or_else(|| given.text(second, &format!(", nor {first}; {ADVICE}")), Ok)
    };
    let job =
        given.number(if given.get("SLURM_JOB_ID").is_some() { "SLURM_JOB_ID" } else { "SLURM_JOBID" }, "")?;
    let id = given.number("SLURM_PROCID", "")?;
    let count = text("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS").map(str::to_owned)?;
    let count =
        count.parse().or_else(|_| given.fault(format!("`{}` is no number of tasks", Shown(&count))))?;
    let list = text("SLURM_STEP_NODELIST", "SLURM_NODELIST")?;
    let hosts: HostList = list.parse().or_else(|error| given.fault(format!("its list of nodes: {error}")))?;
    let name = format!("{}.{job}.{step}", given.get("SLURM_CLUSTER_NAME").unwrap_or("cluster"));
    let places = match hosts.len() {
        1 => Places::ThisHost(names(given, job, step, count)?),
        _ => {
            let tasks = tasks(given, &hosts, id, count)?;
            let port = FIRST_PORT + PORTS_OF_STEP * (job.wrapping_mul(7).wrapping_add(step) % STEPS);
            // The highest first port is 32,640.
            let port = given.port()?.or(u16::try_from(port).ok()).unwrap_or(u16::MAX);
            Places::Hosts { hosts, tasks, port }
        }
    };
    Rule { launcher: LAUNCHER, id, count, name, places, secret_file: given.secret_file() }.checked()
}

/// Abstract names for the only node. A node belongs to one cluster, so job and step identify the set.
fn names(
    given: &LauncherVariables<'_>,
    job: u32,
    step: u32,
    count: u32,
) -> Result<AddressRow, BootstrapError> {
    let row = AddressRow::names(0..count, &format!("gpc-slurm-{job}.{step}-"));
    row.or_else(|error| given.fault(error.to_string()))
}

/// Returns the place of each task, checked against this task's own variables.
fn tasks(
    given: &LauncherVariables<'_>,
    hosts: &HostList,
    id: u32,
    count: u32,
) -> Result<Tasks, BootstrapError> {
    let (name, other) = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    let text = given.get(name).map_or_else(|| given.text(other, &format!(", nor {name}; {ADVICE}")), Ok)?;
    let counts: Counts = text.parse().or_else(|why: String| given.fault(why))?;
    let total: u64 = counts.0.iter().map(|&count| u64::from(count)).sum();
    if counts.0.len() != hosts.len() || total != u64::from(count) {
        return given.fault(format!(
            "it has {count} tasks on {} nodes, and `{}` says {total} on {}; {ADVICE}",
            hosts.len(),
            Shown(text),
            counts.0.len()
        ));
    }
    let tasks = Tasks::dealt(&counts, order(given)?);
    let (node, local) = (given.number("SLURM_NODEID", "")?, given.number("SLURM_LOCALID", "")?);
    // The ids of this node, if the variables list them.
    let here =
        given.get("SLURM_GTIDS").map(|text| text.split(',').map(|id| id.parse().ok()).collect::<Vec<_>>());
    let same_here = here.is_none_or(|here| here.into_iter().eq(tasks.of_node(node).map(Some)));
    match tasks.place(id) == Some((node, local)) && same_here {
        true => Ok(tasks),
        false => given.fault(format!(
            "task {id} is on node {node} as its number {local}, which is not where `{}` tasks in the order `{}` put it; {ADVICE}",
            Shown(text),
            Shown(given.get("SLURM_DISTRIBUTION").unwrap_or("block"))
        )),
    }
}

/// Parses the order of the tasks: the first word of `SLURM_DISTRIBUTION`. The rest is about processors.
fn order(given: &LauncherVariables<'_>) -> Result<Order, BootstrapError> {
    let text = given.get("SLURM_DISTRIBUTION").unwrap_or("block");
    match text.split([':', ',', '=']).next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "block" | "*" | "unknown" => Ok(Order::Block),
        "cyclic" => Ok(Order::Turns(1)),
        "plane" => Ok(Order::Turns(given.number("SLURM_DIST_PLANESIZE", "")?)),
        _ => given.fault(format!(
            "its tasks are in the order `{}`, of which no rule is known; {ADVICE}",
            Shown(text)
        )),
    }
}

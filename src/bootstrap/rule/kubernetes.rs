//! Pods of Kubernetes with an index: an indexed Job (`JOB_COMPLETION_INDEX`) or a StatefulSet (the number at the end of
//! the pod's name), behind a headless service.
//!
//! `GPC_COUNT` is the number of pods and `GPC_SERVICE` the name of the service; the host of id 3 of `solver` is then
//! `solver-3.SERVICE`. The name before the index is `GPC_NAME`, or by default that of the pod's own host name. All pods
//! listen at the same TCP port, `GPC_PORT` or 7117: each pod has an address of its own.

use super::{LauncherVariables, Places, Rule};
use crate::bootstrap::{BootstrapError, HostList, Variables};
use crate::wire::Shown;

/// The launcher's name in errors.
const LAUNCHER: &str = "Kubernetes";

/// The port of every pod, unless `GPC_PORT` names another one.
const POD_PORT: u16 = 7117;

/// The index of a pod of an indexed Job.
const INDEX: &str = "JOB_COMPLETION_INDEX";

const COUNT: &str = "GPC_COUNT";
const SERVICE: &str = "GPC_SERVICE";
const NAME: &str = "GPC_NAME";

/// Returns the rule of the pods that include this process; `None` if the variables name none.
pub(in crate::bootstrap) fn find(variables: &Variables) -> Option<Result<Rule, BootstrapError>> {
    let given = LauncherVariables { launcher: LAUNCHER, variables };
    let seen = [INDEX, SERVICE, COUNT].iter().any(|name| given.get(name).is_some());
    seen.then(|| rule(&given))
}

fn rule(given: &LauncherVariables<'_>) -> Result<Rule, BootstrapError> {
    let count = given.number(COUNT, ": let it say how many pods there are")?;
    let service = given.text(SERVICE, ": let it name the headless service of the pods")?.to_owned();
    let own = given.get("HOSTNAME").map(|host| host.split('.').next().unwrap_or_default());
    let numbered = own.and_then(|host| host.rsplit_once('-'));
    let id = match (given.number_if(INDEX)?, numbered.and_then(|(_, index)| ordinal(index))) {
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => {
            let host = Shown(own.unwrap_or_default()).to_string();
            return given.fault(format!("neither {INDEX} nor HOSTNAME (`{host}`) says which pod this is: an indexed Job sets the one, a StatefulSet the other"));
        }
    };
    let name = match (given.get(NAME), numbered) {
        (Some(name), _) => name.to_owned(),
        (None, Some((name, index))) if ordinal(index) == Some(id) => name.to_owned(),
        _ => {
            let host = Shown(own.unwrap_or_default()).to_string();
            return given.fault(format!("HOSTNAME is `{host}`, which does not end with -{id}: let {NAME} say what stands before the index in the pods' names"));
        }
    };
    if let Err(error) = HostList::new([format!("{name}-{id}.{service}")]) {
        return given.fault(format!("the pods' name or {SERVICE}: {error}"));
    }
    let port = given.port()?.unwrap_or(POD_PORT);
    let set = format!("{name}.{service}");
    let places = Places::Pods { name, service, port };
    Rule { launcher: LAUNCHER, id, count, name: set, places, secret_file: given.secret_file() }.checked()
}

/// Parses a number as Kubernetes writes it.
fn ordinal(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|number| number.to_string() == text)
}

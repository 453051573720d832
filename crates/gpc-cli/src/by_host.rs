//! What happened on hosts, in few lines: one for each reason, with the names of its hosts.

use std::collections::BTreeMap;

use chained_gpc::bootstrap::HostList;
use gpc_launch::remote::unnamed;

/// Reasons that are shown; of the rest there is the number.
const SHOWN_MAX: usize = 16;

/// Returns the names in a compressed list.
pub(crate) fn folded<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let count = names.len();
    HostList::new(names).map_or_else(|_| format!("{count} hosts"), |names| names.to_string())
}

/// Returns a line for each reason, such as `hosts b[1-3]: no route`, in the order of their first hosts. `what` is one
/// of those that are named: a host, an id.
pub(crate) fn lines<'a>(what: &str, reasons: impl IntoIterator<Item = (&'a str, String)>) -> Vec<String> {
    let mut order = Vec::new();
    let mut by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, why) in reasons {
        // A report about one host begins with its name.
        let why = why.strip_prefix(&format!("host {name}: ")).map_or(why.clone(), str::to_owned);
        // Reasons that differ in the name of their host alone are one.
        let alike = unnamed(&why, name);
        let names = by_reason.entry(alike.clone()).or_insert_with(|| {
            order.push((alike, why));
            Vec::new()
        });
        names.push(name);
    }
    let line = |(alike, why): &(String, String)| {
        let names = by_reason.get(alike).map_or(&[][..], Vec::as_slice);
        let (many, why) = if names.len() == 1 { ("", why) } else { ("s", alike) };
        format!("{what}{many} {}: {why}", folded(names.iter().copied()))
    };
    let mut lines: Vec<String> = order.iter().take(SHOWN_MAX).map(line).collect();
    if order.len() > SHOWN_MAX {
        let more: usize =
            order[SHOWN_MAX..].iter().filter_map(|(alike, _)| by_reason.get(alike)).map(Vec::len).sum();
        lines.push(format!("{more} more {what}s have other reasons"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_one_reason_share_a_line() {
        let reasons =
            [("b3", "no route"), ("a", "host a: denied"), ("b4", "host b4: no route"), ("b5", "no route")];
        let reasons = reasons.map(|(name, why)| (name, why.to_owned()));
        assert_eq!(lines("host", reasons), ["hosts b[3-5]: no route", "host a: denied"]);
    }

    #[test]
    fn reasons_that_differ_in_the_name_of_the_host_are_one() {
        let reasons =
            ["d1", "d2"].map(|name| (name, format!("host {name}: ssh: connect to host {name}: no route")));
        assert_eq!(lines("host", reasons), ["hosts d[1-2]: ssh: connect to host HOST: no route"]);
    }

    #[test]
    fn of_many_reasons_there_is_a_number() {
        let names: Vec<String> = (0..40).map(|host| format!("h{host}")).collect();
        let lines = lines(
            "host",
            names
                .iter()
                .zip(0..)
                .map(|(name, reason)| (name.as_str(), format!("reason {reason}, of its own"))),
        );
        assert_eq!((lines.len(), lines[SHOWN_MAX].as_str()), (17, "24 more hosts have other reasons"));
    }
}

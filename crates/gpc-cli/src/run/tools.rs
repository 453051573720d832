//! `gpc ps`, `gpc db` and `gpc kill`: they query the domains of this user on this machine, or through running nodes
//! those on other hosts.

use std::process::ExitCode;
use std::time::Duration;

use chained_gpc::wire::Shown;
use gpc_bnr::Limits;
use gpc_bnr::request::{Answer, Request};

use super::reach::{DomainAccess, DomainLocation, Reach};
use super::show::{self, Databases, Groups};
use crate::args::run::{DbArgs, DbCommand, DbListArgs, DbShowArgs, DomainArgs, KillArgs, PsArgs};
use crate::refused::Refused;
use crate::{CommandResult, Failure, say};

/// Time limit for a head to answer: it may query all its nodes.
const ASK: Duration = Duration::from_secs(70);

/// Time that killed processes may take to end, in addition to the time between SIGTERM and SIGKILL.
const KILLED: Duration = Duration::from_secs(60);

/// Maximum number of domains that an error names.
const NAMED_MAX: usize = 8;

/// Runs `gpc ps`.
pub(crate) fn ps(args: &PsArgs) -> CommandResult {
    let (found, status) = with(&args.of, |reach| {
        of_each(reach, &args.of, &Request::Groups, |found, answer| match answer {
            Answer::Groups(groups) => {
                let pid = match found.way {
                    DomainAccess::Head { pid, .. } => Some(pid),
                    DomainAccess::By(_) => None,
                };
                Some(Groups { domain: found.domain.clone(), pid, groups })
            }
            _ => None,
        })
    })?;
    show::groups(&found, args.output)?;
    Ok(status)
}

/// Runs `gpc db`.
pub(crate) fn db(args: &DbArgs) -> CommandResult {
    match &args.command {
        DbCommand::List(args) => db_list(args),
        DbCommand::Show(args) => db_show(args),
    }
}

fn db_list(args: &DbListArgs) -> CommandResult {
    let (found, status) = with(&args.of, |reach| {
        of_each(reach, &args.of, &Request::Databases, |found, answer| match answer {
            Answer::Names(names) => Some(Databases { domain: found.domain.clone(), names }),
            _ => None,
        })
    })?;
    show::databases(&found, args.output)?;
    Ok(status)
}

fn db_show(args: &DbShowArgs) -> CommandResult {
    // The name of a group's database contains the name of its domain.
    let domain = args.of.domain.as_deref().or_else(|| named_by(&args.name));
    let pairs = with(&args.of, |reach| {
        let found = one_of(reach.domains()?, domain, &reach.nothing())?;
        match reach.ask(&found, &Request::Iterate(args.name.clone()), ASK)? {
            Answer::Pairs(pairs) => Ok(pairs),
            other => Err(unexpected(&found, &other)),
        }
    })?;
    show::pairs(&pairs, args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens what the arguments select, uses it, and closes it.
fn with<T>(of: &DomainArgs, act: impl FnOnce(&Reach) -> Result<T, Failure>) -> Result<T, Failure> {
    let reach = Reach::open(of)?;
    let done = act(&reach);
    reach.close();
    done
}

/// Returns the domain in the name of a group's database.
fn named_by(database: &str) -> Option<&str> {
    let (domain, group) = database.strip_prefix("kvs_")?.rsplit_once('_')?;
    let plain = |text: &str, is: fn(u8) -> bool| !text.is_empty() && text.bytes().all(is);
    (plain(domain, |byte| byte.is_ascii_hexdigit()) && plain(group, |byte| byte.is_ascii_digit()))
        .then_some(domain)
}

/// Runs `gpc kill`.
pub(crate) fn kill(args: &KillArgs) -> CommandResult {
    with(&args.of, |reach| {
        let found = one_of(reach.domains()?, args.of.domain.as_deref(), &reach.nothing())?;
        match reach.ask(&found, &Request::Kill(args.group), Limits::default().grace + KILLED)? {
            Answer::Done => Ok(ExitCode::SUCCESS),
            other => Err(unexpected(&found, &other)),
        }
    })
}

/// Sends a request to each selected domain, and collects the expected answers. A domain that does not answer is
/// reported, and the exit status is then that of a failure.
fn of_each<T>(
    reach: &Reach,
    of: &DomainArgs,
    request: &Request,
    take: impl Fn(&DomainLocation, Answer) -> Option<T>,
) -> Result<(Vec<T>, ExitCode), Failure> {
    let domains = reach.domains()?;
    let domains = match &of.domain {
        Some(domain) => vec![one_of(domains, Some(domain), &reach.nothing())?],
        None => domains,
    };
    let mut status = ExitCode::SUCCESS;
    let mut taken = Vec::new();
    for found in &domains {
        match reach.ask(found, request, ASK) {
            Ok(answer) => taken.extend(take(found, answer)),
            // It may have ended just now, like the domains that are no longer listed.
            Err(_) if reach.has_ended(found) => {}
            Err(error) => {
                say(&error.to_string());
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok((taken, status))
}

/// Returns the one selected domain. `nothing` is the error for the case that there is none at all.
fn one_of(
    domains: Vec<DomainLocation>,
    domain: Option<&str>,
    nothing: &str,
) -> Result<DomainLocation, Refused> {
    let mut found: Vec<DomainLocation> = domains
        .into_iter()
        .filter(|found| domain.is_none_or(|begin| found.domain.starts_with(begin)))
        .collect();
    match (found.pop(), domain) {
        (Some(one), _) if found.is_empty() => Ok(one),
        (Some(one), _) => {
            let names = found.iter().chain([&one]).take(NAMED_MAX).map(|found| found.domain.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            Err(format!("{} domains are meant: choose one with --domain: {names}", found.len() + 1).into())
        }
        (None, Some(domain)) => Err(Refused::File(format!(
            "no domain that runs has a name that begins with {}; `gpc ps` shows them",
            Shown(domain)
        ))),
        (None, None) => Err(Refused::File(nothing.into())),
    }
}

fn unexpected(found: &DomainLocation, answer: &Answer) -> Failure {
    let text = format!("{answer:?}");
    format!("the head of domain {} answers something else: {}", found.domain, Shown(&text)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(domain: &str) -> DomainLocation {
        DomainLocation { domain: domain.into(), way: DomainAccess::By(vec![1]) }
    }

    #[test]
    fn a_domain_is_meant_by_the_beginning_of_its_name() {
        let domains = || vec![found("3f00"), found("3f01"), found("a000")];
        let one_of = |domains, domain| one_of(domains, domain, "nothing runs");
        assert_eq!(one_of(domains(), Some("3f01")), Ok(found("3f01")));
        assert_eq!(one_of(domains(), Some("a")), Ok(found("a000")));
        let error = one_of(domains(), Some("3f")).unwrap_err();
        assert_eq!(error, "2 domains are meant: choose one with --domain: 3f00, 3f01".into());
        assert!(matches!(one_of(domains(), None), Err(Refused::Usage(_))));
        assert!(matches!(one_of(domains(), Some("b")), Err(Refused::File(_))));
        assert_eq!(one_of(vec![found("a")], None), Ok(found("a")));
        assert!(matches!(one_of(vec![], None), Err(Refused::File(text)) if text == "nothing runs"));
    }

    #[test]
    fn the_database_of_a_group_says_its_domain() {
        assert_eq!(named_by("kvs_3f0c_12"), Some("3f0c"));
        for other in ["prices", "kvs_3f0c", "kvs__1", "kvs_3f0c_", "kvs_x_1", "kvs_3f0c_1a"] {
            assert_eq!(named_by(other), None, "{other}");
        }
    }
}

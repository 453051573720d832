//! `gpc ps`, `gpc db` and `gpc kill`: they ask the heads of the domains that this user runs on this machine.

use std::process::ExitCode;
use std::time::Duration;

use chained_gpc::wire::Shown;
use gpc_bnr::client::Tool;
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{Fault, Limits};

use super::heads::{self, Head};
use super::show::{self, Databases, Groups};
use crate::args::run::{DbArgs, DbCommand, DbListArgs, DbShowArgs, DomainArgs, KillArgs, PsArgs};
use crate::refused::Refused;
use crate::{CommandResult, say};

/// How long a head may take to answer: it may ask all its nodes.
const ASK: Duration = Duration::from_secs(70);

/// How long processes that are killed may take to end, beyond what they are given between SIGTERM and SIGKILL.
const KILLED: Duration = Duration::from_secs(60);

/// How many domains an error names.
const NAMED_MAX: usize = 8;

/// What goes wrong, in words.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs `gpc ps`.
pub(crate) fn ps(args: &PsArgs) -> CommandResult {
    let found = of_each(&args.of, Request::Groups, |head, answer| match answer {
        Answer::Groups(groups) => Some(Groups { domain: head.domain.clone(), pid: head.pid, groups }),
        _ => None,
    })?;
    show::groups(&found.0, args.output)?;
    Ok(found.1)
}

/// Runs `gpc db`.
pub(crate) fn db(args: &DbArgs) -> CommandResult {
    match &args.command {
        DbCommand::List(args) => db_list(args),
        DbCommand::Show(args) => db_show(args),
    }
}

fn db_list(args: &DbListArgs) -> CommandResult {
    let found = of_each(&args.of, Request::Databases, |head, answer| match answer {
        Answer::Names(names) => Some(Databases { domain: head.domain.clone(), names }),
        _ => None,
    })?;
    show::databases(&found.0, args.output)?;
    Ok(found.1)
}

fn db_show(args: &DbShowArgs) -> CommandResult {
    let head = match (&args.of.domain, named_by(&args.name)) {
        // The name of a group's database says whose it is.
        (None, Some(domain)) => one_of(heads::running(), Some(domain))?,
        (domain, _) => one_of(heads::running(), domain.as_deref())?,
    };
    match ask(&head, Request::Iterate(args.name.clone()), ASK)? {
        Answer::Pairs(pairs) => show::pairs(&pairs, args.output)?,
        other => return Err(unexpected(&head, &other)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The domain of a group's database, which its name says.
fn named_by(database: &str) -> Option<&str> {
    let (domain, group) = database.strip_prefix("kvs_")?.rsplit_once('_')?;
    let plain = |text: &str, is: fn(u8) -> bool| !text.is_empty() && text.bytes().all(is);
    (plain(domain, |byte| byte.is_ascii_hexdigit()) && plain(group, |byte| byte.is_ascii_digit()))
        .then_some(domain)
}

/// Runs `gpc kill`.
pub(crate) fn kill(args: &KillArgs) -> CommandResult {
    let head = one_of(heads::running(), args.of.domain.as_deref())?;
    match ask(&head, Request::Kill(args.group), Limits::default().grace + KILLED)? {
        Answer::Done => Ok(ExitCode::SUCCESS),
        other => Err(unexpected(&head, &other)),
    }
}

/// Asks each domain that is meant, and takes what is expected of the answers. One that does not answer is said, and the exit status tells it.
fn of_each<T>(
    of: &DomainArgs,
    request: Request,
    take: impl Fn(&Head, Answer) -> Option<T>,
) -> Result<(Vec<T>, ExitCode), Failure> {
    let heads = heads::running();
    let heads = match &of.domain {
        Some(domain) => vec![one_of(heads, Some(domain))?],
        None => heads,
    };
    let mut status = ExitCode::SUCCESS;
    let mut found = Vec::new();
    for head in &heads {
        match ask(head, request.clone(), ASK) {
            Ok(answer) => found.extend(take(head, answer)),
            // It may have ended in this moment, like those that are not there any more.
            Err(_) if !heads::running().contains(head) => {}
            Err(error) => {
                say(&error.to_string());
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok((found, status))
}

/// The one domain that is meant.
fn one_of(heads: Vec<Head>, domain: Option<&str>) -> Result<Head, Refused> {
    let mut found: Vec<Head> =
        heads.into_iter().filter(|head| domain.is_none_or(|begin| head.domain.starts_with(begin))).collect();
    match (found.pop(), domain) {
        (Some(head), _) if found.is_empty() => Ok(head),
        (Some(head), _) => {
            let names = found.iter().chain([&head]).take(NAMED_MAX).map(|head| head.domain.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            Err(format!("{} domains are meant: choose one with --domain: {names}", found.len() + 1).into())
        }
        (None, Some(domain)) => Err(Refused::File(format!(
            "this user runs no domain on this machine whose name begins with {}; `gpc ps` shows them",
            Shown(domain)
        ))),
        (None, None) => Err(Refused::File(
            "this user runs nothing on this machine: there is no `gpc run` that could be asked".into(),
        )),
    }
}

fn ask(head: &Head, request: Request, limit: Duration) -> Result<Answer, Failure> {
    let unreached = |why: &dyn std::fmt::Display| {
        format!("the head of domain {} (process {}) does not answer: {why}", head.domain, head.pid)
    };
    let tool = Tool::connect(&head.path, limit).map_err(|error| unreached(&error))?;
    tool.ask(&request).map_err(|fault: Fault| {
        let text = fault.to_string();
        format!("domain {}: {}", head.domain, Shown(&text)).into()
    })
}

fn unexpected(head: &Head, answer: &Answer) -> Failure {
    let text = format!("{answer:?}");
    format!("the head of domain {} answers something else: {}", head.domain, Shown(&text)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(domain: &str) -> Head {
        Head { domain: domain.into(), pid: 1, path: "/nowhere".into() }
    }

    #[test]
    fn a_domain_is_meant_by_the_beginning_of_its_name() {
        let heads = || vec![head("3f00"), head("3f01"), head("a000")];
        assert_eq!(one_of(heads(), Some("3f01")), Ok(head("3f01")));
        assert_eq!(one_of(heads(), Some("a")), Ok(head("a000")));
        let error = one_of(heads(), Some("3f")).unwrap_err();
        assert_eq!(error, "2 domains are meant: choose one with --domain: 3f00, 3f01".into());
        assert!(matches!(one_of(heads(), None), Err(Refused::Usage(_))));
        assert!(matches!(one_of(heads(), Some("b")), Err(Refused::File(_))));
        assert_eq!(one_of(vec![head("a")], None), Ok(head("a")));
        assert!(matches!(one_of(vec![], None), Err(Refused::File(text)) if text.contains("runs nothing")));
    }

    #[test]
    fn the_database_of_a_group_says_its_domain() {
        assert_eq!(named_by("kvs_3f0c_12"), Some("3f0c"));
        for other in ["prices", "kvs_3f0c", "kvs__1", "kvs_3f0c_", "kvs_x_1", "kvs_3f0c_1a"] {
            assert_eq!(named_by(other), None, "{other}");
        }
    }
}

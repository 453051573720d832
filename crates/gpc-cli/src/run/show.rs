//! Output of the tools: groups, databases and pairs, as tables for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use chained_gpc::wire::shown::is_obeyed;
use gpc_bnr::Exit;
use gpc_bnr::names::Rank;
use gpc_bnr::request::{GroupState, GroupStatus, MemberStatus, Pair};
use gpc_trees::Id;
use serde::Serialize;

use super::ranks;
use crate::args::run::ShownAs;
use crate::duration::brief;
use crate::output::{Align, Width, write_columns, write_json};
use crate::stdout;

/// Minimum width of a value on a terminal, in characters, however long its key is.
const VALUE_MIN: usize = 20;

/// The groups of a domain.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub(super) domain: String,
    /// Process number of its head, if that is on this machine.
    pub(super) pid: Option<u32>,
    pub(super) groups: Vec<GroupStatus>,
}

/// The databases of a domain.
#[derive(Clone, Debug)]
pub(super) struct Databases {
    pub(super) domain: String,
    pub(super) names: Vec<String>,
}

/// Prints groups.
///
/// # Errors
/// If the output fails.
pub(super) fn groups(found: &[Groups], shown_as: ShownAs) -> io::Result<()> {
    stdout::write(|out| match shown_as {
        ShownAs::Table => write_groups(found, out),
        ShownAs::Json => {
            write_json(&DomainsShape { domains: found.iter().map(DomainShape::of).collect() }, out)
        }
    })
}

/// Prints the names of databases.
///
/// # Errors
/// If the output fails.
pub(super) fn databases(found: &[Databases], shown_as: ShownAs) -> io::Result<()> {
    stdout::write(|out| match shown_as {
        ShownAs::Table => {
            let lines: Vec<_> = found
                .iter()
                .flat_map(|of| of.names.iter().map(|name| vec![of.domain.clone(), escaped(name.as_bytes())]))
                .collect();
            write_columns(&[("domain", Align::Left), ("database", Align::Left)], &lines, out)
        }
        ShownAs::Json => {
            let domains = found.iter().map(|of| NamesShape { domain: &of.domain, databases: &of.names });
            write_json(&DomainsShape { domains: domains.collect() }, out)
        }
    })
}

/// Prints the content of a database.
///
/// # Errors
/// If the output fails.
pub(super) fn pairs(found: &[Pair], shown_as: ShownAs) -> io::Result<()> {
    let pair = |pair: &Pair| PairShape { key: escaped(&pair.key), value: escaped(&pair.value) };
    let pairs: Vec<PairShape> = found.iter().map(pair).collect();
    stdout::write(|out| match shown_as {
        ShownAs::Table => write_pairs(&pairs, Width::of_stdout(), out),
        ShownAs::Json => write_json(&PairsShape { pairs }, out),
    })
}

fn write_groups(found: &[Groups], out: &mut dyn Write) -> io::Result<()> {
    let columns = [
        ("domain", Align::Left),
        ("group", Align::Left),
        ("ranks", Align::Left),
        ("state", Align::Left),
        ("node", Align::Right),
        ("time", Align::Right),
        ("program", Align::Left),
    ];
    let mut lines = Vec::new();
    for of in found {
        for group in &of.groups {
            let line = |ranks: &str, state: &str, node: &str| {
                [
                    &of.domain,
                    &group.group.to_string(),
                    ranks,
                    state,
                    node,
                    &brief(group.age),
                    &escaped(&group.program),
                ]
                .map(str::to_owned)
                .to_vec()
            };
            let parts = parts(group);
            if parts.is_empty() {
                lines.push(line("", state_of(group.state), ""));
            }
            for ((node, state), members) in parts {
                lines.push(line(&ranks::shown(members), &state, &node.to_string()));
            }
        }
    }
    write_columns(&columns, &lines, out)
}

/// Returns the ranks of a group by node and state.
fn parts(group: &GroupStatus) -> BTreeMap<(Id, String), Vec<Rank>> {
    let mut parts = BTreeMap::<(Id, String), Vec<Rank>>::new();
    for member in &group.members {
        parts.entry((member.node, state_of_member(group, member))).or_default().push(member.rank);
    }
    parts
}

fn state_of_member(group: &GroupStatus, member: &MemberStatus) -> String {
    let Some(death) = &member.death else { return state_of(group.state).into() };
    match death.exit {
        Exit::Code(0) if !death.finalized => "ended 0, not finalized".into(),
        Exit::Code(code) => format!("ended {code}"),
        Exit::Signal(signal) => format!("killed {signal}"),
        Exit::OutOfMemory => "out of memory".into(),
        Exit::Node(_) => "lost".into(),
        Exit::Never => "never started".into(),
    }
}

fn state_of(state: GroupState) -> &'static str {
    match state {
        GroupState::Open => "open",
        GroupState::Starting => "starting",
        GroupState::Running => "running",
        GroupState::Killed => "being killed",
        GroupState::Ended => "ended",
        GroupState::Derived => "derived",
    }
}

fn write_pairs(pairs: &[PairShape], width: Width, out: &mut dyn Write) -> io::Result<()> {
    let longest = pairs.iter().map(|pair| pair.key.chars().count()).max().unwrap_or(0);
    for PairShape { key, value } in pairs {
        match width {
            Width::Columns(columns) => {
                let room = columns.saturating_sub(longest + 2).max(VALUE_MIN);
                writeln!(out, "{key:<longest$}  {}", cut(value, room))?;
            }
            Width::Unlimited => writeln!(out, "{key:<longest$}  {value}")?,
        }
    }
    Ok(())
}

/// Cuts a text to at most this number of characters, the last of which is then `…`.
fn cut(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
        None => text.into(),
    }
}

/// Formats bytes as reversible text without terminal control characters: a byte that is not UTF-8 is `\xff`, a
/// backslash is written twice.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if is_obeyed(c) => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string never fails.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[derive(Serialize)]
struct DomainsShape<T> {
    domains: Vec<T>,
}

#[derive(Serialize)]
struct DomainShape<'a> {
    domain: &'a str,
    head: Option<u32>,
    groups: Vec<GroupShape<'a>>,
}

#[derive(Serialize)]
struct GroupShape<'a> {
    group: String,
    parent: Option<String>,
    state: &'static str,
    database: &'a str,
    program: String,
    age_ms: u64,
    members: Vec<MemberShape>,
}

#[derive(Serialize)]
struct MemberShape {
    rank: Rank,
    node: Id,
    pid: Option<u32>,
    ended: bool,
    status: Option<u8>,
    signal: Option<u8>,
}

#[derive(Serialize)]
struct NamesShape<'a> {
    domain: &'a str,
    databases: &'a [String],
}

#[derive(Serialize)]
struct PairsShape {
    pairs: Vec<PairShape>,
}

#[derive(Serialize)]
struct PairShape {
    key: String,
    value: String,
}

impl DomainShape<'_> {
    fn of(found: &Groups) -> DomainShape<'_> {
        let groups = found.groups.iter().map(GroupShape::of).collect();
        DomainShape { domain: &found.domain, head: found.pid, groups }
    }
}

impl GroupShape<'_> {
    fn of(found: &GroupStatus) -> GroupShape<'_> {
        GroupShape {
            group: found.group.to_string(),
            parent: found.parent.map(|parent| parent.to_string()),
            state: state_of(found.state),
            database: &found.database,
            program: escaped(&found.program),
            age_ms: u64::try_from(found.age.as_millis()).unwrap_or(u64::MAX),
            members: found.members.iter().map(MemberShape::of).collect(),
        }
    }
}

impl MemberShape {
    fn of(found: &MemberStatus) -> MemberShape {
        let exit = found.death.as_ref().map(|death| death.exit);
        let (status, signal) = match exit {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            Some(Exit::OutOfMemory) => (None, Some(9)),
            _ => (None, None),
        };
        MemberShape {
            rank: found.rank,
            node: found.node,
            pid: found.pid,
            ended: exit.is_some(),
            status,
            signal,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpc_bnr::Death;
    use gpc_bnr::names::{GroupId, Member};
    use proptest::prelude::*;

    use super::*;

    fn running() -> GroupStatus {
        let member = |rank: Rank| {
            let member = Member { group: GroupId(1), rank };
            let death = (rank == 5).then_some(Death { member, exit: Exit::Signal(9), finalized: true });
            MemberStatus { rank, node: rank / 4, pid: Some(100 + rank), death }
        };
        GroupStatus {
            group: GroupId(1),
            parent: None,
            state: GroupState::Running,
            database: "kvs_3f_1".into(),
            program: b"./a\x1b[2J".to_vec(),
            age: Duration::from_secs(61),
            members: (0..8).map(member).collect(),
        }
    }

    #[test]
    fn a_group_has_a_line_for_each_node_and_state() {
        let open = GroupStatus { group: GroupId(2), state: GroupState::Open, members: vec![], ..running() };
        let found = [Groups { domain: "3f".into(), pid: Some(7), groups: vec![running(), open] }];
        let mut out = Vec::new();
        write_groups(&found, &mut out).unwrap();
        let expected = "\
domain  group  ranks  state     node   time  program
3f      g1     0-3    running      0  1m01s  ./a\\u{1b}[2J
3f      g1     5      killed 9     1  1m01s  ./a\\u{1b}[2J
3f      g1     4,6-7  running      1  1m01s  ./a\\u{1b}[2J
3f      g2            open            1m01s  ./a\\u{1b}[2J
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn programs_get_every_process() {
        let found = Groups { domain: "3f".into(), pid: Some(7), groups: vec![running()] };
        let json = serde_json::to_value(DomainShape::of(&found)).unwrap();
        assert_eq!(json["head"], 7);
        assert_eq!(json["groups"][0]["age_ms"], 61_000);
        let members = json["groups"][0]["members"].as_array().unwrap();
        assert_eq!(
            (members.len(), &members[5]["signal"], &members[5]["ended"]),
            (8, &9.into(), &true.into())
        );
        assert_eq!((&members[4]["pid"], &members[4]["status"]), (&104.into(), &serde_json::Value::Null));
    }

    #[test]
    fn long_values_are_cut_on_a_terminal_alone() {
        let pairs = [("a", "x".repeat(50)), ("long", "y".into())];
        let pairs = pairs.map(|(key, value)| PairShape { key: key.into(), value });
        let text = |width| {
            let mut out = Vec::new();
            write_pairs(&pairs, width, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Width::Columns(30)), format!("a     {}…\nlong  y\n", "x".repeat(23)));
        assert_eq!(text(Width::Unlimited), format!("a     {}\nlong  y\n", "x".repeat(50)));
    }

    /// Returns the bytes of an escaped text.
    fn unescaped(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let (mut made, taken) = (c.to_string().into_bytes(), c.len_utf8());
            let taken = match (c, rest.as_bytes().get(1)) {
                ('\\', Some(b'x')) => {
                    made = vec![u8::from_str_radix(&rest[2..4], 16).unwrap()];
                    4
                }
                ('\\', Some(b'u')) => {
                    let end = rest.find('}').unwrap();
                    let code = u32::from_str_radix(&rest[3..end], 16).unwrap();
                    made = char::from_u32(code).unwrap().to_string().into_bytes();
                    end + 1
                }
                ('\\', Some(known)) => {
                    made = vec![match known {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        other => *other,
                    }];
                    2
                }
                _ => taken,
            };
            bytes.extend(made);
            rest = &rest[taken..];
        }
        bytes
    }

    proptest! {
        #[test]
        fn what_is_escaped_can_be_made_again(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = escaped(&bytes);
            prop_assert!(!text.chars().any(is_obeyed), "{:?}", text);
            prop_assert_eq!(unescaped(&text), bytes);
        }
    }
}

//! Checks that the worlds reach everything: each statement of the protocols, rule of the checkers, kind of fault and
//! theme, in the default swarms.
//!
//! `unreached.txt` lists what no run reaches, with the reason. Anything else that is not reached is an error, and so
//! does an entry that is reached or no longer exists. `.ci/coverage` prints the counts.

#![allow(clippy::print_stdout, reason = "the counts are what it is run for")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpc_sim::Fault;
use gpc_sim::peering::Fault as PeeringFault;
use serde_json::Value;

use super::build::{SHARED, build_changed};
use super::counters::{Place, Rule, counted};
use super::file::NOT_SIMULATED;
use super::swarms::{Mode, default_modes};
use super::{Run, root, side_by_side, simulate_with};

/// Folder of the test build.
const FOLDER: &str = "reached";

/// Environment variable with the file to which a process writes its counters at its end.
const WRITTEN: &str = "GPC_REACHED";

/// The protocols, whose every statement must be reached.
const PROTOCOLS: [&str; 2] = ["src/chain/", "src/link/peering/"];

/// The checkers of calls. Their complaints need not be reached, but the conditions for them.
const CHECKERS: [&str; 1] = ["crates/gpc-sim/src/check/"];

/// Texts by which a checker builds a complaint.
const COMPLAINS: [&str; 7] =
    [".add(", "format!(", ".to_owned()", "|| \"", "Some(\"", "error.to_string()", "|what|"];

/// Call at the end of the program, and its replacement, which writes the counters.
const MAIN: [&str; 3] = [
    "crates/gpc-cli/src/main.rs",
    "gpc_cli::main()",
    "{ let status = gpc_cli::main(); gpc_trees::write_reached(); status }",
];

/// Name of the report, in the folder for files of tests.
const REPORT: &str = "reached.txt";

/// File with all that no run reaches, and why.
const LIST: &str = "crates/gpc-cli/tests/planted/unreached.txt";

/// Prefix of the reason for a place that only some draws reach in this number of runs.
const SELDOM: &str = "Seldom: ";

/// Far more than the worlds of one mode take.
const PATIENCE: Duration = Duration::from_secs(900);

/// Minimum length of a text that identifies a place by itself.
const WORD: usize = 16;

/// Maximum length of the text of an entry.
const TEXT_MAX: usize = 120;

/// The counters, added to the end of the crate that all others use.
const COUNTS: &str = "
static REACHED: [std::sync::atomic::AtomicU64; PLACES] = [const { std::sync::atomic::AtomicU64::new(0) }; PLACES];

/// A place is reached.
pub fn reached(place: usize) {
    REACHED[place].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// Writes how often each place was reached.
pub fn write_reached() {
    let Ok(path) = std::env::var(\"GPC_REACHED\") else { return };
    let counts = REACHED.iter().map(|count| count.load(std::sync::atomic::Ordering::Relaxed).to_string());
    std::fs::write(path, counts.collect::<Vec<String>>().join(\"\\n\")).expect(\"the counts can be written\");
}
";

/// All counted places and rules, and the sources.
#[derive(Default)]
struct Counters {
    places: Vec<Place>,
    rules: Vec<Rule>,
    texts: BTreeMap<String, String>,
}

/// A place that is not reached although all before it is; it represents the rest of its block.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Hole {
    /// File and function.
    head: String,
    /// First line of its text.
    text: String,
    line: usize,
    /// Number of places that are not reached because of it, itself included.
    places: usize,
}

impl Counters {
    /// Makes a test build with counters.
    fn build() -> (Counters, PathBuf) {
        let (mut counters, mut made) = (Counters::default(), 0);
        let mut change = |name: &str, text: &str| -> String {
            if name == SHARED {
                // The files with counters have been processed before.
                made = counters.places.len();
                return format!("{text}{}", COUNTS.replace("PLACES", &made.to_string()));
            }
            if name == MAIN[0] {
                assert!(text.contains(MAIN[1]), "{name} calls `{}`", MAIN[1]);
                return text.replace(MAIN[1], MAIN[2]);
            }
            if !is_counted(name) {
                return text.into();
            }
            let counted = counted(name, text, counters.places.len()).unwrap_or_else(|why| panic!("{why}"));
            counters.places.extend(counted.places);
            counters.rules.extend(counted.rules);
            counters.texts.insert(name.into(), text.into());
            counted.text
        };
        let gpc = build_changed(FOLDER, &mut change);
        assert!(made > 0 && made == counters.places.len(), "{SHARED} comes behind all files with counters");
        (counters, gpc)
    }

    /// Adds up the counts of the worlds of these modes; also returns the runs.
    fn count(&self, gpc: &Path, modes: &[Mode]) -> (Vec<u64>, Vec<Run>) {
        let folder = tempfile::tempdir().unwrap();
        let written = |mode: &Mode| folder.path().join(&mode.name);
        let runs = side_by_side(modes, |mode| {
            simulate_with(gpc, &mode.sim, Some((WRITTEN, written(mode).as_os_str())), PATIENCE)
        });
        let mut counts = vec![0; self.places.len()];
        for (mode, run) in modes.iter().zip(&runs) {
            assert!(run.status == Some(0) && run.checkers.is_empty(), "gpc sim {}:\n{}", mode.sim, run.said);
            let text = std::fs::read_to_string(written(mode)).unwrap();
            assert_eq!(text.lines().count(), counts.len(), "{}", mode.sim);
            let numbers = text.lines().map(|line| line.parse::<u64>().unwrap());
            counts.iter_mut().zip(numbers).for_each(|(count, number)| *count += number);
        }
        (counts, runs)
    }

    /// Returns the holes, and for each unreached place its hole. The complaints of checkers need not be reached.
    fn holes(&self, counts: &[u64]) -> (Vec<Hole>, BTreeMap<usize, Option<usize>>) {
        let unreached = |place: &usize| counts[*place] == 0;
        let mut holes: Vec<Hole> = Vec::new();
        // The hole of each unreached place. The places that it is behind come before it.
        let mut of: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for (number, place) in self.places.iter().enumerate().filter(|(number, _)| unreached(number)) {
            if let Some(before) = place.behind.iter().find(|before| unreached(before)) {
                let hole = of[before];
                of.insert(number, hole);
                if let Some(hole) = hole {
                    holes[hole].places += 1;
                }
                continue;
            }
            let text = &self.texts[&place.file];
            let complains = is_of(&place.file, &CHECKERS)
                && COMPLAINS.iter().any(|with| text[place.at.start..place.until].contains(with));
            of.insert(number, (!complains).then_some(holes.len()));
            if !complains {
                let first = |place: &Place| text[place.at.clone()].lines().next().unwrap_or_default().trim();
                // A single word is found again by the text around it.
                let inside = place.behind.first().map(|inside| first(&self.places[*inside]));
                let shown = match inside {
                    Some(inside) if first(place).len() < WORD => inside.to_owned() + " … " + first(place),
                    _ => first(place).to_owned(),
                };
                let text = shown.chars().take(TEXT_MAX).collect();
                holes.push(Hole {
                    head: format!("{} {}", place.file, place.function),
                    text,
                    line: place.line,
                    places: 1,
                });
            }
        }
        (holes, of)
    }
}

/// Known holes: a head, the unreached texts in it, and the reason.
#[derive(Clone, Debug)]
struct KnownHoles {
    head: String,
    texts: Vec<String>,
    reason: String,
}

/// Parses the entries of a list: `== FILE FUNCTION`, lines `- first line of an unreached text`, and the reason.
///
/// # Errors
/// The number of the line, what is wrong with it, and what to do.
fn known(text: &str) -> Result<Vec<KnownHoles>, String> {
    let mut entries: Vec<KnownHoles> = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'))
    {
        match (line.strip_prefix("== "), line.strip_prefix("- "), entries.last_mut()) {
            (Some(head), _, _) => {
                entries.push(KnownHoles { head: head.into(), texts: Vec::new(), reason: String::new() })
            }
            (None, Some(text), Some(entry)) if entry.reason.is_empty() => entry.texts.push(text.into()),
            (None, None, Some(entry)) if !entry.texts.is_empty() => {
                entry.reason.push_str(line);
            }
            _ => {
                return Err(format!(
                    "{number}: {line:.80?}: write `== FILE FUNCTION`, then `- what is not reached`, then the reason"
                ));
            }
        }
    }
    match entries.iter().find(|entry| entry.reason.is_empty()) {
        Some(entry) => Err(format!("{}: why is it not reached? Add a line with the reason", entry.head)),
        None => Ok(entries),
    }
}

/// Returns unreached places without an entry, and entries that are reached or do not exist. A seldom reached place may
/// be either.
fn unexplained(holes: &[Hole], known: &[KnownHoles]) -> (Vec<Hole>, Vec<(String, String)>) {
    let seldom = |entry: &KnownHoles| entry.reason.starts_with(SELDOM);
    let (seldom, never): (Vec<&KnownHoles>, Vec<&KnownHoles>) = known.iter().partition(|entry| seldom(entry));
    let is_seldom =
        |hole: &Hole| seldom.iter().any(|entry| entry.head == hole.head && entry.texts.contains(&hole.text));
    let holes = holes.iter().filter(|hole| !is_seldom(hole));
    let mut listed: Vec<(String, String)> = never
        .iter()
        .flat_map(|entry| entry.texts.iter().map(|text| (entry.head.clone(), text.clone())))
        .collect();
    let mut new = Vec::new();
    for hole in holes {
        match listed.iter().position(|(head, text)| *head == hole.head && *text == hole.text) {
            Some(at) => drop(listed.remove(at)),
            None => new.push(hole.clone()),
        }
    }
    (new, listed)
}

/// Returns the kinds of faults and the themes that no run had; adds the number of each to the report.
fn never(runs: &[Run], report: &mut Vec<String>) -> Vec<String> {
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for fault in Fault::ALL {
        times.insert(format!("fault {fault}"), 0);
    }
    for fault in PeeringFault::ALL {
        times.insert(format!("fault of links {}", fault.name()), 0);
    }
    for run in runs {
        let entries = |name: &str| run.summary[name].as_array().cloned().unwrap_or_default();
        let mut add = |what: String, entry: &Value| {
            *times.entry(what).or_default() += entry.as_u64().unwrap_or_default()
        };
        for entry in entries("injected") {
            match entry.get("fault") {
                Some(fault) => add(format!("fault of links {}", text(fault)), &entry["times"]),
                None => add(format!("fault {}", text(&entry[0])), &entry[1]),
            }
        }
        for entry in entries("themes") {
            add(format!("theme {}", text(&entry[0])), &entry[1]);
        }
    }
    report.extend(times.iter().map(|(what, count)| format!("{count:>10}  {what}")));
    times.into_iter().filter(|(_, count)| *count == 0).map(|(what, _)| what).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_of(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.starts_with(part))
}

fn is_counted(name: &str) -> bool {
    !NOT_SIMULATED.contains(&name)
        && name.ends_with(".rs")
        && !name.ends_with("tests.rs")
        && (is_of(name, &PROTOCOLS) || is_of(name, &CHECKERS))
}

/// Checks that the worlds reach everything, or that the list explains why not.
///
/// # Errors
/// What is wrong, a line each, and what to do.
pub(super) fn check() -> Result<(), String> {
    let (counters, gpc) = Counters::build();
    let (counts, runs) = counters.count(&gpc, &default_modes());
    let mut report = Vec::new();
    let never = never(&runs, &mut report);
    let mut wrong: Vec<String> = never.into_iter().map(|what| format!("never: {what}")).collect();
    let (holes, hole_of) = counters.holes(&counts);
    for Rule { file, line, judged } in &counters.rules {
        report.push(format!("{:>10}  rule {file}:{line}", counts[*judged]));
        // If the deciding place is itself on the list, its entry has the reason.
        if hole_of.get(judged).is_some_and(Option::is_none) {
            wrong.push(format!("no run comes to judge by the rule at {file}:{line}"));
        }
    }
    let known = known(&read_list()).unwrap_or_else(|why| panic!("{LIST}:{why}"));
    let (new, stale) = unexplained(&holes, &known);
    for file in counters.texts.keys() {
        let of = |counted: &dyn Fn(usize) -> bool| {
            (0..counts.len()).filter(|place| counters.places[*place].file == *file && counted(*place)).count()
        };
        let (reached, all) = (of(&|place| counts[place] > 0), of(&|_| true));
        report.push(format!("{reached:>10} of {all:>4} reached  {file}"));
    }
    for Hole { head, text, line, places } in &holes {
        let file = head.split(' ').next().unwrap_or_default();
        report.push(format!("unreached {file}:{line} ({places})  {text}"));
    }
    let report = report.join("\n");
    println!("{report}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(REPORT);
    std::fs::write(&path, report).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    wrong
        .extend(new.iter().map(|Hole { head, text, line, .. }| {
            format!("no run reaches line {line}:\n== {head}\n- {text}")
        }));
    wrong.extend(stale.iter().map(|(head, text)| {
        format!("{LIST}: this is reached or is not there any more, remove it:\n== {head}\n- {text}")
    }));
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "reach it (a fault, a profile, a test and an entry of {LIST} with the reason):\n{}",
            wrong.join("\n")
        )),
    }
}

fn read_list() -> String {
    std::fs::read_to_string(root().join(LIST)).unwrap()
}

#[test]
fn what_is_counted_is_what_was_meant() {
    let code = "fn f(a: u32, b: Option<u32>) -> bool {\n    let Some(b) = b else { return false };\n    if a < b && b > 7 {\n        g(|x| x + 1);\n    }\n    match a {\n        1 if b == 2 => true,\n        _ => false,\n    }\n}\n\nconst fn c() -> u32 {\n    1\n}\n";
    let done = counted("src/x.rs", code, 5).unwrap();
    let texts: Vec<&str> =
        done.places.iter().map(|place| code[place.at.clone()].lines().next().unwrap()).collect();
    let expected = [
        "let Some(b) = b else { return false };",
        "if a < b && b > 7 {",
        "b > 7",
        "g(|x| x + 1);",
        "|x| x + 1",
        "match a {",
        "b == 2",
        "1 if b == 2 => true,",
        "_ => false,",
    ];
    assert_eq!(texts, expected);
    assert!(done.text.contains("if a < b && { gpc_trees::reached(7); b > 7 } {"), "{}", done.text);
    assert!(
        done.text.contains("1 if { gpc_trees::reached(11); b == 2 } => { gpc_trees::reached(12); true },")
    );
    assert!(done.text.contains("g(|x| { gpc_trees::reached(9); x + 1 });"));
    assert!(syn::parse_file(&done.text).is_ok() && done.text.ends_with("const fn c() -> u32 {\n    1\n}\n"));

    let counters = Counters {
        places: counted("src/x.rs", code, 0).unwrap().places,
        texts: [("src/x.rs".into(), code.into())].into(),
        ..Counters::default()
    };
    let (holes, _) = counters.holes(&[1, 1, 0, 0, 0, 1, 1, 0, 1]);
    let shown: Vec<(&str, usize)> = holes.iter().map(|hole| (hole.text.as_str(), hole.places)).collect();
    assert_eq!(shown, [("if a < b && b > 7 { … b > 7", 3), ("1 if b == 2 => true,", 1)]);
    let entry = |text: &str| known(&format!("== src/x.rs f\n- {text}\nWhy not.\n")).unwrap();
    let (new, stale) = unexplained(&holes, &entry("1 if b == 2 => true,"));
    assert!(new.len() == 1 && stale.is_empty(), "{new:?} {stale:?}");
    let (new, stale) = unexplained(&holes, &entry("gone"));
    assert!(new.len() == 2 && stale.len() == 1, "{new:?} {stale:?}");
    assert!(known("== src/x.rs f\n- a\n").unwrap_err().contains("why is it not reached?"));
    assert!(known("- a\n").unwrap_err().starts_with("1: "));
}

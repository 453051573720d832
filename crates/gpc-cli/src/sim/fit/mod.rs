//! `gpc sim --fit`: measures the costs of messages on this machine, and how well the simulator predicts calls on it.
//!
//! Some calls are *probes*, from which the costs are fitted. Others, over another tree, are only measured, to compare
//! prediction and measurement.

mod file;
mod live;
mod table;

pub(super) use file::read_fit;

use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;

use gpc_trees::{Limits, Tree};

use self::file::FitFile;
use self::live::{Kind, Times, measure};
use self::table::{Fitted, Row};
use crate::args::{SimArgs, SimOutput, SimTree};
use crate::files::write_text;
use crate::interrupt::Interrupt;
use crate::refused::Refused;
use crate::{CommandResult, stdout};
use gpc_sim::{Probe, fit};

/// Bytes of data of most calls.
const SMALL: u32 = 8;

/// Bytes of data of the probe for the cost of a byte: the capacity of a frame, so that it is one message.
const LARGE: u32 = 60_000;

/// Measures, writes the file, and prints predicted and measured times.
pub(super) fn run(args: &SimArgs, path: &Path) -> CommandResult {
    refuse_other(path).map_err(Refused::File)?;
    let (tree, tree_name) = tree(args).map_err(Refused::Usage)?;
    let machine_cores = std::thread::available_parallelism().map_or(NonZeroU32::MIN, |cores| {
        u32::try_from(cores.get()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX)
    });
    let probes = probes(args.most);
    let shown = sizes(args.most).map(|n| Kind { tree: tree.clone(), n, data_bytes: SMALL });
    let kinds: Vec<Kind> = probes.iter().cloned().chain(shown).collect();
    let interrupt = Interrupt::listen(|| {})?;
    let times = measure(&kinds, args.most, args.link, args.rounds, &interrupt);
    if let Some(status) = interrupt.exit_status() {
        return Ok(ExitCode::from(status));
    }
    let times = times?.unwrap_or_default();
    let measured: Vec<(Kind, Times)> = kinds.into_iter().zip(times).collect();
    let (probes, shown) = measured.split_at(probes.len());
    let taken: Vec<Probe> = probes.iter().map(|(kind, times)| probe(kind, times)).collect();
    let cost = fit(&taken, machine_cores).ok_or("there is nothing to fit the costs to")?;
    let file = FitFile { link: args.link, machine_cores, cost };
    write_text(path, &file.emit())?;
    let row = |(kind, times): &(Kind, Times)| {
        let predicted_ns = cost.predict(kind.tree.clone(), kind.n, kind.data_bytes);
        Row::new(kind, times, predicted_ns)
    };
    let fitted = Fitted::new(
        path,
        &file,
        tree_name,
        probes.iter().map(row).collect(),
        shown.iter().map(row).collect(),
    );
    stdout::write(|out| match args.output {
        SimOutput::Table => fitted.write_table(out),
        SimOutput::Json => super::output::write_json(&fitted, out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects a path that cannot be written, before anything is measured. A file of fitted costs is replaced, but a typing
/// error must not destroy any other file.
fn refuse_other(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return Err(format!("cannot write {}: its folder is not there", path.display()));
    }
    match path.exists().then(|| read_fit(path)) {
        Some(Err(fault)) => Err(format!("{fault}\nit would be replaced: choose another file, or remove it")),
        _ => Ok(()),
    }
}

/// Returns the tree of the calls to compare: binomial, unless another built-in one is named.
fn tree(args: &SimArgs) -> Result<(Tree, String), String> {
    let tree = match &args.tree {
        None => Tree::Binomial,
        Some(SimTree::Named(name)) => {
            name.built_in().ok_or_else(|| format!("--fit shows a built-in tree, not {name}"))?
        }
        Some(SimTree::Fastest) => {
            return Err("the costs are not known before they are measured: name a lag, as in loggp:4".into());
        }
    };
    tree.check(args.most, &Limits::default()).map_err(|error| format!("{tree}: {error}"))?;
    let name = tree.to_string();
    Ok((tree, name))
}

/// Returns the calls from which the costs are fitted; see [`fit`].
fn probes(most: u32) -> Vec<Kind> {
    let few = most.min(8);
    let all = [
        (Tree::Flat, 2, SMALL),
        (Tree::Flat, 2, LARGE),
        (Tree::Chain, few, SMALL),
        (Tree::Flat, few, SMALL),
        (Tree::Flat, most / 4, SMALL),
        (Tree::Binary, (most * 3 / 32).max(3), SMALL),
        (Tree::Binary, (most * 3 / 8).max(3), SMALL),
    ];
    let mut kinds: Vec<Kind> = Vec::new();
    for (tree, n, data_bytes) in all {
        let kind = Kind { tree, n, data_bytes };
        if n == 2 && kinds.len() < 2 || n > 2 && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Returns the sizes of the calls to compare: powers of two.
fn sizes(most: u32) -> impl Iterator<Item = u32> {
    (1..32).map(|power| 1 << power).take_while(move |&n| n <= most)
}

fn probe(kind: &Kind, times: &Times) -> Probe {
    Probe { tree: kind.tree.clone(), n: kind.n, data_bytes: kind.data_bytes, median_ns: times.median_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probes_are_other_calls_than_those_that_are_shown() {
        for most in [4, 8, 256, 4096] {
            let probes = probes(most);
            let small = probes.iter().filter(|kind| kind.data_bytes == SMALL).count();
            assert!(small >= 4, "most {most}: {probes:?}");
            assert!(probes.iter().all(|kind| kind.n >= 2 && kind.n <= most && kind.tree != Tree::Binomial));
        }
        assert_eq!(sizes(256).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn a_file_of_something_else_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("thesis.tex");
        assert_eq!(refuse_other(&path), Ok(()));
        std::fs::write(&path, "\\section{One}").unwrap();
        let error = refuse_other(&path).unwrap_err();
        assert!(
            error.contains("thesis.tex: no JSON") && error.ends_with("choose another file, or remove it"),
            "{error}"
        );
    }
}

//! `gpc tree`: draws a tree, or checks a tree file.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use gpc_trees::{Hosts, HostsError, IdList, Layout, Limits, Tree, TreeName};

use super::args::{TreeArgs, TreeFormat};
use super::draw::{self, Sketch};
use super::files::read_text;
use super::refused::Refused;
use super::suggestion::{did_you_mean, meant};
use super::{CommandResult, stdout};

/// Runs the sub-command.
pub(super) fn run(args: &TreeArgs) -> CommandResult {
    if let Some(path) = &args.check {
        let name = format!("file:{}", path.display());
        let sketch = Sketch::of_layout(name, &read_layout(path).map_err(Refused::File)?)?;
        return match args.format {
            None => print(|out| writeln!(out, "{}", sketch.summary())),
            Some(format) => print_drawing(&sketch, format, args.all),
        };
    }
    let name = args.tree.as_ref().ok_or(Refused::from("name a tree, as in `gpc tree binomial 16`"))?;
    let sketch = sketch_of(name, args.n)?;
    print_drawing(&sketch, args.format.unwrap_or(TreeFormat::Text), args.all)
}

fn print_drawing(sketch: &Sketch, format: TreeFormat, all: bool) -> CommandResult {
    draw::check(sketch, format).map_err(Refused::Usage)?;
    print(|out| draw::draw(sketch, format, all, out))
}

fn print(text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> CommandResult {
    stdout::write(text)?;
    Ok(ExitCode::SUCCESS)
}

fn sketch_of(name: &TreeName, n: Option<u32>) -> Result<Sketch, Refused> {
    let refused = |error: gpc_trees::TreeError| Refused::Usage(format!("{name}: {error}"));
    if let TreeName::File(path) = name {
        let layout = read_layout(Path::new(path)).map_err(Refused::File)?;
        if let Some(n) = n.filter(|&n| n != layout.len()) {
            let text = format!(
                "{path} is a tree over {} ids, not over {n}: leave the number out or correct it",
                layout.len()
            );
            return Err(text.into());
        }
        return Sketch::of_layout(name.to_string(), &layout).map_err(refused);
    }
    if matches!(name, TreeName::Registered(_)) {
        return Err(no_such_tree(name).into());
    }
    if matches!(name, TreeName::KnownHosts(_)) {
        return Err(format!(
            "{name}: only `gpc call --hosts` and `gpc bench --hosts` know the hosts; write hosts:PATH+TREE"
        )
        .into());
    }
    let n = n.ok_or_else(|| format!("say over how many ids, as in `gpc tree {name} 16`"))?;
    if let TreeName::Hosts { path, tree } = name {
        let layout = read_hosts(Path::new(path), &IdList::range(0..n), tree).map_err(Refused::File)?;
        return Sketch::of_layout(name.to_string(), &layout).map_err(refused);
    }
    let tree = name.built_in().ok_or_else(|| no_such_tree(name))?;
    Sketch::of_tree(name.to_string(), &tree, n).map_err(refused)
}

/// Names of trees, without what follows a colon.
const TREES: [&str; 8] = ["binary", "binomial", "kary", "knomial", "chain", "flat", "loggp", "file"];

/// Returns the error for an unknown tree; this command registers none. If a file has that name, the error names the
/// file instead.
pub(super) fn no_such_tree(name: &TreeName) -> String {
    match Path::new(&name.to_string()).is_file() {
        true => format!("no tree is named `{name}`, but a file is: write file:{name}"),
        false => format!(
            "no tree is named `{name}`{}; write binary, binomial, kary:K, knomial:K, chain, flat, loggp:LAG, file:PATH or hosts:PATH+TREE",
            did_you_mean(meant(&name.to_string(), TREES))
        ),
    }
}

/// Reads a hosts file, and lays out a list of ids by it, the root first.
///
/// # Errors
/// If the file cannot be read, has a fault or lacks an id; the message begins with the path.
pub(super) fn read_hosts(path: &Path, ids: &IdList, tree: &Tree) -> Result<Layout, String> {
    let said = |error: HostsError| format!("{}: {error}", path.display());
    Hosts::parse(&read_text(path, "hosts file")?)
        .map_err(said)?
        .layout(ids, tree, &Limits::default())
        .map_err(said)
}

/// Reads a tree file.
///
/// # Errors
/// If the file cannot be read or is not a tree; the message begins with the path.
pub(super) fn read_layout(path: &Path) -> Result<Layout, String> {
    Layout::parse(&read_text(path, "tree file")?, &Limits::default())
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tree_is_named_with_its_number_of_ids() {
        let sketch =
            |name: &str, n| sketch_of(&name.parse().unwrap(), n).map_err(|refused| refused.to_string());
        assert_eq!(sketch("binary", Some(7)).unwrap().nodes(), 7);
        for (number, name) in [("0", "binary"), ("1", "binomial")] {
            assert_eq!(sketch(number, Some(7)).unwrap().summary(), sketch(name, Some(7)).unwrap().summary());
        }
        assert!(sketch("2", Some(7)).unwrap_err().starts_with("no tree is named `2`; write binary"));
        assert_eq!(sketch("binary", None).unwrap_err(), "say over how many ids, as in `gpc tree binary 16`");
        for n in [Some(7), None] {
            assert!(sketch("mine", n).unwrap_err().starts_with("no tree is named `mine`; write binary"));
            // Tests run in the folder of the package.
            assert!(sketch("src", n).unwrap_err().starts_with("no tree is named `src`; "), "it is a folder");
        }
        assert!(sketch("chain", Some(70_000)).unwrap_err().starts_with("chain: position "));
    }

    #[test]
    fn a_tree_file_is_read_and_its_faults_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.tree");
        let name = TreeName::File(path.display().to_string());
        let sketch = |n| sketch_of(&name, n);
        assert!(
            sketch(None)
                .unwrap_err()
                .to_string()
                .starts_with(&format!("cannot read the tree file {}: No such file", path.display()))
        );
        fs::write(&path, "0: 1 2\n1: 3\n").unwrap();
        assert_eq!([None, Some(4)].map(|n| sketch(n).unwrap().nodes()), [4, 4]);
        let other = sketch(Some(5)).unwrap_err();
        assert!(matches!(other, Refused::Usage(text) if text.contains("is a tree over 4 ids, not over 5")));
        fs::write(&path, "0: 1 2\n1: 2\n").unwrap();
        let Refused::File(error) = sketch(None).unwrap_err() else { panic!("the file is wrong") };
        assert!(
            error.ends_with("my.tree: lines 1, 2: position 2 has two parents, positions 0 and 1"),
            "{error}"
        );
        fs::write(&path, [0xff]).unwrap();
        assert!(read_layout(&path).is_err());
    }
}

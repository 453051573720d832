//! Imports between the files of a crate, counted by the file that defines an item, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use super::modules::{Module, Modules, Path};

/// Number of re-exports that a name may pass through: more than any name has.
const STEPS_MAX: u32 = 16;

/// For each file, the files whose items it imports, with the names of the items.
pub(crate) type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The item or module that a path names.
enum Target {
    /// An item, and the file that defines it.
    Item(String, String),
    /// An item that no module defines as far as can be seen. It comes from a macro in this file, or from another crate.
    Unseen(String, String),
    /// A module.
    Module(Path),
}

/// The imports between files.
pub(crate) fn between_files(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (path, module) in modules {
        let of_file = imports.entry(module.file.clone()).or_default();
        let mentions = module.mentions.iter().filter(|mention| is_import(modules, path, mention));
        for named in module.uses.iter().chain(mentions) {
            if let Some(Target::Item(file, item) | Target::Unseen(file, item)) =
                target(modules, path, named, STEPS_MAX)
                && file != module.file
            {
                of_file.entry(file).or_default().insert(item);
            }
        }
    }
    imports
}

/// Whether a path in the code imports something by itself. A name from a `use` does not, and neither does a module that
/// names a part of its own modules.
fn is_import(modules: &Modules, place: &[String], mention: &[String]) -> bool {
    let first = &mention[0];
    let imported = modules[place].imports.contains_key(first);
    let is_child = !imported && modules.contains_key(&[place, slice::from_ref(first)].concat());
    !(is_child || imported && mention.len() == 1)
}

/// Resolves a path in the module `from`.
fn target(modules: &Modules, from: &[String], path: &[String], steps: u32) -> Option<Target> {
    let (first, after) = path.split_first()?;
    let (mut place, mut rest) = match first.as_str() {
        "crate" => (&[][..], after),
        "self" => (from, after),
        _ => (from, path),
    };
    while let Some((first, after)) = rest.split_first()
        && first == "super"
    {
        (place, rest) = (place.split_last()?.1, after);
    }
    below(modules, place, rest, steps)
}

/// Resolves a path that begins in the module `place`.
fn below(modules: &Modules, place: &[String], path: &[String], steps: u32) -> Option<Target> {
    let module = modules.get(place)?;
    let Some((name, after)) = path.split_first() else { return Some(Target::Module(place.to_vec())) };
    let child = [place, slice::from_ref(name)].concat();
    let is_module = modules.contains_key(&child);
    // A function and a module may have one name: the function is last in its path.
    let is_item = after.is_empty() || !is_module;
    if is_item && module.items.contains(name) {
        return Some(Target::Item(module.file.clone(), name.clone()));
    }
    if is_item && let Some(import) = module.imports.get(name) {
        let import = [&import[..], after].concat();
        return Some(match target(modules, place, &import, steps.checked_sub(1)?)? {
            Target::Unseen(file, _) if file == module.file => Target::Unseen(file, name.clone()),
            target => target,
        });
    }
    if is_module {
        return below(modules, &child, after, steps);
    }
    let unseen = Target::Unseen(module.file.clone(), name.clone());
    Some(from_globs(modules, place, module, path, steps).unwrap_or(unseen))
}

/// Resolves a path whose first name comes from a `use ...::*`.
fn from_globs(
    modules: &Modules,
    place: &[String],
    module: &Module,
    path: &[String],
    steps: u32,
) -> Option<Target> {
    let steps = steps.checked_sub(1)?;
    module.globs.iter().find_map(|glob| {
        let Target::Module(glob) = target(modules, place, glob, steps)? else { return None };
        below(modules, &glob, path, steps).filter(|target| !matches!(target, Target::Unseen(..)))
    })
}

/// Sets of two files or more that import each other, directly or through others.
pub(crate) fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reachable(imports, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, from_here) in &reached {
        let circle: BTreeSet<String> = from_here
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|from_there| from_there.contains(file)))
            .map(|&other| other.to_owned())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// All files that a file imports, directly or through others.
fn reachable<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut pending = vec![file];
    while let Some(file) = pending.pop() {
        for other in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(other.as_str()) {
                pending.push(other);
            }
        }
    }
    found
}

//! Libraries of functions, callbacks and trees that `--load` names (`chained_gpc_plugin.h`).
//!
//! Only the command line of a process names its libraries; nothing that a peer sends does. `gpc call` passes them to
//! the processes that it starts, as arguments.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use gpc_capi::abi::loading;

use super::refused::Refused;
use chained_gpc::runtime::{Functions, FunctionsError};
use chained_gpc::trees::RegisterError;

/// The argument that names a library.
const LOAD: &str = "--load";

/// Loads libraries, which register what they have in `functions`. Each path is one of a file: it is not searched for.
///
/// # Errors
/// The first library that cannot be loaded, and why.
pub(crate) fn load(paths: &[PathBuf], functions: &Functions) -> Result<(), Refused> {
    let mut loaded = HashMap::new();
    let mut taken = Taken::default();
    taken.note(functions, || "this program".into());
    for path in paths {
        let refused = |why: String| Refused::File(format!("cannot load {}: {why}", path.display()));
        let file = fs::metadata(path).map_err(|error| refused(error.to_string()))?;
        // The loader would wait for a pipe, and its error for a folder does not name the folder.
        if !file.is_file() {
            return Err(refused("it is not a file".into()));
        }
        if let Some(first) = loaded.insert((file.dev(), file.ino()), path) {
            let other = if first == path { String::new() } else { format!(", also as {}", first.display()) };
            return Err(Refused::Usage(format!("--load names {} twice{other}", path.display())));
        }
        // Without a slash, the loader would search for it elsewhere.
        let whole = std::path::absolute(path).map_err(|error| refused(error.to_string()))?;
        loading::load(&whole, functions).map_err(|why| refused(taken.explained(why)))?;
        taken.note(functions, || path.display().to_string());
    }
    Ok(())
}

/// The plug-in that has registered each taken name, by the error that a second registration gets.
#[derive(Default)]
struct Taken(HashMap<String, String>);

impl Taken {
    /// Records the names that are new as those of `owner`.
    fn note(&mut self, functions: &Functions, owner: impl Fn() -> String) {
        let names = functions.names().into_iter().map(|name| FunctionsError::Duplicate(name).to_string());
        let trees = functions.tree_names().into_iter();
        let trees = trees.map(|name| FunctionsError::from(RegisterError::Duplicate { name }).to_string());
        for error in names.chain(trees) {
            self.0.entry(error).or_insert_with(&owner);
        }
    }

    /// The error of a library, with the owner of the name that it did not get.
    fn explained(&self, why: String) -> String {
        match self.0.get(&why) {
            Some(owner) => format!("{why} ({owner} has it)"),
            None => why,
        }
    }
}

/// Returns the arguments by which a process loads these libraries.
///
/// # Errors
/// If the current folder is not known, from which the paths begin.
pub(crate) fn arguments(paths: &[PathBuf]) -> Result<Vec<OsString>, Refused> {
    let mut arguments = Vec::new();
    for path in paths {
        let cannot = |error| Refused::File(format!("cannot load {}: {error}", path.display()));
        arguments.extend([LOAD.into(), std::path::absolute(path).map_err(cannot)?.into()]);
    }
    Ok(arguments)
}

/// Takes the libraries out of the arguments of a process, which follow these arguments: for a process that `gpc call`
/// has started. The arguments of any other process stay as they are.
pub(crate) fn taken_from(arguments: &[OsString], after: &[&str]) -> (Vec<OsString>, Vec<PathBuf>) {
    let start = 1 + after.len();
    let (mut rest, mut paths) = (arguments.to_vec(), Vec::new());
    if arguments.get(1..start).is_some_and(|words| words == after) {
        while rest.get(start).is_some_and(|word| word == LOAD) && rest.len() > start + 1 {
            paths.push(PathBuf::from(rest.remove(start + 1)));
            rest.remove(start);
        }
    }
    (rest, paths)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_started_process_finds_its_libraries_among_its_arguments() {
        let line = words("gpc node --launched --load /a.so --load /b c.so --id 7");
        let (rest, paths) = taken_from(&line, &["node", "--launched"]);
        assert_eq!(rest, words("gpc node --launched c.so --id 7"));
        assert_eq!(paths, ["/a.so", "/b"].map(PathBuf::from));
        for line in [
            "gpc node --id 7 --load /a.so",
            "gpc call echo --load /a.so",
            "gpc node --launched --load",
            "gpc",
        ] {
            let line = words(line);
            assert_eq!(taken_from(&line, &["node", "--launched"]), (line.clone(), vec![]), "{line:?}");
        }
    }

    #[test]
    fn paths_are_passed_on_from_the_root_on() {
        let passed = arguments(&["/a.so".into(), "b.so".into()]).unwrap();
        let here = std::env::current_dir().unwrap().join("b.so");
        assert_eq!(passed, ["--load".into(), "/a.so".into(), "--load".into(), here.into_os_string()]);
    }

    /// A folder and a pipe are named before the loader sees them: it would wait for the pipe.
    #[test]
    fn what_is_no_library_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| load(&[path.into()], &Functions::new()).unwrap_err().to_string();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("text.so"), "no library\n").unwrap();
        fs::write(at("empty.so"), "").unwrap();
        for (path, why) in [
            (at("missing.so"), "No such file"),
            (at(""), "it is not a file"),
            (at("text.so"), "it is no shared library that can be used here: "),
            (at("empty.so"), "it is no shared library that can be used here: "),
        ] {
            let said = refused(&path);
            assert!(said.starts_with(&format!("cannot load {}: {why}", path.display())), "{said}");
            assert_eq!(said.matches("/text.so").count(), usize::from(path.ends_with("text.so")), "{said}");
        }
    }
}

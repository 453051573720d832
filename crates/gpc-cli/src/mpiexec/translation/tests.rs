//! Lines that scripts have, and lines that are wrong.

use proptest::prelude::*;

use super::*;
use crate::args::{Args, Command};

/// A file for `-configfile`.
const FILE: &str = "# two programs\n-n 1 -env A 1 ./ocean in\n-n 2 ./air 'a b'\n";

fn read(file: &OsStr) -> Result<String, String> {
    match file.to_str() {
        Some("good") => Ok(FILE.into()),
        Some("open") => Ok("./a 'b".into()),
        Some("nested") => Ok("-configfile good".into()),
        Some("empty") => Ok("# nothing".into()),
        _ => Err(format!("{}: No such file or directory", file.display())),
    }
}

const AT_HOME: Surroundings<'_> = Surroundings { timeout: None, variables: &[], in_allocation: false };

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn run_line(line: &str) -> Result<String, String> {
    match translate(&words(line), AT_HOME, &read) {
        Ok(Translation::Run { words, .. }) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            Ok(words.join(" "))
        }
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// From the documents and the scripts of hydra's users.
const LINES: &[(&str, &str)] = &[
    ("-n 4 ./a.out", "-n 4 ./a.out"),
    ("-np 4 ./a.out -n 3 -x", "-n 4 ./a.out -n 3 -x"),
    ("./a.out", "./a.out"),
    ("--np=4 -- ./a.out", "-n 4 ./a.out"),
    ("-n 4 ocean : -n 8 air", "-n 4 ocean : -n 8 air"),
    ("-l -np 2 hostname", "--tag-output=rank -n 2 hostname"),
    ("-prepend-rank -l -n 2 a", "--tag-output=rank -n 2 a"),
    ("-genv OMP_NUM_THREADS 4 -np 2 ./a", "--env OMP_NUM_THREADS=4 -n 2 ./a"),
    ("-genv OMP_NUM_THREADS=4 -np 2 ./a", "--env OMP_NUM_THREADS=4 -n 2 ./a"),
    ("-genv A 1 -n 1 -env A 2 p : -n 2 q", "--env A=1 -n 1 --env A=2 p : --env A=1 -n 2 q"),
    ("-n 1 p : -genv A 1 -n 2 q", "--env A=1 -n 1 p : --env A=1 -n 2 q"),
    ("-genvlist A,B -n 2 p", "--env A --env B -n 2 p"),
    ("-n 2 -envlist A p : q", "-n 2 --env A p : q"),
    ("-genvall -n 2 -envall p", "-n 2 p"),
    ("-genvnone -n 2 -envnone p", "-n 2 p"),
    ("-wdir /tmp -n 2 p : -wd /usr q", "--wdir /tmp -n 2 p : --wdir /usr q"),
    ("-n 2 -outfile-pattern out.%r -errfile-pattern err.%r p", "--out-file out.%r --err-file err.%r -n 2 p"),
    ("-print-all-exitcodes -n 2 p", "--print-exits -n 2 p"),
    ("-s all -n 2 p", "--stdin all -n 2 p"),
    ("-stdin none -n 2 p", "--stdin none -n 2 p"),
    ("-timeout 30 -n 2 p", "--time-limit 30s -n 2 p"),
    ("-timeout -1 -n 2 p", "-n 2 p"),
    ("-disable-auto-cleanup -n 2 p", "--on-death=notify -n 2 p"),
    ("-configfile good", "-n 1 --env A=1 ./ocean in : -n 2 ./air a b"),
    ("-l --configfile=good", "--tag-output=rank -n 1 --env A=1 ./ocean in : -n 2 ./air a b"),
    ("-bind-to core -np 2 p", "--bind core -n 2 p"),
    ("-bind-to=machine -map-by core:1 -n 2 p", "--bind none --map-by core -n 2 p"),
    ("-map-by node -bind-to socket p", "--map-by node --bind socket p"),
    ("-hosts a,b:2 -n 3 p", "--hosts a,b:2 -n 3 p"),
    ("-host a -n 1 p : -host a -n 2 q", "--hosts a -n 1 p : -n 2 q"),
    ("-f hosts -ppn 2 -n 4 p", "--hostfile hosts --per-host 2 -n 4 p"),
    ("-launcher slurm -hosts a p", "--launcher slurm --hosts a p"),
    ("-launcher-exec rsh -hosts a p", "--rsh rsh --hosts a p"),
    ("-machinefile=hosts p", "--hostfile hosts p"),
    ("-n 2 sh -c a:b", "-n 2 sh -c a:b"),
];

#[test]
fn lines_of_scripts_are_lines_of_gpc_run() {
    for (theirs, ours) in LINES {
        assert_eq!(run_line(theirs).as_deref(), Ok(*ours), "{theirs}");
        let all = ["gpc", "run"].into_iter().map(OsString::from).chain(words(ours));
        match Args::read(all) {
            Ok(Args { command: Command::Run(args) }) => assert!(args.programs().is_ok(), "{ours}"),
            other => panic!("{ours}: {other:?}"),
        }
    }
}

#[test]
fn what_is_wrong_names_the_option_and_what_to_write() {
    for (line, expected) in [
        ("", "no program is named: write `mpiexec -n N PROGRAM`"),
        ("-n 4", "no program is named: write `mpiexec -n N PROGRAM`"),
        (": p", "no program is named: write `mpiexec -n N PROGRAM`"),
        ("p :", "program 2 is missing: `:` goes between two programs"),
        ("p : : q", "program 2 is missing: `:` goes between two programs"),
        ("-configfile empty", "no program is named: write `mpiexec -n N PROGRAM`"),
        ("-n", "-n: its value is missing"),
        ("-genv", "-genv: the name of a variable is missing"),
        ("-genv A", "-genv A: the value of the variable is missing"),
        (
            "-bindto core p",
            "there is no option `-bindto` of mpiexec here (did you mean `-bind-to`?); `gpc mpiexec -help` lists them",
        ),
        (
            "-mca btl tcp p",
            "-mca: an option of Open MPI: set the variable OMPI_MCA_NAME, as by -genv OMPI_MCA_NAME VALUE",
        ),
        ("-soft 1:4 p", "-soft: an option of the MPI standard that hydra has not either: leave it out"),
        ("-s 0 p : -s 1 q", "-s stands there twice, and differs: all programs of the line share it"),
        (
            "-host a p : -host b q",
            "-hosts stands there twice, and differs: all programs of the line share it",
        ),
        (
            "-bind-to hwthread p",
            "-bind-to hwthread: a process has whole cores here: write core, or place each rank with `gpc run --rank-file`",
        ),
        ("-map-by numa:x p", "-map-by numa:x: write slot, node, core or socket"),
        ("-timeout soon p", "-timeout soon: write a number of seconds"),
        ("-configfile none", "none: No such file or directory"),
        ("-configfile open", "open: line 1: the quote ' has no end"),
        ("-configfile nested", "-configfile good: the file of another -configfile names it"),
        ("-configfile good p", "p comes after -configfile, which has the rest of the line"),
    ] {
        assert_eq!(run_line(line), Err(expected.into()), "{line}");
    }
}

#[test]
fn the_time_limit_of_the_environment_holds_unless_the_line_has_one() {
    let at = |timeout| Surroundings { timeout: Some(OsStr::new(timeout)), ..AT_HOME };
    let limited = |line: &str, timeout| match translate(&words(line), at(timeout), &read) {
        Ok(Translation::Run { words, .. }) => Ok(words.join(OsStr::new(" ")).into_string().unwrap()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(limited("p", "60"), Ok("--time-limit 60s p".into()));
    assert_eq!(limited("-timeout 5 p", "60"), Ok("--time-limit 5s p".into()));
    assert_eq!(limited("-timeout 0 p", "60"), Ok("p".into()));
    assert_eq!(limited("p", "1m"), Err("MPIEXEC_TIMEOUT 1m: write a number of seconds".into()));
}

#[test]
fn help_and_version_are_answered_whatever_else_the_line_has() {
    let asked = |line| translate(&words(line), AT_HOME, &read);
    assert_eq!(asked("-n 2 -help p"), Ok(Translation::Help));
    assert_eq!(asked("--version"), Ok(Translation::Version));
    assert!(matches!(asked("-n 2 p -help"), Ok(Translation::Run { verbose: false, .. })));
    assert!(matches!(asked("-v -n 2 p"), Ok(Translation::Run { verbose: true, .. })));
}

/// As with hydra, whose scripts count on `LD_LIBRARY_PATH`.
#[test]
fn processes_on_other_hosts_get_the_variables_of_this_command() {
    let variables = ["A", "B"].map(OsString::from);
    let run = |line: &str| match translate(
        &words(line),
        Surroundings { variables: &variables, ..AT_HOME },
        &read,
    ) {
        Ok(Translation::Run { words, .. }) => words.join(OsStr::new(" ")).into_string().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(run("-hosts a p : q"), "--hosts a --env A --env B p : --env A --env B q");
    assert_eq!(run("-genvall -f h -genv A 1 p"), "--hostfile h --env A --env B --env A=1 p");
    assert_eq!(run("-genvnone -hosts a p"), "--hosts a p");
    assert_eq!(run("-genvlist B -hosts a p"), "--hosts a --env B p");
    assert_eq!(run("-n 2 p"), "-n 2 p", "they have them already");
}

/// In a job of a batch system `gpc run` takes the hosts of the job by itself: the variables were missing there.
#[test]
fn processes_in_an_allocation_get_the_variables_as_with_hosts() {
    let variables = ["A", "B"].map(OsString::from);
    let surroundings = Surroundings { variables: &variables, in_allocation: true, ..AT_HOME };
    let run = |line: &str| match translate(&words(line), surroundings, &read) {
        Ok(Translation::Run { words, .. }) => words.join(OsStr::new(" ")).into_string().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(run("-n 2 p : q"), "--env A --env B -n 2 p : --env A --env B q");
    assert_eq!(run("-genvnone -n 2 p"), "-n 2 p");
}

fn word() -> impl Strategy<Value = OsString> {
    let known = OPTIONS.iter().flat_map(|(names, _)| names.iter()).map(|name| format!("-{name}"));
    let known: Vec<OsString> =
        known.chain([":", "p", "4", "A=1", "--", "good"].map(String::from)).map(OsString::from).collect();
    prop_oneof![
        4 => prop::sample::select(known),
        1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(OsString::from_vec),
    ]
}

proptest! {
    /// Any words are a line of `gpc run`, a question, or an error; each word behind a program stays.
    #[test]
    fn any_words_are_a_line_or_an_error(line in prop::collection::vec(word(), 0..12)) {
        if let Ok(Translation::Run { words, .. }) = translate(&line, AT_HOME, &read) {
            prop_assert!(!words.is_empty());
        }
        let behind = [words("-l p"), line.clone()].concat();
        if let Ok(Translation::Run { words, .. }) = translate(&behind, AT_HOME, &read)
            && !line.contains(&":".into())
        {
            prop_assert_eq!(&words[2..], &line[..]);
        }
    }
}

//! `gpc mpiexec`, links of that name, and output to files.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use super::support::*;

/// Returns `mpiexec` with these words, followed by a script of bash as the program.
fn mpiexec(place: &Place, words: &str, script: &str) -> Command {
    let words = ["mpiexec"].into_iter().chain(words.split_whitespace());
    place.gpc(words.chain(["bash", "-c", script]))
}

#[test]
fn a_line_of_mpiexec_runs_and_so_does_a_link_of_that_name() {
    let place = Place::new();
    let script = "echo $A $B of $PMI_SIZE";
    ended(mpiexec(&place, "-l -genv A 1 -np 2 -env B=2", script)).well(["[0] 1 2 of 2", "[1] 1 2 of 2"]);
    let link = place.path("mpiexec");
    symlink(EXE, &link).unwrap();
    let mut command = Command::new(&link);
    command.args(["--np=2", "-timeout", "60", "true"]).stdin(Stdio::null());
    assert!(command.status().unwrap().success());
    let version = Command::new(&link).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("gpc "));
    place.empty();
}

#[test]
fn a_wrong_line_says_so_in_its_own_spelling() {
    let place = Place::new();
    for (words, expected) in [
        ("-n 0", "gpc: -n 0: write a number from 1 to 1048576"),
        ("-bind-to l2cache", "gpc: -bind-to l2cache: caches are unknown here: write core"),
        ("-x A", "gpc: -x: an option of Open MPI: "),
    ] {
        let ended = ended(mpiexec(&place, words, "true"));
        assert!(ended.status == 2 && ended.err.starts_with(expected), "{words}: {}", ended.err);
    }
    let mut late = mpiexec(&place, "-n 1", "sleep 60");
    late.env("MPIEXEC_TIMEOUT", "1");
    assert_eq!(ended(late).status, 124);
    place.empty();
}

#[test]
fn output_goes_to_a_file_for_each_rank() {
    let place = Place::new();
    let (out, err) = (place.path("out.%r-%h"), place.path("err.%p"));
    let words = format!("run -n 3 --out-file {out} --err-file {err} bash -c S");
    let script = "echo out $PMI_RANK; echo $PMI_RANK is $$ >&2";
    let words = words.split_whitespace().map(|word| if word == "S" { script } else { word });
    ended(place.gpc(words)).well([""; 0]);
    let host = Command::new("uname").arg("-n").output().unwrap();
    let host = String::from_utf8(host.stdout).unwrap();
    for rank in 0..3 {
        let path = place.path(&format!("out.{rank}-{}", host.trim()));
        assert_eq!(fs::read_to_string(path).unwrap(), format!("out {rank}\n"));
    }
    let folder = fs::read_dir(place.path("")).unwrap().flatten();
    let mut ranks = Vec::new();
    for entry in folder {
        let name = entry.file_name().into_string().unwrap();
        let Some(pid) = name.strip_prefix("err.") else { continue };
        let text = fs::read_to_string(entry.path()).unwrap();
        ranks.push(text.strip_suffix(&format!(" is {pid}\n")).unwrap().to_owned());
    }
    ranks.sort();
    assert_eq!(ranks, ["0", "1", "2"]);
    place.empty();
}

#[test]
fn a_file_that_cannot_be_written_ends_the_job_with_its_name() {
    let place = Place::new();
    let ended_with = |pattern: &str, script: &str| {
        ended(place.gpc(["run", "-n", "2", "--out-file", pattern, "bash", "-c", script]))
    };
    let refused = ended_with(&place.path("none/%r"), "touch ran");
    assert!(refused.status == 1 && refused.err.contains("there is no folder"), "{}", refused.err);
    fs::create_dir(place.path("out.1")).unwrap();
    let failed = ended_with(&place.path("out.%r"), "echo a; sleep 60");
    let expected = format!("{}: Is a directory", place.path("out.1"));
    assert!(failed.status == 1 && failed.err.contains(&expected), "{}", failed.err);
    let wrong = ended_with("out.%x", "true");
    assert!(wrong.status == 2 && wrong.err.contains("--out-file out.%x: `%x` stands for nothing"));
    place.empty();
}

#[test]
fn the_end_of_each_process_is_printed() {
    let place = Place::new();
    let script = "[ $PMI_RANK = 2 ] && exit 3; exit 0";
    let ended = ended(place.script("-n 4 --print-exits --on-death notify", script));
    let expected = "gpc: g1.0-1,3: ended with status 0\ngpc: g1.2: ended with status 3\n";
    assert_eq!(
        (ended.status, ended.err.as_str()),
        (3, &*format!("{expected}gpc: g1.2: ended with status 3\n"))
    );
    place.empty();
}

#[test]
fn programs_of_torch_find_each_other() {
    let place = Place::new();
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $PMI_LOCAL_RANK/$PMI_LOCAL_SIZE; [ $MASTER_PORT -gt 0 ]";
    let expected = (0..3).map(|rank| format!("{rank}/3 {rank}/3 127.0.0.1 {rank}/3"));
    ended(place.script("-n 3 --env-for torch", script)).well(expected);
    let own = ended(
        place.script("-n 1 --env-for torch --env RANK=7 --env MASTER_PORT=5", "echo $RANK $MASTER_PORT"),
    );
    own.well(["7 5"]);
    let nodes =
        ended(place.script("-n 4 --nodes 2 --env-for torch", "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE"));
    nodes.well(["0 0 2", "1 1 2", "2 0 2", "3 1 2"]);
}

/// The error said that the system refuses the process, and nothing of the sizes.
#[test]
fn arguments_that_are_too_long_are_said_with_their_sizes() {
    let place = Place::new();
    // The words of this command have the same limit: the line is in a file.
    let file = place.path("line");
    fs::write(&file, format!("-n 2 -env B 1 true {}\n", "x".repeat(200_000))).unwrap();
    let ended = ended(place.gpc(["mpiexec", "-configfile", &file]));
    ended.failed(126, "gpc: cannot start true (rank 0-1");
    assert!(ended.err.contains("Argument list too long: 200001 bytes of arguments and "), "{}", ended.err);
    assert!(
        ended.err.contains(" of variables, 200001 in the longest of them; the limits are "),
        "{}",
        ended.err
    );
    place.empty();
}

//! Starts of processes, and the errors of starts that fail.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use gpc_bnr::Exit;
use gpc_bnr::supervisor::{BindOrder, BindTo, Binding, Supervisor, SupervisorEvent, SupervisorOrder};
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::support::{Harness, PATIENCE, member, ready};

/// The order with changed variables or another working directory.
fn with(
    mut order: SupervisorOrder,
    change: impl FnOnce(&mut Vec<(Vec<u8>, Vec<u8>)>, &mut Option<Vec<u8>>),
) -> SupervisorOrder {
    if let SupervisorOrder::Start { env, wdir, .. } = &mut order {
        change(env, wdir);
    }
    order
}

#[test]
fn a_process_is_started_and_its_end_is_told() {
    let mut harness = Harness::new();
    let process =
        harness.order(harness.words(member(1, 0), "sh", &["-c", "echo $0 \"$@\"; exit 7", "a b", "c", ""]));
    let SupervisorEvent::Started(started, pid) = harness.event() else { panic!("not started") };
    assert_eq!(started, member(1, 0));
    assert_eq!(harness.event(), SupervisorEvent::Ended(member(1, 0), Exit::Code(7)));
    assert_eq!(process.all(), "a b c \n");
    let process = harness.shell(member(1, 1), "kill -SEGV $$");
    assert_eq!(harness.event(), SupervisorEvent::Ended(member(1, 1), Exit::Signal(11)));
    drop(process);
    assert!(pid > 1);
    harness.kill(1, None);
    assert_eq!(harness.emptied(1), []);
}

/// The supervisor's name does not match a pattern for `gpc`, so it is not killed with such processes.
#[test]
fn the_supervisor_has_its_own_name() {
    let mut harness = Harness::new();
    harness.shell(member(1, 0), "true");
    let tasks = fs::read_dir(format!("/proc/{}/task", harness.supervisor.id())).unwrap();
    let names: Vec<String> =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap()).collect();
    assert!(names.contains(&"bnr-keeper\n".to_owned()), "{names:?}");
}

/// Many starts at the same time, so that the descriptors of other processes are open during each start. The supervisor
/// has inherited some descriptors as well.
#[test]
fn a_process_inherits_its_own_descriptors_and_no_others() {
    let mut harness = Harness::behind("exec 7</dev/null 9>/dev/null");
    let script = "ls -l /proc/$$/fd; echo $PMI_FD $GPC_BNR_FD";
    let processes: Vec<_> =
        (0..40).map(|rank| harness.queue(harness.words(member(1, rank), "sh", &["-c", script]))).collect();
    let mut ended = 0;
    while ended < 40 {
        match harness.event() {
            SupervisorEvent::Ended(_, Exit::Code(0)) => ended += 1,
            SupervisorEvent::Started(..) => {}
            other => panic!("{other:?}"),
        }
    }
    for process in processes {
        let said = process.all();
        let open: Vec<&str> = said
            .lines()
            .filter_map(|line| line.split_once(':')?.1.split_once(' '))
            .map(|(_, open)| open)
            .collect();
        let [nothing, out, err, link] = open[..] else { panic!("{said}") };
        let number = link.split(' ').next().unwrap();
        assert_eq!(nothing, "0 -> /dev/null");
        assert!(
            out.starts_with("1 -> socket:") && err.starts_with("2 -> socket:") && link.contains("socket:"),
            "{said}"
        );
        assert!(number.len() == 1 && said.ends_with(&format!("\n{number} {number}\n")), "{said}");
    }
}

#[test]
fn the_socket_leads_to_the_node_and_ends_with_the_process() {
    let mut harness = Harness::new();
    let script = "eval \"read word <&$PMI_FD; echo heard \\$word >&$PMI_FD\"";
    let mut process = harness.shell(member(1, 0), script);
    process.link.write_all(b"something\n").unwrap();
    let mut said = String::new();
    process.link.read_to_string(&mut said).unwrap();
    assert_eq!(said, "heard something\n");
    assert_eq!(harness.event(), SupervisorEvent::Ended(member(1, 0), Exit::Code(0)));
}

#[test]
fn the_environment_is_the_supervisors_and_what_was_said() {
    let mut harness =
        Harness::behind("export OWN=kept PMI_RANK=9 PMIX_RANK=8 SLURM_PROCID=7 PMI_FD=6 OTHER=gone");
    let script = "echo $OWN $OTHER ${PMI_RANK-none} ${PMIX_RANK-none} ${SLURM_PROCID-none}; [ $PMI_FD = $GPC_BNR_FD ] && echo same";
    let order = harness.words(member(1, 0), "sh", &["-c", script]);
    let order = with(order, |env, _| {
        env.extend([("OTHER", "first"), ("OTHER", "last")].map(|(name, value)| (name.into(), value.into())));
    });
    let process = harness.order(order);
    assert_eq!(process.all(), "kept last none none none\nsame\n");
    // A process that connects to a port gets no `PMI_FD`.
    let order = harness.words(member(1, 1), "sh", &["-c", "echo ${PMI_FD-none} ${GPC_BNR_FD:+one}"]);
    let process =
        harness.order(with(order, |env, _| env.push((b"PMI_PORT".to_vec(), b"localhost:1".to_vec()))));
    assert_eq!(process.all(), "none one\n");
}

#[test]
fn a_process_has_its_own_process_group_and_its_number_is_told() {
    let mut harness = Harness::new();
    let process =
        harness.order(harness.words(member(1, 0), "sh", &["-c", "cut -d' ' -f1,5 /proc/$$/stat; echo $$"]));
    let SupervisorEvent::Started(_, pid) = harness.event() else { panic!("not started") };
    assert_eq!(process.all(), format!("{pid} {pid}\n{pid}\n"));
}

#[test]
fn a_program_is_found_in_the_path_it_is_told_and_a_relative_one_where_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("in")).unwrap();
    let script = "#!/bin/sh\necho $0; pwd\n";
    for name in ["in/bnr-test-program", "plain"] {
        fs::write(folder.path().join(name), script).unwrap();
    }
    fs::set_permissions(folder.path().join("in/bnr-test-program"), fs::Permissions::from_mode(0o755))
        .unwrap();
    let here = fs::canonicalize(folder.path()).unwrap().to_str().unwrap().to_owned();
    let mut harness = Harness::new();
    let mut rank = 0;
    let mut ask = |program: &str, path: Option<String>, wdir: Option<&str>| {
        rank += 1;
        let order = with(harness.words(member(1, rank), program, &[]), |env, runs| {
            env.extend(path.map(|path| (b"PATH".to_vec(), path.into_bytes())));
            *runs = wdir.map(|wdir| wdir.as_bytes().to_vec());
        });
        let process = harness.order(order);
        match harness.event() {
            SupervisorEvent::Started(..) => {
                assert!(matches!(harness.event(), SupervisorEvent::Ended(_, Exit::Code(0))));
                Ok(process
                    .all()
                    .lines()
                    .map(|line| line.replace(&here, "HERE"))
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            SupervisorEvent::NotStarted(_, error) => Err(Errno::from_raw_os_error(error.errno)),
            other => panic!("{other:?}"),
        }
    };
    let both = Some(format!("/nowhere:{here}/in:/bin"));
    assert_eq!(ask("bnr-test-program", both.clone(), Some("/")).unwrap(), "HERE/in/bnr-test-program /");
    assert_eq!(ask("./in/bnr-test-program", None, Some(&here)).unwrap(), "./in/bnr-test-program HERE");
    assert_eq!(ask("bnr-test-program", Some("in".into()), Some(&here)).unwrap(), "in/bnr-test-program HERE");
    assert_eq!(ask("bnr-test-program", None, None), Err(Errno::NOENT));
    assert_eq!(ask("/nowhere/program", None, None), Err(Errno::NOENT));
    assert_eq!(ask("plain", Some(here.clone()), None), Err(Errno::ACCESS));
    assert_eq!(ask(&format!("{here}/plain"), None, None), Err(Errno::ACCESS));
    assert_eq!(ask("true", None, Some("/nowhere")), Err(Errno::NOENT));
    assert_eq!(ask("true", None, Some(&format!("{here}/plain"))), Err(Errno::NOTDIR));
    assert_eq!(ask("", None, None), Err(Errno::NOENT));
    // The supervisor still starts valid programs.
    assert_eq!(ask("bnr-test-program", both, Some("/")).unwrap(), "HERE/in/bnr-test-program /");
}

#[test]
fn what_no_system_starts_is_told_in_the_order_in_which_it_was_asked() {
    let mut harness = Harness::new();
    let long = |length: usize| "x".repeat(length);
    // The system allows 128 KiB for one argument, and 6 MiB for all. The largest order is not even sent to the
    // supervisor.
    let words =
        [("true", long(1)), ("true", long(1 << 20)), ("true", "a\0b".into()), ("true", long(9 << 20))];
    for (rank, (program, arg)) in (0..).zip(&words) {
        harness.order(harness.words(member(1, rank), program, &[arg]));
    }
    let order = harness.words(member(1, 4), "true", &[]);
    harness.supervisor.order(order, Vec::new());
    let mut told = Vec::new();
    while told.len() < 5 {
        match harness.event() {
            SupervisorEvent::Started(member, _) => told.push((member.rank, None)),
            SupervisorEvent::NotStarted(member, error) => {
                told.push((member.rank, Some(Errno::from_raw_os_error(error.errno))));
            }
            SupervisorEvent::Ended(..) => {}
            other => panic!("{other:?}"),
        }
    }
    let errors = [None, Some(Errno::TOOBIG), Some(Errno::INVAL), Some(Errno::TOOBIG), Some(Errno::BADF)];
    assert_eq!(told, (0..).zip(errors).collect::<Vec<_>>());
}

#[test]
fn a_process_is_bound_to_a_core_and_the_next_one_is_not() {
    let mut harness = Harness::new();
    let mut allowed = Vec::new();
    for bind in [None, Some(0), Some(1), Some(usize::MAX - 1), None] {
        let mut order = harness.words(member(1, 0), "grep", &["Cpus_allowed_list", "/proc/self/status"]);
        if let SupervisorOrder::Start { bind: to, .. } = &mut order {
            let binding =
                |index| Binding { to: BindTo::Core, order: BindOrder::Object, index, report: false };
            *to = bind.map(binding);
        }
        let process = harness.order(order);
        assert!(matches!(harness.event(), SupervisorEvent::Started(..)));
        assert!(matches!(harness.event(), SupervisorEvent::Ended(_, Exit::Code(0))));
        allowed.push(process.all());
    }
    assert_eq!(allowed[0], allowed[4]);
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: needs two processors");
        return;
    }
    assert!(allowed[1] != allowed[0] || allowed[1] == allowed[2], "{allowed:?}");
    assert!(allowed[3] == allowed[1] || allowed[3] != allowed[0], "{allowed:?}");
}

/// A program that sends this text in place of a supervisor, then waits for the end of its socket. Returns the error.
fn speaks(text: &str) -> std::io::Error {
    let script = format!("printf '{text}' >&0; cat >/dev/null");
    let mut supervisor = Supervisor::start("/bin/sh".as_ref(), &["-c".into(), script.into()]).unwrap();
    loop {
        match supervisor.event() {
            Ok(None) => assert!(ready(supervisor.socket(), PollFlags::IN)),
            Ok(Some(event)) => panic!("{event:?}"),
            Err(error) => return error,
        }
    }
}

/// After an upgrade, a running node started a supervisor of the new version, and misread its bytes.
#[test]
fn a_supervisor_of_another_version_is_refused_and_says_which() {
    let said = speaks(r"\022\0\0\0bnr-keeper 99.0 99").to_string();
    assert!(
        said.contains("the keeper is `bnr-keeper 99.0 99`") && said.contains("restart the node"),
        "{said}"
    );
    // A supervisor from before the first version sends an event at once.
    let said = speaks(r"\005\0\0\0\004\001\0\0\0").to_string();
    assert!(said.contains("another program, or an older one"), "{said}");
    let said = speaks(r"\034\0\0\0the keeper cannot work: why?").to_string();
    assert_eq!(said, "the keeper cannot work: why?");
}

/// No order goes to a supervisor before its version is known, since it might misread the order.
#[test]
fn a_supervisor_gets_no_order_before_it_has_said_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let script = format!("head -c 1 <&0 > {}; exit", got.display());
    let mut supervisor = Supervisor::start("/bin/sh".as_ref(), &["-c".into(), script.into()]).unwrap();
    supervisor.order(SupervisorOrder::Kill { group: member(1, 0).group, grace: None }, Vec::new());
    assert!(!supervisor.flush().unwrap(), "it waits");
    supervisor.end(PATIENCE);
    assert_eq!(fs::read(got).unwrap(), b"");
}

//! Processes whose addresses follow from a rule: plain steps of Slurm and pods of Kubernetes. Threads of one process
//! take their part, each with a node on loopback and the variables that its launcher would set.
#![allow(clippy::disallowed_methods, reason = "they start one after the other")]

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, Member, Resolve, Variables, rule_of, write_secret};
use chained_gpc::{Call, Functions, Id, Secret};

const LIMIT: Duration = Duration::from_secs(60);

/// Parses variables as printed by `env`, separated by blanks.
fn variables(text: &str) -> Variables {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.split_whitespace().filter_map(pair).collect()
}

/// Writes a new secret to a file in a folder of the caller.
fn secret(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    write_secret(&path, &Secret::random().unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Pod i of `solver`, or host i of a step, is 127.BLOCK.0.(1 + i): each test has a block of its own.
fn loopback(block: u8) -> Resolve {
    Resolve::by(move |name| {
        let index = name.trim_start_matches("solver-").trim_start_matches("host-");
        let index = index.split('.').next().and_then(|index| index.parse::<u8>().ok());
        let index = index.ok_or_else(|| io::Error::other(format!("nobody is called {name}")))?;
        Ok(vec![IpAddr::from([127, block, 0, 1 + index])])
    })
}

/// The outcome of one process.
type Started = Result<Member, String>;

/// Starts a process for each text of variables, with a pause in between.
fn start(texts: Vec<String>, resolve: &Resolve, pause: Duration, limit: Duration) -> Vec<Started> {
    let one = |text: String| {
        let resolve = resolve.clone();
        move || -> Started {
            let rule = rule_of(&variables(&text)).map_err(|error| error.to_string())?.unwrap();
            let functions = Functions::new();
            functions
                .func("id", |request, reply| {
                    reply.data = request.me().to_string().into_bytes();
                    Ok(())
                })
                .unwrap();
            let bootstrap = Bootstrap::with_rule(rule, resolve).map_err(|error| error.to_string())?;
            bootstrap.limit(limit).start(&functions, |builder| builder).map_err(|error| error.to_string())
        }
    };
    let mut threads = Vec::new();
    for text in texts {
        threads.push(thread::spawn(one(text)));
        thread::sleep(pause);
    }
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Every id calls all, and gets a reply from each.
fn all_call_all(members: &[Started]) {
    // A handle is a function of the name.
    let id = Functions::new().func("id", |_, _| Ok(())).unwrap();
    for member in members {
        let member = member.as_ref().unwrap();
        let outcome = member.call(Call::new(id).ids(0..member.count())).unwrap().wait().unwrap();
        for reply in outcome.replies().unwrap() {
            assert_eq!(reply.data, reply.id.to_string().as_bytes());
        }
        assert_eq!(outcome.done().len(), member.count());
    }
}

fn pod(index: Id, count: u32, file: &str) -> String {
    format!(
        "JOB_COMPLETION_INDEX={index} HOSTNAME=solver-{index} GPC_COUNT={count} GPC_SERVICE=peers GPC_SECRET_FILE={file}"
    )
}

#[test]
fn pods_find_each_other_in_whatever_order_they_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = secret(folder.path(), "secret");
    for (block, reversed) in [(81, false), (82, true)] {
        let mut texts: Vec<String> = (0..7).map(|index| pod(index, 7, &file)).collect();
        if reversed {
            texts.reverse();
        }
        let members = start(texts, &loopback(block), Duration::from_millis(30), LIMIT);
        all_call_all(&members);
        let first = members[0].as_ref().unwrap();
        assert_eq!((first.launcher(), first.count()), ("Kubernetes", 7));
        assert_eq!(first.hosts().len(), 7, "each pod is a host");
    }
}

#[test]
fn a_pod_that_never_comes_is_named_by_its_parent_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = secret(folder.path(), "secret");
    let texts = [0, 1, 2].map(|index| pod(index, 4, &file)).to_vec();
    let members = start(texts, &loopback(83), Duration::ZERO, Duration::from_secs(2));
    let errors: Vec<String> = members.into_iter().map(|member| member.unwrap_err()).collect();
    assert!(
        errors.iter().any(|error| error.starts_with("nobody listens for ids ") && error.contains('3')),
        "{errors:?}"
    );
}

#[test]
fn a_step_on_one_node_needs_no_secret() {
    // No job of this machine has this number.
    let job = 3_000_000_000 + std::process::id();
    let text = |id: Id| {
        format!(
            "SLURM_JOB_ID={job} SLURM_STEP_ID=0 SLURM_PROCID={id} SLURM_STEP_NUM_TASKS=5 SLURM_STEP_NODELIST=here"
        )
    };
    let members = start((0..5).map(text).collect(), &loopback(84), Duration::ZERO, LIMIT);
    all_call_all(&members);
    let first = members[0].as_ref().unwrap();
    assert!(first.secret().is_none());
    assert!(first.peers().iter().all(|(_, address)| address.to_string().starts_with("unix:@gpc-slurm-")));
}

#[test]
fn a_step_on_several_nodes_has_ports_by_the_rule() {
    let folder = tempfile::tempdir().unwrap();
    let file = secret(folder.path(), "secret");
    let places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)];
    let text = |(id, (node, local)): (usize, (u32, u32))| {
        format!(
            "SLURM_JOB_ID=1 SLURM_STEP_ID=2 SLURM_PROCID={id} SLURM_NODEID={node} SLURM_LOCALID={local} SLURM_STEP_NUM_TASKS=6 SLURM_STEP_TASKS_PER_NODE=3,2,1 SLURM_STEP_NODELIST=host-[0-2] GPC_SECRET_FILE={file}"
        )
    };
    let texts = places.into_iter().enumerate().map(text).collect();
    let members = start(texts, &loopback(85), Duration::ZERO, LIMIT);
    all_call_all(&members);
    let first = members[0].as_ref().unwrap();
    // 16384 + 128 * (7 * 1 + 2)
    assert_eq!(first.peers().address(4).unwrap().to_string(), "127.85.0.2:17537");
    assert!(first.secret().is_some());
}

#[test]
fn a_file_of_the_secret_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = secret(folder.path(), "secret");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = start(vec![pod(0, 1, &file)], &loopback(86), Duration::ZERO, LIMIT).remove(0).unwrap_err();
    assert!(error.starts_with("the secret of the job: ") && error.contains("chmod 600"), "{error}");
    let gone = pod(0, 1, "/nowhere/secret");
    let error = start(vec![gone], &loopback(86), Duration::ZERO, LIMIT).remove(0).unwrap_err();
    assert!(error.contains("/nowhere/secret"), "{error}");
}

//! This project's own PMI client.

use std::time::Duration;

use chained_gpc::{Call, Functions, bootstrap};
use gpc_bnr::Spec;

use crate::pmi::world::{Job, PATIENCE, run};

/// Variable that tells this program to act as a process of the test.
const ROLE: &str = "GPC_TEST_ROLE";

/// Calls all other processes.
fn member() {
    let functions = Functions::new();
    functions
        .func("id", |request, reply| {
            reply.data = request.me().to_string().into_bytes();
            Ok(())
        })
        .unwrap();
    let bootstrap = bootstrap::from_env().unwrap().expect("a launcher");
    let launcher = bootstrap.launcher();
    let mut member = bootstrap.limit(PATIENCE).start(&functions, |builder| builder).unwrap();
    let count = member.count();
    if member.id() == 0 {
        let ids = chained_gpc::trees::IdList::range(0..count).with_first(0);
        let outcome = member.call(Call::new(member.functions().named("id").unwrap()).ids(ids)).unwrap();
        let replies = outcome.wait().unwrap().replies().unwrap().len();
        println!("\n{launcher} {replies} of {count} on {} host", member.hosts().len());
    } else {
        member.serve_until_left().unwrap();
    }
    member.finish(Duration::from_secs(60)).unwrap();
}

#[test]
fn processes_of_this_project_get_to_know_each_other() {
    if std::env::var(ROLE).is_ok() {
        return member();
    }
    let program = std::env::current_exe().unwrap();
    let args = ["--exact", "pmi::own::processes_of_this_project_get_to_know_each_other", "--nocapture"];
    let spec = Spec {
        count: 4,
        program: program.to_str().unwrap().into(),
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        env: vec![(ROLE.into(), b"member".to_vec())],
        info: Vec::new(),
    };
    for groups in [false, true] {
        let ran = run(Job { spec: spec.clone(), groups });
        assert!(ran.ends.len() == 4 && ran.ends.values().all(|status| status.success()), "{ran:?}");
        assert!(ran.lines.contains("PMI-1 4 of 4 on 1 host"), "{ran:?}");
        assert!(ran.closed.is_empty() && ran.fences > 0, "{ran:?}");
    }
}

//! Tests of directives that are required.

use super::*;

/// Makes an upcall of a process, keys and directives.
type Call = fn(Process, Vec<String>, Vec<Info>) -> Upcall;

fn required(key: &str, bytes: &[u8]) -> Info {
    Info { required: true, ..info(key, bytes) }
}

/// A directive that was required and is not known was ignored.
#[test]
fn what_is_required_and_not_supported_is_refused() {
    let application = |info| Application {
        program: b"p".to_vec(),
        arguments: Vec::new(),
        environment: Vec::new(),
        folder: None,
        count: 1,
        info,
    };
    let of = || process(1, 1);
    let keys = || vec!["key".to_owned()];
    let calls: [Call; 5] = [
        |process, _, info| Upcall::Publish { process, info },
        |process, keys, info| Upcall::Lookup { process, keys, info },
        |process, keys, info| Upcall::Unpublish { process, keys, info },
        |process, _, info| Upcall::Fetch { process, info },
        |process, _, info| Upcall::Control { process, targets: Vec::new(), info },
    ];
    let data = info("key", b"v");
    for call in calls {
        let mut node = Node::with_group(OnDeath::Kill);
        let strange = vec![data.clone(), required("pmix.strange", b""), required("pmix.jctrl.kill", b"")];
        assert_eq!(node.calls(call(of(), keys(), strange)), []);
        assert_eq!(node.reply(), Err(status::NOT_SUPPORTED));
        // A hint.
        let hint = vec![data.clone(), info("pmix.strange", b""), info("pmix.jctrl.kill", &[1])];
        assert_ne!(node.calls(call(of(), keys(), hint)), []);
    }
    let mut node = Node::with_group(OnDeath::Kill);
    for (info, applications) in [
        (vec![required("pmix.mapby", b"node")], vec![application(Vec::new())]),
        (Vec::new(), vec![application(Vec::new()), application(vec![required("pmix.mapby", b"node")])]),
    ] {
        assert_eq!(node.calls(Upcall::Spawn { process: of(), info, applications }), []);
        assert_eq!(node.reply(), Err(status::NOT_SUPPORTED));
    }
    let known = vec![required("pmix.wdir", b"/"), required("pmix.host", b"a,b")];
    let spawn = Upcall::Spawn { process: of(), info: known, applications: vec![application(Vec::new())] };
    assert_eq!(node.calls(spawn).len(), 1);
    // A required key of a publish is what it publishes.
    assert_eq!(node.calls(Upcall::Publish { process: of(), info: vec![required("key", b"v")] }).len(), 1);
}

#[test]
fn ranges_and_persistences_that_are_not_supported_are_refused_if_they_are_required() {
    let mut node = Node::with_group(OnDeath::Kill);
    let mut published = |info: Info| {
        let publish = Upcall::Publish { process: process(1, 1), info: vec![super::info("key", b"v"), info] };
        !node.calls(publish).is_empty()
    };
    for (key, value, supported) in [
        ("pmix.range", 4, true),
        ("pmix.range", 5, true),
        ("pmix.range", 3, false),
        ("pmix.range", 2, false),
        ("pmix.persist", 0, true),
        ("pmix.persist", 1, true),
        ("pmix.persist", 2, false),
        ("pmix.persist", 4, true),
    ] {
        assert_eq!(published(required(key, &[value])), supported, "{key} {value}");
        assert!(published(info(key, &[value])), "{key} {value} as a hint");
    }
}

/// The other nodes would wait for this one.
#[test]
fn a_collective_call_that_is_refused_fails_at_all_nodes() {
    let processes = || vec![process(1, ALL)];
    let info = || vec![required("pmix.strange", b"")];
    for call in [
        Upcall::Fence { processes: processes(), data: Vec::new(), info: info() },
        Upcall::Connect { processes: processes(), info: info() },
        Upcall::Disconnect { processes: processes(), info: info() },
        Upcall::Group { constructs: true, name: "g".into(), processes: processes(), info: info() },
    ] {
        let mut node = Node::with_group(OnDeath::Kill);
        for (client, serial, request) in node.calls(call) {
            let (Request::Exchange { limit, .. } | Request::Fence { limit, .. }) = request else { panic!() };
            assert_eq!(limit, Some(Duration::ZERO));
            node.answers(client, serial, Err(fault(FaultKind::TimedOut)));
        }
        assert_eq!(node.reply(), Err(status::NOT_SUPPORTED));
    }
}

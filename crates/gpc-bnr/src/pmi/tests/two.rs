//! Tests of PMI-2, message by message.

use super::*;

#[test]
fn the_messages_of_pmi_2_byte_for_byte() {
    let mut node = Node::two();
    for (said, answer) in [
        (
            "    23cmd=fullinit;pmirank=1;",
            "    63cmd=fullinit-response;rc=0;rank=1;size=2;appnum=0;pmiverbose=0;",
        ),
        ("    36cmd=kvs-put;key=key0;value=got key0;", "    26cmd=kvs-put-response;rc=0;"),
        ("    14cmd=kvs-fence;", "    28cmd=kvs-fence-response;rc=0;"),
        (
            "    36cmd=kvs-get;jobid=;srcid=0;key=key0;",
            "    52cmd=kvs-get-response;rc=0;found=TRUE;value=got key0;",
        ),
    ] {
        node.hear(said.as_bytes());
        assert_eq!(node.heard(), answer, "{said}");
    }
    for said in ["    13cmd=finalize;", "13    cmd=finalize;", "000013cmd=finalize;"] {
        let mut node = Node::two();
        node.hear(said.as_bytes());
        assert_eq!(node.heard(), "    27cmd=finalize-response;rc=0;", "{said}");
    }
}

#[test]
fn the_messages_of_pmi_2() {
    let mut node = Node::two();
    for (said, answer) in [
        ("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=kvs_0011223344556677_3;"),
        ("cmd=kvs-put;key=key0;value=got key0;", "cmd=kvs-put-response;rc=0;"),
        ("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;"),
        (
            "cmd=kvs-get;jobid=kvs_0011223344556677_3;srcid=0;key=key0;",
            "cmd=kvs-get-response;rc=0;found=TRUE;value=got key0;",
        ),
        ("cmd=kvs-get;srcid=-1;key=key0;", "cmd=kvs-get-response;rc=0;found=TRUE;value=got key0;"),
        ("cmd=kvs-get;jobid=J;srcid=0;key=key0;", "cmd=kvs-get-response;rc=0;found=FALSE;"),
        ("cmd=kvs-put;key=a;value=x;;y;", "cmd=kvs-put-response;rc=0;"),
        ("cmd=kvs-get;key=a;", "cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y;"),
        ("cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=-1;"),
        ("cmd=info-getjobattr;key=hasNameServ;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=TRUE;"),
        ("cmd=info-getjobattr;key=PMI_process_mapping;", "cmd=info-getjobattr-response;rc=0;found=FALSE;"),
        ("cmd=info-putnodeattr;key=n;value=1;", "cmd=info-putnodeattr-response;rc=0;"),
        ("cmd=info-getnodeattr;key=n;wait=TRUE;", "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=1;"),
        ("cmd=info-getnodeattr;key=none;wait=FALSE;", "cmd=info-getnodeattr-response;rc=0;found=FALSE;"),
        ("cmd=name-publish;name=S;port=P;infokeycount=0;", "cmd=name-publish-response;rc=0;"),
        ("cmd=name-publish;name=S;port=P;", "cmd=name-publish-response;rc=1;errmsg=key_already_present;"),
        ("cmd=name-lookup;name=S;", "cmd=name-lookup-response;rc=0;port=P;value=P;"),
        ("cmd=name-unpublish;name=S;", "cmd=name-unpublish-response;rc=0;"),
        ("cmd=name-lookup;name=S;", "cmd=name-lookup-response;rc=1;errmsg=service_not_found;"),
        ("cmd=job-connect;jobid=kvs_0011223344556677_3;", "cmd=job-connect-response;rc=0;kvscopy=FALSE;"),
        ("cmd=job-connect;jobid=J;", "cmd=job-connect-response;rc=-1;errmsg=no_such_job;"),
        ("cmd=job-disconnect;jobid=J;", "cmd=job-disconnect-response;rc=0;"),
        ("cmd=ring;count=1;", "cmd=ring-response;rc=-1;errmsg=unknown_command;"),
        ("cmd=kvs-put;key=a;", "cmd=kvs-put-response;rc=-1;errmsg=value_is_missing;"),
        (
            "cmd=kvs-put;key=PMI_x;value=1;",
            "cmd=kvs-put-response;rc=-1;errmsg=keys_that_begin_with_PMI__are_reserved;",
        ),
        (
            "cmd=spawn;thrid=0x7f;ncmds=1;preputcount=0;subcmd=X;maxprocs=2;argc=0;",
            "cmd=spawn-response;thrid=0x7f;rc=0;jobid=kvs_0011223344556677_12;errcodes=0,0;",
        ),
        (
            "cmd=spawn;ncmds=2;subcmd=X;maxprocs=2;argc=0;",
            "cmd=spawn-response;rc=-1;errmsg=its_programs_are_not_as_many_as_it_says;",
        ),
        ("cmd=finalize;", "cmd=finalize-response;rc=0;"),
    ] {
        assert_eq!(node.message(said), answer, "{said}");
    }
    assert_eq!(node.closed, None);
}

/// Slurm's client refuses an answer without versions, and reads TRUE or FALSE where others read a number. The field
/// `threaded` identifies it.
#[test]
fn who_wants_to_know_all_is_told_all() {
    let mut node = Node::two();
    node.me = Identity { parent: Some(GroupId(1)), spec: 2, ..identity(1, 2) };
    node.line("cmd=init pmi_version=2 pmi_subversion=0");
    assert_eq!(
        node.message("cmd=fullinit;pmijobid=7.0;pmirank=1;threaded=FALSE;"),
        "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=2;spawner-jobid=kvs_0011223344556677_1;debugged=FALSE;pmiverbose=FALSE;"
    );
    assert_eq!(
        node.message("cmd=fullinit;pmirank=1;"),
        "cmd=fullinit-response;rc=0;rank=1;size=2;appnum=2;spawner-jobid=kvs_0011223344556677_1;pmiverbose=0;"
    );
}

#[test]
fn threads_with_marks_do_not_wait_for_each_other() {
    let mut node = Node::two();
    assert_eq!(node.message("cmd=info-getnodeattr;thrid=a;key=n;wait=TRUE;"), "");
    assert_eq!(
        node.message("cmd=job-getid;thrid=b;"),
        format!("cmd=job-getid-response;thrid=b;rc=0;jobid={K};")
    );
    assert_eq!(
        node.message("cmd=info-putnodeattr;thrid=c;key=n;value=1;"),
        "cmd=info-putnodeattr-response;thrid=c;rc=0;cmd=info-getnodeattr-response;thrid=a;rc=0;found=TRUE;value=1;"
    );
    // Without a thread id, later requests wait.
    assert_eq!(node.message("cmd=info-getnodeattr;key=m;wait=TRUE;"), "");
    assert_eq!(node.message("cmd=job-getid;"), "");
}

/// The requests of a thread wait for those of the same thread alone.
#[test]
fn a_request_with_a_mark_does_not_hold_up_the_next() {
    let message = |message: &str| format!("{:>6}{message}", message.len());
    for (marks, next_waits) in [(["thrid=a;", "thrid=b;"], false), (["", "thrid=b;"], true)] {
        let mut pmi = Pmi::new();
        pmi.bytes(b"cmd=init pmi_version=2 pmi_subversion=0\n");
        pmi.next();
        pmi.answered(1, Ok(Answer::Identity(identity(0, 2))));
        pmi.next();
        pmi.bytes(message(&format!("cmd=kvs-get;{}key=k;", marks[0])).as_bytes());
        pmi.bytes(message(&format!("cmd=job-getid;{}", marks[1])).as_bytes());
        assert!(matches!(pmi.next(), Some(ProtocolOutput::Request(2, Request::Get { .. }))));
        assert_eq!(pmi.next().is_none(), next_waits, "{marks:?}");
    }
}

/// Attributes of the job are those of the process's own job, whatever job a message names.
#[test]
fn an_attribute_is_that_of_the_own_job() {
    let mut node = Node::two();
    let said = node.message("cmd=info-getjobattr;jobid=J;key=x;");
    assert_eq!(said, "cmd=info-getjobattr-response;rc=0;found=FALSE;");
    assert_eq!(node.asked.last(), Some(&Request::Get { database: K.into(), key: b"x".to_vec() }));
}

#[test]
fn a_spawn_that_leaves_processes_out_is_none_that_has_failed() {
    let reply = TwoReply { command: "spawn".into(), thread: None, what: crate::pmi::step::TwoForm::Spawn };
    let said = |errors: &[i32]| {
        let errors = errors.to_vec();
        let answer = Answer::Spawned { group: GroupId(9), errors, same_domain: true };
        String::from_utf8(reply.answer(Some(&identity(0, 1)), Ok(answer))).unwrap()[LENGTH..].to_owned()
    };
    let left_out = crate::spec::LEFT_OUT;
    let job = "jobid=kvs_0011223344556677_9;";
    assert_eq!(said(&[0, left_out]), format!("cmd=spawn-response;rc=0;{job}errcodes=0,-1;"));
    let failed = "cmd=spawn-response;rc=-1;errmsg=processes_could_not_be_started;errcodes=2,-1;";
    assert_eq!(said(&[2, left_out]), failed);
}

/// The refusal of an answer that is too long came without the id of its thread, which then waited for ever.
#[test]
fn an_answer_that_is_too_long_is_refused_to_its_thread() {
    let mut node = Node::two();
    let of = |key: &str| (K.to_owned(), key.as_bytes().to_vec());
    // Each semicolon takes two bytes.
    node.values.insert(of("long"), vec![b';'; 500_000]);
    let said = node.message("cmd=kvs-get;thrid=0x7;key=long;");
    assert_eq!(said, "cmd=kvs-get-response;thrid=0x7;rc=-1;errmsg=the_answer_is_too_long;");
    node.values.insert(of("fits"), vec![b';'; 499_000]);
    assert!(
        node.message("cmd=kvs-get;key=fits;").starts_with("cmd=kvs-get-response;rc=0;found=TRUE;value=;;")
    );
    // A thread id that fills the answer by itself is left out.
    let id = ";;".repeat(490_000);
    let said = node.message(&format!("cmd=job-getid;thrid={id};"));
    assert_eq!(said, format!("cmd=job-getid-response;thrid={id};rc=0;jobid={K};"));
    let said = node.message(&format!("cmd=kvs-get;thrid={id};key=fits;"));
    assert_eq!(said, format!("cmd=kvs-get-response;thrid={id};rc=-1;errmsg=the_answer_is_too_long;"));
}

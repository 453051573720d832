//! Processes that speak PMI, well and badly.

use super::support::*;

#[test]
fn what_is_put_is_got_after_a_fence() {
    let place = Place::new();
    let script = format!(
        "{PMI} put r$PMI_RANK \"value of $PMI_RANK\"; fence; get r$(((PMI_RANK + 1) % PMI_SIZE)); echo \"$line\"; finalize"
    );
    for words in ["-n 4", "-n 4 --nodes 3"] {
        let ended = ended(place.script(words, &script));
        let expected: Vec<String> =
            (0..4).map(|rank| format!("cmd=get_result rc=0 msg=success value=value of {rank}")).collect();
        assert_eq!(
            (ended.status, ended.lines()),
            (0, expected.iter().map(String::as_str).collect()),
            "{}",
            ended.err
        );
        place.empty();
    }
}

#[test]
fn a_process_that_speaks_nonsense_fails_and_harms_nobody_else() {
    let place = Place::new();
    let bad = [
        "say 'cmd=init pmi_version=1 pmi_subversion=1'; hear; say 'cmd=no_such_thing'; hear",
        "say 'GET / HTTP/1.1'",
        "head -c 100000 /dev/zero >&$PMI_FD",
        "head -c 3000000 /dev/urandom >&$PMI_FD",
        "printf 'BNR1\\xff\\xff\\xff\\xffxxxx' >&$PMI_FD",
    ];
    for script in bad {
        let script = format!(
            "say() {{ printf '%s\\n' \"$1\" >&\"$PMI_FD\"; }}; hear() {{ IFS= read -r line <&\"$PMI_FD\"; }}; [ $PMI_RANK = 0 ] && exec sleep 1000; {script}; cat <&$PMI_FD >/dev/null; exit 3"
        );
        // It is not answered any more: what it reads is at its end, or it is written to nobody.
        let ended = ended(place.script("-n 2", &script));
        assert!([3, 141].contains(&ended.status), "{script}: {}", ended.err);
        assert!(ended.err.contains("g1.1"), "{}", ended.err);
        assert!(ended.err.len() < 4096, "{}", ended.err);
        place.empty();
    }
}

#[test]
fn a_process_that_never_finalizes_fails_its_job() {
    let place = Place::new();
    let script = format!("{PMI} [ $PMI_RANK = 1 ] && exit 0; fence; finalize");
    let ended = ended(place.script("-n 3", &script));
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.err.starts_with("gpc: g1.1: ended with status 0, but without finalizing"), "{}", ended.err);
    place.empty();
}

#[test]
fn an_abort_is_the_status_of_the_job() {
    let place = Place::new();
    let script = format!("{PMI} [ $PMI_RANK = 1 ] && say 'cmd=abort exitcode=42'; exec sleep 1000");
    let ended = ended(place.script("-n 3", &script));
    assert_eq!(ended.status, 42, "{}", ended.err);
    assert!(ended.err.starts_with("gpc: g1.1 has ended the job with status 42"), "{}", ended.err);
    place.empty();
}

#[test]
fn a_spawned_group_is_waited_for() {
    let place = Place::new();
    let script = format!(
        "{PMI} printf 'mcmd=spawn\\nnprocs=2\\nexecname=bash\\ntotspawns=1\\nspawnssofar=1\\nargcnt=2\\narg1=-c\\narg2=%s\\npreput_num=0\\ninfo_num=0\\nendcmd\\n' 'read x <&1 2>/dev/null; sleep 0.3; echo child $PMI_RANK of $PMI_SIZE $PMI_SPAWNED' >&$PMI_FD; hear; echo \"$line\"; finalize"
    );
    let ended = ended(place.script("-n 1", &script));
    let expected = ["child 0 of 2 1", "child 1 of 2 1", "cmd=spawn_result rc=0 errcodes=0,0"];
    assert_eq!((ended.status, ended.lines()), (0, expected.to_vec()), "{}", ended.err);
    place.empty();
}

/// The job of a program that had got the error of a spawn, and had gone on, had failed.
#[test]
fn a_spawn_that_fails_is_the_spawners_alone() {
    let place = Place::new();
    let script = format!(
        "{PMI} printf 'mcmd=spawn\\nnprocs=2\\nexecname=/nowhere/at/all\\ntotspawns=2\\nspawnssofar=1\\nargcnt=0\\npreput_num=0\\ninfo_num=0\\nendcmd\\nmcmd=spawn\\nnprocs=1\\nexecname=sleep\\ntotspawns=2\\nspawnssofar=2\\nargcnt=1\\narg1=1000\\npreput_num=0\\ninfo_num=0\\nendcmd\\n' >&$PMI_FD; hear; echo \"$line\"; finalize"
    );
    let ended = ended(place.script("-n 1", &script));
    assert_eq!((ended.status, ended.err.as_str()), (0, ""), "{}", ended.out);
    assert!(
        ended.out.starts_with("cmd=spawn_result ") && !ended.out.contains("errcodes=0,0,0"),
        "{}",
        ended.out
    );
    place.empty();
}

#[test]
fn pmi_by_a_port_needs_the_secret_of_a_process() {
    let place = Place::new();
    let script = r#"
        [ -z "$PMI_FD" ] || echo there is a descriptor
        host=${PMI_PORT%:*} port=${PMI_PORT##*:}
        case $host in 127.*|localhost) ;; *) echo "$host is not this machine" ;; esac
        exec 8<>"/dev/tcp/$host/$port" && printf 'cmd=initack pmiid=1\n' >&8 && IFS= read -r line <&8 && echo "a guess is answered: $line"
        exec 9<>"/dev/tcp/$host/$port"
        printf 'cmd=initack pmiid=%s\n' "$PMI_ID" >&9
        for word in initack size rank debug; do IFS= read -r line <&9; printf '%s;' "$line"; done
        printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&9
        IFS= read -r line <&9
        printf 'cmd=finalize\n' >&9
        IFS= read -r line <&9
        echo "$line"
    "#;
    let ended = ended(place.script("-n 2 --pmi-port", script));
    let expected = [0, 1].map(|rank| {
        format!("cmd=initack;cmd=set size=2;cmd=set rank={rank};cmd=set debug=0;cmd=finalize_ack")
    });
    assert_eq!(
        (ended.status, ended.lines()),
        (0, expected.iter().map(String::as_str).collect()),
        "{}",
        ended.err
    );
    place.empty();
}

/// PMI-2 says behind its opening which process it is: the opening was not answered at the port, and both sides waited.
#[test]
fn pmi_2_by_a_port_is_answered_before_it_says_who_it_is() {
    let place = Place::new();
    let script = r#"
        exec 9<>"/dev/tcp/${PMI_PORT%:*}/${PMI_PORT##*:}"
        printf 'cmd=init pmi_version=2 pmi_subversion=0\n' >&9
        IFS= read -r line <&9
        echo "$line"
        body="cmd=fullinit;pmirank=$PMI_ID;"
        printf '%6d%s' ${#body} "$body" >&9
        IFS= read -r -N 69 line <&9
        echo "$line"
        printf '13    cmd=finalize;' >&9
        IFS= read -r -N 33 line <&9
        echo "$line"
    "#;
    let ended = ended(place.script("-n 1 --pmi-port", script));
    let expected = [
        "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0",
        "    63cmd=fullinit-response;rc=0;rank=0;size=1;appnum=0;pmiverbose=0;",
        "    27cmd=finalize-response;rc=0;",
    ];
    assert_eq!(
        (ended.status, ended.out.lines().collect::<Vec<&str>>()),
        (0, expected.to_vec()),
        "{}",
        ended.err
    );
    place.empty();
}

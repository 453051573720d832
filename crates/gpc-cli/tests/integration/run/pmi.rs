//! Processes that speak PMI, correctly and wrongly.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;

use super::support::*;

#[test]
fn what_is_put_is_got_after_a_fence() {
    let place = Place::new();
    let script = format!(
        "{PMI} put r$PMI_RANK \"value of $PMI_RANK\"; fence; get r$(((PMI_RANK + 1) % PMI_SIZE)); echo \"$line\"; finalize"
    );
    for words in ["-n 4", "-n 4 --nodes 3"] {
        let ended = ended(place.script(words, &script));
        ended.well((0..4).map(|rank| format!("cmd=get_result rc=0 msg=success value=value of {rank}")));
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
        // The process gets no answers any more: its next read is the end, or its next write fails.
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
    ended.failed(1, "gpc: g1.1: ended with status 0, but without finalizing");
    place.empty();
}

#[test]
fn an_abort_is_the_status_of_the_job() {
    let place = Place::new();
    let script = format!("{PMI} [ $PMI_RANK = 1 ] && say 'cmd=abort exitcode=42'; exec sleep 1000");
    let ended = ended(place.script("-n 3", &script));
    ended.failed(42, "gpc: g1.1 has ended the job with status 42");
    place.empty();
}

#[test]
fn a_spawned_group_is_waited_for() {
    let place = Place::new();
    let script = format!(
        "{PMI} spawn 2 bash -c 'read x <&1 2>/dev/null; sleep 0.3; echo child $PMI_RANK of $PMI_SIZE $PMI_SPAWNED'; echo \"$line\"; finalize"
    );
    let ended = ended(place.script("-n 1", &script));
    ended.well(["child 0 of 2 1", "child 1 of 2 1", "cmd=spawn_result rc=0 errcodes=0,0"]);
    place.empty();
}

/// The job of a program that received the error of a spawn, and continued, had failed.
#[test]
fn a_spawn_that_fails_is_the_spawners_alone() {
    let place = Place::new();
    let script = format!(
        "{PMI} printf 'mcmd=spawn\\nnprocs=2\\nexecname=/nowhere/at/all\\ntotspawns=2\\nspawnssofar=1\\nargcnt=0\\npreput_num=0\\ninfo_num=0\\nendcmd\\nmcmd=spawn\\nnprocs=1\\nexecname=sleep\\ntotspawns=2\\nspawnssofar=2\\nargcnt=1\\narg1=1000\\npreput_num=0\\ninfo_num=0\\nendcmd\\n' >&$PMI_FD; hear; echo \"$line\"; finalize"
    );
    let ended = ended(place.script("-n 1", &script));
    assert_eq!(ended.status, 0, "{}", ended.out);
    // MPI libraries drop the reason, so it is on standard error.
    assert!(ended.err.starts_with("gpc: cannot start /nowhere/at/all (g2.0-1"), "{}", ended.err);
    assert!(
        ended.out.starts_with("cmd=spawn_result ") && !ended.out.contains("errcodes=0,0,0"),
        "{}",
        ended.out
    );
    place.empty();
}

/// A job whose first group had aborted or failed was reported as ended, but waited for the output of the processes that
/// it had spawned.
#[test]
fn an_abort_ends_what_was_spawned() {
    let place = Place::new();
    for (end, status) in [("say 'cmd=abort exitcode=43'; exec sleep 1000", 43), ("exit 9", 9)] {
        for words in ["-n 2", "-n 2 --nodes 2"] {
            let script = format!(
                "{PMI} [ $PMI_RANK = 0 ] && exec sleep 1000; spawn 2 sleep 1000; echo \"$line\"; {end}"
            );
            let ended = ended(place.script(words, &script));
            assert_eq!(
                (ended.status, ended.out.as_str()),
                (status, "cmd=spawn_result rc=0 errcodes=0,0\n"),
                "{}",
                ended.err
            );
            place.empty();
        }
    }
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
    ended.well([0, 1].map(|rank| {
        format!("cmd=initack;cmd=set size=2;cmd=set rank={rank};cmd=set debug=0;cmd=finalize_ack")
    }));
    place.empty();
}

/// A PMI-2 client identifies itself after its opening. At the port the opening was not answered, and both sides waited.
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

/// Requests of the launchers of GASNet (pmi-spawner) and of Sandia OpenSHMEM (runtime-pmi) by PMI-1: the maximum
/// lengths, keys of that length, and values of that length. The values have the digits of base 85, which include `=`,
/// quotes and backslashes, and hexadecimal digits.
#[test]
fn clients_that_put_bytes_get_them_whatever_their_digits_are() {
    let place = Place::new();
    let script = format!(
        r##"{PMI}
        ask 'cmd=get_maxes'; maxes=$line
        length() {{ rest=${{maxes#*$1=}}; echo ${{rest%% *}}; }}
        keys=$(($(length keylen_max) - 1)) values=$(($(length vallen_max) - 1))
        [ ${{#kvs}} -lt $(length kvsname_max) ] || echo the name $kvs is too long
        digits='!"#$%&'"'"'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqrstuzy'
        full() {{ local text=$1; while [ ${{#text}} -lt $2 ]; do text=$text$3; done; echo "${{text:0:$2}}"; }}
        key() {{ full "GNE0-$1" $keys _; }}
        value() {{ full "!$1=value=" $values "$digits"; }}
        hex() {{ full "20001a990c00$1" $((values / 2 * 2)) 20; }}
        put "$(key $PMI_RANK)" "$(value $PMI_RANK)"
        put "shmem-$PMI_RANK-fi_epname" "$(hex $PMI_RANK)"
        fence
        for ((other = 0; other < PMI_SIZE; other++)); do
            get "$(key $other)"
            [ "$line" = "cmd=get_result rc=0 msg=success value=$(value $other)" ] && echo $PMI_RANK has $other
            get "shmem-$other-fi_epname"
            [ "$line" = "cmd=get_result rc=0 msg=success value=$(hex $other)" ] && echo $PMI_RANK has the name of $other
        done
        # All barriers are in before a database is walked through.
        fence
        index=0 found=0
        while ask "cmd=getbyidx kvsname=$kvs idx=$index" && [ "${{line#*rc=0}}" != "$line" ]; do
            case $line in *' key=GNE0-'*|*' key=shmem-'*) found=$((found + 1)) ;; esac
            index=$((index + 1))
        done
        echo $PMI_RANK walks by $found
        fence
        finalize"##
    );
    for words in ["-n 4", "-n 4 --nodes 2"] {
        let ended = ended(place.script(words, &script));
        let mut expected: Vec<String> = (0..4).map(|rank| format!("{rank} walks by 8")).collect();
        for (rank, other) in (0..16).map(|pair| (pair / 4, pair % 4)) {
            expected.extend([format!("{rank} has {other}"), format!("{rank} has the name of {other}")]);
        }
        ended.well(expected);
        place.empty();
    }
}

/// The same by PMI-2, as GASNet with Slurm's library does it: `srcid=-1`, the name of the job for each get, and a fence
/// after each put. That client writes `w` for the semicolon.
#[test]
fn clients_of_pmi_2_that_put_bytes_get_them() {
    let place = Place::new();
    let script = r##"
        export LC_ALL=C
        say() { printf '%-6d%s' ${#1} "$1" >&"$PMI_FD"; }
        hear() { IFS= read -r -N 6 size <&"$PMI_FD"; IFS= read -r -N $((size)) line <&"$PMI_FD"; }
        ask() { say "$1"; hear; }
        printf 'cmd=init pmi_version=2 pmi_subversion=0
' >&"$PMI_FD"
        IFS= read -r line <&"$PMI_FD"
        ask "cmd=fullinit;pmirank=$PMI_RANK;threaded=FALSE;"
        ask 'cmd=job-getid;'; job=${line#*jobid=}; job=${job%;}
        digits='!"#$%&'"'"'()*+,-.v0123456789:w<x>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqrstuzy'
        full() { local text=$1; while [ ${#text} -lt $2 ]; do text=$text$3; done; echo "${text:0:$2}"; }
        for ((round = 0; round < 3; round++)); do
            ask "cmd=kvs-put;key=$(full GNE$round-$PMI_RANK 63 _);value=$(full $PMI_RANK-$round 1023 "$digits");"
            ask 'cmd=kvs-fence;'
            for ((other = 0; other < PMI_SIZE; other++)); do
                ask "cmd=kvs-get;jobid=$job;srcid=-1;key=$(full GNE$round-$other 63 _);"
                [ "$line" = "cmd=kvs-get-response;rc=0;found=TRUE;value=$(full $other-$round 1023 "$digits");" ] && echo $PMI_RANK has $round of $other
            done
        done
        ask 'cmd=finalize;'
    "##;
    for words in ["-n 3", "-n 3 --nodes 3"] {
        let ended = ended(place.script(words, script));
        let each = (0..27).map(|which| (which / 9, which / 3 % 3, which % 3));
        ended.well(each.map(|(rank, round, other)| format!("{rank} has {round} of {other}")));
        place.empty();
    }
}

/// The end of a connection can arrive together with its last bytes, and is reported once.
#[test]
fn who_says_something_and_goes_at_once_leaves_its_place_to_others() {
    let place = Place::new();
    let script = r#"
        host=${PMI_PORT%:*} port=${PMI_PORT##*:}
        for ((turn = 0; turn < 300; turn++)); do
            exec 8<>"/dev/tcp/$host/$port" && printf 'cmd=initack pmi' >&8
            exec 8>&-
        done
        exec 9<>"/dev/tcp/$host/$port"
        printf 'cmd=initack pmiid=%s
cmd=init pmi_version=1 pmi_subversion=1
' "$PMI_ID" >&9
        for word in initack size rank debug init; do IFS= read -r line <&9; done
        # Nobody reads the answer. Every other one was read: an end with something unread would take what was said last along.
        printf 'cmd=finalize
' >&9
        echo "$line"
    "#;
    let ended = ended(place.script("-n 1 --pmi-port", script));
    assert_eq!(
        (ended.status, ended.out.as_str()),
        (
            0,
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0
"
        ),
        "{}",
        ended.err
    );
    place.empty();
}

/// With `--pmi-port` any user of the machine locked the ranks out: 256 silent connections stayed forever, and after
/// 10,000 wrong numbers the port closed permanently.
#[test]
fn nobody_locks_the_processes_out_of_their_port() {
    let place = Place::new();
    let (port, go) = (place.path("port"), place.path("go"));
    let script = format!(
        "[ $PMI_ID -ge 0 ] && echo ${{PMI_PORT#*:}} > {port}.$MPI_LOCALRANKID
        until [ -e {go} ]; do sleep 0.01; done
        exec 5<>/dev/tcp/127.0.0.1/${{PMI_PORT#*:}}
        printf 'cmd=initack pmiid=%s\n' $PMI_ID >&5
        for ((i = 0; i < 4; i++)); do read -r line <&5; done
        export PMI_FD=5
        {PMI}
        fence; finalize; echo \"$line\""
    );
    let run = Run::start(place.script("-n 2 --pmi-port", &script));
    let mut number = String::new();
    until("it says where the port is", || {
        number = fs::read_to_string(format!("{port}.1")).unwrap_or_default();
        number.ends_with('\n')
    });
    let address: SocketAddr = format!("127.0.0.1:{}", number.trim()).parse().unwrap();
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    // The longest silent connection makes room, and none stays forever.
    let mut idle: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    assert_eq!(idle[0].read(&mut [0; 1]).unwrap_or(0), 0);
    for _ in 0..10_100 {
        let mut guess = connect();
        guess.write_all(b"cmd=initack pmiid=1\n").unwrap();
        assert_eq!(guess.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    assert_eq!(idle[299].read(&mut [0; 1]).unwrap_or(0), 0, "it has had 10 s");
    // Bytes from another user are not read.
    let root = rustix::process::geteuid().is_root();
    if root {
        let mut other = std::process::Command::new("bash");
        let line = format!("exec 3<>/dev/tcp/127.0.0.1/{}; ! read -r -t 100 -u 3 answer", number.trim());
        let status = other.args(["-c", &line]).uid(65_534).status().unwrap();
        assert!(status.success());
        run.complains("a connection of user 65534 to the port of PMI was closed");
    }
    fs::write(&go, "").unwrap();
    run.ended().well(["cmd=finalize_ack"; 2]);
    place.empty();
}

//! Spellings, exit statuses, and the help.

use std::fs;
use std::net::TcpListener;

use super::support::*;

#[test]
fn the_spelling_of_the_field_does_the_same() {
    let server = Server::start("-server 2 -port 0 -auth none -v");
    leave(&mut server.clients(2));
    let (status, said) = server.ended();
    assert_eq!(status, Some(0));
    assert!(said.contains("client  1       FINI"), "{said}");
    let server = Server::start("-port 0 -server 1");
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "10.0.0.1:7000\n").unwrap();
    let words = format!("impi -client 0 {} --hosts {} --output peers", server.address, hosts.display());
    assert_eq!(finished(gpc(&words)), (Some(0), "0 10.0.0.1:7000\n".into(), String::new()));
    assert_eq!(server.ended(), (Some(0), String::new()));
}

#[test]
fn wrong_usage_exits_with_2_and_in_the_spelling_of_the_field_with_1() {
    for (ours, theirs) in [
        ("server", "-server"),
        ("server 0", "-server 0"),
        ("server 33", "-server 33"),
        ("server two", "-server two"),
        ("server 2 --port 65536", "-server 2 -port 65536"),
        ("server 2 --auth rsa", "-server 2 -auth rsa"),
        ("server 2 --auth key", "-server 2 -auth key"),
        ("server 2 -x", "-server 2 -x"),
        ("client 0", "-client 0"),
        ("client 32 127.0.0.1:1 --hosts f", "-client 32 127.0.0.1:1 --hosts f"),
        ("client 0 127.0.0.1:1", "-client 0 127.0.0.1:1"),
    ] {
        for (words, status) in [(ours, 2), (theirs, 1)] {
            let (found, out, error) = finished(gpc(&format!("impi {words}")));
            assert_eq!((found, out.as_str()), (Some(status), ""), "{words}: {error}");
            assert!(!error.is_empty(), "{words}");
        }
    }
}

/// clap reported `--auth`, or `-b` for `-bogus`.
#[test]
fn mistakes_in_the_spelling_of_the_field_are_said_in_it() {
    for (words, expected) in [
        ("-server 2 -bogus", "gpc: there is no argument `-bogus`: write `gpc impi -server N [-port P]"),
        ("-server", "gpc: N is missing: write `gpc impi -server <N>`"),
        ("-server 2 -client 0 a:1", "-client comes after -server"),
        ("-server 2 -auth rsa", "gpc: -auth"),
        ("-server 2 -auth key", "gpc: -auth key takes the key from IMPI_AUTH_KEY"),
        ("-server 2 -port x", "gpc: -port x: write a whole number"),
        ("-server 2 --bind 0.0.0.0", "say -auth none (or"),
    ] {
        let (status, out, error) = finished(gpc(&format!("impi {words}")));
        assert_eq!((status, out.as_str()), (Some(1), ""), "{words}: {error}");
        assert!(
            error.contains(expected) && !error.contains("--auth") && !error.contains("--port"),
            "{error}"
        );
    }
}

#[test]
fn values_that_cannot_be_are_refused_with_what_can() {
    for (words, expected) in [
        ("server 2 --bind head", "write an IP address of this machine"),
        ("server 2 --time-limit 0s", "--time-limit 0s leaves no time to join"),
        ("client 0 a:1 --hosts f --time-limit 0s", "--time-limit 0s leaves no time to join"),
        ("client 0 a:1 --hosts f --datalen 0", "write a number from 1 to 4294967295, or none"),
        ("client 0 a:1 --hosts f --tag-ub 5", "write a number from 32767 to 2147483647, or none"),
        ("client 0 a:1 --hosts f --coll-xsize -2", "write a number from -1 to 2147483647, or none"),
        ("client 0 a:1 --hosts f --ackmark 9 --hiwater 8", "--ackmark 9 is more than --hiwater 8"),
    ] {
        let (status, out, error) = finished(gpc(&format!("impi {words}")));
        assert_eq!((status, out.as_str()), (Some(2), ""), "{words}: {error}");
        assert!(error.contains(expected), "{words}: {error}");
    }
    let server = Server::start("server 1 --bind localhost");
    assert!(server.address.to_string().starts_with("127.0.0.1:"));
    leave(&mut server.clients(1));
    assert_eq!(server.ended(), (Some(0), String::new()));
}

#[test]
fn what_cannot_be_done_is_said_with_its_reason() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (status, out, error) = finished(gpc(&format!("impi server 2 --port {}", address.port())));
    assert_eq!((status, out.as_str()), (Some(1), ""));
    assert!(error.starts_with(&format!("gpc: cannot listen at {address}: ")), "{error}");
    drop(taken);
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "10.0.0.1:7000\nhere:1\n").unwrap();
    let client = |hosts: &str| finished(gpc(&format!("impi client 0 {address} --hosts {hosts}")));
    let (status, _, error) = client(&hosts.display().to_string());
    assert!(status == Some(1) && error.contains("hosts: line 2: `here:1` is no address"), "{error}");
    let (status, _, error) = client("/nonexistent");
    assert!(status == Some(1) && error.contains("/nonexistent: "), "{error}");
    fs::write(&hosts, "10.0.0.1:7000\n").unwrap();
    let (status, _, error) = client(&hosts.display().to_string());
    assert!(status == Some(1) && error.contains("no connection to the IMPI server"), "{error}");
}

#[test]
fn addresses_of_ipv6_are_printed_in_brackets() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skipped("IPv6");
    }
    let server = Server::start("server 1 --bind ::1");
    assert!(server.address.to_string().starts_with("[::1]:"));
    leave(&mut server.clients(1));
    assert_eq!(server.ended(), (Some(0), String::new()));
}

#[allow(clippy::print_stderr, reason = "whoever runs the tests is to know")]
fn skipped(what: &str) {
    eprintln!("skipped: needs {what}");
}

#[test]
fn help_says_what_there_is() {
    let help = |words: &str| {
        let (status, out, error) = finished(gpc(words));
        assert_eq!((status, error.as_str()), (Some(0), ""));
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
        out
    };
    let all = help("--help");
    assert!(all.contains("impi ") && all.contains("gpc impi server 2"), "{all}");
    let impi = help("impi --help");
    assert!(impi.contains("-server N [-port P] [-auth LIST] [-v]"), "{impi}");
    let server = help("impi server --help");
    for word in ["--port", "--bind", "--auth", "--time-limit", "--check", "--trace", "IMPI_AUTH_KEY"] {
        assert!(server.contains(word), "{word}: {server}");
    }
    assert_eq!(help("impi -server --help"), server);
    assert_eq!((help("impi help --help"), help("impi -help")), (impi.clone(), impi));
    assert_eq!(help("help --help"), help("help"));
    let client = help("impi client --help");
    for word in ["--hosts", "--output", "--peers-out", "--ports", "--tag-ub", "--plain", "PID", "FINI"] {
        assert!(client.contains(word), "{word}: {client}");
    }
    // A line of the examples that exceeds the width is broken after a word or two.
    let broken = |line: &&str| !line.starts_with(' ') && line.split(' ').count() < 3 && line.ends_with('.');
    assert_eq!(client.lines().find(broken), None);
}

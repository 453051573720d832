//! `--relay`: the server's broadcasts go through nodes of the clients.

use std::fs;
use std::process::Stdio;

use super::support::*;

/// Returns the output of each of these clients, whose hosts differ by rank.
fn printed(server: &Server, clients: u32, more: impl Fn(u32) -> String) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let start = |rank: u32| {
        let hosts = folder.path().join(format!("{rank}.txt"));
        fs::write(&hosts, format!("10.0.{rank}.1:7000 4711\n10.0.{rank}.2:7000 {rank}\n")).unwrap();
        let words = format!(
            "impi client {rank} {} --output peers --hosts {} {}",
            server.address,
            hosts.display(),
            more(rank)
        );
        let mut client = gpc(&words);
        client.env_remove("GPC_SECRET_FILE").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..clients).map(start).collect();
    let printed = |child: std::process::Child| {
        let (status, out, error) = told(child.wait_with_output().unwrap());
        assert_eq!(status, Some(0), "{error}");
        out
    };
    children.into_iter().map(printed).collect()
}

#[test]
fn broadcasts_go_through_the_clients_nodes() {
    let plain = Server::start("server 5");
    let expected = printed(&plain, 5, |_| String::new());
    assert_eq!(plain.ended(), (Some(0), String::new()));
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    assert_eq!(finished(gpc(&format!("secret {}", secret.display()))).0, Some(0));
    // With a secret, clients prove it; on loopback it is optional.
    for more in [String::new(), format!("--secret-file {}", secret.display())] {
        let server = Server::start("server 5 --relay binomial --trace");
        let job =
            |out: &str| out.lines().filter(|line| !line.starts_with("job ")).collect::<Vec<_>>().join("\n");
        let out = printed(&server, 5, |_| more.clone());
        let (status, said) = server.ended();
        assert_eq!(status, Some(0), "{said}");
        assert!(out.iter().zip(&expected).all(|(out, expected)| job(out) == job(expected)), "{out:?}");
        let through =
            said.lines().filter(|line| line.contains("REACHED") && line.ends_with("mask 0x0000001f"));
        // Each label but C_VERSION, and the ports of the processes.
        assert_eq!(through.count(), 14, "{said}");
        assert!(said.contains("NODE  ::ffff:127.0.0.1, port "), "{said}");
    }
    // One client cannot relay.
    let server = Server::start("server 5 --relay flat --trace");
    printed(&server, 5, |rank| if rank == 3 { "--plain".into() } else { String::new() });
    let (status, said) = server.ended();
    assert_eq!(status, Some(0));
    assert!(said.contains("no node for them at clients 3") && !said.contains("REACHED"), "{said}");
}

#[test]
fn a_tree_that_there_is_not_is_refused() {
    for tree in ["oak", "file:tree.txt", "hosts+binary"] {
        let (status, out, error) = finished(gpc(&format!("impi server 2 --relay {tree}")));
        assert_eq!((status, out.as_str()), (Some(2), ""));
        assert!(error.contains(tree) && error.contains("binomial"), "{error}");
    }
}

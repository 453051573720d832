//! The program of the pods in `job.yaml`, and a simulation of these pods as processes of this machine.
//!
//! In a pod, the program finds its id, exchanges addresses with the others, and id 0 prints the place of each. Started
//! by hand (`cargo run --example kubernetes`), it starts itself four times, each time with the variables that
//! Kubernetes would set. The order differs from that of the indices. A function takes the place of the cluster's name
//! service.
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::env;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, Resolve, SECRET_VARIABLE, Variables, rule_of, write_secret};
use chained_gpc::{Call, Functions, Secret};

/// Variable that makes a pod resolve names on this machine.
const LOOPBACK: &str = "GPC_EXAMPLE_LOOPBACK";

/// Indices of the pods, in the order in which they start.
const ORDER: [u32; 4] = [2, 0, 3, 1];

fn main() -> Result<(), Box<dyn Error>> {
    // Variables that are not UTF-8 are not from Kubernetes.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let variables: Variables = env::vars_os().filter_map(text).collect();
    match rule_of(&variables)? {
        Some(rule) => {
            let names =
                if variables.contains_key(LOOPBACK) { Resolve::by(loopback) } else { Resolve::default() };
            pod(Bootstrap::with_rule(rule, names)?)
        }
        None => cluster(),
    }
}

/// Runs one pod.
fn pod(bootstrap: Bootstrap) -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    let place = functions.func("place", |_, reply| {
        reply.data = env::var("HOSTNAME").unwrap_or_default().into_bytes();
        Ok(())
    })?;
    let mut member = bootstrap.start(&functions, |builder| builder)?;
    if member.id() == 0 {
        let outcome = member.call(Call::new(place).ids(0..member.count()))?.wait()?;
        for reply in outcome.replies()? {
            println!("id {} is in pod {}", reply.id, String::from_utf8_lossy(&reply.data));
        }
    } else {
        member.serve_until_left()?;
    }
    Ok(member.finish(Duration::ZERO)?)
}

/// Runs the pods as processes.
fn cluster() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let secret = folder.path().join("secret");
    write_secret(&secret, &Secret::random()?)?;
    let mut pods = Vec::new();
    for index in ORDER {
        let mut pod = Command::new(env::current_exe()?);
        pod.env("JOB_COMPLETION_INDEX", index.to_string()).env("HOSTNAME", format!("solver-{index}"));
        pod.env("GPC_COUNT", ORDER.len().to_string())
            .env("GPC_SERVICE", "solver")
            .env(SECRET_VARIABLE, &secret);
        // A port for this run, so that two runs do not collide.
        pod.env("GPC_PORT", (20_000 + std::process::id() % 10_000).to_string()).env(LOOPBACK, "1");
        pods.push(pod.stdin(Stdio::null()).spawn()?);
    }
    let ended: Vec<_> = pods.iter_mut().map(|pod| pod.wait()).collect::<Result<_, _>>()?;
    match ended.iter().all(|status| status.success()) {
        true => Ok(()),
        false => Err("a pod has failed".into()),
    }
}

/// Name service of this machine: pod i of `solver` is at 127.0.0.(1 + i).
fn loopback(name: &str) -> io::Result<Vec<IpAddr>> {
    let index = name.strip_prefix("solver-").and_then(|rest| rest.strip_suffix(".solver"));
    let index = index.and_then(|index| index.parse::<u8>().ok()).filter(|index| *index < 250);
    let index = index.ok_or_else(|| io::Error::other("nobody has this name"))?;
    Ok(vec![IpAddr::from([127, 0, 0, 1 + index])])
}

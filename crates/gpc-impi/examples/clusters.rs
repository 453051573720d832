//! Three clusters of 3, 2 and 2 hosts form one set of seven nodes, and make one call that crosses to each cluster once.
//! Each process represents a host of its own, at a loopback address.
//!
//! ```sh
//! cargo run --package gpc-impi --example clusters
//! ```
//!
//! Without arguments the program is the collecting server, and starts the processes; with `CLUSTER HOST FOLDER` it is
//! one of them. The processes of a cluster meet by an exchange of their own, here through files in a folder; elsewhere
//! their launcher provides it (`bootstrap::from_env`). A real cluster gets the server's address from `GPC_IMPI_SERVER`,
//! and its rank from `GPC_IMPI_RANK`; see `gpc_impi::bootstrap::from_env`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "who waits for a file looks for it again and again")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use chained_gpc::bootstrap::{Bootstrap, read_secret, write_secret};
use chained_gpc::{Call, Functions, IdList, Secret, Tree};
use gpc_impi::bootstrap::{Setup, with_cluster};
use gpc_impi::serve::Listener;
use gpc_impi::server::Settings;
use gpc_impi::wire::Methods;

/// Number of hosts of each cluster.
const CLUSTERS: [u32; 3] = [3, 2, 2];

/// Time limit for the whole example.
const LIMIT: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [] => start(),
        [cluster, host, folder] => be(cluster.parse()?, host.parse()?, Path::new(folder)),
        _ => Err("run me without arguments".into()),
    }
}

/// Serves the session, and starts the processes of all clusters.
fn start() -> Result<(), Failure> {
    let folder = env::temp_dir().join(format!("gpc-clusters-{}", std::process::id()));
    fs::create_dir(&folder)?;
    // IMPI does not carry the secret: whatever starts a process must also provide it.
    write_secret(&folder.join("secret"), &Secret::random()?)?;
    let listener = Listener::bind("127.0.0.1:0".parse()?)?;
    fs::write(folder.join("server"), listener.local_addr()?.to_string())?;
    let mut processes = Vec::new();
    for (cluster, hosts) in CLUSTERS.iter().enumerate() {
        for host in 0..*hosts {
            let mut process = Command::new(env::current_exe()?);
            process.args([cluster.to_string(), host.to_string()]).arg(&folder);
            processes.push(process.spawn()?);
        }
    }
    let methods = Methods { none: true, key: None };
    let settings = Settings { limit: LIMIT, ..Settings::new(CLUSTERS.len() as u32, methods) };
    // Ends when the processes of all clients have ended.
    let served = listener.serve(settings, |_, event| println!("server: {event}"));
    for mut process in processes {
        if !process.wait()?.success() {
            println!("a process has failed");
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(served?)
}

/// One process: it meets its cluster, then all others.
fn be(cluster: u32, host: u32, folder: &Path) -> Result<(), Failure> {
    let address = format!("127.1.{cluster}.{}", host + 1).parse()?;
    let setup = Setup {
        server: fs::read_to_string(folder.join("server"))?,
        rank: cluster,
        methods: Methods { none: true, key: None },
        secret: read_secret(&folder.join("secret"))?,
    };
    let hosts = CLUSTERS[cluster as usize];
    let files = folder.join(format!("cluster-{cluster}"));
    let own = Bootstrap::with_allgather(host, hosts, move |mine| exchange(&files, host, hosts, mine))?;
    let functions = Functions::new();
    let who = functions.func("who", move |_, reply| {
        reply.data = format!("host {host} of cluster {cluster}").into_bytes();
        Ok(())
    })?;
    let bootstrap = with_cluster(setup, Some(own.host_address(address))).host_address(address).limit(LIMIT);
    let mut member = bootstrap.start(&functions, |builder| builder)?;
    if member.id() == 0 {
        let ids = IdList::range(0..member.count());
        // One tree over the clusters, one over the hosts of each: a message crosses to each cluster once.
        let tree = member.hosts().layout(&ids, &Tree::Binomial, &Default::default())?;
        let outcome = member.call(Call::new(who).ids(ids).tree(tree))?.wait()?;
        for reply in outcome.replies()? {
            println!("id {}: {}", reply.id, String::from_utf8_lossy(&reply.data));
        }
    } else {
        member.serve_until_left()?;
    }
    Ok(member.finish(Duration::from_secs(5))?)
}

/// Writes this process's entry to a file, and reads those of all.
fn exchange(files: &Path, id: u32, count: u32, mine: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let file = |id: u32| PathBuf::from(format!("{}-{id}", files.display()));
    let new = file(id).with_extension("new");
    fs::write(&new, mine)?;
    // The file appears with its whole content.
    fs::rename(new, file(id))?;
    (0..count).map(|id| read(&file(id))).collect()
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    // Ends: when the time limit has passed.
    loop {
        match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && begun.elapsed() < LIMIT => {
                thread::sleep(Duration::from_millis(5));
            }
            read => return read,
        }
    }
}

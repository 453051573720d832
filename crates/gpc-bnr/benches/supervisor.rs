//! Measures the cost of starting processes through the supervisor, compared with starting them directly: 64 times
//! `/bin/true`, from the first order until all have ended. Both are measured alternately, so that other load on the
//! machine affects both.
//!
//! `cargo bench -p gpc-bnr --bench supervisor [ROUNDS]`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that shows what it measures")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpc_bnr::names::{GroupId, Member};
use gpc_bnr::supervisor::{Supervisor, SupervisorEvent, SupervisorOrder, run, stdin_control};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

const COUNT: u32 = 64;
const PROGRAM: &str = "/bin/true";

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "keep") {
        return run(stdin_control()?);
    }
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(50);
    let own = std::env::current_exe()?;
    let mut supervisor = Supervisor::start(&own, &["keep".into()])?;
    let (mut direct, mut kept, mut fresh) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        direct.push(directly()?);
        kept.push(by(&mut supervisor, 2 * round)?);
        let began = Instant::now();
        let mut new = Supervisor::start(&own, &["keep".into()])?;
        by(&mut new, 0)?;
        fresh.push(began.elapsed());
        new.end(Duration::from_secs(60));
    }
    let [direct, kept, fresh] = [direct, kept, fresh].map(median);
    println!("{COUNT} processes, median of {rounds} rounds");
    println!("started directly         {direct:>10.2?}");
    let ratio = |time: Duration| time.as_secs_f64() / direct.as_secs_f64();
    println!("by a keeper              {kept:>10.2?}  {:.2}", ratio(kept));
    println!("by a keeper that is new  {fresh:>10.2?}  {:.2}", ratio(fresh));
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The descriptors of this side, and those of the process.
fn descriptors() -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
    let (out, their_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (err, their_err) = pipe_with(PipeFlags::CLOEXEC)?;
    let (link, their_link) = UnixStream::pair()?;
    let nothing = File::open("/dev/null")?;
    Ok((vec![out, err, link.into()], vec![nothing.into(), their_out, their_err, their_link.into()]))
}

fn directly() -> io::Result<Duration> {
    let began = Instant::now();
    let mut children: Vec<(Child, Vec<OwnedFd>)> = Vec::new();
    for rank in 0..COUNT {
        let (ours, theirs) = descriptors()?;
        let mut theirs = theirs.into_iter();
        let mut next = || theirs.next().map(Stdio::from).unwrap();
        let mut command = Command::new(PROGRAM);
        command.stdin(next()).stdout(next()).stderr(next()).process_group(0);
        command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", COUNT.to_string());
        children.push((command.spawn()?, ours));
    }
    for (child, _) in &mut children {
        child.wait()?;
    }
    Ok(began.elapsed())
}

fn by(supervisor: &mut Supervisor, group: u32) -> io::Result<Duration> {
    let began = Instant::now();
    let mut held = Vec::new();
    for rank in 0..COUNT {
        let (ours, theirs) = descriptors()?;
        let env = [
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", COUNT.to_string()),
            ("MPI_LOCALRANKID", rank.to_string()),
            ("MPI_LOCALNRANKS", COUNT.to_string()),
            ("GPC_BNR_GROUP", format!("0123456789abcdef/g{group}")),
        ];
        let order = SupervisorOrder::Start {
            member: Member { group: GroupId(group), rank },
            program: PROGRAM.into(),
            args: Vec::new(),
            env: env.map(|(name, value)| (name.into(), value.into_bytes())).into(),
            wdir: None,
            bind: None,
            image: None,
        };
        supervisor.order(order, theirs);
        supervisor.flush()?;
        held.push(ours);
    }
    let mut left = COUNT;
    loop {
        match supervisor.event()? {
            Some(SupervisorEvent::Ended(..)) => {
                left -= 1;
                if left == 0 {
                    supervisor
                        .order(SupervisorOrder::Kill { group: GroupId(group), grace: None }, Vec::new());
                }
            }
            Some(SupervisorEvent::Emptied(_)) => return Ok(began.elapsed()),
            Some(SupervisorEvent::Started(..)) => {}
            Some(other) => return Err(io::Error::other(format!("{other:?}"))),
            None => {
                let mut interest = PollFlags::IN;
                interest.set(PollFlags::OUT, !supervisor.flush()?);
                poll(&mut [PollFd::from_borrowed_fd(supervisor.socket(), interest)], None)?;
            }
        }
    }
}

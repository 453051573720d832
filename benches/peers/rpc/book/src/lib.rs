//! Measurement shared by the contestants in Rust, equal to that of the contestants in C: options, rounds in flight, CPU
//! time, the printed line.
//!
//! The rules are those of `c/measure.c`, which explains them.
#![allow(clippy::disallowed_methods, reason = "this measures time")]

mod parts;
mod processes;

use std::collections::HashMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::{Duration, Instant};

pub use parts::{PART, check_part, part, part_into, request};
pub use processes::{Processes, serve_until_told};

/// Share of the time limit after which a slow contestant ends its warm-up.
const WARMUP_SHARE: f64 = 0.3;

/// Least warm-up of a fast contestant, however few rounds it needs: the system takes this long to place processes that
/// busy-poll.
const WARMUP: Duration = Duration::from_millis(100);

/// A result whose error ends the program with a message on standard error.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The command line: `--name value` pairs.
#[derive(Clone, Debug)]
pub struct Options(HashMap<String, String>);

impl Options {
    /// Parses the command line.
    pub fn parse() -> Outcome<Options> {
        let mut options = HashMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("{word}: options are --NAME VALUE"))?;
            let value = words.next().ok_or_else(|| format!("{word}: its value is missing"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Options(options))
    }

    /// Value of an option, or its default.
    pub fn value<T: FromStr<Err: Display>>(&self, name: &str, default: T) -> Outcome<T> {
        match self.0.get(name) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|error| format!("--{name} {value}: {error}").into()),
        }
    }

    /// An option that is one of these words; the first by default.
    pub fn word<'a>(&self, name: &str, words: &[&'a str]) -> Outcome<&'a str> {
        let Some(value) = self.0.get(name) else { return Ok(words[0]) };
        let known = words.iter().find(|word| *word == value);
        known.copied().ok_or_else(|| format!("--{name} {value}: must be one of {}", words.join(", ")).into())
    }
}

/// The root's record of its rounds. Rounds are numbered from 0 and end in order.
pub struct Book {
    n: usize,
    rounds: usize,
    warmup: usize,
    window: usize,
    limit: Duration,
    processes: Vec<u32>,
    begun: usize,
    ended: usize,
    begun_at: Vec<Instant>,
    took: Vec<Duration>,
    start: Instant,
    counted: Option<Counted>,
}

/// State at the start of counting, after the warm-up.
struct Counted {
    first: usize,
    from: Instant,
    to: Instant,
    cpu_ns: u64,
}

impl Book {
    /// Makes a new book; `processes` are all that take part, including this one.
    pub fn open(options: &Options, processes: Vec<u32>) -> Outcome<Book> {
        let (window, seconds) = (options.value("window", 1)?, options.value("seconds", 10)?);
        let now = Instant::now();
        Ok(Book {
            n: processes.len(),
            rounds: options.value("rounds", 1000)?,
            warmup: options.value("warmup", 100)?,
            window,
            limit: Duration::from_secs(seconds),
            processes,
            begun: 0,
            ended: 0,
            begun_at: vec![now; window],
            took: Vec::new(),
            start: now,
            counted: None,
        })
    }

    /// Whether another round may begin.
    pub fn wants(&mut self) -> bool {
        if self.begun == 0 {
            self.start = Instant::now();
            if self.warmup == 0 {
                self.count_from_here();
            }
        }
        if self.begun - self.ended == self.window {
            return false;
        }
        match &self.counted {
            // However slow it is, one round counts.
            Some(counted) if self.begun > counted.first => {
                self.begun - counted.first < self.rounds && self.start.elapsed() < self.limit
            }
            _ => true,
        }
    }

    /// Begins a round; returns its number.
    pub fn begin(&mut self) -> u32 {
        let round = self.begun;
        self.begun_at[round % self.window] = Instant::now();
        self.begun += 1;
        round as u32
    }

    /// Number of the oldest round in flight.
    pub fn oldest(&self) -> u32 {
        self.ended as u32
    }

    /// Ends the oldest round.
    pub fn end(&mut self) {
        let now = Instant::now();
        let round = self.ended;
        self.ended += 1;
        let warm = self.is_warm(now - self.start);
        match &mut self.counted {
            Some(counted) if round >= counted.first => {
                counted.to = now;
                self.took.push(now - self.begun_at[round % self.window]);
            }
            None if warm => self.count_from_here(),
            Some(_) | None => {}
        }
    }

    fn is_warm(&self, elapsed: Duration) -> bool {
        let most = self.limit.mul_f64(WARMUP_SHARE);
        elapsed > most || (self.ended >= self.warmup && elapsed > WARMUP)
    }

    fn count_from_here(&mut self) {
        let cpu_ns = processes::cpu_ns(&self.processes);
        let now = Instant::now();
        self.counted = Some(Counted { first: self.begun, from: now, to: now, cpu_ns });
    }

    /// Prints one line of JSON; call it before the processes end.
    pub fn print(mut self) {
        let Some(counted) = self.counted else { return };
        let rounds = self.took.len();
        let cpu_us = (processes::cpu_ns(&self.processes) - counted.cpu_ns) as f64 / 1e3;
        let mean_us = (counted.to - counted.from).as_secs_f64() * 1e6 / rounds as f64;
        self.took.sort_unstable();
        let us = |index: usize| self.took[index].as_secs_f64() * 1e6;
        println!(
            "{{\"rounds\": {rounds}, \"mean_us\": {mean_us:.3}, \"median_us\": {:.3}, \"p90_us\": {:.3}, \"cpu_us\": {:.3}}}",
            us(rounds / 2),
            us(rounds * 9 / 10),
            cpu_us / rounds as f64 / self.n as f64
        );
    }
}

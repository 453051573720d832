//! Performs a measurement: groups of processes, warm-up, and repetitions in which every row has a turn.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::histogram::Histogram;
use super::machine::{AllCores, cpu_ns};
use super::plan::{BenchPlan, Bound, Row};
use super::set::Set;
use crate::Failure;
use crate::interrupt::Interrupt;
use crate::output::shown_us;
use crate::quantile::percentile;
use crate::say;
use chained_gpc::bootstrap::Member;
use chained_gpc::runtime::Functions;
use gpc_sim::Random;

/// Calls of a row before the measurement. They open links, bring in the memory of the processes, and let adaptive
/// polling adjust.
const WARM_UP: Bound = Bound { rounds: None, time: Some(Duration::from_millis(100)) };

/// Calls of a turn that do not count, since other rows have used the caches in the meantime. They have a minimum time,
/// not a number: the system needs some of its ticks to place processes that poll. If it woke two of them on one core,
/// calls take twice as long until then.
const SETTLE: Bound = Bound { rounds: None, time: Some(Duration::from_millis(20)) };

/// Result of a measurement.
#[derive(Debug)]
pub(super) struct Measured {
    /// The turns of each row.
    pub(super) turns: Vec<Vec<TurnResult>>,
    pub(super) histograms: Vec<Histogram>,
    /// Fraction of all cores that other processes used, 0 to 1: the maximum over the groups.
    pub(super) others: Option<f64>,
}

/// Result of a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct TurnResult {
    pub(super) calls: u64,
    /// For one call after another, the median of their times. For several in flight, the total time divided by their
    /// number. In nanoseconds.
    pub(super) round_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p90_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) most_ns: u64,
    pub(super) calls_per_s: f64,
    /// CPU time of all processes divided by calls and ids, in nanoseconds.
    pub(super) cpu_ns: Option<u64>,
}

impl TurnResult {
    /// Computes a turn from the times of its calls, which are sorted here; `None` for no calls.
    pub(super) fn of(times_ns: &mut [u64], elapsed: Duration, in_flight: u32) -> Option<TurnResult> {
        times_ns.sort_unstable();
        let at = |percent| percentile(times_ns, percent);
        let calls = times_ns.len() as u64;
        let each_ns = u64::try_from(elapsed.as_nanos() / u128::from(calls.max(1))).ok()?;
        Some(TurnResult {
            calls,
            // At least 1: a ratio with a clock that stands still must not be infinite.
            round_ns: if in_flight == 1 { at(50)? } else { each_ns }.max(1),
            p50_ns: at(50)?,
            p90_ns: at(90)?,
            p99_ns: at(99)?,
            most_ns: at(100)?,
            calls_per_s: calls as f64 / elapsed.as_secs_f64().max(1e-9),
            cpu_ns: None,
        })
    }
}

/// Measures all rows. If it is interrupted, it returns the results so far.
///
/// # Errors
/// If processes cannot be started or a call fails. Nothing is left running.
pub(super) fn measure(
    plan: &BenchPlan,
    functions: &Functions,
    member: Option<&Member>,
    interrupt: &Interrupt,
) -> Result<Measured, Failure> {
    let rows = plan.rows.len();
    let histograms = (0..rows).map(|_| Histogram::new()).collect();
    let mut measured = Measured { turns: vec![Vec::new(); rows], histograms, others: None };
    announce(plan);
    let most = plan.groups.iter().map(|group| plan.processes_of(group)).max().unwrap_or(0);
    gpc_launch::provide_files(most as usize)?;
    for (place, group) in plan.groups.iter().enumerate() {
        let mut sets: Vec<Option<Set<'_>>> = plan.sets.iter().map(|_| None).collect();
        let ended = open(plan, group, &mut sets, (functions, member), interrupt)
            .and_then(|()| measure_group(plan, place, &mut sets, interrupt, &mut measured));
        sets.into_iter().flatten().for_each(Set::close);
        if interrupt.signal().is_some() {
            break;
        }
        ended?;
    }
    Ok(measured)
}

fn open<'a>(
    plan: &BenchPlan,
    group: &[usize],
    sets: &mut [Option<Set<'a>>],
    (functions, member): (&Functions, Option<&'a Member>),
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    for &place in group {
        sets[place] = Some(Set::open(&plan.sets[place], functions, member, interrupt)?);
    }
    Ok(())
}

fn measure_group(
    plan: &BenchPlan,
    group: usize,
    sets: &mut [Option<Set<'_>>],
    interrupt: &Interrupt,
    measured: &mut Measured,
) -> Result<(), Failure> {
    let places = plan.rows_of(&plan.groups[group]);
    let mut times_ns = Vec::new();
    let mut warm = Duration::ZERO;
    for &place in &places {
        let row = &plan.rows[place];
        times_ns.clear();
        let Some(took) = set_of(sets, row)?.turn(row, WARM_UP, interrupt, &mut times_ns)? else {
            return Ok(());
        };
        warm = warm.saturating_add(lasting(plan.bound, took, times_ns.len()));
    }
    let turns = plan.repeat * u32::try_from(places.len())?;
    say(&format!(
        "{} in {}: about {}",
        counted(places.len(), "row"),
        counted(turns as usize, "turn"),
        shown_us(u64::try_from(warm.saturating_mul(plan.repeat).as_micros()).unwrap_or(u64::MAX))
    ));
    let progress = progress_bar(turns);
    let (cores, own) = (AllCores::read(), own_cpu_ns(sets));
    for repetition in 0..plan.repeat {
        for &place in &order(plan.seed, repetition, &places) {
            let row = &plan.rows[place];
            times_ns.clear();
            let Some(turn) = turn(set_of(sets, row)?, row, plan.bound, interrupt, &mut times_ns)? else {
                return Ok(());
            };
            measured.turns[place].push(turn);
            times_ns.iter().for_each(|&ns| measured.histograms[place].add(ns));
            progress.inc(1);
        }
        tracing::debug!(group, repetition, "a repetition has ended");
    }
    progress.finish_and_clear();
    let own = own.zip(own_cpu_ns(sets)).map(|(before, after)| after.saturating_sub(before));
    let others = AllCores::read()
        .zip(cores)
        .zip(own)
        .and_then(|((now, before), own)| now.taken_by_others(before, own));
    measured.others = [measured.others, others].into_iter().flatten().reduce(f64::max);
    Ok(())
}

/// Returns the CPU time of this process and of all processes that it started.
fn own_cpu_ns(sets: &[Option<Set<'_>>]) -> Option<u64> {
    let started: Option<u64> = sets.iter().flatten().map(Set::all_cpu_ns).sum();
    Some(started? + cpu_ns(std::process::id())?)
}

fn set_of<'a, 'm>(sets: &'a mut [Option<Set<'m>>], row: &Row) -> Result<&'a mut Set<'m>, Failure> {
    sets[row.set].as_mut().ok_or_else(|| "the processes of a row are not there".into())
}

/// Makes a turn of a row: some calls that do not count, then those that do. `None` if it was interrupted.
fn turn(
    set: &mut Set<'_>,
    row: &Row,
    bound: Bound,
    interrupt: &Interrupt,
    times_ns: &mut Vec<u64>,
) -> Result<Option<TurnResult>, Failure> {
    if set.turn(row, SETTLE, interrupt, times_ns)?.is_none() {
        return Ok(None);
    }
    times_ns.clear();
    let all_cpu_ns = |set: &Set<'_>| Some(set.cpu_ns(&row.ids)? + cpu_ns(std::process::id())?);
    let before = all_cpu_ns(set);
    let Some(elapsed) = set.turn(row, bound, interrupt, times_ns)? else { return Ok(None) };
    let after = all_cpu_ns(set);
    let cpu_ns = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    let turn = TurnResult::of(times_ns, elapsed, row.in_flight).ok_or("a turn made no call")?;
    let share = turn.calls * u64::from(row.ids.len());
    Ok(Some(TurnResult { cpu_ns: cpu_ns.map(|cpu_ns| cpu_ns / share.max(1)), ..turn }))
}

/// Returns the order of the rows in a repetition; it is determined by the seed.
fn order(seed: u64, repetition: u32, places: &[usize]) -> Vec<usize> {
    let mut order = places.to_vec();
    Random::new(seed ^ u64::from(repetition) << 32).shuffle(&mut order);
    order
}

/// Estimates the length of a turn from the calls of the warm-up.
fn lasting(bound: Bound, took: Duration, calls: usize) -> Duration {
    let each = took / u32::try_from(calls.max(1)).unwrap_or(u32::MAX);
    let by_rounds = bound.rounds.map(|rounds| each.saturating_mul(rounds));
    let by_time = bound.time.map(|time| time.max(each));
    let settle = SETTLE.time.unwrap_or_default();
    [by_rounds, by_time].into_iter().flatten().min().unwrap_or_default().saturating_add(settle)
}

/// Prints the plan before the first process is started.
fn announce(plan: &BenchPlan) {
    let processes: u32 = plan.groups.iter().map(|group| plan.processes_of(group)).sum();
    let rows = counted(plan.rows.len(), "row");
    let repetitions = counted(plan.repeat as usize, "repetition");
    let time = plan.bound.time.map_or(String::new(), |time| {
        let all =
            time.saturating_mul(plan.repeat).saturating_mul(plan.rows.len().try_into().unwrap_or(u32::MAX));
        format!(
            ", at most about {} beside warm-up and start",
            shown_us(u64::try_from(all.as_micros()).unwrap_or(u64::MAX))
        )
    });
    say(&format!("{rows}, {}, {repetitions}{time}", counted(processes as usize, "process")));
    if plan.groups.len() > 1 {
        say(&format!(
            "so many processes do not stand together: the rows are measured in {} groups, one after the other, and only those of one group share \
             what else the machine does",
            plan.groups.len()
        ));
    }
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.ends_with('s')) {
        (1, _) => format!("1 {what}"),
        (_, true) => format!("{count} {what}es"),
        (_, false) => format!("{count} {what}s"),
    }
}

fn progress_bar(turns: u32) -> ProgressBar {
    // Draws on standard error, and only if that is a terminal.
    let style = ProgressStyle::with_template("measuring {wide_bar} {pos}/{len} turns, {eta} left");
    ProgressBar::new(turns.into()).with_style(style.expect("the template is well formed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_the_median_of_its_calls_or_its_time_by_their_number() {
        let mut times: Vec<u64> = (1..=100).rev().collect();
        let one = TurnResult::of(&mut times, Duration::from_nanos(20_000), 1).unwrap();
        let expected = TurnResult {
            calls: 100,
            round_ns: 50,
            p50_ns: 50,
            p90_ns: 90,
            p99_ns: 99,
            most_ns: 100,
            calls_per_s: 5_000_000.0,
            cpu_ns: None,
        };
        assert!((one.calls_per_s - expected.calls_per_s).abs() < 1.0);
        assert_eq!(TurnResult { calls_per_s: expected.calls_per_s, ..one }, expected);
        assert_eq!(TurnResult::of(&mut times, Duration::from_nanos(1_000), 8).unwrap().round_ns, 10);
        assert_eq!(TurnResult::of(&mut [0], Duration::ZERO, 1).unwrap().round_ns, 1);
        assert_eq!(TurnResult::of(&mut [], Duration::ZERO, 1), None);
    }

    #[test]
    fn every_repetition_has_every_row_once_in_an_order_of_its_own() {
        let places: Vec<usize> = (3..40).collect();
        let orders: Vec<Vec<usize>> = (0..10).map(|repetition| order(1, repetition, &places)).collect();
        for (repetition, order_of) in orders.iter().enumerate() {
            let mut sorted = order_of.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, places);
            assert!(orders[..repetition].iter().all(|other| other != order_of));
            assert_eq!(*order_of, order(1, repetition as u32, &places));
        }
        assert_ne!(orders[0], order(2, 0, &places));
    }

    #[test]
    fn a_turn_lasts_as_its_bound_has_it() {
        let ms = Duration::from_millis;
        let took = |rounds, time| lasting(Bound { rounds, time }, ms(100), 50);
        assert_eq!(took(Some(5), None), ms(10) + ms(20));
        assert_eq!(took(None, Some(ms(300))), ms(300) + ms(20));
        assert_eq!(took(Some(5), Some(ms(300))), ms(10) + ms(20));
        assert_eq!(took(Some(500), Some(ms(300))), ms(300) + ms(20));
        assert_eq!(lasting(Bound { rounds: Some(3), time: None }, ms(0), 0), ms(20));
    }

    #[test]
    fn things_are_counted_in_words() {
        assert_eq!(
            [(1, "row"), (2, "row"), (0, "process")].map(|(count, what)| counted(count, what)),
            ["1 row", "2 rows", "0 processes"]
        );
    }
}

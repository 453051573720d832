//! The nodes of the tasks of a Slurm step: `SLURM_STEP_TASKS_PER_NODE` has their numbers, `SLURM_DISTRIBUTION` the
//! order in which they were distributed.

use std::str::FromStr;

use crate::wire::Shown;

/// Maximum number of ids of a rule: each takes memory.
pub(super) const IDS_MAX: u32 = 1 << 20;

/// For each task its node, and its index among the tasks of that node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tasks {
    places: Vec<(u32, u32)>,
}

/// Number of tasks of each node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bootstrap) struct Counts(pub(in crate::bootstrap) Vec<u32>);

/// The order in which tasks were distributed to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The first node gets all of its tasks, then the second.
    Block,
    /// Round robin in blocks of this many tasks; a block of one is `cyclic`.
    Turns(u32),
}

impl Tasks {
    /// Distributes tasks to nodes.
    pub(super) fn dealt(counts: &Counts, order: Order) -> Tasks {
        let size = match order {
            Order::Block => u32::MAX,
            Order::Turns(size) => size.max(1),
        };
        let mut left = counts.0.clone();
        let mut places = Vec::new();
        let total: usize = counts.0.iter().map(|&count| count as usize).sum();
        // Terminates: each iteration distributes at least one task.
        while places.len() < total {
            for (node, left) in (0..).zip(&mut left) {
                let first = counts.0[node as usize] - *left;
                let dealt = size.min(*left);
                places.extend((first..first + dealt).map(|local| (node, local)));
                *left -= dealt;
            }
        }
        Tasks { places }
    }

    /// The node of a task, and its index there.
    pub(super) fn place(&self, task: u32) -> Option<(u32, u32)> {
        self.places.get(task as usize).copied()
    }

    /// The highest index of a task on its node.
    pub(super) fn highest(&self) -> u32 {
        self.places.iter().map(|&(_, local)| local).max().unwrap_or(0)
    }

    /// The tasks of a node, in order.
    pub(super) fn of_node(&self, node: u32) -> impl Iterator<Item = u32> {
        (0..).zip(&self.places).filter(move |(_, place)| place.0 == node).map(|(task, _)| task)
    }
}

impl FromStr for Counts {
    type Err = String;

    /// Parses a text such as `3,2(x2)`: three tasks on the first node, two on each of the next two.
    fn from_str(text: &str) -> Result<Counts, String> {
        let refused = || format!("`{}` does not say how many tasks each node has", Shown(text));
        let number = |digits: &str| {
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|&number| plain && (1..=IDS_MAX).contains(&number))
        };
        let (mut counts, mut total) = (Vec::new(), 0u64);
        for item in text.split(',') {
            let (count, times) = match item.strip_suffix(')').map(|item| item.split_once("(x")) {
                None => (number(item), Some(1)),
                Some(Some((count, times))) => (number(count), number(times)),
                Some(None) => (None, None),
            };
            let (Some(count), Some(times)) = (count, times) else { return Err(refused()) };
            total += u64::from(count) * u64::from(times);
            if total > u64::from(IDS_MAX) {
                return Err(format!("there are too many tasks: {IDS_MAX} are the most"));
            }
            counts.extend(std::iter::repeat_n(count, times as usize));
        }
        Ok(Counts(counts))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dealt(counts: &str, order: Order) -> String {
        let tasks = Tasks::dealt(&counts.parse().unwrap(), order);
        let nodes = (0..tasks.places.len()).map(|task| tasks.places[task].0.to_string());
        nodes.collect::<Vec<_>>().join("")
    }

    /// The distribution by Slurm 22.05 of seven tasks on three nodes.
    #[test]
    fn tasks_are_dealt_as_slurm_deals_them() {
        assert_eq!(dealt("3,2(x2)", Order::Block), "0001122");
        assert_eq!(dealt("3,2(x2)", Order::Turns(1)), "0120120");
        assert_eq!(dealt("3,2(x2)", Order::Turns(2)), "0011220");
        assert_eq!(dealt("1,3,2", Order::Turns(1)), "012121");
        assert_eq!(dealt("1(x3)", Order::Block), dealt("1(x3)", Order::Turns(1)));
        let tasks = Tasks::dealt(&"3,2(x2)".parse().unwrap(), Order::Turns(1));
        assert_eq!((tasks.place(6), tasks.place(4), tasks.place(7)), (Some((0, 2)), Some((1, 1)), None));
        assert_eq!(tasks.of_node(0).collect::<Vec<_>>(), [0, 3, 6]);
    }

    #[test]
    fn what_is_no_count_is_refused_before_it_is_unfolded() {
        for text in
            ["", ",", "1,", "0", "-1", "+1", "1(x0)", "1(x", "1)", "1(2)", "x", "1(x2)(x3)", "4294967296"]
        {
            let error = text.parse::<Counts>().unwrap_err();
            assert!(error.ends_with("does not say how many tasks each node has"), "{text}: {error}");
        }
        let many = "1048576(x1048576),1048576(x1048576)".parse::<Counts>().unwrap_err();
        assert_eq!(many, "there are too many tasks: 1048576 are the most");
        assert_eq!("1(x1048576)".parse::<Counts>().unwrap().0.len(), 1 << 20);
    }

    proptest! {
        #[test]
        fn every_node_gets_its_tasks_and_every_task_one_place(counts in prop::collection::vec(1u32..9, 1..20), turn in 0u32..5) {
            let order = if turn == 0 { Order::Block } else { Order::Turns(turn) };
            let counts = Counts(counts);
            let tasks = Tasks::dealt(&counts, order);
            for (node, &count) in (0..).zip(&counts.0) {
                let places: Vec<_> = tasks.of_node(node).map(|task| tasks.place(task).unwrap()).collect();
                prop_assert_eq!(places, (0..count).map(|local| (node, local)).collect::<Vec<_>>());
            }
            prop_assert_eq!(tasks.places.len(), counts.0.iter().sum::<u32>() as usize);
        }
    }
}

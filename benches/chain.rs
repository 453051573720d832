//! Benchmark of the state machine: whole calls over simulated ids, divided by the number of inputs.
#![allow(missing_docs)]

use std::collections::VecDeque;

use chained_gpc::chain::{Config, Input, Job, JobResult, Node, Output, Outputs, Reply, Start, Time};
use chained_gpc::{Id, IdList, Tree};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Nodes whose messages arrive at once and whose functions take no time.
struct World {
    nodes: Vec<Node>,
    waiting: VecDeque<(Id, Input)>,
    outputs: Outputs,
    inputs: u64,
    ended: u64,
}

impl World {
    fn new(n: u32) -> World {
        let nodes = (0..n).map(|id| Node::new(Config::new(id, 1))).collect();
        World { nodes, waiting: VecDeque::new(), outputs: Outputs::new(), inputs: 0, ended: 0 }
    }

    /// Runs one call over all nodes to its end.
    fn call(&mut self, tree: &Tree) {
        let ids = IdList::range(0..self.nodes.len() as u32);
        let start = Start { ids, tree: tree.clone(), ..Start::new(1) };
        self.waiting.push_back((0, Input::Start { ticket: 0, start: start.into() }));
        while let Some((id, input)) = self.waiting.pop_front() {
            self.inputs += 1;
            self.nodes[id as usize].input(Time::from_nanos(0), input, &mut self.outputs);
            while let Some(output) = self.outputs.pop_front() {
                match output {
                    Output::Send { to, message } => {
                        self.waiting.push_back((to, Input::Message { from: id, message }))
                    }
                    Output::Run(Job { call, .. }) => {
                        let reply = Reply { data: vec![7; 64], ..Default::default() };
                        self.waiting.push_back((id, Input::Ran { call, result: JobResult::Replied(reply) }));
                    }
                    Output::Finished { result, .. } => self.ended += u64::from(result.is_ok()),
                    Output::Consumed { .. } | Output::Stopped(_) => {}
                    Output::ChildReply { .. } | Output::Abandon { .. } => {}
                }
            }
        }
    }
}

fn step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chain_step");
    for n in [2u32, 64, 1024] {
        let mut once = World::new(n);
        once.call(&Tree::Binomial);
        assert_eq!(once.ended, 1, "the call ends well");
        group.throughput(Throughput::Elements(once.inputs));
        group.bench_with_input(BenchmarkId::new("binomial", n), &n, |bencher, &n| {
            let mut world = World::new(n);
            bencher.iter(|| world.call(&Tree::Binomial));
        });
    }
    group.finish();
}

criterion_group!(benches, step);
criterion_main!(benches);

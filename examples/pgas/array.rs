//! The global array: the assignment of elements to nodes, and the functions that access them.
//!
//! An operation on a run of elements is one chained call to the nodes that hold them. Each node handles its own part of
//! the run; a caller without elements takes part with an empty one.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use chained_gpc::{Call, FuncHandle, Functions, FunctionsError, Id, Node, Phase, Request};

/// Any error of this layer.
pub(crate) type PgasError = Box<dyn std::error::Error + Send + Sync>;

/// Handles of the layer's functions: the same at every node.
#[derive(Clone, Copy)]
pub(crate) struct Handles {
    put: FuncHandle,
    get: FuncHandle,
    accumulate: FuncHandle,
    histogram: FuncHandle,
}

/// The array as one node sees it.
pub(crate) struct GlobalArray<'a> {
    node: &'a Node,
    handles: Handles,
    nodes: u32,
    len: u64,
}

/// The elements of one node.
struct Block {
    first: u64,
    values: Mutex<Vec<u64>>,
}

/// Number of elements in a block, the same for every node but the last.
fn block_len(nodes: u32, len: u64) -> u64 {
    len.div_ceil(u64::from(nodes)).max(1)
}

/// Registers the layer's functions at a node, with its block of zeros.
pub(crate) fn register(
    functions: &Functions,
    me: Id,
    nodes: u32,
    len: u64,
) -> Result<Handles, FunctionsError> {
    let first = (u64::from(me) * block_len(nodes, len)).min(len);
    let last = (first + block_len(nodes, len)).min(len);
    let block = Arc::new(Block { first, values: Mutex::new(vec![0; (last - first) as usize]) });
    let with = |work: fn(&Block, &Request<'_>) -> Result<Vec<u8>, PgasError>| {
        let block = block.clone();
        move |request: &Request<'_>, reply: &mut chained_gpc::Reply| {
            reply.data = work(&block, request)?;
            Ok(())
        }
    };
    let counted = block.clone();
    Ok(Handles {
        put: functions
            .func("pgas.put", with(|block, request| block.update(request, |place, value| *place = value)))?,
        accumulate: functions.func(
            "pgas.accumulate",
            with(|block, request| block.update(request, |place, value| *place += value)),
        )?,
        get: functions.func("pgas.get", with(Block::read))?,
        histogram: functions.phased("pgas.histogram", move |phase, request, own| {
            match phase {
                Phase::Init => own.data = counted.count(request)?,
                Phase::Wait(child) => own.data = add(&own.data, child.data)?,
            }
            Ok(())
        })?,
    })
}

impl Block {
    /// The part of a run that this block holds, as positions in the run and in the block; empty if they do not overlap.
    fn part(&self, start: u64, len: u64, held: u64) -> (Range<usize>, Range<usize>) {
        let from = start.max(self.first);
        let to = (start + len).min(self.first + held);
        if from >= to {
            return (0..0, 0..0);
        }
        let places = |base: u64| (from - base) as usize..(to - base) as usize;
        (places(start), places(self.first))
    }

    fn update(&self, request: &Request<'_>, change: fn(&mut u64, u64)) -> Result<Vec<u8>, PgasError> {
        let [start, len] = numbers::<2>(request.header())?;
        let run = words(request.data())?;
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = self.part(start, len, values.len() as u64);
        let run = run.get(from).ok_or("the run is shorter than it says")?;
        values[to].iter_mut().zip(run).for_each(|(place, value)| change(place, *value));
        Ok(Vec::new())
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<u8>, PgasError> {
        let [start, len] = numbers::<2>(request.header())?;
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, own) = self.part(start, len, values.len() as u64);
        Ok(bytes(&values[own]))
    }

    fn count(&self, request: &Request<'_>) -> Result<Vec<u8>, PgasError> {
        let [step, buckets] = numbers::<2>(request.header())?;
        let mut counts = vec![0u64; buckets as usize];
        for value in self.values.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            counts[(value / step).min(buckets - 1) as usize] += 1;
        }
        Ok(bytes(&counts))
    }
}

impl<'a> GlobalArray<'a> {
    /// An array of `len` elements over nodes 0 to `nodes`-1, accessed from `node`.
    pub(crate) fn new(node: &'a Node, handles: Handles, nodes: u32, len: u64) -> GlobalArray<'a> {
        GlobalArray { node, handles, nodes, len }
    }

    /// Writes a run of elements.
    pub(crate) fn put(&self, start: u64, values: &[u64]) -> Result<(), PgasError> {
        let call = Call::new(self.handles.put).data(bytes(values)).no_reply();
        self.run(call, start, values.len() as u64).map(drop)
    }

    /// Adds to a run of elements; the addition is atomic for each element.
    pub(crate) fn accumulate(&self, start: u64, values: &[u64]) -> Result<(), PgasError> {
        let call = Call::new(self.handles.accumulate).data(bytes(values)).no_reply();
        self.run(call, start, values.len() as u64).map(drop)
    }

    /// Reads a run of elements.
    pub(crate) fn get(&self, start: u64, len: u64) -> Result<Vec<u64>, PgasError> {
        let outcome = self.run(Call::new(self.handles.get), start, len)?;
        let mut replies = outcome.replies()?;
        replies.sort_by_key(|reply| reply.id);
        let parts = replies.iter().map(|reply| words(&reply.data));
        Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Counts the elements of the whole array by value, in buckets of `step`; the last bucket holds all higher values.
    pub(crate) fn histogram(&self, step: u64, buckets: u64) -> Result<Vec<u64>, PgasError> {
        let header = bytes(&[step.max(1), buckets.clamp(1, 1 << 16)]);
        let call = Call::new(self.handles.histogram).ids(0..self.nodes).header(header);
        words(self.node.call(call)?.wait()?.data())
    }

    /// Calls the nodes that hold a run of elements.
    fn run(&self, call: Call, start: u64, len: u64) -> Result<chained_gpc::Outcome, PgasError> {
        let end = start
            .checked_add(len)
            .filter(|end| *end <= self.len)
            .ok_or("the run goes past the array's end")?;
        let owner = |element: u64| (element / block_len(self.nodes, self.len)) as Id;
        let me = self.node.id();
        // An empty run has no owner: the caller handles it alone.
        let owners = if len == 0 { me..=me } else { owner(start)..=owner(end - 1) };
        Ok(self.node.call(call.ids(owners).header(bytes(&[start, len])))?.wait()?)
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, PgasError> {
    let (words, []) = bytes.as_chunks::<8>() else { return Err("not whole words".into()) };
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn numbers<const N: usize>(header: &[u8]) -> Result<[u64; N], PgasError> {
    words(header)?.try_into().map_err(|_| "a header of another operation".into())
}

fn add(own: &[u8], child: &[u8]) -> Result<Vec<u8>, PgasError> {
    let sums: Vec<u64> = words(own)?.iter().zip(words(child)?).map(|(own, child)| own + child).collect();
    Ok(bytes(&sums))
}

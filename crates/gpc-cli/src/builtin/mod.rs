//! The functions that every `gpc` node knows.
//!
//! They test and measure a tree, and show how functions are written. Each is one file with a plain function over plain
//! data, beside the few lines that read a request and fill a reply. None accesses files, other processes or the
//! network.

mod digest;
mod facts;
mod fail;
mod fill;
mod sleep;
mod sum;

pub use digest::digest;
pub use facts::Facts;
pub(super) use facts::set_secret_mark;
pub use fail::{FailAt, FailPoint};
pub(super) use fill::{FILL, FILL_MAX};
pub use sum::{add, number_of};

use chained_gpc::Placement;
use chained_gpc::reduce::{Number, Reduction};
use chained_gpc::runtime::{Functions, FunctionsError};

/// Name and meaning of each built-in function, for help texts.
pub const BUILT_IN: [(&str, &str); 7] = [
    ("echo", "replies with the header and the data of the request"),
    ("facts", "host name, process, load average and memory in use"),
    ("digest", "SHA-256 and length of the data received"),
    ("sleep", "replies after the time in the header, such as 250ms"),
    ("fail", "fails at the id in the header: ID, ID:func or ID:callback"),
    ("sum", "a reduction: adds up (id + 1) squared over all ids"),
    ("fill", "replies with as many bytes as the header says"),
];

/// Size from which `echo` shares its data instead of a copy, in bytes; data of calls on the fast path are shorter.
const SHARED_MIN: usize = 16 << 10;

/// Registers the built-in functions. A function is inline if its work is bounded for every request.
///
/// # Errors
/// If one of their names is taken.
pub fn register(functions: &Functions) -> Result<(), FunctionsError> {
    functions.at(Placement::Inline).func("echo", |request, reply| {
        reply.header = request.header().to_vec();
        // Long data are shared: a copy of them on the event loop would delay all other work.
        match request.data().len() {
            0..=SHARED_MIN => reply.data.extend_from_slice(request.data()),
            _ => reply.shared = request.data_bytes(),
        }
        Ok(())
    })?;
    facts::register(functions)?;
    digest::register(functions)?;
    sleep::register(functions)?;
    fail::register(functions)?;
    sum::register(functions)?;
    fill::register(functions)?;
    register_reductions(functions)
}

/// Registers the ready callbacks, so that running nodes have them.
fn register_reductions(functions: &Functions) -> Result<(), FunctionsError> {
    let reductions = [
        reductions_of::<u32>(),
        reductions_of::<u64>(),
        reductions_of::<i64>(),
        reductions_of::<f32>(),
        reductions_of::<f64>(),
    ];
    let plain = [
        Reduction::and(),
        Reduction::or(),
        Reduction::xor(),
        Reduction::first(),
        Reduction::concatenation(),
        Reduction::histogram(),
    ];
    reductions
        .into_iter()
        .flatten()
        .chain(plain)
        .try_for_each(|reduction| functions.reduction(reduction).map(drop))
}

/// Number of elements that a running node keeps of a list of the greatest.
const TOP: u32 = 10;

fn reductions_of<T: Number>() -> [Reduction; 6] {
    [
        Reduction::sum::<T>(),
        Reduction::min::<T>(),
        Reduction::max::<T>(),
        Reduction::min_with_id::<T>(),
        Reduction::max_with_id::<T>(),
        Reduction::top::<T>(TOP),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_functions_are_those_of_the_list() {
        let functions = Functions::new();
        register(&functions).unwrap();
        let mut names = BUILT_IN.map(|(name, _)| name.to_owned()).to_vec();
        names.sort();
        assert_eq!(functions.names(), names);
        assert!(names.iter().all(|name| functions.named(name).is_ok()), "each can be called");
        assert_eq!(register(&functions), Err(FunctionsError::Duplicate("echo".into())));
    }
}

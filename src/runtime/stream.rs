//! Streaming functions, which process their data while they arrive.
//!
//! Not in the source, whose func gets its complete data. The state of such a func travels with its jobs: between two
//! jobs the chain keeps it, and drops it with the call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tracing::error;

use super::function_error::{FunctionError, FunctionResult, unwinding};
use super::request::Request;
use crate::chain::{FuncState, JobResult, Reply};
use crate::wire::frame::{SEGMENT, WINDOW};
use crate::wire::{Body, Reason};

/// The receiver of the data of one call at one id, created when its first bytes have arrived.
///
/// ```
/// use chained_gpc::{Functions, Reply, Request, Streaming};
/// use chained_gpc::runtime::FunctionResult;
///
/// struct Zeros(u64);
///
/// impl Streaming for Zeros {
///     fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
///         self.0 += bytes.iter().filter(|&&byte| byte == 0).count() as u64;
///         Ok(())
///     }
///
///     fn finish(&mut self, _request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
///         reply.data = self.0.to_string().into_bytes();
///         Ok(())
///     }
/// }
///
/// let functions = Functions::new();
/// let zeros = functions.streaming("zeros", |_request| Ok(Zeros(0)))?;
/// # let _ = zeros;
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
pub trait Streaming: Send + 'static {
    /// Receives the next bytes of the data, 1 byte to 256 KiB; the boundaries have no meaning.
    ///
    /// # Errors
    /// Fails the call at this id, as in a func; then this value gets no further calls.
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult;

    /// Ends the data: fills the id's own reply, or [replies later](Request::defer). Called once, last.
    ///
    /// # Errors
    /// As for [`segment`](Self::segment).
    fn finish(&mut self, request: &Request<'_>, reply: &mut Reply) -> FunctionResult;
}

/// For types that are chosen when a call begins.
impl<S: Streaming + ?Sized> Streaming for Box<S> {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        (**self).segment(bytes)
    }

    fn finish(&mut self, request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
        (**self).finish(request, reply)
    }
}

/// Creates the receiver of a call's data.
pub(super) type Factory = dyn Fn(&Request<'_>) -> Result<Box<dyn Streaming>, FunctionError> + Send + Sync;

/// Maximum number of bytes that one job processes before other calls get their turn: a window.
const JOB_MAX: u64 = WINDOW;

pub(super) fn factory<F, S>(begin: F) -> Arc<Factory>
where
    F: Fn(&Request<'_>) -> Result<S, FunctionError> + Send + Sync + 'static,
    S: Streaming,
{
    Arc::new(move |request: &Request<'_>| Ok(Box::new(begin(request)?) as Box<dyn Streaming>))
}

/// The receiver of a call's data, and its progress.
pub(super) struct DataReceiver {
    /// Present until the drop.
    streaming: Option<Box<dyn Streaming>>,
    taken: u64,
}

impl Drop for DataReceiver {
    /// The application's value may panic when the chain drops it, on any thread.
    fn drop(&mut self) {
        let streaming = self.streaming.take();
        if catch_unwind(AssertUnwindSafe(|| drop(streaming))).is_err() {
            error!("a streaming function panicked in its drop");
        }
    }
}

impl DataReceiver {
    pub(super) fn new(streaming: Box<dyn Streaming>) -> DataReceiver {
        DataReceiver { streaming: Some(streaming), taken: 0 }
    }

    /// Processes available data, up to a bound; returns the reply if the data are complete.
    fn take(mut self, request: &Request<'_>, data: &Body) -> JobResult {
        let until = self.taken.saturating_add(JOB_MAX);
        while self.taken < until {
            let bytes = data.read(self.taken, SEGMENT);
            if bytes.is_empty() {
                break;
            }
            if let Err(reason) =
                unwinding(|| self.streaming.as_mut().map_or(Ok(()), |streaming| streaming.segment(&bytes)))
            {
                return JobResult::Failed(reason);
            }
            self.taken += bytes.len() as u64;
            drop(bytes);
            data.passed(self.taken);
        }
        if self.taken < data.len() {
            return JobResult::Taken(FuncState(Box::new(self)));
        }
        let mut reply = Reply::default();
        match unwinding(|| {
            self.streaming.as_mut().map_or(Ok(()), |streaming| streaming.finish(request, &mut reply))
        }) {
            Ok(()) => JobResult::Replied(reply),
            Err(reason) => JobResult::Failed(reason),
        }
    }
}

/// Starts or continues to process the data of a call.
pub(super) fn take(
    receiver: Result<DataReceiver, Box<Reason>>,
    request: &Request<'_>,
    data: &Body,
) -> JobResult {
    match receiver {
        Ok(receiver) => receiver.take(request, data),
        Err(reason) => JobResult::Failed(reason),
    }
}

/// The state that an earlier job has left.
pub(super) fn resume(FuncState(left): FuncState) -> Result<DataReceiver, Box<Reason>> {
    left.downcast()
        .map(|receiver| *receiver)
        .map_err(|_| "the state of an earlier job has another type".into())
}

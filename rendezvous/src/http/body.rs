//! Takes a body as it comes: no memory on the word of its sender, a limit on its length, on all bodies that are under way, and on how slowly it may come.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::time::{Instant, timeout_at};

use super::options::RATE_MIN;
use super::problem::Problem;
use super::shared::Shared;
use crate::machine::{Fault, FaultKind};

/// What is reserved before anything has come.
const FIRST: usize = 16 << 10;

/// How many bytes of bodies may be under way together.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicU64,
    silent: Duration,
}

/// What a body has taken of the budget; given back when this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(most: u64, silent: Duration) -> Arc<Budget> {
        Arc::new(Budget { left: AtomicU64::new(most), silent })
    }
}

impl Held {
    fn more(&mut self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        let taken = self.budget.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// Takes a body of at most so many bytes. What it has taken of the budget is held until the bytes are somebody else's.
pub(super) async fn read(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    most: u64,
) -> Result<(Bytes, Held), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        let message = "send the data as they are, without `Content-Encoding`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, FaultKind::BadRequest, message));
    }
    let announced = body.size_hint().exact();
    if body.size_hint().lower() > most {
        return Err(too_long(most));
    }
    let mut held = Held { budget: Arc::clone(&shared.bodies), bytes: 0 };
    let mut data = Vec::new();
    let begun = Instant::now();
    let mut body = pin!(body);
    // Ends: with the body, or when it is too long or too slow.
    while let Some(bytes) = next(body.as_mut(), begun, data.len(), held.budget.silent).await? {
        if (data.len() + bytes.len()) as u64 > most {
            return Err(too_long(most));
        }
        if !held.more(bytes.len() as u64) || !make_room(&mut data, bytes.len(), announced) {
            let message =
                "the service is full: too many bytes are on their way to it; send them again a little later";
            return Err(Fault::new(FaultKind::ServiceFull, message).into());
        }
        data.extend_from_slice(&bytes);
    }
    data.shrink_to_fit();
    Ok((data.into(), held))
}

/// Room for what has come, and for as much again, but not for more than was announced.
fn make_room(data: &mut Vec<u8>, bytes: usize, announced: Option<u64>) -> bool {
    let needed = data.len() + bytes;
    if needed <= data.capacity() {
        return true;
    }
    let end = announced.and_then(|announced| usize::try_from(announced).ok()).unwrap_or(usize::MAX);
    let room = (2 * needed).max(FIRST).min(end).max(needed);
    data.try_reserve_exact(room - data.len()).is_ok()
}

/// The next bytes of a body.
async fn next(
    mut body: Pin<&mut Body>,
    begun: Instant,
    came: usize,
    silent: Duration,
) -> Result<Option<Bytes>, Problem> {
    let least = begun + silent + Duration::from_millis((came as u64).saturating_mul(1000) / RATE_MIN);
    let until = least.min(Instant::now() + silent);
    let frame: &mut (dyn Future<Output = _> + Send + Unpin) = &mut body.frame();
    match timeout_at(until, frame).await {
        Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
        Ok(Some(Err(_))) => Err(Problem::bad("the body ends before it is whole")),
        Ok(None) => Ok(None),
        Err(_) => {
            let message = format!("the body hangs after {came} bytes");
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, FaultKind::BadRequest, message))
        }
    }
}

fn too_long(most: u64) -> Problem {
    let message = format!("the body is longer than the {most} bytes that it may have here");
    Fault::new(FaultKind::DataTooLong, message).into()
}

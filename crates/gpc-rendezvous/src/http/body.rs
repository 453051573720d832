//! Reads a request body as it arrives. Memory is allocated for received bytes only; the length, the total of all bodies
//! in progress, and the lowest rate are limited.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::time::{Instant, timeout_at};

use super::budget::Reservation;
use super::options::BODY_RATE_MIN;
use super::problem::Problem;
use super::shared::Shared;
use crate::machine::{Fault, FaultKind};

/// Bytes reserved when the first bytes arrive.
const FIRST: usize = 16 << 10;

/// Reads a body of at most `most` bytes. The caller holds the reservation until the bytes are accounted for elsewhere.
pub(super) async fn read(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    most: u64,
) -> Result<(Bytes, Reservation), Problem> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        let message = "send the data as they are, without `Content-Encoding`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, FaultKind::BadRequest, message));
    }
    let announced = body.size_hint().exact();
    if body.size_hint().lower() > most {
        return Err(too_long(most));
    }
    let mut reservation = Reservation { budget: Arc::clone(&shared.bodies), bytes: 0 };
    let mut data = Vec::new();
    let mut patience = Patience::new(Instant::now(), reservation.budget.silent);
    let mut body = pin!(body);
    // Ends: with the body, or when it is too long or too slow.
    while let Some(bytes) = next(body.as_mut(), patience.until, data.len()).await? {
        if (data.len() + bytes.len()) as u64 > most {
            return Err(too_long(most));
        }
        if !make_room(&mut data, bytes.len(), announced, &mut reservation) {
            let message =
                "the service is full: too many bytes are on their way to it; send them again a little later";
            return Err(Fault::new(FaultKind::ServiceFull, message).into());
        }
        data.extend_from_slice(&bytes);
        patience.came(Instant::now(), bytes.len());
    }
    data.shrink_to_fit();
    Ok((data.into(), reservation))
}

/// Makes room for received bytes, and for as much again if the budget allows, up to the announced length. The whole
/// capacity is reserved, including unused room.
fn make_room(
    data: &mut Vec<u8>,
    bytes: usize,
    announced: Option<u64>,
    reservation: &mut Reservation,
) -> bool {
    let needed = data.len() + bytes;
    if needed <= data.capacity() {
        return true;
    }
    let end = announced.and_then(|announced| usize::try_from(announced).ok()).unwrap_or(usize::MAX);
    let room = (2 * needed).max(FIRST).min(end).max(needed);
    [room, needed].into_iter().any(|room| {
        reservation.more((room - data.capacity()) as u64) && data.try_reserve_exact(room - data.len()).is_ok()
    })
}

/// Time limit for the rest of a body. Received bytes extend it, up to the initial limit. Otherwise a body that arrived
/// fast at first could keep its room for as long as that is worth.
#[derive(Debug)]
struct Patience {
    silent: Duration,
    until: Instant,
}

impl Patience {
    fn new(now: Instant, silent: Duration) -> Patience {
        Patience { silent, until: now + silent }
    }

    fn came(&mut self, now: Instant, bytes: usize) {
        let worth = Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / BODY_RATE_MIN);
        self.until = (self.until + worth).min(now + self.silent);
    }
}

/// The next bytes of a body.
async fn next(mut body: Pin<&mut Body>, until: Instant, came: usize) -> Result<Option<Bytes>, Problem> {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::budget::Budget;
    use super::*;

    /// A client that had sent 63 MiB at once could keep their room for an hour, with one byte every 29 s. All received
    /// bytes were credited, and eight such clients kept all others from registering.
    #[test]
    fn what_came_fast_is_no_credit() {
        let (begin, silent) = (Instant::now(), Duration::from_secs(30));
        let mut patience = Patience::new(begin, silent);
        patience.came(begin, 63 << 20);
        assert_eq!(patience.until, begin + silent);
        patience.came(begin + Duration::from_secs(29), 1);
        assert!(patience.until < begin + Duration::from_secs(31), "{patience:?}");
        // A body at exactly the lowest rate is read to its end.
        for second in 0..3600 {
            let now = begin + Duration::from_secs(second);
            assert!(now < patience.until);
            patience.came(now, BODY_RATE_MIN as usize);
        }
    }

    /// The budget counted only the received bytes, while twice as much was reserved.
    #[test]
    fn what_is_reserved_is_counted() {
        let budget = Budget::new(100_000, Duration::ZERO);
        let left = || budget.left.load(Ordering::Relaxed);
        let mut reservation = Reservation { budget: Arc::clone(&budget), bytes: 0 };
        let mut data = Vec::new();
        // The capacity doubles until the budget lacks room for that; at last the budget is used up.
        for length in [1, 20_000, 60_000, 90_000] {
            let more = length - data.len();
            assert!(make_room(&mut data, more, None, &mut reservation), "{length}");
            data.resize(length, 0);
            assert_eq!(left() as usize + data.capacity(), 100_000);
        }
        assert!(!make_room(&mut data, 20_000, None, &mut reservation));
        drop(reservation);
        assert_eq!(left(), 100_000);
    }
}

//! Server-sent events: reports changes to a client, over a connection that stays open.
//!
//! Source: the HTML standard, "Server-sent events".

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::data_body::DataBody;
use super::json;
use super::poller::{PollResult, Subject, Subscription};
use super::problem::Problem;
use super::request::{HttpRequest, of};
use super::shared::{App, Shared, strange};
use super::submit::ask;
use crate::client::EVENT_DATA_MAX;
use crate::machine::{Answer, Completion, Fault, FaultKind, Request, ResourceId};

/// After this time without an event a comment is sent. It keeps proxies from closing the connection, and reveals a
/// client that has gone.
const ALIVE: Duration = Duration::from_secs(15);

/// Most pieces that wait for a client. A slow client gets the latest state, and misses those between.
const PIECES: usize = 2;

/// A stream of events.
#[derive(Debug)]
struct Stream {
    pieces: Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

/// The sending end of a stream.
struct Events(Sender<Bytes>);

/// The client has closed the connection.
struct Disconnected;

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

impl Events {
    async fn send(&self, piece: impl Into<Bytes>) -> Result<(), Disconnected> {
        self.0.send(piece.into()).await.map_err(|_| Disconnected)
    }

    /// Sends an event with one line of data.
    async fn event(&self, name: &str, data: &str) -> Result<(), Disconnected> {
        self.send(format!("event: {name}\ndata: {data}\n\n")).await
    }
}

/// Acquires a slot for a stream.
fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    Semaphore::try_acquire_owned(Arc::clone(places)).map_err(|_| {
        let message =
            "the service is full: too many look on; ask again later, or ask for the completion with a wait";
        Fault::new(FaultKind::ServiceFull, message).into()
    })
}

fn stream(place: OwnedSemaphorePermit) -> (Events, Response) {
    let (events, pieces) = channel(PIECES);
    let body = Body::new(Stream { pieces, _place: place });
    (Events(events), ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// `GET /rendezvous/ID/events`
pub(super) async fn resource(
    State(shared): State<App>,
    http_request: HttpRequest,
) -> Result<Response, Problem> {
    let (query, id) = (http_request.query(&["of"])?, http_request.id()?);
    let (of, token) = (of(&query)?, http_request.token()?);
    shared.ask(Request::Properties(id)).await?;
    let (events, response) = stream(place(&shared.streams)?);
    tokio::spawn(async move {
        let gone = events.0.clone();
        let wait = Request::Wait { resource: id, of, until: None, token };
        tokio::select! {
            _ = send_events(&shared, &events, id, wait) => {}
            () = gone.closed() => {}
        }
    });
    Ok(response)
}

/// Sends the events of a resource until its end. The wait has no time limit, so it ends with the resource.
async fn send_events(
    shared: &Shared,
    events: &Events,
    id: ResourceId,
    wait: Request,
) -> Result<(), Disconnected> {
    let mut subscription = shared.pollers.subscribe(Subject::Tally(id));
    let mut end = pin!(ask(&shared.desk, wait));
    let mut last = None;
    let end = loop {
        tokio::select! {
            biased;
            end = &mut end => break end,
            told = next(events, &mut subscription) => last = told?.or(last),
        }
    };
    // The tally may have changed since it was last polled.
    if let Ok(Answer::Properties(properties)) = shared.ask(Request::Properties(id)).await {
        let now = (properties.tally, properties.capacity);
        if last != Some(now) {
            events.event("tally", &json::tally(now.0, now.1)).await?;
        }
    }
    match end {
        Ok(Answer::Completed(completion)) => completed(shared, events, completion).await,
        Ok(_) => events.event("fault", &strange().written()).await,
        Err(fault) => events.event("fault", &json::problem(&fault)).await,
    }
}

/// Sends the next tally, or a comment that keeps the connection open.
async fn next(events: &Events, subscription: &mut Subscription) -> Result<Option<(u32, u32)>, Disconnected> {
    match timeout(ALIVE, subscription.next()).await {
        Ok(PollResult::Tally(tally, capacity)) => {
            events.event("tally", &json::tally(tally, capacity)).await?;
            Ok(Some((tally, capacity)))
        }
        Ok(_) => Ok(None),
        Err(_) => events.send(":\n\n").await.map(|()| None),
    }
}

/// Sends the completion. If the data are too long or exceed the budget, the event omits them, and the client requests
/// them separately.
async fn completed(shared: &Shared, events: &Events, completion: Completion) -> Result<(), Disconnected> {
    let short = completion.data.len() as u64 <= EVENT_DATA_MAX;
    let Some(data) = short.then(|| shared.response_budget.send(completion.data.clone()).ok()).flatten()
    else {
        return events.event("completed", &json::without_data(&completion)).await;
    };
    let (before, behind) = json::around(&completion);
    let (before, behind) = (format!("event: completed\ndata: {before}"), format!("{behind}\n\n"));
    let mut sent = DataBody::encoded(before, data, behind);
    while let Some(piece) = sent.next() {
        events.send(piece).await?;
    }
    Ok(())
}

/// Stream of all resources, for the page.
pub(super) fn resources(shared: &App) -> Result<Response, Problem> {
    let (events, response) = stream(place(&shared.pages)?);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let gone = events.0.clone();
        tokio::select! {
            _ = show(&shared, &events) => {}
            () = gone.closed() => {}
        }
    });
    Ok(response)
}

/// Sends all resources whenever they change, and at least once in each [`ALIVE`]. A comment would not do: browsers hide
/// comments from the page.
async fn show(shared: &Shared, events: &Events) -> Result<(), Disconnected> {
    let mut subscription = shared.pollers.subscribe(Subject::Resources);
    let mut last = Vec::new();
    // Ends: when the client closes the connection.
    loop {
        if let Ok(PollResult::Resources(list)) = timeout(ALIVE, subscription.next()).await {
            last = list;
        }
        events.event("resources", &json::resources(&last, shared.desk.now())).await?;
    }
}

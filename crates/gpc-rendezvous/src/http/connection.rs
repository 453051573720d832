//! One connection: TLS if configured, one request after another, and a close that lets the client read the last
//! response.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::guard::Client;
use super::links::{Busy, Link};
use super::timed_stream::{Alarm, TimedStream};
use super::tls::Acceptor;

/// Longest head of a request, bytes; also the most that is read of a body at a time.
const HEAD_MAX: usize = 32 << 10;

/// Most headers.
const HEADERS_MAX: usize = 64;

/// Time for a client to read a response that was sent before its whole request body arrived. Closing a socket with
/// unread bytes would discard the response.
const LINGER: Duration = Duration::from_secs(5);

/// Serves a connection until it ends.
pub(super) async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    link: Arc<Link>,
    router: Router,
    acceptor: Option<Acceptor>,
    stopping: watch::Receiver<bool>,
) {
    match acceptor {
        #[cfg(feature = "tls")]
        Some(acceptor) => {
            let accepted = tokio::select! {
                accepted = timeout(link.times().head, acceptor.accept(stream)) => accepted,
                () = link.closing() => return,
            };
            if let Ok(Ok(stream)) = accepted {
                speak(stream, from, link, router, stopping).await;
            }
        }
        #[cfg(not(feature = "tls"))]
        Some(never) => match never {},
        None => speak(stream, from, link, router, stopping).await,
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    from: SocketAddr,
    link: Arc<Link>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let serving = Arc::clone(&link);
    let service = service_fn(move |request: Request<Incoming>| {
        let (busy, link) = (serving.begin(), Arc::clone(&serving));
        let router = TowerToHyperService::new(router.clone());
        Box::pin(async move {
            let client = Client { address: from, link: Arc::clone(&link) };
            let mut request = request.map(|body| Body::new(RequestBody { body, link, ended: false }));
            request.extensions_mut().insert(client);
            let response = hyper::service::Service::call(&router, request).await;
            response.map(|response: Response<Body>| response.map(|body| ResponseBody { body, _busy: busy }))
        })
    });
    let io = TokioIo::new(TimedStream::new(stream, Arc::clone(&link)));
    let mut connection = http1::Builder::new()
        .max_buf_size(HEAD_MAX)
        .max_header_size(HEAD_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false)
        .serve_connection(io, service);
    let mut stop = pin!(async move { drop(stopping.wait_for(|stopping| *stopping).await) });
    let (mut stopped, mut close, mut alarm) = (false, pin!(link.closing()), Alarm::default());
    let served = poll_fn(|cx| {
        if !stopped && stop.as_mut().poll(cx).is_ready() {
            stopped = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if let Poll::Ready(served) = connection.poll_without_shutdown(cx) {
            return Poll::Ready(served.is_ok());
        }
        // Checked last, because polling the connection may admit a request or end a response. While an admitted request
        // is served, the connection has no time limit and is not closed to make room.
        let closes = link.may_close() && close.as_mut().poll(cx).is_ready();
        let late = link.until().is_some_and(|until| alarm.passed(until, cx).is_ready());
        match closes || late {
            true => Poll::Ready(false),
            false => Poll::Pending,
        }
    })
    .await;
    if served && link.is_unread() {
        let lingering = timeout(LINGER, linger(connection.into_parts().io.into_inner().into_inner()));
        tokio::select! {
            _ = lingering => {}
            // A close may have been requested earlier.
            () = close.as_mut() => {}
        }
    }
}

/// Closes the sending side, and discards what the client still sends.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let mut bytes = vec![0; HEAD_MAX];
    if stream.shutdown().await.is_ok() {
        // Ends: with the stream, or by the caller's time limit.
        while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    }
}

/// Body of a request. If it is dropped before its end, the client is still sending.
struct RequestBody {
    body: Incoming,
    link: Arc<Link>,
    /// Whether it was read to its end: a body of unknown length does not report this itself.
    ended: bool,
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !(self.ended || self.body.is_end_stream()) {
            self.link.leave_unread();
        }
    }
}

/// Body of a response. When it is dropped, the request is complete.
struct ResponseBody {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

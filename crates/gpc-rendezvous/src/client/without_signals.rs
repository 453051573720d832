//! Connections whose writes never raise SIGPIPE.
//!
//! A connection of tokio writes one buffer with `send` and MSG_NOSIGNAL, but several with `writev`, which has no such
//! flag. Rust programs ignore SIGPIPE; it would end a program in C.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower_service::Service;

/// A connector, or one of its connections, that writes one buffer at a time.
#[derive(Clone, Debug)]
pub(super) struct WithoutSignals<T>(pub(super) T);

impl<C: Service<Uri>> Service<Uri> for WithoutSignals<C>
where
    C::Future: Send + 'static,
{
    type Response = WithoutSignals<C::Response>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connecting = self.0.call(url);
        Box::pin(async move { connecting.await.map(WithoutSignals) })
    }
}

impl<T: Connection> Connection for WithoutSignals<T> {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

impl<T: Read + Unpin> Read for WithoutSignals<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

/// Without vectored writes: those of the trait write the first buffer that is not empty.
impl<T: Write + Unpin> Write for WithoutSignals<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

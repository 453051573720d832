//! Stream of a connection: reports arriving bytes, and fails if the client does not take its answer in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::links::Link;

/// A stream with a time limit for the client to take written bytes.
#[derive(Debug)]
pub(super) struct TimedStream<S> {
    stream: S,
    link: Arc<Link>,
    alarm: Alarm,
    blocked: Blocked,
}

/// Wakes a task at a time.
#[derive(Default, Debug)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

/// Time limit for a client that does not take written bytes.
#[derive(Default, Debug)]
struct Blocked {
    since: Option<Instant>,
    /// Part of the limit that is used up.
    used: Duration,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, link: Arc<Link>) -> TimedStream<S> {
        TimedStream { stream, link, alarm: Alarm::default(), blocked: Blocked::default() }
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Handles the result of a write.
    fn wrote(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.blocked.progress(bytes, self.link.rate());
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let until = self.blocked.until(self.link.times().silent);
                ready!(self.alarm.passed(until, cx));
                Poll::Ready(Err(late("the client does not take its answer")))
            }
        }
    }
}

impl Alarm {
    /// Ready when the time has passed.
    pub(super) fn passed(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx)
    }
}

impl Blocked {
    /// Credits the client for the bytes that it took: the time that these bytes may take. The total never exceeds the
    /// initial limit. Otherwise a client that takes much at first could keep the rest for as long as that is worth.
    fn progress(&mut self, bytes: usize, rate: u64) {
        if let Some(since) = self.since.take() {
            self.used += since.elapsed();
        }
        let worth = Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / rate);
        self.used = self.used.saturating_sub(worth);
    }

    /// The time by which the client must take some bytes.
    fn until(&mut self, silent: Duration) -> Instant {
        let since = *self.since.get_or_insert_with(Instant::now);
        since + silent.saturating_sub(self.used)
    }
}

fn late(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buffer));
        this.link.came(&buffer.filled()[before..]);
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS buffers what the socket does not take, until it is flushed.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx).map_ok(|()| 0);
        self.wrote(cx, flushed).map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::links::Links;
    use super::super::options::Times;
    use super::super::response_budget::ResponseBudget;
    use super::*;

    /// A socket that takes nothing.
    struct Blocking;

    impl AsyncWrite for Blocking {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_off_at_a_write_and_at_a_flush() {
        use tokio::io::AsyncWriteExt as _;
        use tokio::time::timeout;

        let silent = Duration::from_secs(30);
        let links = Links::new(9, Times { silent, ..Times::default() }, ResponseBudget::new(1));
        let stream = || TimedStream::new(Blocking, links.place().unwrap());
        let early = silent - Duration::from_millis(10);
        let (mut written, mut flushed) = (stream(), stream());
        assert!(timeout(early, written.write(b"x")).await.is_err());
        let cut_off = timeout(silent, written.write(b"x")).await.unwrap().unwrap_err();
        assert_eq!(cut_off.kind(), io::ErrorKind::TimedOut);
        assert!(timeout(early, flushed.flush()).await.is_err());
        let cut_off = timeout(silent, flushed.flush()).await.unwrap().unwrap_err();
        assert_eq!(cut_off.kind(), io::ErrorKind::TimedOut);
    }

    /// The time in which a client took nothing counts, until it has taken bytes for it.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_byte_now_and_then_has_one_limit() {
        let silent = Duration::from_secs(30);
        let mut blocked = Blocked::default();
        blocked.until(silent);
        tokio::time::advance(Duration::from_secs(29)).await;
        blocked.progress(1, 16 << 10);
        assert!(blocked.until(silent) - Instant::now() < Duration::from_millis(1100));
        blocked.progress(160 << 10, 16 << 10);
        let left = blocked.until(silent) - Instant::now();
        assert!((Duration::from_secs(10)..Duration::from_millis(11_100)).contains(&left), "{left:?}");
    }

    /// A client that had taken 63 MiB at once could keep the rest of the answer for an hour, by taking a byte now and
    /// then. All that it had taken was credited.
    #[tokio::test]
    async fn what_was_taken_fast_is_no_credit() {
        let silent = Duration::from_secs(30);
        let mut blocked = Blocked::default();
        let left = |blocked: &mut Blocked| {
            let until = blocked.until(silent);
            until.saturating_duration_since(blocked.since.unwrap())
        };
        assert_eq!(left(&mut blocked), silent);
        blocked.progress(63 << 20, 16 << 10);
        assert_eq!(left(&mut blocked), silent);
        // One byte after 29 s is worth next to nothing.
        blocked.since = None;
        blocked.used = Duration::from_secs(29);
        blocked.progress(1, 16 << 10);
        assert!(left(&mut blocked) <= Duration::from_millis(1001));
        // Bytes at twice the rate restore the whole limit.
        blocked.since = None;
        blocked.progress(2 << 20, 16 << 10);
        assert_eq!(left(&mut blocked), silent);
    }
}

//! Decides what a watch writes and when: initial objects, missed events, live events, bookmarks, the end.
//! Timers are tokio's, so a paused clock governs them. Never touches the store but to ask for its revision,
//! and never waits for its reader: a stream that the store has cut ends. Answers to
//! `k8s.io/apiserver/pkg/endpoints/handlers/watch.go` and the cacher's bookmarks.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::faults::{Cut, Withheld};
use crate::history::{Event, Shown, event_line, write_event};
use crate::kinds::Kind;
use crate::object::{Object, as_map_mut};
use crate::present::Presentation;
use crate::shapes;
use crate::status::Status;
use crate::store::{Delivery, Store, Subscription};
use crate::verbs::strategy;

/// How often a quiet watch that asked for bookmarks gets one.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// How long before its end a watch gets a last bookmark, so that the next one can start there.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long a watch lives that names no timeout.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// How much is gathered into one frame of the response.
const FRAME: usize = 64 * 1024;

/// What a watch shows before anything happens.
pub(crate) struct Initial {
    pub(crate) objects: Vec<Arc<Object>>,
    /// The revision of the bookmark that ends the initial objects, if one was asked for.
    pub(crate) end: Option<u64>,
}

/// The body of a watch response.
pub(crate) struct WatchBody {
    store: Arc<Mutex<Store>>,
    kind: Arc<Kind>,
    initial: std::vec::IntoIter<Arc<Object>>,
    initial_end: Option<u64>,
    missed: VecDeque<Delivery>,
    receiver: Option<mpsc::Receiver<Delivery>>,
    /// The revision after which it watches.
    after: u64,
    bookmarks: bool,
    timeout: Duration,
    timers: Option<Timers>,
    bookmark_due: Option<u64>,
    failure: Option<Bytes>,
    /// How many more events may be shown, where a fault counts them.
    events_left: Option<u64>,
    /// Whether the bookmark that ends the initial events is withheld.
    endless: bool,
    shown: Option<Presentation>,
}

struct Timers {
    end: Pin<Box<Sleep>>,
    bookmark: Option<Pin<Box<Sleep>>>,
    ends_at: Instant,
}

impl WatchBody {
    pub(crate) fn new(
        store: Arc<Mutex<Store>>,
        kind: Arc<Kind>,
        initial: Initial,
        subscription: Subscription,
        bookmarks: bool,
        timeout: Option<u64>,
    ) -> Self {
        let timeout =
            timeout.filter(|seconds| *seconds > 0).map_or(LONGEST, Duration::from_secs).min(LONGEST * 2 * 24);
        Self {
            store,
            kind,
            initial: initial.objects.into_iter(),
            initial_end: initial.end,
            missed: subscription.missed,
            receiver: Some(subscription.receiver),
            after: subscription.after,
            bookmarks,
            timeout,
            timers: None,
            bookmark_due: None,
            failure: None,
            events_left: None,
            endless: false,
            shown: None,
        }
    }

    /// Lets the stream end early, or go without bookmarks.
    pub(crate) fn tamper(&mut self, cut: Option<Cut>, withheld: Option<Withheld>) {
        if let Some(cut) = cut {
            self.events_left = cut.events;
            if cut.events == Some(0) {
                self.cut();
            }
            self.timeout = cut.after.map_or(self.timeout, |after| after.min(self.timeout));
        }
        self.bookmarks &= withheld.is_none();
        self.endless = withheld == Some(Withheld::All);
    }

    /// One more event was shown. The last one takes everything with it that would come after.
    fn count_event(&mut self) {
        if let Some(left) = &mut self.events_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        self.initial = Vec::new().into_iter();
        self.initial_end = None;
        self.missed.clear();
        self.receiver = None;
    }

    /// Shows each object in another shape from now on.
    pub(crate) fn show_as(&mut self, presentation: Presentation) {
        self.shown = Some(presentation);
    }

    /// Whole lines, in the shape that was asked for.
    fn frame(&mut self, lines: Bytes) -> Frame<Bytes> {
        let Some(presentation) = &mut self.shown else { return Frame::data(lines) };
        let mut shown = Vec::with_capacity(lines.len());
        let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        if !lines.all(|line| presentation.line(line, &mut shown)) {
            self.cut();
        }
        Frame::data(shown.into())
    }

    /// A watch that says why it can't be, and ends.
    pub(crate) fn failed(store: Arc<Mutex<Store>>, kind: Arc<Kind>, status: &Status) -> Self {
        let (_, receiver) = mpsc::channel(1);
        let subscription = Subscription { missed: VecDeque::new(), receiver, after: 0 };
        let initial = Initial { objects: Vec::new(), end: None };
        let mut body = Self::new(store, kind, initial, subscription, false, None);
        body.receiver = None;
        body.failure = Some(event_line("ERROR", &status.to_bytes()));
        body
    }

    /// Everything that can be said without waiting, up to one frame.
    fn gather(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        if let Some(failure) = self.failure.take() {
            return Some(failure);
        }
        let mut frame = Vec::new();
        while frame.len() < FRAME {
            let Some(object) = self.initial.next() else { break };
            match self.kind.view_of(&object) {
                Some(view) => write_event(&mut frame, "ADDED", Object::new(view, object.revision).bytes()),
                None => write_event(&mut frame, "ADDED", object.bytes()),
            }
            self.count_event();
        }
        if self.initial.len() > 0 {
            return Some(frame.into());
        }
        if let Some(revision) = self.initial_end.take().filter(|_| !self.endless) {
            frame.extend_from_slice(&self.bookmark(revision, true));
        }
        let mut single: Option<Bytes> = None;
        while frame.len() < FRAME
            && let Some((shown, event)) = self.next_delivery(cx)
        {
            let line = self.line(shown, &event);
            self.count_event();
            match single.take() {
                // One event alone goes out as it is, shared with all other watchers.
                None if frame.is_empty() => single = Some(line),
                None => frame.extend_from_slice(&line),
                Some(first) => {
                    frame.extend_from_slice(&first);
                    frame.extend_from_slice(&line);
                }
            }
        }
        single.or_else(|| (!frame.is_empty()).then(|| frame.into()))
    }

    fn next_delivery(&mut self, cx: &mut Context<'_>) -> Option<Delivery> {
        if let Some(missed) = self.missed.pop_front() {
            return Some(missed);
        }
        match self.receiver.as_mut()?.poll_recv(cx) {
            Poll::Ready(Some(delivery)) => Some(delivery),
            Poll::Ready(None) => {
                self.receiver = None;
                None
            }
            Poll::Pending => None,
        }
    }

    fn line(&self, shown: Shown, event: &Event) -> Bytes {
        let line = event.line(shown);
        if !self.kind.is_view() && self.kind.definition.is_none() {
            return line;
        }
        let parsed: Value = serde_json::from_slice(&line).unwrap_or_default();
        let Some(view) = self.kind.view(&parsed["object"]) else { return line };
        event_line(shown.name(), Object::new(view, event.revision).bytes())
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let kind = &self.kind;
        let mut object = json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata});
        // A bookmark is an empty object of its kind, and shows what an empty object shows.
        as_map_mut(&mut object).extend(shapes::blank(kind));
        strategy::count_nothing(kind, &mut object);
        event_line("BOOKMARK", object.to_string().as_bytes())
    }

    /// Turns the timers; true when the watch is over.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> bool {
        let (timeout, bookmarks) = (self.timeout, self.bookmarks);
        let timers = self.timers.get_or_insert_with(|| Timers::new(timeout, bookmarks));
        let over = timers.end.as_mut().poll_elapsed(cx);
        if timers.bookmark.as_mut().is_some_and(|bookmark| bookmark.as_mut().poll_elapsed(cx)) {
            timers.next_bookmark();
            // Read before the queue is: whatever was written up to here is in the queue already.
            let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            // Where events are held back, that is no reason to send the client back.
            self.bookmark_due = Some(store.delivered(&self.kind).max(self.after));
        }
        over
    }
}

trait PollElapsed {
    fn poll_elapsed(self, cx: &mut Context<'_>) -> bool;
}

impl PollElapsed for Pin<&mut Sleep> {
    fn poll_elapsed(self, cx: &mut Context<'_>) -> bool {
        Future::poll(self, cx).is_ready()
    }
}

impl Timers {
    fn new(timeout: Duration, bookmarks: bool) -> Self {
        let ends_at = Instant::now() + timeout;
        let mut timers = Self { end: Box::pin(sleep_until(ends_at)), bookmark: None, ends_at };
        if bookmarks {
            timers.next_bookmark();
        }
        timers
    }

    fn next_bookmark(&mut self) {
        let now = Instant::now();
        let last = self.ends_at.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
        self.bookmark = last.map(|last| Box::pin(sleep_until(last.min(now + BOOKMARK_PERIOD))));
    }
}

impl Body for WatchBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let over = body.poll_timers(cx);
        if let Some(frame) = body.gather(cx) {
            return Poll::Ready(Some(Ok(body.frame(frame))));
        }
        if let Some(revision) = body.bookmark_due.take() {
            // The timer just set has to be polled once to wake this task.
            cx.waker().wake_by_ref();
            let bookmark = body.bookmark(revision, false);
            return Poll::Ready(Some(Ok(body.frame(bookmark))));
        }
        if over || body.receiver.is_none() {
            body.receiver = None;
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}

//! Decides when a write may be spoken of: once its record is on disk. Records go to one file in the order of revisions, in
//! batches with one fsync each, by a thread of their own, so that nobody holds the store while the disk works. Never decides
//! what is stored. Answers to etcd's write-ahead log (`etcd/server/storage/wal`) and its snapshots.
//!
//! What is promised: an answer leaves the server only when everything that it may have seen is on disk, reads included, and
//! watchers hear of a write only then. So whatever a client was told holds after any crash, and a resource version that was
//! told is never given again. A write that the disk refuses is answered with 500 and undone.

mod file;
mod folder;
mod frame;
mod record;
mod snapshot;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::status::{Result, Status};
use crate::store::Store;

use self::writer::Writer;

pub(crate) use self::folder::Folder;
pub(crate) use self::record::Record;

/// Why a folder can't be served from.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file that can't be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another server has the folder.
    #[error("{folder} is in use by another server: stop that one, or name another folder")]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A file whose bytes are not those that were written.
    #[error(
        "{path} is damaged at byte {offset}: {why}; restore {folder} from a copy, or give up what was written from there on: `truncate --size={offset} {path}`",
        folder = path.parent().unwrap_or(Path::new(".")).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the first thing is that can't be believed.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A snapshot without its log, or a log without its predecessor.
    #[error("{missing} is missing, though later files are there: restore the folder from a copy")]
    Missing {
        /// The file.
        missing: PathBuf,
    },
}

impl OpenError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }
}

/// When the log starts anew behind a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compaction {
    /// The log may always be so long.
    pub(crate) least: u64,
    /// Beyond that, so many times as long as the last snapshot.
    pub(crate) times: u64,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { least: 64 << 20, times: 2 }
    }
}

type Waiter = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
struct State {
    stop: bool,
    /// How many records are on disk.
    written: u64,
    /// How often records were taken back.
    failures: u64,
    failure: String,
    waiters: Vec<(u64, Waiter)>,
}

/// Where those who make records, those who wait for them and the one who writes them meet.
#[derive(Default)]
pub(crate) struct Signal {
    appended: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

impl std::fmt::Debug for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signal").field("appended", &self.appended).finish_non_exhaustive()
    }
}

/// Taken before a request is handled: what has gone wrong since then may have been part of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Signal {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are so many records now. The store is locked meanwhile, so they come in order.
    pub(crate) fn appended(&self, position: u64) {
        self.appended.store(position, Ordering::Release);
        // Between the writer's look and its sleep nothing may come: it has this lock from the one to the other.
        drop(self.lock());
        self.changed.notify_one();
    }

    /// Waits until there is something to write; false when nothing comes any more.
    fn wait_for_records(&self, taken: u64) -> bool {
        let mut state = self.lock();
        while self.appended.load(Ordering::Acquire) == taken && !state.stop {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.appended.load(Ordering::Acquire) != taken
    }

    fn written(&self, position: u64) {
        let mut state = self.lock();
        state.written = position;
        let (ready, rest) =
            std::mem::take(&mut state.waiters).into_iter().partition(|(at, _)| *at <= position);
        state.waiters = rest;
        drop(state);
        let ready: Vec<(u64, Waiter)> = ready;
        for (_, waiter) in ready {
            waiter(Ok(()));
        }
    }

    fn failed(&self, position: u64, why: &str) {
        let mut state = self.lock();
        state.written = state.written.max(position);
        state.failures += 1;
        why.clone_into(&mut state.failure);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        for (_, waiter) in waiters {
            waiter(Err(refusal(why)));
        }
    }

    /// Calls back when everything that has been recorded so far is on disk, or was given up.
    fn when_settled(&self, ticket: Ticket, waiter: Waiter) {
        let position = self.appended.load(Ordering::Acquire);
        let mut state = self.lock();
        if state.failures != ticket.0 {
            let refusal = refusal(&state.failure);
            drop(state);
            return waiter(Err(refusal));
        }
        if state.written >= position {
            drop(state);
            return waiter(Ok(()));
        }
        state.waiters.push((position, waiter));
    }
}

fn refusal(why: &str) -> Box<Status> {
    let message = format!("Internal error occurred: the change could not be kept, and was undone: {why}");
    Box::new(Status::new(500, "InternalError", message))
}

/// The log of a server; dropping it writes what is left and gives the folder back.
pub(crate) struct Log {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Reads a folder into a store that is empty, and writes down what happens to it from then on.
    pub(crate) fn open(
        folder: &Path,
        compaction: Compaction,
        store: &Arc<Mutex<Store>>,
    ) -> std::result::Result<Self, OpenError> {
        let mut locked = store.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, file) = Folder::open(folder, &mut locked)?;
        let signal = Arc::new(Signal::default());
        locked.write_to(signal.clone());
        drop(locked);
        let writer = Writer::new(store.clone(), signal.clone(), folder, file, compaction);
        let thread = std::thread::Builder::new().name("fake-apiserver-log".into());
        let thread =
            thread.spawn(move || writer.run()).map_err(OpenError::io(Path::new("a thread for the log")))?;
        Ok(Self { signal, thread: Some(thread) })
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.signal.lock().failures)
    }

    /// Waits until everything that has been recorded so far is on disk.
    pub(crate) async fn settled(&self, ticket: Ticket) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.signal.when_settled(ticket, Box::new(|settled| drop(sender.send(settled))));
        receiver.await.unwrap_or_else(|_| Err(refusal("the server is shutting down")))
    }

    /// The same for those who can't await; the thread waits.
    pub(crate) fn settle(&self, ticket: Ticket) -> Result<()> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.signal.when_settled(ticket, Box::new(move |settled| drop(sender.send(settled))));
        receiver.recv().unwrap_or_else(|_| Err(refusal("the server is shutting down")))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.signal.lock().stop = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // Only a panic of the thread could be told here, and it has been printed.
            drop(thread.join());
        }
    }
}

//! Decides in which order things happen on the way to the disk: take a batch, write it, fsync it, tell. Whatever comes
//! meanwhile is the next batch, so that many writers share one fsync. Never looks into a record. Answers to the loop of
//! etcd's `raftNode`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::log::file::LogFile;
use crate::log::snapshot::{self, Plan};
use crate::log::{Compaction, Folder, Signal};
use crate::store::Store;
use crate::store::unwritten::Image;

/// The one who writes.
pub(crate) struct Writer {
    store: Arc<Mutex<Store>>,
    signal: Arc<Signal>,
    folder: Folder,
    file: LogFile,
    compaction: Compaction,
    /// A snapshot that is being written; what comes of it is its size.
    snapshot: Option<JoinHandle<Option<u64>>>,
    /// Bytes that were in the logs when a snapshot failed last: it is tried again when there are twice as many.
    failed_at: u64,
}

impl Writer {
    pub(crate) fn new(
        store: Arc<Mutex<Store>>,
        signal: Arc<Signal>,
        folder: Folder,
        file: LogFile,
        compaction: Compaction,
    ) -> Self {
        Self { store, signal, folder, file, compaction, snapshot: None, failed_at: 0 }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn run(mut self) {
        let mut taken = 0;
        while self.signal.wait_for_records(taken) {
            let due = self.is_due();
            let mut store = self.store();
            let Some(batch) = store.take_batch() else { break };
            let image = due.then(|| store.image());
            drop(store);
            taken = batch.position;
            match self.file.append(&batch.records) {
                Ok(()) => {
                    self.store().written(taken);
                    self.signal.written(taken);
                    if let Some(image) = image {
                        self.compact(image);
                    }
                }
                Err(why) => taken = self.give_up(&why),
            }
        }
        self.end_snapshot();
    }

    /// Undoes what the disk did not take, and all that came since.
    fn give_up(&self, why: &str) -> u64 {
        tracing::error!(folder = %self.folder.path().display(), why, "writes could not be kept");
        let mut store = self.store();
        store.take_back();
        let position = store.take_batch().map_or(0, |batch| batch.position);
        // The store stays locked: nobody may build on what is gone and take it for kept.
        self.signal.failed(position, why);
        position
    }

    /// Whether the logs are long enough to be replaced by a snapshot.
    fn is_due(&mut self) -> bool {
        if self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return false;
        }
        self.end_snapshot();
        let logs = self.folder.older_logs + self.file.length;
        let Compaction { least, times } = self.compaction;
        logs > least.max(times * self.folder.snapshot).max(2 * self.failed_at)
    }

    fn end_snapshot(&mut self) {
        match self.snapshot.take().map(JoinHandle::join) {
            Some(Ok(Some(length))) => {
                self.folder.snapshot = length;
                self.folder.older_logs = 0;
                self.failed_at = 0;
            }
            Some(_) => self.failed_at = self.folder.older_logs + self.file.length,
            None => {}
        }
    }

    /// Goes on in a new log, and writes what there was before it into a snapshot.
    fn compact(&mut self, image: Image) {
        let generation = self.folder.generation + 1;
        let file = match self.folder.start_log(generation, 0) {
            Ok(file) => file,
            Err(error) => {
                tracing::warn!(%error, "the log goes on without a snapshot");
                drop(std::fs::remove_file(self.folder.log_path(generation)));
                self.failed_at = self.folder.older_logs + self.file.length;
                return;
            }
        };
        self.folder.older_logs += self.file.length;
        self.file = file;
        self.folder.generation = generation;
        let superseded = self.superseded(generation);
        let plan = Plan {
            folder: self.folder.path().to_owned(),
            path: self.folder.snapshot_path(generation),
            superseded,
        };
        let thread = std::thread::Builder::new().name("fake-apiserver-snapshot".into());
        let write = move || {
            let written = snapshot::write(&image, &plan);
            written.inspect_err(|error| tracing::warn!(%error, "no snapshot could be written")).ok()
        };
        self.snapshot = thread.spawn(write).ok();
    }

    /// What a snapshot of that generation replaces.
    fn superseded(&self, generation: u64) -> Vec<std::path::PathBuf> {
        let older = |path: &std::path::PathBuf| path.exists();
        // Snapshots that fail leave their logs, so more than one may be there.
        let logs = (0..generation).rev().map(|one| self.folder.log_path(one)).take_while(older);
        let snapshots = (0..generation).rev().map(|one| self.folder.snapshot_path(one)).find(older);
        logs.chain(snapshots).collect()
    }
}

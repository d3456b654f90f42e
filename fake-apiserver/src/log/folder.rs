//! Decides what the files of a folder mean. `N.snapshot` is everything at one moment, `N.log` what happened since then; both
//! with the highest N are in use, and logs behind the last snapshot are what a compaction left that did not end. Never
//! repairs anything but a torn end. Answers to etcd's data directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::log::file::LogFile;
use crate::log::frame::{self, Found};
use crate::log::{OpenError, Record};
use crate::store::Store;
use crate::store::replay::From;

/// How every file begins; the digit is the version of the format.
pub(crate) const MAGIC: &[u8; 8] = b"pvblog1\n";
const LOCK: &str = "lock";

type Result<T> = std::result::Result<T, OpenError>;

/// A folder that no other server has.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held until the folder is given back; the system lets go of it when the process ends.
    _lock: File,
    /// The log that is written.
    pub(crate) generation: u64,
    /// The bytes in logs behind the last snapshot, but for the last log.
    pub(crate) older_logs: u64,
    /// How large the last snapshot is.
    pub(crate) snapshot: u64,
}

impl Folder {
    /// Takes the folder and reads it into the store.
    pub(crate) fn open(path: &Path, store: &mut Store) -> Result<(Self, LogFile)> {
        fs::create_dir_all(path).map_err(OpenError::io(path))?;
        let lock = lock(path)?;
        let mut folder =
            Self { path: path.to_owned(), _lock: lock, generation: 0, older_logs: 0, snapshot: 0 };
        let (snapshots, logs) = folder.files()?;
        let mut number = 0;
        if let Some(first) = snapshots.last() {
            number = folder.read_snapshot(*first, store)?;
        }
        let first = snapshots.last().copied().unwrap_or(0);
        let logs: Vec<u64> = logs.into_iter().filter(|log| *log >= first).collect();
        for (expected, log) in (first..).zip(&logs) {
            if expected != *log {
                return Err(OpenError::Missing { missing: folder.log_path(expected) });
            }
        }
        let last = logs.last().copied();
        for log in logs {
            let length = folder.read_log(log, &mut number, Some(log) == last, store)?;
            folder.older_logs += if Some(log) == last { 0 } else { length };
        }
        folder.generation = last.unwrap_or(first);
        let file = match last {
            Some(log) => folder.continue_log(log, number)?,
            None => folder.start_log(first, number)?,
        };
        Ok((folder, file))
    }

    /// The numbers of the snapshots and logs, in order. What was never finished is thrown away.
    fn files(&self) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut snapshots, mut logs) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.path).map_err(OpenError::io(&self.path))? {
            let path = entry.map_err(OpenError::io(&self.path))?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            match (number, path.extension().and_then(|extension| extension.to_str())) {
                (Some(number), Some("snapshot")) => snapshots.push(number),
                (Some(number), Some("log")) => logs.push(number),
                (Some(_), Some("unfinished")) => fs::remove_file(&path).map_err(OpenError::io(&path))?,
                _ => {}
            }
        }
        snapshots.sort_unstable();
        logs.sort_unstable();
        Ok((snapshots, logs))
    }

    pub(crate) fn log_path(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{generation:010}.log"))
    }

    pub(crate) fn snapshot_path(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{generation:010}.snapshot"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn read_snapshot(&mut self, generation: u64, store: &mut Store) -> Result<u64> {
        let path = self.snapshot_path(generation);
        let bytes = read(&path)?;
        self.snapshot = bytes.len() as u64;
        let mut reader = Reader { path: &path, bytes: &bytes, at: 0, number: 0 };
        reader.magic()?;
        let (mut objects, mut end) = (0, None);
        while let Some(records) = reader.next()? {
            reader.replay(records, store, From::Snapshot, &mut |record| match record {
                Record::Put { .. } => objects += 1,
                Record::End { objects } => end = Some(*objects),
                _ => {}
            })?;
        }
        if end != Some(objects) {
            return Err(reader.damaged("a snapshot ends too early"));
        }
        store.forget_before_now();
        // The log behind it counts from one again.
        Ok(0)
    }

    /// Reads a log; cuts off its torn end if it is the last one.
    fn read_log(&self, generation: u64, number: &mut u64, last: bool, store: &mut Store) -> Result<u64> {
        let path = self.log_path(generation);
        let bytes = read(&path)?;
        let mut reader = Reader { path: &path, bytes: &bytes, at: 0, number: 0 };
        if !(last && MAGIC.starts_with(&bytes)) {
            reader.magic()?;
        }
        loop {
            match frame::read(reader.bytes, reader.at, reader.number) {
                Found::Frame { number, records, end } => {
                    reader.replay(records, store, From::Log, &mut |_| {})?;
                    (reader.number, reader.at) = (number, end);
                }
                Found::End => break,
                Found::Torn if last => {
                    tracing::warn!(file = %path.display(), at = reader.at, "cut off a write that was not finished");
                    let file = OpenOptions::new().write(true).open(&path).map_err(OpenError::io(&path))?;
                    file.set_len(reader.at as u64).map_err(OpenError::io(&path))?;
                    file.sync_all().map_err(OpenError::io(&path))?;
                    break;
                }
                Found::Torn => return Err(reader.damaged("the file ends too early: a later log follows it")),
                Found::Damaged(why) => return Err(reader.damaged(why)),
            }
        }
        *number = reader.number;
        Ok(reader.at as u64)
    }

    /// Opens the last log at its end.
    fn continue_log(&self, generation: u64, number: u64) -> Result<LogFile> {
        let path = self.log_path(generation);
        let length = fs::metadata(&path).map_err(OpenError::io(&path))?.len();
        if length < MAGIC.len() as u64 {
            return self.start_log(generation, number);
        }
        let file = OpenOptions::new().append(true).open(&path).map_err(OpenError::io(&path))?;
        Ok(LogFile::new(Box::new(file), length, number))
    }

    /// Makes an empty log that is on disk, its name included.
    pub(crate) fn start_log(&self, generation: u64, number: u64) -> Result<LogFile> {
        let path = self.log_path(generation);
        let mut file = create(&path)?;
        let written = std::io::Write::write_all(&mut file, MAGIC).and_then(|()| file.sync_all());
        written.and_then(|()| sync_folder(&self.path)).map_err(OpenError::io(&path))?;
        Ok(LogFile::new(Box::new(file), MAGIC.len() as u64, number))
    }
}

/// Makes a file that its owner alone can read: there may be secrets in it.
pub(crate) fn create(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(OpenError::io(path))
}

/// Names are on disk only when their folder is.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(OpenError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { folder: folder.to_owned() }),
        Err(TryLockError::Error(error)) => Err(OpenError::io(&path)(error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(OpenError::io(path))
}

/// A file on its way into the store.
struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
    number: u64,
}

impl<'a> Reader<'a> {
    fn damaged(&self, why: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.path.to_owned(), offset: self.at as u64, why: why.into() }
    }

    fn magic(&mut self) -> Result<()> {
        if !self.bytes.starts_with(MAGIC) {
            return Err(self.damaged("it does not begin as a file of this program does"));
        }
        self.at = MAGIC.len();
        Ok(())
    }

    /// The next frame's records, where nothing may be torn.
    fn next(&mut self) -> Result<Option<&'a [u8]>> {
        match frame::read(self.bytes, self.at, self.number) {
            Found::Frame { number, records, end } => {
                (self.number, self.at) = (number, end);
                Ok(Some(records))
            }
            Found::End => Ok(None),
            Found::Torn => Err(self.damaged("the file ends too early")),
            Found::Damaged(why) => Err(self.damaged(why)),
        }
    }

    fn replay(
        &self,
        mut records: &[u8],
        store: &mut Store,
        from: From,
        seen: &mut dyn FnMut(&Record<'_>),
    ) -> Result<()> {
        while !records.is_empty() {
            let record = Record::take(&mut records);
            let record = record.ok_or_else(|| self.damaged("a record can't be read"))?;
            store.replay(&record, from).map_err(|why| self.damaged(why))?;
            seen(&record);
        }
        Ok(())
    }
}

//! Decides how a batch gets to the disk: whole, or not at all. A batch that does not fit is cut off again; after an fsync that
//! failed nothing more is written, because nobody knows what the disk has. Never knows what a batch says. Answers to etcd's
//! `wal.Save`, which ends the process in that case.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use crate::log::frame;

/// What a log needs of a file.
pub(crate) trait Medium: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Medium for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }
}

/// The end of a log.
pub(crate) struct LogFile {
    medium: Box<dyn Medium>,
    pub(crate) length: u64,
    /// The number of the last frame.
    pub(crate) number: u64,
    /// Why nothing more can be written.
    broken: Option<String>,
}

impl LogFile {
    pub(crate) fn new(medium: Box<dyn Medium>, length: u64, number: u64) -> Self {
        Self { medium, length, number, broken: None }
    }

    /// Brings a batch to the disk. What comes back when it can't is a sentence.
    pub(crate) fn append(&mut self, records: &[u8]) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let mut bytes = Vec::with_capacity(frame::HEAD + records.len());
        frame::write(&mut bytes, self.number + 1, records);
        if let Err(error) = self.medium.append(&bytes) {
            if let Err(second) = self.medium.cut(self.length) {
                let why =
                    format!("{error}, and then {second}; no more is written until the server starts again");
                self.broken = Some(why.clone());
                return Err(why);
            }
            return Err(error.to_string());
        }
        if let Err(error) = self.medium.sync() {
            let why = format!("{error}; no more is written until the server starts again");
            self.broken = Some(why.clone());
            return Err(why);
        }
        self.number += 1;
        self.length += bytes.len() as u64;
        Ok(())
    }
}

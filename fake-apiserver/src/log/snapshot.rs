//! Decides how everything at one moment gets into a file: under another name until it is complete. Never holds the store: it
//! works on a copy that costs nothing. Answers to etcd's snapshots.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::log::folder::{MAGIC, create, sync_folder};
use crate::log::{OpenError, Record, frame};
use crate::store::unwritten::Image;

/// How much goes into one frame.
const FRAME: usize = 1 << 20;

/// Where a snapshot goes, and what it makes needless.
pub(crate) struct Plan {
    pub(crate) folder: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) superseded: Vec<PathBuf>,
}

/// Writes the snapshot, then removes what it supersedes. Returns its size.
pub(crate) fn write(image: &Image, plan: &Plan) -> Result<u64, OpenError> {
    let unfinished = plan.path.with_extension("unfinished");
    let written = write_to(image, &unfinished);
    let finished = written.and_then(|length| {
        std::fs::rename(&unfinished, &plan.path).map_err(OpenError::io(&plan.path))?;
        sync_folder(&plan.folder).map_err(OpenError::io(&plan.folder))?;
        Ok(length)
    });
    if finished.is_err() {
        // What is left of it takes space that may be what is missing.
        drop(std::fs::remove_file(&unfinished));
        return finished;
    }
    for path in &plan.superseded {
        // One that stays is passed over by the next start.
        drop(std::fs::remove_file(path));
    }
    finished
}

fn write_to(image: &Image, path: &Path) -> Result<u64, OpenError> {
    let mut file = create(path)?;
    let (mut records, mut out, mut number, mut length) = (Vec::new(), MAGIC.to_vec(), 0, 0);
    let mut objects = 0;
    let mut flush = |records: &mut Vec<u8>, out: &mut Vec<u8>| {
        number += 1;
        frame::write(out, number, records);
        records.clear();
        length += out.len() as u64;
        let written = file.write_all(out);
        out.clear();
        written.map_err(OpenError::io(path))
    };
    Record::Revision { revision: image.revision, quiet: image.quiet }.encode(&mut records);
    for kind in image.kinds.all().iter().filter(|kind| kind.custom && kind.definition.is_none()) {
        let (api_version, kind, namespaced) = (&*kind.api_version(), &*kind.kind, kind.namespaced);
        Record::Register { api_version, kind, namespaced }.encode(&mut records);
    }
    for (index, table) in image.tables.iter().enumerate() {
        let kind = image.kinds.keeper(index).id();
        for (key, object) in table {
            Record::put(&kind, key, object).encode(&mut records);
            objects += 1;
            if records.len() >= FRAME {
                flush(&mut records, &mut out)?;
            }
        }
    }
    Record::End { objects }.encode(&mut records);
    flush(&mut records, &mut out)?;
    file.sync_all().map_err(OpenError::io(path))?;
    Ok(length)
}

//! From paths to text: which files are read, in which order, and that they are text at all.
//!
//! Never decides what is in them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::problem::{Origin, Problem, Problems};

/// One input and all of its text.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) text: String,
}

/// Reads everything that the paths name. Whatever can't be read is a problem.
pub(super) fn read_all<R: Read>(
    paths: &[PathBuf],
    stdin: impl FnOnce() -> R,
    problems: &mut Problems,
) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut stdin = Some(stdin);
    for path in paths {
        if path.as_os_str() == "-" {
            let Some(stdin) = stdin.take() else {
                problems.push(Problem::at(
                    place(path),
                    "is named twice, and can be read only once; name it once",
                ));
                continue;
            };
            let mut bytes = Vec::new();
            let read = stdin().read_to_end(&mut bytes).map(|_| bytes);
            push(path, read, &mut sources, problems);
            continue;
        }
        let mut files = Vec::new();
        find(path, &mut files, problems);
        for file in files {
            push(&file, fs::read(&file), &mut sources, problems);
        }
    }
    sources
}

/// Reads one file.
pub(super) fn read(path: &Path) -> Result<Source, Box<Problem>> {
    let bytes = fs::read(path).map_err(|error| Box::new(unreadable(path, &error)))?;
    let text = decode(path, bytes)?;
    Ok(Source { file: path.to_owned(), text })
}

fn push(path: &Path, read: io::Result<Vec<u8>>, sources: &mut Vec<Source>, problems: &mut Problems) {
    match read.map_err(|error| Box::new(unreadable(path, &error))).and_then(|bytes| decode(path, bytes)) {
        Ok(text) => sources.push(Source { file: path.to_owned(), text }),
        Err(problem) => problems.push(*problem),
    }
}

/// The files a path stands for: itself, or the manifests below it in the order of their paths.
fn find(path: &Path, files: &mut Vec<PathBuf>, problems: &mut Problems) {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return problems.push(unreadable(path, &error)),
    };
    if !metadata.is_dir() {
        return files.push(path.to_owned());
    }
    let (before, wrong) = (files.len(), problems.count());
    // A stack instead of recursion, and links to folders are not followed: a loop of them would have no end.
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => {
                problems.push(unreadable(&folder, &error));
                continue;
            }
        };
        for entry in entries {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(_) if is_manifest(&path) && !path.is_dir() => files.push(path),
                Ok(_) => {}
                Err(error) => problems.push(unreadable(&path, &error)),
            }
        }
    }
    if files.len() == before && problems.count() == wrong {
        problems.push(Problem::at(
            place(path),
            "is a folder without any .yaml, .yml or .json file; name another",
        ));
    }
    files[before..].sort();
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("yaml" | "yml" | "json"))
}

fn place(path: &Path) -> Origin {
    Origin { file: path.to_owned(), ..Origin::default() }
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let way_out = match error.kind() {
        io::ErrorKind::NotFound => "; check the path, or use - for standard input",
        io::ErrorKind::PermissionDenied => "; make it readable for this user",
        _ => "",
    };
    Problem::at(place(path), format!("can't be read: {error}{way_out}"))
}

/// The text of a file: UTF-8 without NUL bytes.
fn decode(path: &Path, bytes: Vec<u8>) -> Result<String, Box<Problem>> {
    let at = |offset: usize, bytes: &[u8]| {
        let line = 1 + bytes.iter().take(offset).filter(|&&byte| byte == b'\n').count();
        Origin { line, ..place(path) }
    };
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Box::new(Problem::at(place(path), "is UTF-16; save it as UTF-8")));
    }
    if let Some(offset) = bytes.iter().position(|&byte| byte == 0) {
        let message = format!("byte {offset} is NUL, so this is not a manifest; name a YAML or JSON file");
        return Err(Box::new(Problem::at(at(offset, &bytes), message)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let byte = bytes.get(offset).copied().unwrap_or_default();
        let message = format!("byte {offset} (0x{byte:02x}) is not UTF-8; save the file as UTF-8");
        Box::new(Problem::at(at(offset, bytes), message))
    })
}

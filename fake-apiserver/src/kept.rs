//! Decides how a secret outlives a server: in a file of its own, which nobody but its owner reads, made once and never changed.
//! Never says what a secret is for. Answers to kube-apiserver's `--cert-dir` and `--service-account-signing-key-file`.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;

/// The secret in a file; where there is none, or an empty file, one that is made now.
pub(crate) fn secret(path: &Path, anew: impl FnOnce() -> Option<Vec<u8>>) -> Result<Vec<u8>> {
    if let Some(found) = read(path)? {
        return Ok(found);
    }
    let made = anew().ok_or_else(|| Error::other("the system has no random numbers"))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Written beside it first, so that what is there is whole; and linked, so that of two who make one both have the same.
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    remove(&unfinished)?;
    let mut file = create(&unfinished)?;
    file.write_all(&made)?;
    file.sync_all()?;
    let linked = fs::hard_link(&unfinished, path);
    remove(&unfinished)?;
    match linked {
        Ok(()) => {
            if let Some(folder) = path.parent() {
                File::open(folder)?.sync_all()?;
            }
            Ok(made)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| Error::other("it is empty: remove it"))
        }
        Err(error) => Err(error),
    }
}

/// What a file says; an empty one says nothing, and goes.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(found) if found.is_empty() => remove(path).map(|()| None),
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn create(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/secret");
        let say = |text: &'static str| move || Some(text.as_bytes().to_vec());
        assert_eq!(secret(&path, say("first")).unwrap(), b"first");
        assert_eq!(secret(&path, say("second")).unwrap(), b"first");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        fs::write(&path, "").unwrap();
        assert_eq!(secret(&path, say("third")).unwrap(), b"third");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn where_no_secret_can_be_made_none_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(secret(&path, || None).is_err());
        assert!(!path.exists());
    }
}

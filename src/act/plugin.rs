//! Making and removing storage on the machine that this program runs on.
//!
//! Decides nothing: paths come from plans, which have checked them. Answers to the file system calls of upstream's
//! hostPath plugin.

use super::error::Error;
use crate::decide::Storage;

/// What becomes of storage that plans make and remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageMode {
    /// Directories are really made and removed.
    Real,
    /// Nothing is touched; everything succeeds.
    Pretended,
}

/// Makes or removes storage.
///
/// # Errors
/// [`Error::Storage`] with what the operating system said.
pub async fn perform(mode: StorageMode, storage: &Storage) -> Result<(), Error> {
    if mode == StorageMode::Pretended {
        return Ok(());
    }
    let storage = storage.clone();
    let done = tokio::task::spawn_blocking(move || match storage {
        Storage::MakeDirectory { path } => std::fs::create_dir_all(path),
        Storage::RemoveDirectory { path } => match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
    });
    match done.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::Storage { message: error.to_string() }),
        Err(error) => Err(Error::Storage { message: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn makes_and_removes_directories_any_number_of_times_and_nothing_when_it_only_pretends() {
        let base = std::env::temp_dir().join(format!("pvbind-plugin-{}", std::process::id()));
        let path = base.join("a/b").to_string_lossy().into_owned();
        let make = Storage::MakeDirectory { path: path.clone() };
        perform(StorageMode::Pretended, &make).await.unwrap();
        assert!(!base.exists());
        for _ in 0..2 {
            perform(StorageMode::Real, &make).await.unwrap();
            assert!(base.join("a/b").is_dir());
        }
        let remove = Storage::RemoveDirectory { path: base.to_string_lossy().into_owned() };
        for _ in 0..2 {
            perform(StorageMode::Real, &remove).await.unwrap();
            assert!(!base.exists());
        }
        let impossible = Storage::MakeDirectory { path: "/proc/no/such".to_owned() };
        assert!(perform(StorageMode::Real, &impossible).await.is_err());
    }
}

//! What of the world outside there is: which targets were asked for, and which programs were built.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::target::Program;

/// The targets that have to be there, if somebody said so.
pub fn asked() -> Option<&'static str> {
    static ASKED: OnceLock<Option<String>> = OnceLock::new();
    ASKED.get_or_init(|| std::env::var("PVBIND_E2E_TARGET").ok()).as_deref()
}

/// The external provisioner's program: where `PVBIND_E2E_PROVISIONER` says, or where its recipe leaves it.
pub fn provisioner() -> Result<PathBuf, String> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = || {
        let home = || variable("HOME").map(|home| home.join(".cache"));
        let all = || variable("XDG_CACHE_HOME").or_else(home).map(|cache| cache.join("pvbind"));
        variable("PVBIND_CACHE").or_else(all).map(|cache| cache.join("control-plane-v1.36.3/provisioner"))
    };
    let file = variable("PVBIND_E2E_PROVISIONER").or_else(cache);
    let file = file.unwrap_or_else(|| PathBuf::from("provisioner"));
    if file.is_file() {
        return Ok(file);
    }
    Err(format!(
        "the provisioner is not built ({} is missing); `just control-plane provisioner` builds it, with Go",
        file.display()
    ))
}

/// What targets lack that run everything as processes of this machine.
pub fn lacks(program: Program) -> Result<(), String> {
    match program {
        Program::Controller
        | Program::Standby
        | Program::Scheduler
        | Program::KubeScheduler
        | Program::Extender => Ok(()),
        Program::Provisioner => provisioner().map(|_| ()),
    }
}

//! The bundled API server as a process, with the programs that ask it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use control_plane::{Ending, Program};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up; it only matters when something is broken.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A server, and whoever asks it. All of them end with it.
pub struct Stage {
    // Programs end before the folder goes.
    running: Vec<Program>,
    folder: TempDir,
}

impl Stage {
    /// Starts the server with further arguments, and waits until it has written the kubeconfig of an administrator.
    pub async fn start(further: &[&str]) -> Self {
        let mut stage = Stage { running: Vec::new(), folder: tempfile::tempdir().expect("a folder") };
        let file = stage.kubeconfig();
        let arguments =
            ["apiserver", "--tls", "--token=a-secret", "--listen=127.0.0.1:0", "--kubeconfig-out", &file];
        let arguments: Vec<String> = arguments.iter().chain(further).map(ToString::to_string).collect();
        stage.run("pvbind", Path::new(env!("CARGO_BIN_EXE_pvbind")), &arguments);
        eventually("the server answers", async || {
            // Half a file is no kubeconfig, and a server that does not listen yet no error.
            let config = Kubeconfig::read_from(stage.kubeconfig()).ok()?;
            let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.ok()?;
            let client = Client::try_from(config).ok()?;
            client.apiserver_version().await.ok()
        })
        .await;
        stage
    }

    /// A file of the stage's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The kubeconfig of an administrator, as programs are told it.
    pub fn kubeconfig(&self) -> String {
        self.path("admin.conf").to_str().expect("a plain path").to_owned()
    }

    pub async fn client(&self) -> Client {
        let config = Kubeconfig::read_from(self.kubeconfig()).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        Client::try_from(config.expect("a configuration")).expect("a client")
    }

    /// Starts a program that runs until it is stopped.
    pub fn run(&mut self, name: &str, program: &Path, arguments: &[String]) {
        let log = self.path(&format!("{name}.log"));
        let (program, _output) = Program::start(name, program, arguments, log);
        self.running.push(program);
    }

    /// Asks a program to end, and waits until it has. Says how it ended.
    pub fn stop(&mut self, name: &str) -> Ending {
        let index = self.running.iter().position(|running| running.name() == name);
        self.running.remove(index.unwrap_or_else(|| panic!("{name} does not run"))).stop(PATIENCE)
    }

    /// Kills a program.
    pub fn kill(&mut self, name: &str) {
        self.running.retain(|running| running.name() != name);
    }
}

/// Asks until there is an answer.
pub async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Creates an object that is written down as JSON.
pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let told = object.to_string();
    let object = serde_json::from_value(object).unwrap_or_else(|error| panic!("{told}: {error}"));
    api.create(&kube::api::PostParams::default(), &object)
        .await
        .unwrap_or_else(|error| panic!("{told}: {error}"))
}

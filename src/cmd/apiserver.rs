//! `pvbind apiserver`.

mod access;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use fake_apiserver::{FakeApiServer, Faults, Options, Plugins, Serving};
use tokio::net::TcpListener;

use super::{Exit, announce, complain, runtime, told_to_stop};
use access::Access;

/// Where to serve.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The address; port 0 takes a free one. Beyond this machine, only with credentials.
    #[arg(long, default_value = "127.0.0.1:8001", env = "PVBIND_LISTEN", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A folder in which everything is kept, for the next start too; without it all is in memory.
    #[arg(long, env = "PVBIND_DATA_DIR", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
    /// How many requests that only read are served at once; the next one is answered with 429.
    #[arg(long, default_value_t = 400, env = "PVBIND_MAX_REQUESTS_INFLIGHT", value_name = "COUNT")]
    max_requests_inflight: usize,
    /// The same for requests that write.
    #[arg(long, default_value_t = 200, env = "PVBIND_MAX_MUTATING_REQUESTS_INFLIGHT", value_name = "COUNT")]
    max_mutating_requests_inflight: usize,
    /// A script of what is to go wrong, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Serves /_pvbind/ too, where whoever can connect may ask for faults, cut watches and read the journal.
    #[arg(long)]
    admin: bool,
}

/// How many requests the journal remembers, where it can be read.
const JOURNAL: usize = 10_000;

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let prepared = match arguments.prepare(Plugins::all()) {
        Ok(prepared) => prepared,
        Err(problem) => return complain(&problem, Exit::Usage),
    };
    let ended = runtime().and_then(|runtime| {
        runtime.block_on(async {
            let serving = arguments.listen(&prepared).await?;
            announce(&serving.url);
            serving.serve(&prepared.server, told_to_stop()).await
        })
    });
    match ended {
        Ok(()) => Exit::Good,
        Err(error) => complain(&arguments.not_served(&error), Exit::Usage),
    }
}

/// A server, and who may ask it.
pub(super) struct Prepared {
    pub(super) server: FakeApiServer,
    access: access::Prepared,
}

impl Prepared {
    /// What clients have to trust, where the server has made it itself, in PEM form.
    pub(super) fn authority(&self) -> Option<&str> {
        self.access.authority()
    }

    /// What an administrator needs to get in by this address.
    pub(super) fn kubeconfig(&self, url: &str) -> std::io::Result<String> {
        self.access.kubeconfig(url)
    }
}

/// A server that can be reached.
pub(super) struct Listening {
    listener: TcpListener,
    serving: Serving,
    pub(super) url: String,
}

impl Listening {
    /// Serves until `stop`.
    pub(super) async fn serve(
        self,
        server: &FakeApiServer,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        server.serve_with(self.listener, self.serving, stop).await
    }
}

impl Arguments {
    /// The server as it was asked for, or what is wrong with that.
    pub(super) fn prepare(&self, plugins: Plugins) -> Result<Prepared, String> {
        let access = self.access.prepare(self.listen, self.data_dir.as_deref())?;
        let journal = if self.admin { JOURNAL } else { 0 };
        let options = Options {
            admin: self.admin,
            journal,
            plugins,
            tokens: access.tokens.clone(),
            credentials_required: access.credentials_required,
            ..Options::default()
        };
        let server = match &self.data_dir {
            Some(folder) => FakeApiServer::open(options, folder).map_err(|error| error.to_string())?,
            None => FakeApiServer::new(options),
        };
        if let Some(file) = &self.faults {
            let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
            let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
            let faults = Faults::parse(&text).map_err(|error| wrong(&error))?;
            server.script_faults(Some(faults)).map_err(|error| wrong(&error))?;
        }
        Ok(Prepared { server, access })
    }

    /// Lets clients come, and writes the kubeconfig that was asked for.
    pub(super) async fn listen(&self, prepared: &Prepared) -> std::io::Result<Listening> {
        let listener = TcpListener::bind(self.listen).await?;
        let scheme = if prepared.access.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        self.access.write_kubeconfig(&prepared.access, &url)?;
        let mut serving = Serving { tls: prepared.access.tls.clone(), ..Serving::default() };
        serving.limits.reading = self.max_requests_inflight;
        serving.limits.writing = self.max_mutating_requests_inflight;
        Ok(Listening { listener, serving, url })
    }

    /// Whether the kubeconfig goes into a file.
    pub(super) fn writes_kubeconfig(&self) -> bool {
        self.access.kubeconfig_out.is_some()
    }

    /// Why nobody is served.
    pub(super) fn not_served(&self, error: &std::io::Error) -> String {
        format!("cannot serve on {}: {error}", self.listen)
    }
}

//! `pvbind apiserver`.

mod access;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use fake_apiserver::{FakeApiServer, Faults, Options, Plugins, Serving};
use tokio::net::TcpListener;

use super::{Exit, announce, complain, runtime, told_to_stop};
use access::{Access, Prepared};

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
    let access = match arguments.access.prepare(arguments.listen, arguments.data_dir.as_deref()) {
        Ok(access) => access,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let server = match server(arguments, &access) {
        Ok(server) => server,
        Err(problem) => return complain(&problem, Exit::Usage),
    };
    let ended = runtime().and_then(|runtime| runtime.block_on(serve(server, arguments, &access)));
    match ended {
        Ok(()) => Exit::Good,
        Err(error) => complain(&format!("cannot serve on {}: {error}", arguments.listen), Exit::Usage),
    }
}

/// The server as it was asked for, or what is wrong with that.
fn server(arguments: &Arguments, access: &Prepared) -> Result<FakeApiServer, String> {
    let journal = if arguments.admin { JOURNAL } else { 0 };
    let options = Options {
        admin: arguments.admin,
        journal,
        plugins: Plugins::all(),
        tokens: access.tokens.clone(),
        credentials_required: access.credentials_required,
        ..Options::default()
    };
    let server = match &arguments.data_dir {
        Some(folder) => FakeApiServer::open(options, folder).map_err(|error| error.to_string())?,
        None => FakeApiServer::new(options),
    };
    if let Some(file) = &arguments.faults {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let faults = Faults::parse(&text).map_err(|error| wrong(&error))?;
        server.script_faults(Some(faults)).map_err(|error| wrong(&error))?;
    }
    Ok(server)
}

async fn serve(server: FakeApiServer, arguments: &Arguments, access: &Prepared) -> std::io::Result<()> {
    let listener = TcpListener::bind(arguments.listen).await?;
    let scheme = if access.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", listener.local_addr()?);
    arguments.access.write_kubeconfig(access, &url)?;
    announce(&url);
    let mut serving = Serving { tls: access.tls.clone(), ..Serving::default() };
    serving.limits.reading = arguments.max_requests_inflight;
    serving.limits.writing = arguments.max_mutating_requests_inflight;
    server.serve_with(listener, serving, told_to_stop()).await
}

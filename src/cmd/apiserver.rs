//! `pvbind apiserver`.

mod access;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use fake_apiserver::{FakeApiServer, Options, Serving};
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
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let prepared = arguments.access.prepare(arguments.listen);
    let access = match prepared {
        Ok(access) => access,
        Err(error) => return complain(&error, Exit::Usage),
    };
    let options = Options {
        tokens: access.tokens.clone(),
        credentials_required: access.credentials_required,
        ..Options::default()
    };
    let server = match &arguments.data_dir {
        Some(folder) => match FakeApiServer::open(options, folder) {
            Ok(server) => server,
            Err(error) => return complain(&error.to_string(), Exit::Usage),
        },
        None => FakeApiServer::new(options),
    };
    let served = runtime().and_then(|runtime| runtime.block_on(serve(server, arguments, &access)));
    match served {
        Ok(()) => Exit::Good,
        Err(error) => complain(&format!("cannot serve on {}: {error}", arguments.listen), Exit::Usage),
    }
}

async fn serve(
    server: FakeApiServer,
    arguments: &Arguments,
    access: &access::Prepared,
) -> std::io::Result<()> {
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

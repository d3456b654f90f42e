//! `pvbind apiserver`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use fake_apiserver::{FakeApiServer, Options};
use tokio::net::TcpListener;

use super::{Exit, announce, complain, runtime, told_to_stop};

/// Where to serve.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The address; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8001", env = "PVBIND_LISTEN", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A folder in which everything is kept, for the next start too; without it all is in memory.
    #[arg(long, env = "PVBIND_DATA_DIR", value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let server = match &arguments.data_dir {
        Some(folder) => match FakeApiServer::open(Options::default(), folder) {
            Ok(server) => server,
            Err(error) => return complain(&error.to_string(), Exit::Usage),
        },
        None => FakeApiServer::new(Options::default()),
    };
    let served = runtime().and_then(|runtime| runtime.block_on(serve(server, arguments.listen)));
    match served {
        Ok(()) => Exit::Good,
        Err(error) => complain(&format!("cannot serve on {}: {error}", arguments.listen), Exit::Usage),
    }
}

async fn serve(server: FakeApiServer, address: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    announce(&format!("http://{}", listener.local_addr()?));
    server.serve(listener, told_to_stop()).await
}

//! `pvbind apiserver`.

use std::net::SocketAddr;

use clap::Args;
use fake_apiserver::{FakeApiServer, Options, Plugins};
use tokio::net::TcpListener;

use super::{Exit, announce, complain, runtime, told_to_stop};

/// Where to serve.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The address; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8001", env = "PVBIND_LISTEN", value_name = "ADDRESS")]
    listen: SocketAddr,
}

/// Runs the command.
#[must_use]
pub fn run(arguments: &Arguments) -> Exit {
    let served = runtime().and_then(|runtime| runtime.block_on(serve(arguments.listen)));
    match served {
        Ok(()) => Exit::Good,
        Err(error) => complain(&format!("cannot serve on {}: {error}", arguments.listen), Exit::Usage),
    }
}

async fn serve(address: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    announce(&format!("http://{}", listener.local_addr()?));
    FakeApiServer::new(Options { plugins: Plugins::all(), ..Options::default() })
        .serve(listener, told_to_stop())
        .await
}

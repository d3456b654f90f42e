//! Serves a fake API server on the address in the first argument (127.0.0.1:8001 when there is none) until
//! Ctrl-C.

use fake_apiserver::{FakeApiServer, Options, Plugins};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8001".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}", listener.local_addr()?);
    let shutdown = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    FakeApiServer::new(Options { plugins: Plugins::all(), ..Options::default() })
        .serve(listener, shutdown)
        .await
}

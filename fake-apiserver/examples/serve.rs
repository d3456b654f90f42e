//! Serves a fake API server on the address in the first argument (127.0.0.1:8001 when there is none) until
//! Ctrl-C. With a second argument, whoever does not present that token is refused.

use fake_apiserver::{FakeApiServer, Options, Plugins, Token};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8001".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}", listener.local_addr()?);
    let shutdown = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let tokens = std::env::args().nth(2).iter().map(|token| Token::admin(token)).collect();
    FakeApiServer::new(Options { tokens, plugins: Plugins::all(), ..Options::default() })
        .serve(listener, shutdown)
        .await
}

//! Ours, in a process of its own: this program again, told to serve.

use std::io::{BufRead, BufReader};
use std::path::Path;

use control_plane::Program;
use fake_apiserver::{FakeApiServer, Options, Plugins, Serving, Tls, Token};
use tokio::net::TcpListener;

use crate::wire::Place;

/// What the program is told in order to serve.
pub const COMMAND: &str = "serve";

/// Whoever has it may do everything.
const TOKEN: &str = "admin";

/// As `pvbind apiserver` has it.
pub fn options() -> Options {
    Options { plugins: Plugins::all(), ..Options::default() }
}

/// Serves until it is killed. Says where, and which authority vouches for it.
pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let made = Tls::generate(&[]).expect("certificates");
    let server = FakeApiServer::new(Options { tokens: vec![Token::admin(TOKEN)], ..options() });
    println!("{}\n{}", listener.local_addr().expect("an address"), made.authority);
    println!("end");
    let serving = Serving { tls: Some(made.tls), ..Serving::default() };
    server.serve_with(listener, serving, std::future::pending()).await.expect("it serves");
}

/// Starts it, and waits until it says that it is ready.
pub async fn start() -> (Program, Place) {
    let log = std::env::temp_dir().join(format!("bench-fake-{}.log", std::process::id()));
    let this = std::env::current_exe().expect("this program");
    let (program, output) = Program::start("ours", Path::new(&this), &[COMMAND.to_owned()], log);
    let mut lines = BufReader::new(output).lines().map(|line| line.expect("what it says"));
    let address = lines.next().expect("it says where it is");
    let authority: Vec<String> = lines.take_while(|line| line != "end").collect();
    let place = Place::new(&address, &authority.join("\n"), TOKEN);
    let mut connection = place.connect().await.expect("it listens");
    assert!(connection.is_ready().await, "it serves when it says so");
    (program, place)
}

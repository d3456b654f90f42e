//! A TCP proxy that can cut everybody off: what a network does, and a test cannot ask of it.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module's documentation. It serves until the process ends.
pub struct Proxy {
    address: SocketAddr,
    /// The clients' ends of all connections.
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// A free port of this machine that leads to the server.
    pub fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let clients = Arc::<Mutex<Vec<TcpStream>>>::default();
        let proxy = Proxy { address, clients: clients.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is not there looks like one to the client too.
                let Ok(server) = TcpStream::connect(&server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let ends = from.try_clone().and_then(|from| Ok((from, to.try_clone()?)));
                    let (from, to) = ends.expect("a handle more");
                    std::thread::spawn(move || pass(from, to));
                }
                clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
            }
        });
        proxy
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections; new ones can be made at once.
    pub fn cut(&self) {
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may be over already.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

/// Carries bytes one way until either end has enough, and then ends both.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    // How it ended is what the ends see.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

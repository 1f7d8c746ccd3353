//! A wire that can be cut or go dead in one direction.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections to a server on this machine; stopped when dropped.
pub struct Proxy {
    port: u16,
    wires: Arc<Wires>,
}

#[derive(Default)]
struct Wires {
    /// What clients say is thrown away.
    deaf: AtomicBool,
    lost: AtomicUsize,
    /// What clients say is kept until it is delivered, also if they are gone by then.
    slow: AtomicBool,
    kept: Mutex<VecDeque<(TcpStream, Vec<u8>)>>,
    /// What the server says is thrown away.
    mute: AtomicBool,
    ended: AtomicBool,
    clients: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let wires = Arc::new(Wires::default());
        let shared = wires.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    shared.connect(client, server);
                }
            }
        });
        Proxy { port, wires }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether what clients say from now on gets lost. A connection that lost something stays deaf: no wire loses bytes
    /// and delivers the next ones.
    pub fn lose_commands(&self, lose: bool) {
        self.wires.deaf.store(lose, Ordering::SeqCst);
    }

    /// How many pieces got lost.
    pub fn lost(&self) -> usize {
        self.wires.lost.load(Ordering::SeqCst)
    }

    /// Whether what the server answers from now on gets lost.
    pub fn lose_answers(&self, lose: bool) {
        self.wires.mute.store(lose, Ordering::SeqCst);
    }

    /// Whether what clients say from now on is under way until [`deliver`](Proxy::deliver).
    pub fn keep_commands(&self, keep: bool) {
        self.wires.slow.store(keep, Ordering::SeqCst);
    }

    /// How many pieces are under way.
    pub fn kept(&self) -> usize {
        self.wires.kept.lock().unwrap().len()
    }

    /// Delivers the first piece that is under way.
    pub fn deliver(&self) {
        let (mut server, piece) = self.wires.kept.lock().unwrap().pop_front().unwrap();
        server.write_all(&piece).unwrap();
    }

    /// Ends all connections of clients.
    pub fn cut(&self) {
        for client in self.wires.clients.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

impl Wires {
    fn connect(self: &Arc<Wires>, client: TcpStream, server: TcpStream) {
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let again = || (client.try_clone().unwrap(), server.try_clone().unwrap());
        self.clients.lock().unwrap().push(again().0);
        let (wires, (from, to)) = (self.clone(), again());
        std::thread::spawn(move || wires.to_server(from, to));
        let (wires, (to, from)) = (self.clone(), again());
        std::thread::spawn(move || wires.to_client(from, to));
    }

    fn to_server(&self, mut client: TcpStream, mut server: TcpStream) {
        let (mut slow, mut deaf) = (false, false);
        each_piece(&mut client, |piece| {
            slow |= self.slow.load(Ordering::SeqCst);
            deaf |= self.deaf.load(Ordering::SeqCst);
            if slow {
                let piece = (server.try_clone().unwrap(), piece.to_vec());
                self.kept.lock().unwrap().push_back(piece);
                true
            } else if deaf {
                self.lost.fetch_add(1, Ordering::SeqCst);
                true
            } else {
                server.write_all(piece).is_ok()
            }
        });
        if !slow {
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    fn to_client(&self, mut server: TcpStream, mut client: TcpStream) {
        each_piece(&mut server, |piece| self.mute.load(Ordering::SeqCst) || client.write_all(piece).is_ok());
        let _ = client.shutdown(Shutdown::Both);
    }
}

/// Until the end, or until `pass` can't pass one on.
fn each_piece(from: &mut TcpStream, mut pass: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !pass(&buffer[..count]) {
            return;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wires.ended.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the accepting thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

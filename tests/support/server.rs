//! A Redis or Valkey server of a test's own.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// On a free port, with its files in a temporary folder; stopped when dropped.
pub struct Server {
    process: Child,
    port: u16,
    folder: PathBuf,
}

impl Server {
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// `options` as on the server's command line.
    pub fn with(options: &[&str]) -> Server {
        let binary = binary();
        for _ in 0..20 {
            if let Some(server) = Server::attempt(&binary, options) {
                return server;
            }
        }
        panic!("{} didn't start on any of 20 ports", binary.display());
    }

    /// `None`: it ended before it was ready, most likely because somebody else took the port meanwhile.
    fn attempt(binary: &Path, options: &[&str]) -> Option<Server> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("holdfast-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap().port();
        let mut process = Command::new(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(&folder)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = log.by_ref().map_while(Result::ok).any(|line| line.contains("eady to accept connections"));
        // A full pipe would stop the server.
        std::thread::spawn(move || log.map_while(Result::ok).for_each(drop));
        let server = Server { process, port, folder };
        ready.then_some(server)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Another connection than the one under test.
    pub fn connection(&self) -> redis::Connection {
        redis::Client::open(("127.0.0.1", self.port)).and_then(|client| client.get_connection()).unwrap()
    }

    /// Stops the process: sockets stay open, nothing is answered.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.process.id());
        let status = Command::new("sh").args(["-c", &command]).status();
        assert!(status.unwrap().success(), "{command}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By its process id, frozen or not.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("HOLDFAST_TEST_REDIS_SERVER") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    ["redis-server", "valkey-server"]
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
        .unwrap_or_else(|| {
            panic!(
                "no redis-server or valkey-server in PATH: install one, or set HOLDFAST_TEST_REDIS_SERVER to its path"
            )
        })
}

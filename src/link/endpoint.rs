//! Where a server is and how to introduce oneself.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A server, a database on it, and the credentials for it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Where it listens.
    pub place: Place,
    /// User, if not the default one.
    pub username: Option<String>,
    /// Password, if one is needed.
    pub password: Option<String>,
    /// Database number.
    pub db: u32,
    /// Encrypted if set.
    pub tls: Option<TlsSettings>,
    /// How long a server may owe an answer before its connection is replaced; also the time a connection may take to be made.
    pub patience: Duration,
}

/// A listening socket.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// Host name or address, and port.
    Tcp(String, u16),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
}

/// What to trust and what to show.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// PEM of the authorities to trust instead of the system's.
    pub authorities: Option<Vec<u8>>,
    /// PEM of our certificate chain and private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name the certificate must be for, if it isn't the host.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub accept_any: bool,
}

impl fmt::Display for Endpoint {
    /// For messages: where, never the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp(host, port) => write!(f, "{host}:{port}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self}, db {})", self.db)
    }
}

//! Options of a manager as they cross the border.

use std::time::Duration;

use holdfast_core::engine::{Options, Where};
use holdfast_core::link::{Endpoint, Place, TlsSettings};
use napi_derive::napi;

/// Where locks are kept: exactly one of `memory`, `path` and `host`.
#[napi(object)]
pub struct StoreOptions {
    /// Name of a store in this process.
    pub memory: Option<String>,
    /// Path of a Unix socket.
    pub path: Option<String>,
    /// Host name or address.
    pub host: Option<String>,
    /// Port.
    pub port: Option<u32>,
    /// User.
    pub username: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Database number.
    pub db: u32,
    /// Set for an encrypted connection.
    pub tls: Option<TlsOptions>,
    /// Goes before every key.
    pub key_prefix: String,
    /// Milliseconds.
    pub command_timeout: u32,
}

/// TLS settings; texts are PEM.
#[napi(object)]
pub struct TlsOptions {
    /// Authorities to trust.
    pub ca: Option<String>,
    /// Our certificate chain.
    pub cert: Option<String>,
    /// Our private key.
    pub key: Option<String>,
    /// Name to check for.
    pub servername: Option<String>,
    /// Accept any certificate if false.
    pub reject_unauthorized: bool,
}

impl From<StoreOptions> for Options {
    fn from(given: StoreOptions) -> Options {
        let patience = Duration::from_millis(given.command_timeout.into());
        let place = match (given.path, given.host) {
            (Some(path), _) => Place::Unix(path.into()),
            (None, host) => Place::Tcp(host.unwrap_or_default(), given.port.unwrap_or(6379) as u16),
        };
        let store = match given.memory {
            Some(name) => Where::Memory(name),
            None => Where::Server(Endpoint {
                place,
                username: given.username,
                password: given.password,
                db: given.db,
                tls: given.tls.map(TlsSettings::from),
                patience,
            }),
        };
        Options { store, prefix: given.key_prefix, patience }
    }
}

impl From<TlsOptions> for TlsSettings {
    fn from(given: TlsOptions) -> TlsSettings {
        TlsSettings {
            authorities: given.ca.map(String::into_bytes),
            identity: given.cert.zip(given.key).map(|(cert, key)| (cert.into_bytes(), key.into_bytes())),
            server_name: given.servername,
            accept_any: !given.reject_unauthorized,
        }
    }
}

//! Options of a manager as they cross the border.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::{Options, Terms, Where};
use holdfast_core::lease::{Ttl, Turn};
use holdfast_core::link::{Endpoint, Place, TlsSettings};
use holdfast_core::wait::{Jitter, Phase, Phases, Poll, Strategy, Then};
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

/// What a call asks for. Times in milliseconds, -1 for "without end".
#[napi(object)]
pub struct TermsOptions {
    pub ttl: u32,
    pub auto_extend: bool,
    pub max_hold: f64,
    pub max_stall: f64,
    pub min_hold: f64,
    /// Callers that a turn serves while others wait, and for how long; -1: without end, and as long as is useful.
    pub turn_holders: f64,
    pub turn_duration: f64,
    pub strategy: StrategyOptions,
}

/// Phases of polling, and the strategy that follows them; `fail` for none.
#[napi(object)]
pub struct StrategyOptions {
    pub phases: Vec<PhaseOptions>,
    pub after: String,
}

/// One way of polling. Times in milliseconds, -1 for "without end".
#[napi(object)]
pub struct PhaseOptions {
    pub interval: f64,
    pub factor: f64,
    pub cap: f64,
    /// `up-to` (with `low`), `between` (`low` and `high`), `full`, `equal` or `decorrelated`.
    pub jitter: String,
    pub low: f64,
    pub high: f64,
    pub max_duration: f64,
    pub max_attempts: f64,
}

/// Milliseconds; `None` without end.
pub fn bounded(millis: f64) -> Option<Duration> {
    (millis >= 0.0).then(|| millis_of(millis))
}

fn millis_of(millis: f64) -> Duration {
    Duration::from_secs_f64(millis.clamp(0.0, 1e12) / 1e3)
}

impl TermsOptions {
    pub fn terms(&self) -> Terms {
        Terms {
            ttl: Ttl::from_millis(self.ttl),
            renewed: self.auto_extend,
            max_hold: bounded(self.max_hold),
            max_stall: bounded(self.max_stall),
            min_hold: millis_of(self.min_hold),
            turn: Turn {
                holders: if self.turn_holders < 0.0 { u32::MAX } else { self.turn_holders as u32 },
                duration: bounded(self.turn_duration),
            },
        }
    }

    pub fn strategy(&self) -> Arc<Strategy> {
        let StrategyOptions { phases, after } = &self.strategy;
        if phases.is_empty() {
            return Arc::new(Strategy::named(after).unwrap_or(Strategy::Handoff));
        }
        let mut all = Phases { phases: phases.iter().map(PhaseOptions::phase).collect(), then: Then::Fail };
        if let Some(rest) = Phases::named(after) {
            all.phases.extend(rest.phases);
            all.then = rest.then;
        } else if after == "handoff" {
            all.then = Then::Handoff;
        }
        Arc::new(Strategy::Poll(all))
    }
}

impl PhaseOptions {
    fn phase(&self) -> Phase {
        Phase {
            poll: Poll {
                interval: millis_of(self.interval),
                factor: self.factor,
                cap: millis_of(self.cap),
                jitter: match self.jitter.as_str() {
                    "between" => Jitter::Between(self.low, self.high),
                    "full" => Jitter::Full,
                    "equal" => Jitter::Equal,
                    "decorrelated" => Jitter::Decorrelated,
                    _ => Jitter::UpTo(self.low),
                },
            },
            max_duration: bounded(self.max_duration),
            max_attempts: (self.max_attempts >= 0.0).then_some(self.max_attempts as u32),
        }
    }
}

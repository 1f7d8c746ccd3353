//! What went wrong with a server, and whether waiting can help.

use std::fmt;
use std::io;
use std::sync::Arc;

/// An error in the server's or the system's own words.
#[derive(Clone)]
pub struct Trouble(Arc<Inner>);

struct Inner {
    class: Class,
    code: String,
    message: String,
}

/// What an error means for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It will be the same the next time: credentials, rights, database, TLS, a host that doesn't exist.
    Definite,
    /// It may be over soon.
    Passing,
    /// The key holds data of another kind.
    WrongType,
}

/// Server errors that pass by themselves; everything else the server says is definite.
const PASSING: [&str; 13] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "EXECABORT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
];

impl Trouble {
    /// Something definite of our own finding.
    pub fn definite(code: &str, message: impl Into<String>) -> Trouble {
        Trouble::new(Class::Definite, code, message.into())
    }

    /// Something passing of our own finding.
    pub fn passing(code: &str, message: impl Into<String>) -> Trouble {
        Trouble::new(Class::Passing, code, message.into())
    }

    /// What a server answered.
    pub fn from_server(code: &str, details: &str) -> Trouble {
        let busy_connections = code == "ERR" && details.contains("max number of clients");
        let class = if code == "WRONGTYPE" {
            Class::WrongType
        } else if busy_connections || PASSING.contains(&code) {
            Class::Passing
        } else {
            Class::Definite
        };
        let message = if details.is_empty() { code.to_owned() } else { format!("{code} {details}") };
        Trouble::new(class, code, message)
    }

    /// What the system said of a socket; all of it may pass, save for a path that can't be opened.
    pub fn from_io(error: &io::Error) -> Trouble {
        let code = match error.kind() {
            io::ErrorKind::ConnectionRefused => "ECONNREFUSED",
            io::ErrorKind::ConnectionReset => "ECONNRESET",
            io::ErrorKind::ConnectionAborted => "ECONNABORTED",
            io::ErrorKind::BrokenPipe => "EPIPE",
            io::ErrorKind::TimedOut => "ETIMEDOUT",
            io::ErrorKind::NotFound => "ENOENT",
            io::ErrorKind::PermissionDenied => "EACCES",
            io::ErrorKind::HostUnreachable => "EHOSTUNREACH",
            io::ErrorKind::NetworkUnreachable => "ENETUNREACH",
            io::ErrorKind::UnexpectedEof => "ECONNRESET",
            _ => "EIO",
        };
        let class = if code == "EACCES" { Class::Definite } else { Class::Passing };
        let message = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
            // The number says the same as the name.
            _ => match error.to_string().split(" (os error").next() {
                Some(text) => format!("{code} ({text})"),
                None => code.to_owned(),
            },
        };
        Trouble::new(class, code, message)
    }

    /// The same, found while doing `what`.
    pub fn while_doing(&self, what: &str) -> Trouble {
        Trouble::new(self.class(), self.code(), format!("{} ({what})", self.message()))
    }

    /// What it means.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// The server's error code or the system's error name.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// In the server's or the system's words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    fn new(class: Class, code: &str, message: String) -> Trouble {
        Trouble(Arc::new(Inner { class, code: code.to_owned(), message }))
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.class(), self.code(), self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_definite_unless_it_is_known_to_pass() {
        for (code, details, class) in [
            ("WRONGPASS", "invalid username-password pair", Class::Definite),
            ("NOPERM", "no permissions", Class::Definite),
            ("ERR", "DB index is out of range", Class::Definite),
            ("ERR", "max number of clients reached", Class::Passing),
            ("LOADING", "Redis is loading the dataset in memory", Class::Passing),
            ("WRONGTYPE", "Operation against a key", Class::WrongType),
        ] {
            assert_eq!(Trouble::from_server(code, details).class(), class, "{code} {details}");
        }
    }
}

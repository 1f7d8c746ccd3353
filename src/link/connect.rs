//! Making one connection: dial, encrypt, introduce oneself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use super::heard::{Heard, Noting};
use super::tls;
use super::wire::Sink;
use super::{Endpoint, Place, TlsSettings, Trouble};

type Decoder = combine::stream::Decoder<
    combine::parser::combinator::AnySendSyncPartialState,
    combine::stream::PointerOffset<[u8]>,
>;

/// A connection that is ready for commands.
pub(super) struct Connection {
    pub(super) input: Input,
    pub(super) output: Output,
}

/// Its reading half.
pub(super) struct Input {
    reader: BufReader<Noting>,
    pub(super) heard: Heard,
    decoder: Decoder,
}

/// Its writing half.
pub(super) struct Output {
    pub(super) sink: Sink,
    /// Set if the sink is [`Sink::Task`].
    pub(super) writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
}

/// Dials and introduces us; `prologue` are further commands to send in the same round trip, whose errors don't matter.
pub(super) async fn connect(endpoint: &Endpoint, prologue: Vec<Cmd>) -> Result<Connection, Trouble> {
    let patience = endpoint.patience;
    match timeout(patience, dial(endpoint)).await {
        Err(_) => Err(Trouble::passing("ETIMEDOUT", format!("no connection within {} ms", patience.as_millis()))),
        Ok(Err(trouble)) => Err(trouble),
        Ok(Ok(mut connection)) => match timeout(patience, introduce(&mut connection, endpoint, prologue)).await {
            Err(_) => {
                let millis = patience.as_millis();
                Err(Trouble::passing("ETIMEDOUT", format!("connected, but no answer within {millis} ms")))
            }
            Ok(Err(trouble)) => Err(trouble),
            Ok(Ok(())) => Ok(connection),
        },
    }
}

async fn dial(endpoint: &Endpoint) -> Result<Connection, Trouble> {
    match &endpoint.place {
        #[cfg(unix)]
        Place::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| Trouble::from_io(&error))?;
            let (reader, writer) = stream.into_split();
            Ok(Connection::new(Box::new(reader), Sink::Unix(Arc::new(writer)), None))
        }
        #[cfg(not(unix))]
        Place::Unix(_) => Err(Trouble::definite("ERR_UNSUPPORTED", "this platform has no Unix sockets")),
        Place::Tcp(host, port) => {
            let stream = dial_tcp(host, *port, endpoint.patience).await?;
            let Some(settings) = &endpoint.tls else {
                let (reader, writer) = stream.into_split();
                return Ok(Connection::new(Box::new(reader), Sink::Tcp(Arc::new(writer)), None));
            };
            let (reader, writer) = encrypt(stream, settings, host, *port).await?;
            Ok(Connection::new(reader, Sink::Task, Some(writer)))
        }
    }
}

async fn dial_tcp(host: &str, port: u16, patience: Duration) -> Result<TcpStream, Trouble> {
    let addresses = tokio::net::lookup_host((host, port)).await.map_err(|error| no_such_host(host, &error))?;
    let addresses: Vec<_> = addresses.collect();
    let mut last = Trouble::definite("ENOTFOUND", format!("the host {host} has no address"));
    // Each address gets its share, or one that answers nothing would keep the next from being tried.
    let share = patience / addresses.len().max(1) as u32;
    for address in addresses {
        let attempt = timeout(share, TcpStream::connect(address)).await;
        match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                prepare(&stream).map_err(|error| Trouble::from_io(&error))?;
                return Ok(stream);
            }
            Err(error) => last = Trouble::from_io(&error),
        }
    }
    Err(last)
}

/// A second small command must not wait for the acknowledgement of the first; and a peer that vanished must be noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(5));
    socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// The resolver's error has no kind; its text tells "no such name" from "ask again later".
fn no_such_host(host: &str, error: &io::Error) -> Trouble {
    let text = error.to_string();
    let message = format!("the host name {host} can't be resolved: {text}");
    if text.contains("emporary failure") || text.contains("ry again") {
        Trouble::passing("EAI_AGAIN", message)
    } else {
        Trouble::definite("ENOTFOUND", message)
    }
}

type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

async fn encrypt(stream: TcpStream, settings: &TlsSettings, host: &str, port: u16) -> Result<Halves, Trouble> {
    let connector = tls::connector(settings)?;
    let name = tls::server_name(settings, host)?;
    tokio::select! {
        // A plain Redis takes the first bytes of TLS for the beginning of a command and waits for the rest.
        () = speaks_plainly(host, port) => Err(Trouble::definite(
            "ERR_TLS", "the server doesn't speak TLS on this port; a plain connection is `redis://`",
        )),
        made = connector.connect(name, stream) => match made {
            Ok(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                Ok((Box::new(reader), Box::new(writer)))
            }
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>()) => {
                Err(tls_failed(&error))
            }
            Err(error) => Err(Trouble::from_io(&error).while_doing("during the TLS handshake")),
        },
    }
}

fn tls_failed(error: &io::Error) -> Trouble {
    use tokio_rustls::rustls::Error;
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let hint = match inner {
        Some(Error::InvalidMessage(_)) => {
            "; does the server speak TLS on this port? A plain connection is `redis://`"
        }
        Some(Error::InvalidCertificate(_)) => "; `tls.ca` names the authority to trust",
        _ => "",
    };
    Trouble::definite("ERR_TLS", format!("the TLS handshake failed: {error}{hint}"))
}

/// Returns once the server has answered a plain PING on a second connection, and never if it doesn't.
async fn speaks_plainly(host: &str, port: u16) {
    sleep(Duration::from_millis(250)).await;
    let asked = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut reader = BufReader::new(stream);
        Ok::<_, io::Error>(matches!(reader.fill_buf().await?.first(), Some(b'+' | b'-')))
    };
    if !matches!(asked.await, Ok(true)) {
        std::future::pending::<()>().await;
    }
}

async fn introduce(connection: &mut Connection, endpoint: &Endpoint, prologue: Vec<Cmd>) -> Result<(), Trouble> {
    let mut commands = Vec::new();
    if let Some(password) = &endpoint.password {
        let mut auth = redis::cmd("AUTH");
        if let Some(username) = &endpoint.username {
            auth.arg(username);
        }
        commands.push((auth.arg(password).clone(), Needed::Yes));
    }
    if endpoint.db != 0 {
        commands.push((redis::cmd("SELECT").arg(endpoint.db).clone(), Needed::Yes));
    }
    let name = redis::cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("holdfast").clone();
    commands.push((name, Needed::No));
    commands.extend(prologue.into_iter().map(|command| (command, Needed::No)));
    let mut bytes = Vec::new();
    for (command, _) in &commands {
        command.write_packed_command(&mut bytes);
    }
    connection.output.send(&bytes).await.map_err(|error| Trouble::from_io(&error))?;
    connection.expect_redis().await?;
    for (_, needed) in commands {
        let value = connection.input.read().await.map_err(|error| broken(&error))?;
        if let Value::ServerError(error) = value {
            let trouble = Trouble::from_server(error.code(), error.details().unwrap_or(""));
            if needed == Needed::Yes || matches!(error.code(), "NOAUTH") {
                return Err(trouble);
            }
        }
    }
    Ok(())
}

#[derive(PartialEq)]
enum Needed {
    Yes,
    No,
}

/// What ended the reading side of a connection.
pub(super) fn broken(error: &redis::RedisError) -> Trouble {
    if error.is_connection_dropped() || error.is_io_error() {
        Trouble::passing("ECONNRESET", format!("the connection broke: {error}"))
    } else {
        Trouble::passing("EPROTO", format!("the server's answer can't be understood: {error}"))
    }
}

impl Input {
    /// The next value.
    pub(super) async fn read(&mut self) -> redis::RedisResult<Value> {
        redis::parse_redis_value_async(&mut self.decoder, &mut self.reader).await
    }
}

impl Output {
    /// Sends all of it, if nobody else writes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.write_all(bytes).await?;
            return writer.flush().await;
        }
        let mut wire = super::wire::Wire::<()> {
            sink: self.sink.clone(),
            unsent: bytes.to_vec(),
            expected: Default::default(),
            sent: 0,
        };
        while wire.write()? {
            self.sink.writable().await?;
        }
        Ok(())
    }
}

impl Connection {
    fn new(
        reader: Box<dyn AsyncRead + Send + Unpin>,
        sink: Sink,
        writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    ) -> Connection {
        let heard = Heard::default();
        let input = Input { reader: BufReader::new(heard.note(reader)), decoder: Decoder::new(), heard };
        Connection { input, output: Output { sink, writer } }
    }

    /// Looks at the first byte of the first answer.
    async fn expect_redis(&mut self) -> Result<(), Trouble> {
        let first = self.input.reader.fill_buf().await.map_err(|error| Trouble::from_io(&error))?.first().copied();
        match first {
            Some(b'+' | b'-' | b':' | b'$' | b'*') => Ok(()),
            None => Err(Trouble::passing(
                "ECONNRESET",
                "the server closed the connection at once; if it expects TLS, use `rediss://`",
            )),
            // A TLS alert.
            Some(0x15) => Err(Trouble::definite("ERR_TLS", "the server expects TLS on this port: use `rediss://`")),
            Some(_) => Err(Trouble::definite("EPROTO", "the server on this port doesn't speak the Redis protocol")),
        }
    }
}

impl Sink {
    /// Waits until the socket takes more.
    pub(super) async fn writable(&self) -> io::Result<()> {
        match self {
            Sink::Tcp(half) => half.writable().await,
            #[cfg(unix)]
            Sink::Unix(half) => half.writable().await,
            Sink::Task => Ok(()),
        }
    }
}

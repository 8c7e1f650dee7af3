//! Making a connection: socket, TLS and handshake.

use crate::address::{Address, Place};
use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, Value};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Requests that may stand in the connection's queue: a release must always find room behind its acquire.
const PIPELINE: usize = 8192;

/// A connection, and the future that drives it until it breaks.
pub(crate) type Connection = (MultiplexedConnection, BoxFuture<'static, ()>);

/// What is done with a message: its channel and its text.
pub(crate) type OnMessage = Arc<dyn Fn(&[u8], &[u8]) + Send + Sync>;

/// How to reach one server.
pub(crate) struct Route {
    pub address: Address,
    pub on_message: OnMessage,
    #[cfg(feature = "tls")]
    pub tls: Option<tokio_rustls::TlsConnector>,
}

impl Route {
    pub(crate) async fn connect(&self, protocol: ProtocolVersion) -> Result<Connection, RedisError> {
        let mut info = RedisConnectionInfo::default()
            .set_db(self.address.db)
            .set_protocol(protocol)
            .set_lib_name("quorlock", crate::VERSION);
        if let Some(username) = &self.address.username {
            info = info.set_username(username);
        }
        if let Some(password) = &self.address.password {
            info = info.set_password(password);
        }
        match &self.address.place {
            Place::Unix(path) => self.handshake(&info, tokio::net::UnixStream::connect(path).await?).await,
            Place::Tcp { host, port, .. } => {
                let stream = tcp(host, *port).await?;
                #[cfg(feature = "tls")]
                if let Some(tls) = &self.tls {
                    let name = rustls::pki_types::ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                    return self.handshake(&info, tls.connect(name, stream).await?).await;
                }
                self.handshake(&info, stream).await
            }
        }
    }

    async fn handshake<S>(&self, info: &RedisConnectionInfo, stream: S) -> Result<Connection, RedisError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        // Limits are ours: a release outlives the caller's patience.
        let mut config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(PIPELINE);
        if info.protocol() != ProtocolVersion::RESP2 {
            let on_message = self.on_message.clone();
            config = config.set_push_sender(move |push: PushInfo| -> Result<(), Infallible> {
                if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(text)]) =
                    (&push.kind, &push.data[..])
                {
                    on_message(channel, text);
                }
                Ok(())
            });
        }
        let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config).await?;
        Ok((connection, Box::pin(driver)))
    }
}

/// Connects to the first address that answers. No delay for small writes; a peer whose host is gone is noticed.
async fn tcp(host: &str, port: u16) -> io::Result<tokio::net::TcpStream> {
    let mut last = None;
    for address in tokio::net::lookup_host((host, port)).await? {
        match tokio::net::TcpStream::connect(address).await {
            Ok(stream) => {
                let socket = socket2::SockRef::from(&stream);
                socket.set_tcp_nodelay(true)?;
                let keepalive = socket2::TcpKeepalive::new()
                    .with_time(Duration::from_secs(5))
                    .with_interval(Duration::from_secs(2));
                socket.set_tcp_keepalive(&keepalive)?;
                #[cfg(any(target_os = "linux", target_os = "android"))]
                socket.set_tcp_user_timeout(Some(Duration::from_secs(5)))?;
                return Ok(stream);
            }
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host name has no address")))
}

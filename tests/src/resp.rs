//! Raw Redis commands, independent of the client library under test.

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply as JSON (string, number, null, array), or the text of an error reply.
pub type Reply = Result<Value, String>;

/// One blocking connection that speaks RESP2.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects, and logs in if there is a password. Each reply must come within `limit`.
    pub fn open(address: SocketAddr, password: Option<&str>, limit: Option<Duration>) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(limit)?;
        stream.set_write_timeout(limit)?;
        let mut connection = Connection { stream: BufReader::new(stream) };
        if let Some(password) = password {
            connection.call(&["AUTH", password])?.map_err(io::Error::other)?;
        }
        Ok(connection)
    }

    /// Sends one command and reads its reply.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.stream.get_mut().write_all(&pack(args))?;
        self.read()
    }

    /// Reads the next reply.
    pub fn read(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, text) = line.split_at_checked(1).ok_or_else(|| io::Error::other("an empty line for a reply"))?;
        match kind {
            "+" => Ok(Ok(json!(text))),
            "-" => Ok(Err(text.to_owned())),
            ":" => Ok(Ok(json!(number(text)?))),
            "$" => match number(text)? {
                -1 => Ok(Ok(Value::Null)),
                length => {
                    let mut bytes = vec![0; length as usize + 2];
                    self.stream.read_exact(&mut bytes)?;
                    Ok(Ok(json!(String::from_utf8_lossy(&bytes[..length as usize]))))
                }
            },
            "*" => match number(text)? {
                -1 => Ok(Ok(Value::Null)),
                count => (0..count)
                    .map(|_| Ok(self.read()?.unwrap_or_else(|error| json!({ "error": error }))))
                    .collect::<io::Result<Vec<_>>>()
                    .map(|values| Ok(Value::Array(values))),
            },
            _ => Err(io::Error::other(format!("not a reply: {line:?}"))),
        }
    }

    /// This end's address, as CLIENT LIST and MONITOR show it.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().local_addr()
    }

    /// A second handle of the socket, to shut it down from another thread.
    pub fn socket(&self) -> io::Result<TcpStream> {
        self.stream.get_ref().try_clone()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// The bytes of one command.
pub(crate) fn pack<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The first command in `bytes` and its length there, if it is complete.
pub(crate) fn unpack(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    fn header(bytes: &[u8], at: &mut usize) -> Option<usize> {
        let rest = bytes.get(*at..)?;
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        *at += end + 2;
        std::str::from_utf8(rest.get(1..end)?).ok()?.parse().ok()
    }
    let mut at = 0;
    let mut args = Vec::new();
    for _ in 0..header(bytes, &mut at)? {
        let length = header(bytes, &mut at)?;
        args.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((args, at))
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| io::Error::other(format!("not a number in a reply: {text:?}")))
}

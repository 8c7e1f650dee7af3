//! An HTTP server whose handler waits for a lock at most 5 s, and then answers 503.
//!
//!     PORT=8080 http_handler
//!     curl -X POST http://localhost:8080/orders/42

use quorlock::{Client, ErrorKind, Lease};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urls = std::env::var("REDIS_URLS").unwrap_or_else(|_| "redis://localhost".into());
    // One client for the whole program. Cloning it is cheap.
    let client = Client::new(urls.split(',').collect::<Vec<_>>())?;

    let port = std::env::var("PORT").map_or(Ok(8080), |text| text.parse())?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let client = client.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(client, stream).await {
                eprintln!("{error}");
            }
        });
    }
}

/// POST /orders/42: locks "orders/42". Dropped while it waits, it leaves nothing locked.
async fn handle(client: &Client, path: &str) -> (&'static str, String) {
    let lock = client.lock(path.trim_matches('/')).wait(Duration::from_secs(5));
    match lock.acquire().await {
        Ok(lease) => {
            change_order(&lease).await;
            match lease.release().await {
                Ok(_) => ("200 OK", format!("done with fence {}", lease.fence())),
                Err(error) => ("500 Internal Server Error", error.to_string()),
            }
        }
        // Others hold it, or too few servers answer: the caller may try again.
        Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable) => {
            ("503 Service Unavailable", error.to_string())
        }
        Err(error) => ("500 Internal Server Error", error.to_string()),
    }
}

/// The work that needs the lock.
async fn change_order(_lease: &Lease) {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// As much HTTP as an example needs.
async fn answer(client: Client, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut request, mut header) = (String::new(), String::new());
    stream.read_line(&mut request).await?;
    while stream.read_line(&mut header).await? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or("/");
    let (status, text) = handle(&client, path).await;
    let retry = if status.starts_with("503") { "Retry-After: 1\r\n" } else { "" };
    let length = text.len() + 1;
    let reply = format!("HTTP/1.1 {status}\r\n{retry}Content-Length: {length}\r\nConnection: close\r\n\r\n{text}\n");
    stream.write_all(reply.as_bytes()).await
}

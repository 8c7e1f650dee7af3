//! O75: TLS to a server whose certificate comes from an authority of its own.

use quorlock::blocking::Client;
use quorlock::{ClientOptions, ErrorKind};
use quorlock_tests::Server;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Certificates by the openssl command, in a folder of their own: an authority, a server for `localhost`, a client.
struct Certificates(PathBuf);

impl Certificates {
    fn make(name: &str) -> Certificates {
        let folder = std::env::temp_dir().join(format!("quorlock-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let certificates = Certificates(folder);
        certificates.openssl(
            &["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority"],
            "ca",
        );
        for (who, name) in [("server", "localhost"), ("client", "worker")] {
            let subject = format!("/CN={name}");
            let alternative = format!("subjectAltName=DNS:{name}");
            let (ca, ca_key) = (certificates.file("ca.pem"), certificates.file("ca.key"));
            certificates.openssl(
                &[
                    "req",
                    "-x509",
                    "-CA",
                    &ca,
                    "-CAkey",
                    &ca_key,
                    "-newkey",
                    "rsa:2048",
                    "-nodes",
                    "-days",
                    "2",
                    "-subj",
                    &subject,
                    "-addext",
                    &alternative,
                    "-addext",
                    "basicConstraints=critical,CA:FALSE",
                ],
                who,
            );
        }
        certificates
    }

    fn openssl(&self, args: &[&str], who: &str) {
        let (key, cert) = (self.file(&format!("{who}.key")), self.file(&format!("{who}.pem")));
        let out = Command::new("openssl")
            .args(args)
            .args(["-keyout", &key, "-out", &cert])
            .output()
            .expect("openssl is installed");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A server that also listens with TLS; its TLS port.
    fn server(&self, ask_client: &str) -> (Server, u16) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server::with_args(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &self.file("server.pem"),
            "--tls-key-file",
            &self.file("server.key"),
            "--tls-ca-cert-file",
            &self.file("ca.pem"),
            "--tls-auth-clients",
            ask_client,
        ]);
        (server, port)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// TLS handshakes take longer than a call may by default.
fn options() -> ClientOptions {
    ClientOptions { server_timeout: Some(Duration::from_secs(2)), ..Default::default() }
}

fn try_with(url: &str, options: ClientOptions) -> quorlock::Result<bool> {
    let client = Client::with_options(url, options)?;
    let lease = client.lock("a").ttl(Duration::from_secs(20)).try_acquire()?.expect("nobody else holds it");
    lease.release()
}

#[test]
fn o75_tls_with_an_authority_of_its_own() {
    let certificates = Certificates::make("ca");
    let (server, port) = certificates.server("no");
    let url = format!("rediss://localhost:{port}/3");
    let ca = || Some(certificates.file("ca.pem"));
    assert!(try_with(&url, ClientOptions { ca_file: ca(), ..options() }).unwrap());
    assert_eq!(server.keys("*"), Vec::<String>::new(), "the lock was in database 3");

    // Without the authority, and under a name that the certificate does not have: told at once, and never in plain text.
    let other_name = format!("rediss://127.0.0.1:{port}");
    for (url, options) in [(url.as_str(), options()), (&other_name, ClientOptions { ca_file: ca(), ..options() })] {
        let began = Instant::now();
        let error = try_with(url, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("certificate") && error.to_string().contains(&port.to_string()), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}

#[test]
fn o75_a_client_certificate_is_shown() {
    let certificates = Certificates::make("client");
    let (_server, port) = certificates.server("yes");
    let url = format!("rediss://localhost:{port}");
    let base = || ClientOptions { ca_file: Some(certificates.file("ca.pem")), ..options() };
    let with = |name: &str| ClientOptions {
        client_cert: Some(certificates.file(&format!("{name}.pem"))),
        client_key: Some(certificates.file(&format!("{name}.key"))),
        ..base()
    };
    assert!(try_with(&url, with("client")).unwrap());
    assert_eq!(try_with(&url, base()).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn files_that_cannot_be_used_are_invalid() {
    let certificates = Certificates::make("invalid");
    let missing = certificates.file("missing.pem");
    let not_pem = certificates.file("not.pem");
    std::fs::write(Path::new(&not_pem), "not a certificate").unwrap();
    for file in [missing, not_pem] {
        let options = ClientOptions { ca_file: Some(file.clone()), ..options() };
        let error = Client::with_options("rediss://localhost:1", options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("ca_file") && error.message().contains(&file), "{error}");
    }
}

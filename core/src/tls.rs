//! TLS to the servers: which authorities to trust, and who we are.

use crate::error::{Error, Result};
use crate::options::ClientSettings;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// A connector for `rediss://`: the system's roots, or only those of `ca_file`.
///
/// # Errors
/// Invalid, naming the option whose file cannot be read or used.
pub(crate) fn connector(settings: &ClientSettings) -> Result<tokio_rustls::TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    match &settings.ca_file {
        Some(file) => {
            for cert in certificates("ca_file", file)? {
                roots.add(cert).map_err(|e| invalid("ca_file", file, &e))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::new(crate::ErrorKind::Internal, format!("TLS: {e}")))?
        .with_root_certificates(roots);
    let config = match (&settings.client_cert, &settings.client_key) {
        (Some(cert), Some(key)) => {
            let chain = certificates("client_cert", cert)?;
            let key_der = PrivateKeyDer::from_pem_file(key).map_err(|e| invalid("client_key", key, &e))?;
            config.with_client_auth_cert(chain, key_der).map_err(|e| invalid("client_cert", cert, &e))?
        }
        _ => config.with_no_client_auth(),
    };
    Ok(Arc::new(config).into())
}

fn certificates(parameter: &str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certs = CertificateDer::pem_file_iter(file).map_err(|e| invalid(parameter, file, &e))?;
    let certs = certs.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| invalid(parameter, file, &e))?;
    if certs.is_empty() {
        return Err(invalid(parameter, file, &"it holds no certificate"));
    }
    Ok(certs)
}

fn invalid(parameter: &str, file: &str, e: &dyn std::fmt::Display) -> Error {
    Error::invalid(parameter, format_args!("{file:?}"), e)
}

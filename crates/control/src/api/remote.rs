//! A node on another machine: where it is, how it is known, and how one is known to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::client::ClientError;
use crate::people::token::{Digest, TokenSecret};
use crate::tls;

/// The port of the control API, where an address has none.
const PORT: u16 = 8420;

/// Whom a certificate has to be of.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Of whom these roots vouch for.
    Roots(std::path::PathBuf),
    /// This one, and no other.
    Fingerprint(Digest),
}

/// Where a node is that is asked over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is asked with TLS.
    pub is_encrypted: bool,
}

impl Address {
    /// Reads `https://host:port`; without TLS only this machine is asked, since a token goes with every request.
    pub fn read(url: &str) -> Result<Address, ClientError> {
        let wrong =
            |why: &str| ClientError::Address { url: url.chars().take(200).collect(), why: why.to_owned() };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it does not begin with https://"))?;
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong("it does not begin with https://")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong("its port is not a number from 0 to 65535"))?)
            }
            _ => (authority, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(wrong("it has to be https://HOST:PORT and no more"));
        }
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_encrypted && !is_here {
            return Err(wrong("without TLS everybody on the way could read the token"));
        }
        Ok(Address { host: host.to_owned(), port, is_encrypted })
    }

    /// As it stands in a request.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_encrypted { "https" } else { "http" }, self.authority())
    }
}

/// Reads a token from a file of one line, which nobody but its owner may read.
pub fn token(path: &Path) -> Result<TokenSecret, ClientError> {
    use std::os::unix::fs::MetadataExt as _;
    let wrong = |why: String| ClientError::Token { path: path.to_owned(), why };
    let mode = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.mode();
    if mode & 0o077 != 0 {
        return Err(wrong("others than its owner may read it; chmod 600".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    TokenSecret::read(text.trim()).ok_or_else(|| wrong("it holds no token, fels_ and 64 digits".to_owned()))
}

/// What is spoken to a node that has to be trusted like this.
pub(crate) fn config(trust: &Trust) -> Result<Arc<ClientConfig>, ClientError> {
    let provider = tls::provider();
    let failed = |error: &dyn fmt::Display| ClientError::Trust { why: error.to_string() };
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Fingerprint(expected) => Arc::new(Pinned { expected: *expected, provider: provider.clone() }),
        Trust::Roots(path) => {
            let mut roots = RootCertStore::empty();
            let there = tls::certificates(path).map_err(|error| failed(&error))?;
            // Systems have some that are written in ways of old.
            roots.add_parsable_certificates(there);
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| failed(&error))?
        }
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// One certificate, known by its SHA-256, whatever name it is for and whoever vouches for it.
#[derive(Debug)]
struct Pinned {
    expected: Digest,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = Digest::of(end_entity);
        if found.is(&self.expected) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!("its certificate has the SHA-256 {found}")))
    }

    // TLS 1.2 is not spoken.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_a_token_goes_nowhere_without_tls() {
        for (url, authority) in [
            ("https://san1.example.com", "san1.example.com:8420"),
            ("https://192.0.2.1:443/", "192.0.2.1:443"),
            ("https://[2001:db8::1]", "[2001:db8::1]:8420"),
            ("https://[2001:db8::1]:1", "[2001:db8::1]:1"),
            ("http://127.0.0.1:8420", "127.0.0.1:8420"),
            ("http://localhost", "localhost:8420"),
            ("http://[::1]:8420", "[::1]:8420"),
        ] {
            assert_eq!(Address::read(url).unwrap().authority(), authority, "{url}");
        }
        for url in [
            "",
            "san1",
            "ftp://san1",
            "http://san1.example.com",
            "http://192.0.2.1",
            "https://",
            "https://a b",
            "https://user@host",
            "https://host:x",
            "https://host:99999",
            "https://host/v1",
            "https://ho\r\nst",
        ] {
            assert!(Address::read(url).is_err(), "{url}");
        }
    }
}

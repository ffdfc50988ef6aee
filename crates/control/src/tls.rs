//! TLS of the control API: certificates that are given, and one that the node has made for itself.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::moment::Moment;
use crate::people::token::Digest;
use crate::whole::replace;

/// The certificate and key that `fels cert` makes in the data directory.
pub const MADE_FILE: &str = "tls.pem";
/// Its next version, until it is whole and renamed.
pub(crate) const NEW_MADE_FILE: &str = "tls.pem.new";
/// A chain of certificates and a key are far smaller.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Days that a certificate is good for.
const DAYS: u64 = 825;
const DAY_S: u64 = 24 * 60 * 60;
/// What the file says about its end, beside the certificate.
const EXPIRES: &str = "# A certificate and its key, by `fels cert`. Expires: ";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{what} {} failed: {source}; hint: it has to belong to the user that runs fels", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the key.
    #[error("the key in {} may be read by others than its owner; hint: chmod 600 {0}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("{} holds no {what}; hint: it has to be PEM, beginning with -----BEGIN", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// Certificate and key do not belong together, or are of a kind that is not known.
    #[error(
        "the certificate and its key cannot be used: {0}; hint: see that they belong together; `fels cert` makes new ones"
    )]
    Unfit(#[source] rustls::Error),
    /// It cannot be made.
    #[error(
        "a certificate cannot be made: {0}; hint: names are host names and addresses, such as fels.example.com or 192.0.2.7"
    )]
    Make(#[source] rcgen::Error),
}

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, with those that lead from it to its root.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Files {
    /// Those that `fels cert` has made in a data directory, if it has.
    pub fn made(data: &Path) -> Option<Files> {
        let path = data.join(MADE_FILE);
        path.exists().then(|| Files { certificate: path.clone(), key: path })
    }
}

/// A certificate that a node has made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Where it is.
    pub path: PathBuf,
    /// The SHA-256 of the certificate, by which it is known.
    pub fingerprint: Digest,
    /// From when on it is good for nothing.
    pub expires: Option<Moment>,
}

/// The functions of TLS; the process has no default that others could set.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn read(path: &Path, is_secret: bool) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        let mode = file.metadata()?.mode();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(mode)
    });
    match read {
        Ok(mode) if is_secret && mode & 0o077 != 0 => Err(TlsError::Open { path: path.to_owned() }),
        Ok(_) => Ok(bytes),
        Err(source) => Err(TlsError::Io { what: "reading", path: path.to_owned(), source }),
    }
}

/// The certificates of a file, the server's own first.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let lacks = || TlsError::Lacks { path: path.to_owned(), what: "certificate" };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path, false)?).collect();
    chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(lacks)
}

/// What a listener speaks with: TLS 1.3 and HTTP/1.1.
pub fn server(files: &Files) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(&files.certificate)?;
    let lacks = |_| TlsError::Lacks { path: files.key.clone(), what: "key" };
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key, true)?).map_err(lacks)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(TlsError::Unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Makes a certificate for these names and those of this machine, and keeps it and its key in a data directory.
pub fn make(data: &Path, names: &[String], now: Moment) -> Result<Made, TlsError> {
    let mut all: Vec<String> = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    all.extend(Some(host).filter(|host| !host.is_empty() && host.parse::<IpAddr>().is_err()));
    all.extend(names.iter().cloned());
    all.sort_unstable();
    all.dedup();
    let mut params = CertificateParams::new(all).map_err(TlsError::Make)?;
    let expires = now.after(DAYS * DAY_S);
    let day = |moment: Moment| {
        let (year, month, day) = moment.date();
        date_time_ymd(year as i32, month as u8, day as u8)
    };
    // A day earlier, for clocks that are late.
    params.not_before = day(Moment::from_unix(now.unix().saturating_sub(DAY_S)));
    params.not_after = day(expires);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Fels");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(TlsError::Make)?;
    let certificate = params.self_signed(&key).map_err(TlsError::Make)?;
    // It ends with the day that it says, at its beginning.
    let expires = Moment::from_unix(expires.unix() / DAY_S * DAY_S);
    let text = format!("{EXPIRES}{expires}\n{}{}", certificate.pem(), key.serialize_pem());
    let path = data.join(MADE_FILE);
    let failed = |source| TlsError::Io { what: "writing", path: path.clone(), source };
    if !data.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(failed)?;
    }
    replace(data, MADE_FILE, NEW_MADE_FILE, text.as_bytes(), &mut |_| Ok(())).map_err(failed)?;
    Ok(Made { fingerprint: Digest::of(certificate.der()), expires: Some(expires), path })
}

/// The certificate that a data directory has, if it has one.
pub fn made(data: &Path) -> Result<Option<Made>, TlsError> {
    let Some(Files { certificate: path, .. }) = Files::made(data) else { return Ok(None) };
    let chain = certificates(&path)?;
    let text = String::from_utf8_lossy(&read(&path, true)?).into_owned();
    let expires = text.lines().next().and_then(|line| line.strip_prefix(EXPIRES)?.parse().ok());
    let fingerprint = chain.first().map(|own| Digest::of(own));
    let lacks = || TlsError::Lacks { path: path.clone(), what: "certificate" };
    Ok(Some(Made { fingerprint: fingerprint.ok_or_else(lacks)?, expires, path: path.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_certificate_is_made_and_used_and_known_by_its_fingerprint() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        assert!(made(&directory.path().join("none")).unwrap().is_none());
        let now = Moment::from_unix(1_795_207_267);
        let names = ["fels.example.com".to_owned(), "192.0.2.7".to_owned()];
        let first = make(&data, &names, now).unwrap();
        assert_eq!(first.expires.unwrap().to_string(), "2029-02-22T00:00:00Z");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&first.path), mode(&data)), (0o600, 0o700));
        let again = made(&data).unwrap().unwrap();
        assert_eq!((again.fingerprint, again.expires), (first.fingerprint, first.expires));
        let files = Files::made(&data).unwrap();
        server(&files).unwrap();
        let second = make(&data, &[], now).unwrap();
        assert_ne!(second.fingerprint, first.fingerprint);
        std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(server(&files), Err(TlsError::Open { .. })));
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        make(&at("one"), &[], Moment::now()).unwrap();
        make(&at("two"), &[], Moment::now()).unwrap();
        let (one, two) = (at("one").join(MADE_FILE), at("two").join(MADE_FILE));
        std::fs::write(at("letter"), "dear friend").unwrap();
        std::fs::set_permissions(at("letter"), std::fs::Permissions::from_mode(0o600)).unwrap();
        for (certificate, key, words) in [
            (one.clone(), two, "cannot be used"),
            (at("letter"), one.clone(), "holds no certificate"),
            (one.clone(), at("letter"), "holds no key"),
            (at("none"), one.clone(), "reading"),
        ] {
            let said = server(&Files { certificate, key }).err().unwrap().to_string();
            assert!(said.contains(words) && said.contains("; hint: "), "{said}");
        }
        assert!(make(&at("three"), &["\u{e4}".to_owned()], Moment::now()).is_err());
    }
}

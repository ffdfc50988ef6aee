//! Mail, by SMTP.

use std::time::Duration;

use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::config::{Mail, MailTls, read_secret_file};
use crate::tls::certificates;

/// How long the server may take for one command.
const COMMAND_TIME: Duration = Duration::from_secs(30);
/// Characters of a subject.
const MAX_SUBJECT: usize = 200;

/// A message as it is sent. `id` is the same however often it is sent: receivers drop a repetition by it.
pub(super) struct Letter<'a> {
    pub to: &'a str,
    pub subject: &'a str,
    pub text: &'a str,
    pub id: String,
}

/// Sends a message; when this returns the server has taken it. The error is the end of a sentence.
pub(super) async fn send(mail: &Mail, letter: &Letter<'_>) -> Result<(), String> {
    let message = compose(mail, letter)?;
    let (server, way) = (mail.clone(), mail.tls);
    // Files are read anew each time: a password that was changed holds at once.
    let prepared = tokio::task::spawn_blocking(move || -> Result<_, String> {
        Ok((credentials(&server)?, tls(&server, way)?))
    });
    let (credentials, tls) = prepared.await.unwrap_or_else(|error| Err(error.to_string()))?;
    let transport =
        AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&mail.server).port(mail.port).tls(tls);
    let transport = match credentials {
        Some(credentials) => transport.credentials(credentials),
        None => transport,
    };
    let transport: AsyncSmtpTransport<Tokio1Executor> = transport.timeout(Some(COMMAND_TIME)).build();
    let sent = transport.send(message).await;
    sent.map(drop).map_err(|error| format!("{}:{} says: {}", mail.server, mail.port, whole(&error)))
}

fn compose(mail: &Mail, letter: &Letter<'_>) -> Result<lettre::Message, String> {
    let address = |text: &str| -> Result<Mailbox, String> {
        text.parse().map_err(|error| format!("`{text}` is no mail address: {error}"))
    };
    let subject: String = letter.subject.chars().filter(|one| !one.is_control()).take(MAX_SUBJECT).collect();
    let builder: MessageBuilder = lettre::Message::builder()
        .from(address(&mail.from)?)
        .to(address(letter.to)?)
        .subject(subject)
        .message_id(Some(letter.id.clone()));
    // Nobody's absence is to answer it (RFC 3834).
    let name = HeaderName::new_from_ascii_str("Auto-Submitted");
    let builder = builder.raw_header(HeaderValue::new(name, "auto-generated".to_owned()));
    builder.singlepart(SinglePart::plain(letter.text.to_owned())).map_err(|error| error.to_string())
}

/// Blocks.
fn credentials(mail: &Mail) -> Result<Option<Credentials>, String> {
    let Some((user, file)) = &mail.user else { return Ok(None) };
    let path = file.display().to_string();
    let password = read_secret_file(&path).map_err(|(why, _)| format!("the password file {path} {why}"))?;
    Ok(Some(Credentials::new(user.clone(), password)))
}

/// Blocks.
fn tls(mail: &Mail, way: MailTls) -> Result<Tls, String> {
    if way == MailTls::None {
        return Ok(Tls::None);
    }
    let wrong =
        |why: &dyn std::fmt::Display| format!("the roots in {} cannot be used: {why}", mail.ca.display());
    let there = certificates(&mail.ca).map_err(|error| wrong(&error))?;
    // Systems have some that are written in ways of old, and one of them would refuse all.
    let is_read = |root: &CertificateDer<'static>| RootCertStore::empty().add(root.clone()).is_ok();
    let mut parameters =
        TlsParameters::builder(mail.server.clone()).certificate_store(CertificateStore::None);
    for root in there.into_iter().filter(is_read) {
        let root = Certificate::from_der(root.to_vec()).map_err(|error| wrong(&error))?;
        parameters = parameters.add_root_certificate(root);
    }
    let parameters = parameters.build().map_err(|error| wrong(&error))?;
    Ok(if way == MailTls::Tls { Tls::Wrapper(parameters) } else { Tls::Required(parameters) })
}

/// An error with what it comes from: the libraries say the important part last.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let further = error.to_string();
        if !text.contains(&further) {
            text.push_str(": ");
            text.push_str(&further);
        }
        source = error.source();
    }
    text
}

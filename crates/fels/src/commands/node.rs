//! The node that is asked.

use crate::message::Failure;
use clap::Args;
use control::api::client::{Client, ClientError};
use control::api::model::Changed;
use control::api::remote::{Address, Trust, token};
use control::people::token::Digest;
use control::state::NODE_FILE;
use control::store::DOCUMENT_FILE;
use control::{Config, Store};
use std::path::{Path, PathBuf};

use super::print_json;
use crate::message::{Message, print};

/// What `data` is when a configuration does not say.
const DATA: &str = "fels-data";
/// The configuration of the node that a package has installed.
const INSTALLED: &str = "/etc/fels/fels.toml";

/// The roots that Debian has, as most others have them.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Reads a SHA-256 as people write it: with colons or without, in capitals or not.
fn fingerprint(text: &str) -> Result<Digest, String> {
    let digits = text.replace([':', ' '], "").to_lowercase();
    Digest::read(&digits).ok_or_else(|| "a SHA-256 is 64 hexadecimal digits".to_owned())
}

/// Which node
#[derive(Debug, Args)]
pub struct NodeFlags {
    /// The data directory of the node [default: that of the configuration, or fels-data, or that of the installed node]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data: Option<PathBuf>,

    /// A node on another machine, such as https://san1.example.com:8420, instead of the socket of one on this
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "config"])]
    url: Option<String>,

    /// The file that holds the token to come in with
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,

    /// The SHA-256 of its certificate, as `fels cert` has shown it: no other one is trusted
    #[arg(long, value_name = "SHA256", requires = "url", conflicts_with = "ca", value_parser = fingerprint)]
    fingerprint: Option<Digest>,

    /// The roots that vouch for its certificate (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,

    /// The configuration of the node, which says where its data directory is
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// How a change is made
#[derive(Debug, Args)]
pub struct ChangeFlags {
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub node: NodeFlags,
}

/// Reads a configuration as its node does: that of a data directory says nothing of where it is.
pub fn read(file: &Path) -> Result<Config, Failure> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_of_directory =
        file.file_name().is_some_and(|name| name == DOCUMENT_FILE) && directory.join(NODE_FILE).exists();
    if is_of_directory
        && let Ok(document) = Store::of_directory(directory).map(|store| store.read())
        && let Ok(document) = document
    {
        return Ok(document.config);
    }
    Ok(Config::load(file)?)
}

impl NodeFlags {
    /// The same, but without a word of which node it is the one that a configuration is of.
    pub fn or_of(&self, file: Option<&Path>) -> Result<Client, Failure> {
        match file {
            Some(file) if self.url.is_none() && self.data.is_none() && self.config.is_none() => {
                Client::new(&read(file)?.data).map_err(|error| failure(&error))
            }
            _ => self.client(),
        }
    }

    pub fn client(&self) -> Result<Client, Failure> {
        if let Some(url) = &self.url {
            return self.remote(url).map_err(|error| failure(&error));
        }
        let data = match (&self.data, &self.config) {
            (Some(data), _) => data.clone(),
            (None, Some(file)) => read(file)?.data,
            (None, None) if !Path::new(DATA).exists() && Path::new(INSTALLED).exists() => {
                Config::load(Path::new(INSTALLED))?.data
            }
            (None, None) => PathBuf::from(DATA),
        };
        Client::new(&data).map_err(|error| failure(&error))
    }

    fn remote(&self, url: &str) -> Result<Client, ClientError> {
        let address = Address::read(url)?;
        let trust = match &self.fingerprint {
            Some(fingerprint) => Trust::Fingerprint(*fingerprint),
            None => Trust::Roots(self.ca.clone().unwrap_or_else(|| PathBuf::from(ROOTS))),
        };
        let token = self.token_file.as_deref().map(token).transpose()?;
        Client::remote(address, &trust, token)
    }
}

/// Why the node did not do it; of what was wrong in what was sent, each field.
pub fn failure(error: &ClientError) -> Failure {
    let failure = Failure::new(error.to_string(), error.hint().as_deref());
    let ClientError::Refused(problem) = error else { return failure };
    let wrong = problem.fields.iter().map(|wrong| {
        let line = wrong.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let field = wrong.field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
        let message = Message::new(format!("{line}{field}{}", wrong.detail));
        if let Some(hint) = &wrong.hint { message.hint(hint) } else { message }
    });
    let wrong: Vec<_> = wrong.collect();
    if wrong.is_empty() { failure } else { Failure::of(wrong) }
}

/// A name as a part of a path: letters, digits, - . : and _ as they are.
pub fn encoded(name: &str) -> String {
    name.bytes().map(encoded_byte).collect()
}

/// A byte of it.
pub fn encoded_byte(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b':' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

/// Says what was done, or would be.
pub fn tell(changed: &Changed, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(changed);
    }
    let head = if changed.done { "" } else { "this would be done, and was not:\n" };
    let steps = changed.steps.iter().fold(String::new(), |steps, step| steps + "  " + step + "\n");
    print(&format!("{head}{steps}"))
}

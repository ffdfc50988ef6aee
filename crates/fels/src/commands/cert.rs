//! `fels cert`: a certificate for the control API over HTTP.

use crate::message::{Failure, print};
use clap::Args;
use control::moment::Moment;
use control::tls::{self, Made, TlsError};
use serde::Serialize;
use std::path::PathBuf;

/// Make a certificate for the control API, so that other machines can ask it with TLS
///
/// It signs itself, is for this machine's name and its loopback addresses, and lies in the data directory with its key. The node takes it at
/// its next start. Prints the SHA-256 by which others know it, as in `fels pool status --url ... --fingerprint ...`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A further name or address by which the node is asked; may be given several times
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,

    /// Take the place of the one that is there
    #[arg(long)]
    replace: bool,

    /// Show the one that is there, and make none
    #[arg(long, conflicts_with_all = ["names", "replace"])]
    show: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    /// The data directory of the node [default: that of the configuration, or fels-data]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    data: Option<PathBuf>,

    /// The configuration of the node, which says where its data directory is
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    path: PathBuf,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Moment>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let data = match (&arguments.data, &arguments.config) {
        (Some(data), _) => data.clone(),
        (None, Some(file)) => super::node::read(file)?.data,
        (None, None) => PathBuf::from("fels-data"),
    };
    let there = tls::made(&data);
    if arguments.show {
        let none =
            || Failure::new("there is no certificate in the data directory", Some("`fels cert` makes one"));
        let made = there.map_err(|error| failure(&error))?.ok_or_else(none)?;
        return tell(&made, arguments.json);
    }
    // One that is damaged is replaced only by who says so, too.
    if !arguments.replace && !matches!(there, Ok(None)) {
        return Err(Failure::new(
            format!("there is a certificate in {} already", data.display()),
            Some(
                "--replace makes another one, which others have to be told of; --show shows the one that is there",
            ),
        ));
    }
    let made = tls::make(&data, &arguments.names, Moment::now()).map_err(|error| failure(&error))?;
    tell(&made, arguments.json)
}

fn tell(made: &Made, json: bool) -> Result<(), Failure> {
    if json {
        let (path, sha256) = (made.path.clone(), made.fingerprint.to_string());
        return super::print_json(&Report { path, sha256, expires: made.expires });
    }
    let expires = made.expires.map_or_else(|| "not known".to_owned(), |expires| expires.to_string());
    print(&format!(
        "certificate  {}\nSHA-256      {}\nexpires      {expires}\n",
        made.path.display(),
        made.fingerprint
    ))
}

fn failure(error: &TlsError) -> Failure {
    let said = error.to_string();
    match said.split_once("; hint: ") {
        Some((sentence, hint)) => Failure::new(sentence, Some(hint)),
        None => Failure::new(said, None),
    }
}

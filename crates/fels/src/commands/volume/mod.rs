//! `fels volume`: volumes of a node that runs, by its control socket.

mod change;
mod create;
mod delete;
mod show;

use super::node::{encoded, failure};
use crate::message::Failure;
use clap::{Args, Subcommand};
use control::api::client::Client;
use control::api::model::{Volume, VolumeSettings, Volumes};
use serde_json::Value;

/// Make, look at, change and delete volumes while the node runs
///
/// What is changed is written into the configuration of the node, and stays over restarts.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Box<create::Create>),
    List(show::List),
    Show(show::Show),
    Set(change::Set),
    Resize(change::Resize),
    Limit(change::Limit),
    Enable(change::Enable),
    Disable(change::Disable),
    Delete(delete::Delete),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Create(arguments) => create::run(arguments),
        Command::List(arguments) => show::list(arguments),
        Command::Show(arguments) => show::show(arguments),
        Command::Set(arguments) => change::set(arguments),
        Command::Resize(arguments) => change::resize(arguments),
        Command::Limit(arguments) => change::limit(arguments),
        Command::Enable(arguments) => change::enable(arguments),
        Command::Disable(arguments) => change::disable(arguments),
        Command::Delete(arguments) => delete::run(arguments),
    }
}

/// A path of the API to a volume.
fn path_of(name: &str) -> String {
    format!("/v1/volumes/{}", encoded(name))
}

fn one(client: &Client, name: &str) -> Result<Volume, Failure> {
    client.get(&path_of(name)).map_err(|error| failure(&error))
}

/// A volume, and the version of the configuration that it is from.
fn one_of(client: &Client, name: &str) -> Result<(Volume, String), Failure> {
    let all: Volumes = client.get("/v1/volumes").map_err(|error| failure(&error))?;
    match all.volumes.into_iter().find(|volume| volume.name == name) {
        Some(volume) => Ok((volume, all.version)),
        // The node says it in its own words.
        None => one(client, name).map(|volume| (volume, all.version)),
    }
}

/// Keys whose values are text, whatever they look like.
const TEXTS: [&str; 4] = ["name", "alias", "pool", "subsystem"];

/// The keys of a volume from words such as `alias=db` and `allow=["iqn.2004-10.com.example:host"]`: JSON, or else text.
fn settings(words: &[String]) -> Result<VolumeSettings, Failure> {
    let mut keys = serde_json::Map::new();
    for word in words {
        let Some((key, text)) = word.split_once('=') else {
            return Err(Failure::usage(format!("`{word}` is not KEY=VALUE"), "write it as in: alias=db"));
        };
        let json = serde_json::from_str(text).ok().filter(|_| !TEXTS.contains(&key));
        keys.insert(key.to_owned(), json.unwrap_or_else(|| Value::String(text.to_owned())));
    }
    serde_json::from_value(Value::Object(keys)).map_err(|error| {
        Failure::usage(
            format!("these keys are not those of a volume: {error}"),
            "the keys are those of [[volume]] in the configuration; lists are JSON: 'allow=[\"iqn...\"]'",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::model::Quantity;

    #[test]
    fn values_are_json_or_else_text() {
        let words =
            ["size=2GiB", "alias=5", "nbd=true", "allow=[\"a\"]", "limits={\"iops\":5}"].map(str::to_owned);
        let settings = settings(&words).unwrap();
        assert_eq!(settings.size, Some(Quantity::Text("2GiB".into())));
        assert_eq!((settings.alias.as_deref(), settings.nbd), (Some("5"), Some(true)));
        assert_eq!(settings.allow, Some(vec!["a".to_owned()]));
        assert_eq!(settings.limits.unwrap().iops, Some(5));
    }

    #[test]
    fn what_is_no_key_is_a_wrong_command_line() {
        for words in [["size"], ["colour=red"], ["nbd=perhaps"]] {
            let failure = settings(&words.map(str::to_owned)).unwrap_err();
            assert_eq!(failure.code(), crate::message::USAGE);
        }
    }
}

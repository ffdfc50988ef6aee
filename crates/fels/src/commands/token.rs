//! `fels token`: what programs come in with.

use super::node::{encoded, failure};
use super::print_json;
use super::table::{Align, row, table};
use super::user::{How, tell};
use crate::message::{Failure, print};
use clap::{Args, Subcommand};
use control::api::people::model::{MadeToken, NewToken, Tokens};
use control::people::Role;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const DAY_S: u64 = 24 * 60 * 60;

/// Make, list and revoke what programs come in with
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Make a token for a program of a user; it is shown this once
#[derive(Debug, Args)]
struct Create {
    /// Whose it is
    user: String,

    /// What it is called
    name: String,

    /// What it may do: viewer, operator or admin, and no more than its user
    #[arg(long, default_value = "viewer")]
    role: Role,

    /// Days that it is good for, up to 3660
    #[arg(long, value_name = "DAYS", default_value_t = 90, value_parser = clap::value_parser!(u64).range(1..=3660))]
    days: u64,

    /// Write it into a new file, for its owner only, and do not show it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    how: How,
}

/// List tokens, with what they may and until when
#[derive(Debug, Args)]
struct List {
    /// Whose; those of all users if none is named
    user: Option<String>,

    #[command(flatten)]
    how: How,
}

/// Revoke a token: it is good for nothing any more
#[derive(Debug, Args)]
struct Revoke {
    /// Whose it is
    user: String,

    /// What it is called
    name: String,

    #[command(flatten)]
    how: How,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Create(arguments) => create(arguments),
        Command::List(arguments) => list(arguments),
        Command::Revoke(arguments) => {
            let (user, name) = (encoded(&arguments.user), encoded(&arguments.name));
            let client = arguments.how.node.client()?;
            let done = client.delete(&format!("/v1/users/{user}/tokens/{name}"), &());
            tell(&done.map_err(|error| failure(&error))?, arguments.how.json)
        }
    }
}

fn create(arguments: &Create) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let wish = NewToken {
        name: arguments.name.clone(),
        role: Some(arguments.role),
        valid_s: Some(arguments.days * DAY_S),
    };
    // Before it is made: one that could not be written down would be lost.
    let mut file = arguments.out.as_deref().map(new_file).transpose()?;
    let made: Result<MadeToken, _> =
        client.post(&format!("/v1/users/{}/tokens", encoded(&arguments.user)), &wish);
    let mut made = made.map_err(|error| {
        if let Some(path) = &arguments.out {
            // It is empty, and was made by this command.
            let _ = std::fs::remove_file(path);
        }
        failure(&error)
    })?;
    if let Some((file, path)) = &mut file {
        let written = writeln!(file, "{}", made.secret).and_then(|()| file.sync_all());
        written.map_err(|error| {
            let hint = "revoke the token, and make another one";
            Failure::new(format!("{} cannot be written: {error}", path.display()), Some(hint))
        })?;
        made.secret = format!("in {}", path.display());
    }
    if arguments.how.json {
        return print_json(&made);
    }
    let token = &made.token;
    print(&format!("{}\n", made.secret))?;
    eprintln!(
        "the token {} of {}, with the role {}, is good until {}; it is not shown again",
        token.name, token.user, token.role, token.expires
    );
    Ok(())
}

fn new_file(path: &Path) -> Result<(std::fs::File, &Path), Failure> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let failed = |error| {
        Failure::new(
            format!("{} cannot be made: {error}", path.display()),
            Some("name a file that is not there yet"),
        )
    };
    Ok((file.map_err(failed)?, path))
}

fn list(arguments: &List) -> Result<(), Failure> {
    let path = match &arguments.user {
        Some(user) => format!("/v1/users/{}/tokens", encoded(user)),
        None => "/v1/tokens".to_owned(),
    };
    let tokens: Tokens = arguments.how.node.client()?.get(&path).map_err(|error| failure(&error))?;
    if arguments.how.json {
        return print_json(&tokens);
    }
    if tokens.tokens.is_empty() {
        return print("there are no tokens: `fels token create USER NAME` makes one\n");
    }
    let mut rows = vec![row(["user", "token", "role", "good until", "last used"])];
    rows.extend(tokens.tokens.iter().map(|token| {
        let until =
            if token.expired { format!("{}, expired", token.expires) } else { token.expires.to_string() };
        let used = token.used.map_or_else(|| "never".to_owned(), |used| used.to_string());
        vec![token.user.clone(), token.name.clone(), token.role.to_string(), until, used]
    }));
    print(&table(0, &[Align::Left; 5], &rows))
}

//! `fels user`: who may administer a node.

use super::node::{NodeFlags, encoded, failure};
use super::password::Source;
use super::print_json;
use super::table::{Align, row, table};
use crate::message::{Failure, print};
use clap::{Args, Subcommand};
use control::api::people::model::{Done, Me, NewPassword, NewRole, NewUser, Users};
use control::people::Role;

/// Say who may administer a node
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Password(Password),
    Role(SetRole),
    Remove(Remove),
}

/// Make a user, who comes in with a password
///
/// The first one has to be an admin. The password is asked for on the terminal; it has at least 12 characters.
#[derive(Debug, Args)]
struct Add {
    /// His name: lower-case letters, digits, - _ and ., the first one a letter
    name: String,

    /// What he may do: viewer, operator or admin
    #[arg(long)]
    role: Role,

    /// Read the password from the standard input, a line
    #[arg(long = "password-stdin")]
    from_stdin: bool,

    #[command(flatten)]
    how: How,
}

/// List users, with their roles
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    how: How,
}

/// Give a user another password, which ends his sessions
///
/// Who changes his own over the network is asked for the one that he has first; with --password-stdin it is the first line.
#[derive(Debug, Args)]
struct Password {
    /// The user
    name: String,

    /// Read the password from the standard input, a line
    #[arg(long = "password-stdin")]
    from_stdin: bool,

    #[command(flatten)]
    how: How,
}

/// Give a user another role; tokens of his that may more are lowered
#[derive(Debug, Args)]
struct SetRole {
    /// The user
    name: String,

    /// What he may do: viewer, operator or admin
    role: Role,

    #[command(flatten)]
    how: How,
}

/// Remove a user, and his tokens
#[derive(Debug, Args)]
struct Remove {
    /// The user
    name: String,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, Args)]
pub struct How {
    /// Write JSON, for programs
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub node: NodeFlags,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Add(arguments) => add(arguments),
        Command::List(arguments) => list(arguments),
        Command::Password(arguments) => password(arguments),
        Command::Role(arguments) => {
            let path = path(&arguments.name, "/role");
            let done = arguments.how.node.client()?.post(&path, &NewRole { role: arguments.role });
            tell(&done.map_err(|error| failure(&error))?, arguments.how.json)
        }
        Command::Remove(arguments) => {
            let done = arguments.how.node.client()?.delete(&path(&arguments.name, ""), &());
            tell(&done.map_err(|error| failure(&error))?, arguments.how.json)
        }
    }
}

fn path(name: &str, rest: &str) -> String {
    format!("/v1/users/{}{rest}", encoded(name))
}

fn add(arguments: &Add) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let name = arguments.name.clone();
    let password = Source { from_stdin: arguments.from_stdin }.new_one(&name)?;
    let done = client.post("/v1/users", &NewUser { name, role: arguments.role, password });
    tell(&done.map_err(|error| failure(&error))?, arguments.how.json)
}

fn password(arguments: &Password) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let source = Source { from_stdin: arguments.from_stdin };
    let me: Me = client.get("/v1/me").map_err(|error| failure(&error))?;
    let is_own = me.user.as_ref() == Some(&arguments.name);
    let current = if is_own { Some(source.current(&arguments.name)?) } else { None };
    let password = source.new_one(&arguments.name)?;
    let done = client.post(&path(&arguments.name, "/password"), &NewPassword { password, current });
    tell(&done.map_err(|error| failure(&error))?, arguments.how.json)
}

fn list(arguments: &List) -> Result<(), Failure> {
    let users: Users = arguments.how.node.client()?.get("/v1/users").map_err(|error| failure(&error))?;
    if arguments.how.json {
        return print_json(&users);
    }
    if users.users.is_empty() {
        return print("there are no users: `fels user add NAME --role admin` makes the first one\n");
    }
    let mut rows = vec![row(["user", "role", "tokens", "since"])];
    rows.extend(users.users.iter().map(|user| {
        vec![user.name.clone(), user.role.to_string(), user.tokens.to_string(), user.created.to_string()]
    }));
    print(&table(0, &[Align::Left, Align::Left, Align::Right, Align::Left], &rows))
}

/// Says what was done.
pub fn tell(done: &Done, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(done);
    }
    let text: String = done.steps.iter().flat_map(|step| [step.as_str(), "\n"]).collect();
    print(&text)
}

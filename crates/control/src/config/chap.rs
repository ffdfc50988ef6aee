//! CHAP users (RFC 7143 section 12.1.3), wherever they stand.

use super::error::Problems;
use super::key::Key;
use super::secret::Secret;
use super::table::{Table, Value};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;

/// 96 bits: RFC 7143 section 9.2.1 wants IPsec where secrets are shorter.
const MIN_SECRET_BYTES: usize = 12;
/// A text value of a login is bounded to 255 bytes (RFC 7143 section 6.1).
const MAX_TEXT_BYTES: usize = 255;

/// What stands for a secret in a configuration that is printed. It is too short to be one.
pub(crate) const HIDDEN: &str = "***";

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "user",
        takes: "name, up to 255 bytes",
        default: "required",
        says: "The name that is sent with the answer (CHAP_N).",
    },
    Key {
        name: "secret",
        takes: "12 to 255 bytes",
        default: "this or `secret_file`",
        says: "The secret. It is never printed or logged.",
    },
    Key {
        name: "secret_file",
        takes: "a file, relative to the current directory",
        default: "this or `secret`",
        says: "A file that holds the secret in its only line and that nobody but its owner may read.",
    },
];

/// A user and its secret.
#[derive(Debug, Clone)]
pub struct ChapUser {
    /// The name.
    pub user: String,
    /// The secret, 12 to 255 bytes.
    pub secret: Secret,
}

/// Whether two configurations mean the same user: the only place where secrets are compared as text.
impl PartialEq for ChapUser {
    fn eq(&self, other: &ChapUser) -> bool {
        self.user == other.user && self.secret.expose() == other.secret.expose()
    }
}

/// A list of users; `title` places it in messages. Users that do not fit are reported and left out.
pub(super) fn users(problems: &mut Problems<'_>, value: Value<'_>, title: &str) -> Vec<ChapUser> {
    let mut users: Vec<ChapUser> = Vec::new();
    for entry in value.list(problems, "a list such as [{ user = \"alice\", secret = \"...\" }]") {
        let Some(user) = user(problems, entry, title) else { continue };
        if users.iter().any(|other| other.user == user.user) {
            problems.add(entry.span(), format!("the user `{}` is there twice {title}", user.user));
        } else {
            users.push(user);
        }
    }
    users
}

/// One user.
pub(super) fn user(problems: &mut Problems<'_>, value: Value<'_>, title: &str) -> Option<ChapUser> {
    let takes = "a table such as { user = \"alice\", secret = \"...\" }";
    let table = value.table(problems, takes, title, KEYS)?;
    let user = user_name(problems, &table);
    let secret = secret(problems, &table);
    Some(ChapUser { user: user?, secret: secret? })
}

fn user_name(problems: &mut Problems<'_>, table: &Table<'_>) -> Option<String> {
    let Some(value) = table.value("user") else {
        if table.lacks("user") {
            problems.add(table.span(), format!("there is no `user` {}", table.title()));
        }
        return None;
    };
    let user = value.string(problems, "a name")?;
    if user.len() > MAX_TEXT_BYTES {
        problems.add(value.span(), format!("`user` is longer than {MAX_TEXT_BYTES} bytes"));
        return None;
    }
    Some(user.to_owned())
}

fn secret(problems: &mut Problems<'_>, table: &Table<'_>) -> Option<Secret> {
    match (table.value("secret"), table.value("secret_file")) {
        (Some(value), None) => {
            let secret = value.string(problems, "a secret")?;
            checked(problems, secret, value.span())
        }
        (None, Some(value)) => {
            let path = value.string(problems, "a file")?;
            problems.named.push(path.into());
            match read_secret_file(path) {
                Ok(secret) => checked(problems, &secret, value.span()),
                Err((why, hint)) => {
                    problems.add_hint(value.span(), format!("the secret file {path} {why}"), hint);
                    None
                }
            }
        }
        (Some(_), Some(both)) => {
            problems.add_hint(both.span(), "both `secret` and `secret_file` are given", "keep one of them");
            None
        }
        (None, None) => {
            if table.lacks("secret") && table.lacks("secret_file") {
                let message = format!("there is neither `secret` nor `secret_file` {}", table.title());
                problems.add_hint(table.span(), message, "add secret = \"...\", 12 to 255 bytes");
            }
            None
        }
    }
}

fn checked(problems: &mut Problems<'_>, secret: &str, span: Range<usize>) -> Option<Secret> {
    if secret == HIDDEN {
        let hint = "write the secret there; `fels dump --secrets` prints a configuration with all of them";
        problems.add_hint(span, "this secret was hidden when the configuration was printed", hint);
        return None;
    }
    if secret.len() < MIN_SECRET_BYTES {
        problems.add_hint(
            span,
            format!("this CHAP secret is shorter than {MIN_SECRET_BYTES} bytes (96 bits)"),
            "make one with: openssl rand -hex 8   (16 bytes; some initiators take 12 to 16 only)",
        );
        return None;
    }
    if secret.len() > MAX_TEXT_BYTES {
        problems.add(span, format!("this CHAP secret is longer than {MAX_TEXT_BYTES} bytes"));
        return None;
    }
    Some(Secret::new(secret))
}

/// The secret in the file at `path`, or what is wrong with it and what to do.
pub(crate) fn read_secret_file(path: &str) -> Result<String, (String, String)> {
    let unreadable = |error: std::io::Error| {
        let hint = format!("it is looked for from the current directory, by the user that runs fels: {path}");
        (format!("cannot be read: {error}"), hint)
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(("can be read by others".to_owned(), format!("chmod 600 {path}")));
    }
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text).map_err(unreadable)?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.chars().any(char::is_control) {
        let hint = "write the secret into its first line and nothing else".to_owned();
        return Err(("has more than one line".to_owned(), hint));
    }
    Ok(secret.to_owned())
}

//! What goes over the wire about people. Passwords and tokens go one way only, and are never shown: what holds one has no `Debug`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::moment::Moment;
use crate::people::{self, Role};

/// Days that a token is good for without a wish, in seconds.
pub const USUAL_TOKEN_TIME_S: u64 = 90 * 24 * 60 * 60;

/// All users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Users {
    /// In the order in which they were made.
    pub users: Vec<User>,
}

/// Somebody with a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// His name.
    pub name: String,
    /// What he may do.
    pub role: Role,
    /// When he was made.
    #[schema(value_type = String, format = DateTime)]
    pub created: Moment,
    /// How many tokens he has.
    pub tokens: usize,
}

impl User {
    pub(super) fn of(people: &people::People, user: &people::User) -> User {
        User {
            name: user.name.clone(),
            role: user.role,
            created: user.created,
            tokens: people.tokens_of(&user.name).count(),
        }
    }
}

/// Somebody who is to be made.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// 1 to 32 lower-case letters, digits, `-`, `_` and `.`, the first one a letter.
    pub name: String,
    /// What he may do; the first user has to be an admin.
    pub role: Role,
    /// At least 12 characters, at most 1024 bytes.
    #[schema(format = Password)]
    pub password: String,
}

/// Another password.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// At least 12 characters, at most 1024 bytes.
    #[schema(format = Password)]
    pub password: String,
    /// The one that he has, from who changes his own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = Password)]
    pub current: Option<String>,
}

/// Another role.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRole {
    /// What he may do from now on. Tokens that may more are lowered with it.
    pub role: Role,
}

/// Tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// By user, in the order in which they were made.
    pub tokens: Vec<Token>,
}

/// What a program comes in with; the secret itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Whose it is.
    pub user: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created: Moment,
    /// From when on it is good for nothing.
    #[schema(value_type = String, format = DateTime)]
    pub expires: Moment,
    /// Whether that is over.
    pub expired: bool,
    /// When it was used last, within ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub used: Option<Moment>,
}

impl Token {
    pub(super) fn of(token: &people::Token, now: Moment) -> Token {
        Token {
            user: token.user.clone(),
            name: token.name.clone(),
            role: token.role,
            created: token.created,
            expires: token.expires,
            expired: token.expires <= now,
            used: token.used,
        }
    }
}

/// A token that is to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// 1 to 64 lower-case letters, digits, `-`, `_` and `.`, the first one a letter or digit.
    pub name: String,
    /// What it may do: `viewer` without a wish, and no more than who makes it and than its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Seconds that it is good for: 60 to 316224000, or 90 days without a wish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_s: Option<u64>,
}

/// A token that was made.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeToken {
    /// The token itself, which nobody can be told again.
    pub secret: String,
    /// What is kept of it.
    pub token: Token,
}

/// A password.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Whose.
    pub name: String,
    /// What he says that it is.
    #[schema(format = Password)]
    pub password: String,
}

/// A session that was begun; its cookie comes with the answer.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CameIn {
    /// Who.
    pub user: String,
    /// What he may do.
    pub role: Role,
    /// What has to go with every change, in the header `X-CSRF-Token` or in the field `csrf` of a form.
    pub csrf: String,
    /// When the session ends at the latest; after half an hour that nobody uses it, it ends sooner.
    #[schema(value_type = String, format = DateTime)]
    pub expires: Moment,
}

/// Whether the first admin can be made here, with the code of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupState {
    /// There are no users, and who asks is on the machine of the node.
    pub open: bool,
    /// The file that has the code; its owner and root can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_file: Option<String>,
}

/// The first admin.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstAdmin {
    /// 1 to 32 lower-case letters, digits, `-`, `_` and `.`, the first one a letter.
    pub name: String,
    /// At least 12 characters, at most 1024 bytes.
    #[schema(format = Password)]
    pub password: String,
    /// What the file `setup-code` in the data directory has.
    #[schema(format = Password)]
    pub code: String,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// A sentence for each step.
    pub steps: Vec<String>,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// A user, `uid N` on the unix socket, or `nobody`.
    pub who: String,
    /// The user, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How he has shown who he is: `token NAME` or `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What he may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What has to go with every change of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csrf: Option<String>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires: Option<Moment>,
}

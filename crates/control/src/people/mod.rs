//! Who may administer the node: users, and the tokens by which their programs come in.
//!
//! `People` is the noun, without I/O and clock: a change makes another one of it, or is refused as a whole. `password` and `token` are
//! the secrets, `hashing` keeps the slow work off the reactor, `file` is `people.json` and `store` the two together.
//! The format is drawn in `docs/formats/people.md`.

pub(crate) mod file;
pub mod hashing;
pub mod password;
mod refusal;
pub mod sessions;
pub mod setup;
pub mod store;
#[cfg(test)]
mod tests;
pub mod token;

pub use refusal::Refusal;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::moment::Moment;
use password::PasswordHash;
use token::{Digest, TokenSecret};

/// Users of a node at most.
pub const MAX_USERS: usize = 256;
/// Tokens of a node at most: each request that brings one is compared with all of them.
pub const MAX_TOKENS: usize = 1024;
/// Tokens of a user at most.
pub const MAX_TOKENS_OF_USER: usize = 32;
/// Characters of the name of a user.
pub const MAX_USER_NAME: usize = 32;
/// Characters of the name of a token.
pub const MAX_TOKEN_NAME: usize = 64;
/// Seconds that a token is good for at least and at most.
pub const TOKEN_TIME_S: std::ops::RangeInclusive<u64> = 60..=3660 * 24 * 60 * 60;
/// Seconds after which it is noted again that a token is used.
pub const USED_GRAIN_S: u64 = 600;

const _: () = assert!(MAX_TOKENS_OF_USER <= MAX_TOKENS);

/// What somebody may do; each one may also do all that those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look at everything but people.
    Viewer,
    /// Change pools and volumes.
    Operator,
    /// Say who else may.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let role = Role::ALL.into_iter().find(|role| role.name() == text);
        role.ok_or_else(|| "the roles are viewer, operator and admin".to_owned())
    }
}

/// Somebody with a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// By which he is known.
    pub name: String,
    /// What he may do.
    pub role: Role,
    /// What his password is compared with.
    pub password: PasswordHash,
    /// When he was made.
    pub created: Moment,
}

/// What a program of a user comes in with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Whose it is.
    pub user: String,
    /// What its user calls it.
    pub name: String,
    /// What it may do: no more than its user.
    pub role: Role,
    /// What it is compared with.
    pub sha256: Digest,
    /// When it was made.
    pub created: Moment,
    /// From when on it is good for nothing.
    pub expires: Moment,
    /// When it was used last, within [`USED_GRAIN_S`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Moment>,
}

/// All users and tokens of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct People {
    users: Vec<User>,
    tokens: Vec<Token>,
}

/// What can be changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// Somebody new.
    AddUser(User),
    /// Another password.
    SetPassword {
        /// Whose.
        user: String,
        /// The new one.
        password: PasswordHash,
    },
    /// Another role; tokens that may more are lowered with it.
    SetRole {
        /// Whose.
        user: String,
        /// The new one.
        role: Role,
    },
    /// Somebody goes, and his tokens with him.
    RemoveUser {
        /// Who.
        user: String,
    },
    /// A new token.
    AddToken(Token),
    /// A token is good for nothing any more.
    RemoveToken {
        /// Whose.
        user: String,
        /// Which.
        name: String,
    },
    /// A token was used.
    Used {
        /// Whose.
        user: String,
        /// Which.
        name: String,
        /// When.
        at: Moment,
    },
}

impl People {
    /// In the order in which they were made.
    pub fn users(&self) -> &[User] {
        &self.users
    }

    /// The user of that name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// The tokens of a user, in the order in which they were made.
    pub fn tokens_of<'p>(&'p self, user: &'p str) -> impl Iterator<Item = &'p Token> {
        self.tokens.iter().filter(move |token| token.user == user)
    }

    /// The token that this is, if it is good at that time. Takes as long whichever it is.
    pub fn bearer(&self, secret: &TokenSecret, now: Moment) -> Option<&Token> {
        let digest = secret.digest();
        let mut found = None;
        for token in &self.tokens {
            if token.sha256.is(&digest) {
                found = Some(token);
            }
        }
        found.filter(|token| now < token.expires)
    }

    /// The people after a change; nothing of a change that is refused is there.
    pub fn changed(&self, change: Change) -> Result<People, Refusal> {
        let mut people = self.clone();
        people.apply(change)?;
        people.check()?;
        Ok(people)
    }

    fn apply(&mut self, change: Change) -> Result<(), Refusal> {
        match change {
            Change::AddUser(user) => self.users.push(user),
            Change::SetPassword { user, password } => self.user_mut(&user)?.password = password,
            Change::SetRole { user, role } => {
                self.user_mut(&user)?.role = role;
                for token in self.tokens.iter_mut().filter(|token| token.user == user) {
                    token.role = token.role.min(role);
                }
            }
            Change::RemoveUser { user } => {
                self.user_mut(&user)?;
                self.users.retain(|other| other.name != user);
                self.tokens.retain(|token| token.user != user);
                if self.users.is_empty() {
                    return Err(Refusal::LastAdmin);
                }
            }
            Change::AddToken(token) => {
                self.user_mut(&token.user)?;
                let time = token.expires.since(token.created);
                if !TOKEN_TIME_S.contains(&time) {
                    return Err(Refusal::TokenTime);
                }
                self.tokens.push(token);
            }
            Change::RemoveToken { user, name } => {
                self.token_mut(&user, &name)?;
                self.tokens.retain(|token| token.user != user || token.name != name);
            }
            Change::Used { user, name, at } => self.token_mut(&user, &name)?.used = Some(at),
        }
        Ok(())
    }

    fn user_mut(&mut self, name: &str) -> Result<&mut User, Refusal> {
        let user = self.users.iter_mut().find(|user| user.name == name);
        user.ok_or_else(|| Refusal::NoUser { name: shown(name) })
    }

    fn token_mut(&mut self, user: &str, name: &str) -> Result<&mut Token, Refusal> {
        let token = self.tokens.iter_mut().find(|token| token.user == user && token.name == name);
        token.ok_or_else(|| Refusal::NoToken { user: shown(user), name: shown(name) })
    }

    /// Whether they are as they always have to be.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.users.len() > MAX_USERS {
            return Err(Refusal::TooManyUsers);
        }
        for (index, user) in self.users.iter().enumerate() {
            check_user_name(&user.name)?;
            if self.users.iter().take(index).any(|other| other.name == user.name) {
                return Err(Refusal::UserThere { name: user.name.clone() });
            }
        }
        if !self.users.is_empty() && !self.users.iter().any(|user| user.role == Role::Admin) {
            return Err(if self.users.len() == 1 { Refusal::FirstIsAdmin } else { Refusal::LastAdmin });
        }
        self.check_tokens()
    }

    fn check_tokens(&self) -> Result<(), Refusal> {
        if self.tokens.len() > MAX_TOKENS {
            return Err(Refusal::TooManyTokens);
        }
        for (index, token) in self.tokens.iter().enumerate() {
            check_token_name(&token.name)?;
            let Some(user) = self.user(&token.user) else {
                return Err(Refusal::NoUser { name: shown(&token.user) });
            };
            if token.role > user.role {
                return Err(Refusal::TokenRole { user: user.name.clone(), role: user.role });
            }
            let before = || self.tokens.iter().take(index);
            if before().any(|other| other.user == token.user && other.name == token.name) {
                return Err(Refusal::TokenThere { user: user.name.clone(), name: token.name.clone() });
            }
            if before().any(|other| other.sha256 == token.sha256) {
                return Err(Refusal::TokenTwice);
            }
            if before().filter(|other| other.user == token.user).count() >= MAX_TOKENS_OF_USER {
                return Err(Refusal::TooManyTokensOf { user: user.name.clone() });
            }
        }
        Ok(())
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte)
}

/// Refuses what cannot be the name of a user.
pub fn check_user_name(name: &str) -> Result<(), Refusal> {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
    if begins && name.len() <= MAX_USER_NAME && name.bytes().all(is_name_byte) {
        return Ok(());
    }
    Err(Refusal::UserName { name: shown(name) })
}

/// Refuses what cannot be the name of a token.
pub fn check_token_name(name: &str) -> Result<(), Refusal> {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
    if begins && name.len() <= MAX_TOKEN_NAME && name.bytes().all(is_name_byte) {
        return Ok(());
    }
    Err(Refusal::TokenName { name: shown(name) })
}

/// As much of what somebody sent as a name can have; more of it is of no use to him.
fn shown(name: &str) -> String {
    name.chars().take(MAX_TOKEN_NAME).flat_map(char::escape_debug).collect()
}

//! Why a change of people is refused.

use super::Role;
use super::password::{MAX_PASSWORD_BYTES, MIN_PASSWORD_CHARACTERS};
use super::{MAX_TOKENS, MAX_TOKENS_OF_USER, MAX_USERS};

/// Why a change is refused: a sentence, and a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such name.
    #[error(
        "`{name}` cannot be the name of a user; hint: take up to 32 lower-case letters, digits, - _ and ., the first one a letter"
    )]
    UserName {
        /// What was wished.
        name: String,
    },
    /// No such name.
    #[error(
        "`{name}` cannot be the name of a token; hint: take up to 64 lower-case letters, digits, - _ and ., the first one a letter or digit"
    )]
    TokenName {
        /// What was wished.
        name: String,
    },
    /// He is there already.
    #[error("there is a user {name} already; hint: take another name, or change the password of that one")]
    UserThere {
        /// His name.
        name: String,
    },
    /// There is no such user.
    #[error("there is no user {name}; hint: `fels user list` shows all of them")]
    NoUser {
        /// What was asked for.
        name: String,
    },
    /// It is there already.
    #[error("{user} has a token {name} already; hint: take another name, or revoke that one")]
    TokenThere {
        /// Whose.
        user: String,
        /// Which.
        name: String,
    },
    /// There is no such token.
    #[error("{user} has no token {name}; hint: `fels token list` shows all of them")]
    NoToken {
        /// Whose.
        user: String,
        /// What was asked for.
        name: String,
    },
    /// Two tokens that are the same.
    #[error("the same token is there twice; hint: make another one")]
    TokenTwice,
    /// A token that would be more than its user.
    #[error(
        "a token of {user} can be {role} at most; hint: a token may do no more than who makes it, and than its user"
    )]
    TokenRole {
        /// Whose.
        user: String,
        /// What it can be.
        role: Role,
    },
    /// A time that is too short or too long.
    #[error("a token is good for at least a minute and at most 3660 days; hint: take a time between them")]
    TokenTime,
    /// The first one is no admin.
    #[error("the first user has to be an admin; hint: make one with the role admin first")]
    FirstIsAdmin,
    /// Nobody would be left.
    #[error(
        "one user at least has to be an admin, and this is the last one; hint: make another one an admin first"
    )]
    LastAdmin,
    /// A bound.
    #[error("a node has at most {MAX_USERS} users; hint: remove one that is not needed any more")]
    TooManyUsers,
    /// A bound.
    #[error("a node has at most {MAX_TOKENS} tokens; hint: revoke some that are not needed any more")]
    TooManyTokens,
    /// A bound.
    #[error(
        "{user} has {MAX_TOKENS_OF_USER} tokens already, and can have no more; hint: revoke one that is not needed any more"
    )]
    TooManyTokensOf {
        /// Who.
        user: String,
    },
    /// Too short.
    #[error(
        "a password has at least {MIN_PASSWORD_CHARACTERS} characters; hint: four words that have nothing to do with one another are easy to remember"
    )]
    PasswordShort,
    /// Too long.
    #[error("a password has at most {MAX_PASSWORD_BYTES} bytes; hint: take a shorter one")]
    PasswordLong,
    /// Not to be typed.
    #[error("a password has no control characters; hint: leave out line feeds and tabs")]
    PasswordControl,
    /// Known to everybody.
    #[error(
        "a password is not the name of its user, once or several times; hint: take something that nobody knows"
    )]
    PasswordIsName,
}

impl Refusal {
    /// Whether what was asked for is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::NoUser { .. } | Self::NoToken { .. })
    }

    /// What of what was sent is wrong, if it is one thing: the name of its field.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::UserName { .. }
            | Self::UserThere { .. }
            | Self::TokenName { .. }
            | Self::TokenThere { .. } => Some("name"),
            Self::PasswordShort | Self::PasswordLong | Self::PasswordControl | Self::PasswordIsName => {
                Some("password")
            }
            Self::FirstIsAdmin | Self::LastAdmin | Self::TokenRole { .. } => Some("role"),
            Self::TokenTime => Some("valid_s"),
            _ => None,
        }
    }

    /// Whether what was sent could never be.
    pub fn is_senseless(&self) -> bool {
        matches!(
            self,
            Self::UserName { .. }
                | Self::TokenName { .. }
                | Self::TokenTime
                | Self::PasswordShort
                | Self::PasswordLong
                | Self::PasswordControl
                | Self::PasswordIsName
        )
    }
}

//! CHAP: RFC 1994 as RFC 7143 section 12.1.3 uses it; algorithms from the IANA registry.

use std::fmt;
use std::sync::Arc;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use sha3::Sha3_256;
use wire::iscsi::LoginStatus;
use wire::iscsi::text::{parse_binary, parse_number, to_hex};

/// The most bytes of a challenge, section 12.1.3.
pub const MAX_CHALLENGE_LENGTH: usize = 1024;
/// The most bytes of a response we know: SHA-256 and SHA3-256.
pub const MAX_RESPONSE_LENGTH: usize = 32;
/// Bytes of the challenges we send.
pub const CHALLENGE_LENGTH: usize = 32;

/// A CHAP secret. It is not shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Bytes of the secret.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// In time that does not depend on where the secrets differ.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        is_same(&self.0, &other.0)
    }
}

impl Eq for Secret {}

/// A name and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapCredential {
    /// `CHAP_N`.
    pub name: String,
    /// The secret.
    pub secret: Secret,
}

/// Who may log in, and who we are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapAccess {
    /// The initiators' credentials.
    pub users: Vec<ChapCredential>,
    /// The target's own, for initiators that ask for it (mutual CHAP).
    pub mutual: Option<ChapCredential>,
}

/// What a target asks of initiators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Nothing.
    None,
    /// CHAP.
    Chap(Arc<ChapAccess>),
}

/// The random bytes of one login, drawn by the caller for each connection anew.
#[derive(Clone, Copy)]
pub struct ChapEntropy {
    /// `CHAP_I`.
    pub identifier: u8,
    /// `CHAP_C`.
    pub challenge: [u8; CHALLENGE_LENGTH],
}

/// Shows nothing: a challenge that stands in a log before it is sent is one that can be prepared for.
impl fmt::Debug for ChapEntropy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChapEntropy")
    }
}

/// Why CHAP failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChapError {
    /// A key came at the wrong step, or one that belongs to the step did not.
    #[error("the keys do not fit the step of the exchange")]
    Step,
    /// None of the algorithms is known.
    #[error("no algorithm in common: the initiator offers {0:?}")]
    Algorithm(String),
    /// A value is none.
    #[error("the value of {0} is malformed")]
    Malformed(&'static str),
    /// Unknown user or wrong secret; nobody is told which.
    #[error("wrong name or secret for user {0:?}")]
    Wrong(String),
    /// The initiator sends our challenge back.
    #[error("the initiator reflects our challenge")]
    Reflected,
    /// The initiator wants the target to authenticate, which has no credentials.
    #[error("the initiator asks for mutual CHAP and the target has no credentials of its own")]
    NoMutualCredential,
    /// The same secret in both directions (section 9.2.1).
    #[error("user {0:?} and the target have the same secret")]
    SameSecret(String),
}

impl ChapError {
    /// The status to refuse with.
    pub const fn status(&self) -> LoginStatus {
        match self {
            Self::Step | Self::Malformed(_) => LoginStatus::INITIATOR_ERROR,
            _ => LoginStatus::AUTHENTICATION_FAILURE,
        }
    }
}

/// A hash of the IANA registry "PPP Authentication Algorithms".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Algorithm {
    /// MD5.
    Md5 = 5,
    /// SHA-1.
    Sha1 = 6,
    /// SHA-256.
    Sha256 = 7,
    /// SHA3-256.
    Sha3 = 8,
}

impl Algorithm {
    /// Strongest first.
    pub const PREFERENCE: [Self; 4] = [Self::Sha3, Self::Sha256, Self::Sha1, Self::Md5];

    /// The strongest of a list. The standard would have us take the first we know; an initiator
    /// which lists MD5 first out of habit is better served by what is stronger and also offered.
    pub fn choose(list: &str) -> Option<Self> {
        Self::PREFERENCE.into_iter().find(|algorithm| {
            list.split(',').any(|entry| parse_number(entry) == Some(u64::from(*algorithm as u8)))
        })
    }

    /// The response of RFC 1994: hash of identifier, secret and challenge.
    pub fn respond(self, identifier: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            let mut digest = D::new();
            for part in parts {
                digest.update(part);
            }
            digest.finalize().to_vec()
        }
        let parts = [&[identifier][..], &secret.0, challenge];
        match self {
            Self::Md5 => hash::<Md5>(parts),
            Self::Sha1 => hash::<Sha1>(parts),
            Self::Sha256 => hash::<Sha256>(parts),
            Self::Sha3 => hash::<Sha3_256>(parts),
        }
    }
}

/// What an initiator sends in the last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChapReply<'a> {
    /// `CHAP_N`.
    pub name: &'a str,
    /// `CHAP_R`.
    pub response: &'a str,
    /// `CHAP_I` and `CHAP_C` of mutual CHAP.
    pub mutual: Option<(&'a str, &'a str)>,
}

/// Checks the reply to our challenge. Gives the name and response of the target, if the initiator
/// asked for them.
pub fn check(
    access: &ChapAccess,
    algorithm: Algorithm,
    entropy: &ChapEntropy,
    reply: ChapReply<'_>,
) -> Result<Option<(String, String)>, ChapError> {
    let response = parse_binary(reply.response, MAX_RESPONSE_LENGTH).ok_or(ChapError::Malformed("CHAP_R"))?;
    let user = access.users.iter().find(|user| user.name == reply.name);
    // An unknown user costs the same time as a known one.
    let nobody = Secret::new(entropy.challenge);
    let secret = user.map_or(&nobody, |user| &user.secret);
    let expected = algorithm.respond(entropy.identifier, secret, &entropy.challenge);
    let is_right = is_same(&expected, &response);
    let Some(user) = user.filter(|_| is_right) else {
        return Err(ChapError::Wrong(reply.name.to_owned()));
    };
    let Some((identifier, challenge)) = reply.mutual else { return Ok(None) };
    let identifier = parse_number(identifier)
        .and_then(|number| u8::try_from(number).ok())
        .ok_or(ChapError::Malformed("CHAP_I"))?;
    let challenge = parse_binary(challenge, MAX_CHALLENGE_LENGTH).ok_or(ChapError::Malformed("CHAP_C"))?;
    if challenge == entropy.challenge {
        return Err(ChapError::Reflected);
    }
    let own = access.mutual.as_ref().ok_or(ChapError::NoMutualCredential)?;
    if own.secret == user.secret {
        return Err(ChapError::SameSecret(user.name.clone()));
    }
    let response = algorithm.respond(identifier, &own.secret, &challenge);
    Ok(Some((own.name.clone(), to_hex(&response))))
}

/// Compares in time that depends on the lengths only.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    let difference = left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b));
    left.len() == right.len() && std::hint::black_box(difference) == 0
}

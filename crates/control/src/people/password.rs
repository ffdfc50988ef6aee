//! Passwords: argon2id (RFC 9106), kept as PHC strings.

use std::fmt;

use argon2::password_hash::phc;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::Refusal;

/// Memory of a new hash.
pub const MEMORY_KIB: u32 = 19 << 10;
/// Passes of a new hash.
pub const PASSES: u32 = 2;
/// Lanes of a new hash.
pub const LANES: u32 = 1;
/// Bytes of salt.
const SALT_BYTES: usize = 16;
/// Bytes of a new hash.
const HASH_BYTES: usize = 32;
/// What hashes that are read may take: another version may choose more than this one.
const READ_MEMORY_KIB: std::ops::RangeInclusive<u32> = 8 << 10..=1 << 20;
const READ_PASSES: std::ops::RangeInclusive<u32> = 1..=16;
const READ_LANES: std::ops::RangeInclusive<u32> = 1..=16;
/// Characters of a password at least.
pub const MIN_PASSWORD_CHARACTERS: usize = 12;
/// Bytes of a password at most.
pub const MAX_PASSWORD_BYTES: usize = 1024;
/// What the password of nobody is compared with, so that it takes as long as that of somebody. The hash is of no
/// password that anybody knows, and its answer is not looked at.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A text that somebody says to be his password. It is never shown.
#[derive(Clone)]
pub struct Password(Box<str>);

impl Password {
    /// What somebody says when he comes in, whatever it is.
    pub fn said(text: impl Into<Box<str>>) -> Password {
        Password(text.into())
    }

    /// A new one of a user, if it can be one.
    pub fn new(text: impl Into<Box<str>>, user: &str) -> Result<Password, Refusal> {
        let text = text.into();
        if text.len() > MAX_PASSWORD_BYTES {
            return Err(Refusal::PasswordLong);
        }
        if text.chars().any(char::is_control) {
            return Err(Refusal::PasswordControl);
        }
        if text.chars().count() < MIN_PASSWORD_CHARACTERS {
            return Err(Refusal::PasswordShort);
        }
        if !user.is_empty() && text.to_lowercase().split(user).all(str::is_empty) {
            return Err(Refusal::PasswordIsName);
        }
        Ok(Password(text))
    }

    /// Whether it can be a password at all: what is longer is not worth the work.
    fn bytes(&self) -> Option<&[u8]> {
        (self.0.len() <= MAX_PASSWORD_BYTES).then_some(self.0.as_bytes())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What is kept of a password: a PHC string of argon2id.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Why there is no hash.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// The system gives no random bytes.
    #[error("no random bytes for a salt: {0}; hint: see whether the system has come up")]
    NoRandom(getrandom::Error),
    /// No memory, most likely.
    #[error("a password cannot be hashed: {0}; hint: it takes 19 MiB of memory for a moment")]
    Failed(argon2::password_hash::Error),
    /// The thread that did it is gone.
    #[error("the hashing of a password was given up; hint: see the log of the node")]
    Gone,
}

impl PasswordHash {
    /// Hashes a password, with a salt of its own. Takes some 20 ms of a core and 19 MiB.
    pub fn of(password: &Password) -> Result<PasswordHash, HashError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(HashError::NoRandom)?;
        let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_BYTES))
            .map_err(|error| HashError::Failed(error.into()))?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let hash: phc::PasswordHash =
            argon2.hash_password_with_salt(password.0.as_bytes(), &salt).map_err(HashError::Failed)?;
        Ok(PasswordHash(hash.to_string()))
    }

    /// Takes what a file has, if it is a hash that this version compares with.
    pub fn read(text: String) -> Result<PasswordHash, &'static str> {
        let hash = phc::PasswordHash::new(&text).map_err(|_| "a password is no PHC string")?;
        let params =
            Params::try_from(&hash).map_err(|_| "a password has parameters that argon2 does not take")?;
        let whole = hash.salt.is_some_and(|salt| salt.len() >= SALT_BYTES)
            && hash.hash.is_some_and(|hash| hash.len() >= HASH_BYTES);
        if hash.algorithm.as_str() != "argon2id" || hash.version != Some(Version::V0x13.into()) || !whole {
            return Err("a password is not hashed by argon2id, version 19");
        }
        let fits = READ_MEMORY_KIB.contains(&params.m_cost())
            && READ_PASSES.contains(&params.t_cost())
            && READ_LANES.contains(&params.p_cost());
        if fits {
            Ok(PasswordHash(text))
        } else {
            Err("a password is hashed with less or more than this Fels takes")
        }
    }
}

impl<'de> Deserialize<'de> for PasswordHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PasswordHash, D::Error> {
        PasswordHash::read(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Whether it is the password; nobody has none, and takes as long.
pub fn verify(password: &Password, kept: Option<&PasswordHash>) -> bool {
    let hash = phc::PasswordHash::new(kept.map_or(NOBODY, |hash| hash.0.as_str()));
    let (Ok(hash), Some(bytes)) = (hash, password.bytes()) else { return false };
    // The parameters are those of the hash; the comparison takes the same time wherever they differ.
    let fits = Argon2::default().verify_password(bytes, &hash).is_ok();
    fits && kept.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_password_is_known_again_and_another_one_is_not() {
        let password = Password::new("correct horse battery", "alice").unwrap();
        let hash = PasswordHash::of(&password).unwrap();
        assert!(hash.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.0);
        assert_ne!(hash, PasswordHash::of(&password).unwrap(), "the salt is another one");
        assert!(verify(&password, Some(&hash)));
        assert!(verify(&Password::said("correct horse battery"), Some(&hash)));
        for other in ["", "correct horse batterY", "correct horse battery ", "correct horse batter"] {
            assert!(!verify(&Password::said(other), Some(&hash)), "{other}");
        }
        assert_eq!(PasswordHash::read(hash.0.clone()).unwrap(), hash);
        assert!(!format!("{password:?}{hash:?}").contains(['c', '$']));
    }

    #[test]
    fn what_argon2_of_others_has_hashed_is_compared_with() {
        // By the reference implementation in C, with the salt `saltsaltsaltsalt`.
        let kept = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$iPOQ5f2O21FsjnBvo1AiFcDuSXciCnKUrXFO+yfgNoM";
        let kept = PasswordHash::read(kept.to_owned()).unwrap();
        assert!(verify(&Password::said("correct horse battery"), Some(&kept)));
    }

    #[test]
    fn passwords_that_are_none_are_refused_with_a_sentence() {
        for (text, refusal) in [
            ("", Refusal::PasswordShort),
            ("elevenchars", Refusal::PasswordShort),
            ("\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}", Refusal::PasswordShort),
            ("twelve chars\n", Refusal::PasswordControl),
            ("alicealicealice", Refusal::PasswordIsName),
            ("AliceAliceAlice", Refusal::PasswordIsName),
        ] {
            assert_eq!(Password::new(text, "alice").unwrap_err(), refusal, "{text}");
        }
        assert_eq!(Password::new("x".repeat(1025), "alice").unwrap_err(), Refusal::PasswordLong);
        for text in ["twelve chars", "alicealicealicf", &"x".repeat(1024)] {
            Password::new(text, "alice").unwrap();
        }
    }

    #[test]
    fn hashes_that_cost_nothing_or_everything_are_not_read() {
        let with = |front: &str| {
            let text = format!("{front}$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
            PasswordHash::read(text).is_ok()
        };
        assert!(with("$argon2id$v=19$m=19456,t=2,p=1"));
        assert!(with("$argon2id$v=19$m=65536,t=3,p=4"));
        for front in [
            "$argon2id$v=19$m=8,t=1,p=1",
            "$argon2id$v=19$m=2097152,t=2,p=1",
            "$argon2id$v=19$m=19456,t=17,p=1",
            "$argon2id$v=19$m=19456,t=2,p=17",
            "$argon2id$v=16$m=19456,t=2,p=1",
            "$argon2id$m=19456,t=2,p=1",
            "$argon2i$v=19$m=19456,t=2,p=1",
            "$scrypt$ln=15,r=8,p=1",
            "",
        ] {
            assert!(!with(front), "{front}");
        }
        assert!(
            PasswordHash::read("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA".to_owned()).is_err()
        );
    }

    #[test]
    fn nobody_takes_as_long_as_somebody() {
        let hash = PasswordHash::of(&Password::said("correct horse battery")).unwrap();
        let asked = Password::said("correct horse");
        let took = |kept: Option<&PasswordHash>| -> Duration {
            let begin = Instant::now();
            assert!(!verify(&asked, kept));
            begin.elapsed()
        };
        // The least of several, in turns: what else the machine does makes some of them longer, and none shorter.
        let (mut somebody, mut nobody) = (Duration::MAX, Duration::MAX);
        for _ in 0..15 {
            somebody = somebody.min(took(Some(&hash)));
            nobody = nobody.min(took(None));
        }
        assert!(nobody < somebody * 3 && somebody < nobody * 3, "{nobody:?} and {somebody:?}");
    }
}

//! Browsers that have come in by a password, and attempts to. Both are state machines without I/O, to which the clock is handed in; they live in
//! memory, so that the end of the node ends all sessions.

pub mod limiter;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use super::token::{Digest, random_hex};
use crate::moment::Moment;

/// Sessions of a node at most; the one that was idle longest ends for a new one.
pub const MAX_SESSIONS: usize = 512;
/// Sessions of a user at most; so too.
pub const MAX_SESSIONS_OF_USER: usize = 16;
/// Seconds after which a session ends that nobody uses.
pub const IDLE_S: u64 = 30 * 60;
/// Seconds after which a session ends.
pub const LIFE_S: u64 = 12 * 60 * 60;

/// Who look in at once may do so in another order than they looked at the clock: so much less was not set back.
const AT_ONCE_S: u64 = 60;

const _: () = assert!(MAX_SESSIONS_OF_USER <= MAX_SESSIONS);

/// What the cookie of a session holds: 256 random bits. It is never shown.
#[derive(Clone)]
pub struct SessionSecret(Box<str>);

impl SessionSecret {
    /// A new one.
    pub fn random() -> Result<SessionSecret, getrandom::Error> {
        Ok(SessionSecret(random_hex::<32>()?.into()))
    }

    /// What a browser sent, if it can be one.
    pub fn read(text: &str) -> Option<SessionSecret> {
        Digest::read(text).map(|_| SessionSecret(text.into()))
    }

    /// The text, for the cookie.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// What has to come with every change, beside the cookie: pages of elsewhere make a browser send the cookie, but cannot know this.
    /// It follows from the session, and does not lead back to it.
    pub fn csrf(&self) -> Digest {
        Digest::of(format!("fels csrf {}", self.0).as_bytes())
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A browser of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Who came in.
    pub user: String,
    /// When.
    pub begun: Moment,
    /// When something was asked for last.
    pub used: Moment,
}

impl Session {
    /// When it ends at the latest.
    pub fn ends(&self) -> Moment {
        self.begun.after(LIFE_S)
    }

    fn is_over(&self, now: Moment) -> bool {
        now.since(self.begun) >= LIFE_S || now.since(self.used) >= IDLE_S
    }
}

/// All that there are.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: HashMap<Digest, Session>,
    /// What the clock said last.
    latest: Option<Moment>,
}

impl Sessions {
    /// Begins a session of a user.
    pub fn begin(&mut self, secret: &SessionSecret, user: &str, now: Moment) {
        self.look(now);
        self.sessions.retain(|_, session| !session.is_over(now));
        let of_user = self.sessions.values().filter(|session| session.user == user).count();
        if of_user >= MAX_SESSIONS_OF_USER {
            self.end_idlest(|session| session.user == user);
        }
        if self.sessions.len() >= MAX_SESSIONS {
            self.end_idlest(|_| true);
        }
        self.sessions.insert(secret.digest(), Session { user: user.to_owned(), begun: now, used: now });
    }

    /// A clock that is set back takes all sessions with it: they would last longer by that otherwise.
    fn look(&mut self, now: Moment) {
        let latest = *self.latest.get_or_insert(now);
        let back = latest.since(now);
        if back > AT_ONCE_S {
            let earlier = |moment: Moment| Moment::from_unix(moment.unix().saturating_sub(back));
            for session in self.sessions.values_mut() {
                (session.begun, session.used) = (earlier(session.begun), earlier(session.used));
            }
            self.latest = Some(now);
        } else {
            self.latest = Some(latest.max(now));
        }
    }

    fn end_idlest(&mut self, among: impl Fn(&Session) -> bool) {
        let among = self.sessions.iter().filter(|(_, session)| among(session));
        let idlest = among.min_by_key(|(_, session)| session.used).map(|(digest, _)| *digest);
        if let Some(digest) = idlest {
            self.sessions.remove(&digest);
        }
    }

    /// The session that this is, if it is not over; it is used now.
    pub fn find(&mut self, secret: &SessionSecret, now: Moment) -> Option<Session> {
        self.look(now);
        let digest = secret.digest();
        let session = self.sessions.get_mut(&digest)?;
        if session.is_over(now) {
            self.sessions.remove(&digest);
            return None;
        }
        session.used = session.used.max(now);
        Some(session.clone())
    }

    /// Ends a session, and says whether there was one.
    pub fn end(&mut self, secret: &SessionSecret) -> bool {
        self.sessions.remove(&secret.digest()).is_some()
    }

    /// Ends all sessions of a user.
    pub fn end_all_of(&mut self, user: &str) {
        self.sessions.retain(|_, session| session.user != user);
    }
}

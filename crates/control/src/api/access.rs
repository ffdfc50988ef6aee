//! What is known about who may come in, for as long as the node runs.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Problem;
use super::actor::{Actor, Peer};
use crate::audit::{Audit, Entry};
use crate::moment::Moment;
use crate::people::hashing::Hashing;
use crate::people::sessions::limiter::{Bound, Limiter, Tries};
use crate::people::sessions::{Session, SessionSecret, Sessions};
use crate::people::setup::{self, SETUP_FILE, SetupCode};
use crate::people::store::{PeopleError, Store, StoreError};
use crate::people::token::Digest;
use crate::people::{Change, MAX_TOKENS, People, Token, USED_GRAIN_S};

/// Refusals of one user that are entered in the audit log at once, and seconds after which one more is.
const OF_REFUSALS: Bound = Bound { tries: 60, again_s: 60 };

/// Where somebody is; nowhere else than here on the socket.
fn address(actor: &Actor) -> Option<IpAddr> {
    match actor.from {
        Peer::Local { .. } => None,
        Peer::Remote { address, .. } => Some(address.ip()),
    }
}

/// Why the doors stay closed.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It is not known who may come in.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// It cannot be kept who changed what.
    #[error(
        "the audit log cannot be opened: {0}; hint: the user who runs the node needs to read and write the audit.log files in its data directory"
    )]
    Audit(#[source] io::Error),
}

/// Users and tokens of the node that runs, and the log of what they do.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    store: Store,
    sessions: Mutex<Sessions>,
    limiter: Mutex<Limiter>,
    hashing: Hashing,
    audit: Audit,
    /// What was entered of those who were refused.
    refusals: Mutex<Tries<String>>,
    /// The user of the node.
    me: u32,
    /// When it was last tried to note that a token is used.
    noted: Mutex<HashMap<Digest, Moment>>,
    /// What the first admin is made with.
    setup: Mutex<Option<SetupCode>>,
    data: PathBuf,
}

impl Access {
    /// As the data directory has it, of which this process has the lock.
    pub fn open(data: &Path) -> Result<Access, AccessError> {
        let store = Store::open(data)?;
        let audit = Audit::open(data).map_err(AccessError::Audit)?;
        let me = rustix::process::geteuid().as_raw();
        Ok(Access(Arc::new(Inner {
            store,
            sessions: Mutex::default(),
            limiter: Mutex::default(),
            hashing: Hashing::default(),
            audit,
            refusals: Mutex::new(Tries::new(OF_REFUSALS)),
            me,
            noted: Mutex::default(),
            setup: Mutex::default(),
            data: data.to_owned(),
        })))
    }

    /// Lets the first admin be made over TCP, by who has the code, as long as there are no users.
    pub(super) fn offer_setup(&self, is_served: bool) {
        let made = if is_served && self.people().users().is_empty() {
            SetupCode::make(&self.0.data).map(Some)
        } else {
            setup::remove(&self.0.data).map(|()| None)
        };
        match made {
            Ok(code) => {
                if let Some(code) = &code {
                    tracing::info!(
                        "no users yet: the first admin is made with the code in {}",
                        code.path().display()
                    );
                }
                *self.setup() = code;
            }
            Err(error) => {
                tracing::warn!("no code for the first admin: {SETUP_FILE} cannot be written: {error}");
            }
        }
    }

    fn setup(&self) -> MutexGuard<'_, Option<SetupCode>> {
        self.0.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the code for the first admin is, as long as it is good.
    pub(super) fn setup_path(&self) -> Option<PathBuf> {
        self.setup().as_ref().map(|code| code.path().to_owned())
    }

    /// Whether this is the code for the first admin; nothing when none is good any more.
    pub(super) fn is_setup_code(&self, said: &str) -> Option<bool> {
        self.setup().as_ref().map(|code| code.is(said))
    }

    /// There are users: the code is good for nothing any more.
    fn end_setup(&self) {
        if self.setup().take().is_some()
            && let Err(error) = setup::remove(&self.0.data)
        {
            tracing::warn!("{SETUP_FILE}, which is good for nothing any more, cannot be removed: {error}");
        }
    }

    /// The user of the node.
    pub fn me(&self) -> u32 {
        self.0.me
    }

    /// Who there is now.
    pub fn people(&self) -> Arc<People> {
        self.0.store.people()
    }

    /// Where passwords are hashed.
    pub(super) fn hashing(&self) -> &Hashing {
        &self.0.hashing
    }

    /// Changes people, and keeps that.
    pub(super) async fn change(&self, change: Change) -> Result<Arc<People>, Problem> {
        let access = self.clone();
        let changing = tokio::task::spawn_blocking(move || {
            let changed = access.0.store.change(change)?;
            access.end_setup();
            Ok::<_, StoreError>(changed)
        });
        let changed = changing.await.map_err(|_| Problem::late("the change was not made to its end"))?;
        Ok(changed?)
    }

    /// Notes that a token is used, once in a while and in the background: nobody waits for a disk to look at something.
    pub fn note_use(&self, token: &Token, now: Moment) {
        let is_old = |noted: Option<Moment>| noted.is_none_or(|noted| now.since(noted) >= USED_GRAIN_S);
        if !is_old(token.used) {
            return;
        }
        let mut noted = self.0.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_old(noted.get(&token.sha256).copied()) {
            return;
        }
        if noted.len() >= MAX_TOKENS {
            noted.clear();
        }
        noted.insert(token.sha256, now);
        drop(noted);
        let change = Change::Used { user: token.user.clone(), name: token.name.clone(), at: now };
        let access = self.clone();
        tokio::task::spawn_blocking(move || match access.0.store.change(change) {
            // One that was revoked meanwhile is used by nobody any more.
            Ok(_) | Err(StoreError::Refused(_)) => {}
            Err(error) => tracing::warn!("when a token was used is not noted: {error}"),
        });
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session.
    pub(super) fn begin(&self, secret: &SessionSecret, user: &str, now: Moment) -> Session {
        self.sessions().begin(secret, user, now);
        Session { user: user.to_owned(), begun: now, used: now }
    }

    /// The session that this is, if it is one.
    pub(super) fn session(&self, secret: &SessionSecret, now: Moment) -> Option<Session> {
        self.sessions().find(secret, now)
    }

    /// Ends a session, and says whether there was one.
    pub(super) fn end(&self, secret: &SessionSecret) -> bool {
        self.sessions().end(secret)
    }

    /// Ends all sessions of a user.
    pub(super) fn end_all_of(&self, user: &str) {
        self.sessions().end_all_of(user);
    }

    /// Notes that somebody tries a password, or says how many seconds he has to wait.
    pub(super) fn attempt(&self, actor: &Actor, name: Option<&str>, now: Moment) -> Result<(), u64> {
        let mut limiter = self.0.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.attempt(address(actor), name, now)
    }

    /// The password was good.
    pub(super) fn succeeded(&self, actor: &Actor, name: &str) {
        let mut limiter = self.0.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        limiter.succeeded(address(actor), name);
    }

    /// Refuses a change that could not be entered in the audit log.
    pub(super) async fn ready(&self) -> Result<(), Problem> {
        self.with_audit(Audit::ready).await.map_err(|error| {
            tracing::error!("the audit log cannot be written: {error}");
            Problem::unavailable(format!(
                "the audit log cannot be written, so that nothing may be changed: {error}"
            ))
            .hint("make room in the data directory of the node")
        })
    }

    /// Enters what was done, or was not let done. Refusals of which nothing came are bounded: who may do nothing could push everything else out
    /// of the log with them.
    pub(super) async fn enter(&self, mut entry: Entry) -> Result<(), Problem> {
        if entry.status >= 400 && entry.steps.is_empty() && !self.is_refusal_entered(&mut entry) {
            return Ok(());
        }
        let done = if entry.status < 300 { "it was done" } else { "it was not done" };
        self.with_audit(move |audit| audit.enter(entry).map(drop)).await.map_err(|error| {
            tracing::error!("the audit log cannot be written: {error}");
            Problem::unavailable(format!("{done}, but the audit log cannot be written: {error}"))
                .hint("make room in the data directory of the node; until then nothing more is changed")
        })
    }

    /// Whether one more refusal of a user is entered. The last one for a while says that it is the last.
    fn is_refusal_entered(&self, entry: &mut Entry) -> bool {
        let mut refusals = self.0.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.wait(&entry.who, entry.at) > 0 {
            return false;
        }
        refusals.note(entry.who.clone(), entry.at);
        let wait = refusals.wait(&entry.who, entry.at);
        if wait > 0 {
            entry.steps.push(format!("no more refusals of {} are entered for {wait} seconds", entry.who));
        }
        true
    }

    /// The newest entries of the audit log, the newest first; only those before an id, if one is given.
    pub(super) async fn entries(&self, limit: usize, before: Option<u64>) -> Result<Vec<Entry>, Problem> {
        self.with_audit(move |audit| audit.read(limit, before)).await.map_err(|error| {
            Problem::unavailable(format!("the audit log cannot be read: {error}"))
                .hint("see the log of the node")
        })
    }

    async fn with_audit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Audit) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let access = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&access.0.audit));
        done.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

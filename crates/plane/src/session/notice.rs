//! What initiators do that people want to know of: they come in, go, and are refused. Told by whichever core notices it, never
//! on the way of a request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::EARLY_NOTICES;
use crate::shard::Shard;

/// Something that an initiator did, or that was done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `iscsi`, `nvme` or `nbd`.
    pub protocol: &'static str,
    /// The name of the initiator or host; for NBD where it comes from. Whatever it said, where it was refused.
    pub initiator: String,
    /// Where it comes from.
    pub from: String,
    /// The target, subsystem or export.
    pub target: String,
    /// What.
    pub what: What,
}

/// What an initiator did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It has logged in, and has a session, a controller or an export.
    CameIn,
    /// That is over.
    Left(Leaving, String),
    /// It was not let in: why, the end of a sentence.
    Refused(String),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The initiator said that it goes.
    Orderly,
    /// Its connection broke, or it said nothing any more.
    Lost,
    /// The node ended it: it may not use the volume any more, or the node stops.
    KeptOut,
}

impl Leaving {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orderly => "orderly",
            Self::Lost => "lost",
            Self::KeptOut => "kept out",
        }
    }
}

type Ear = Box<dyn Fn(Notice) + Send>;

enum State {
    /// Nobody listens yet: a node takes connections a moment before it is whole.
    Early(VecDeque<Notice>),
    Heard(Ear),
}

/// Where notices go. All copies are one.
#[derive(Clone)]
pub struct Notices(Arc<Mutex<State>>);

impl Default for Notices {
    fn default() -> Notices {
        Notices(Arc::new(Mutex::new(State::Early(VecDeque::new()))))
    }
}

impl Notices {
    /// From now on they are given to `ear`, those first that came before. It must not wait, and is called by the cores.
    pub fn listen(&self, ear: impl Fn(Notice) + Send + 'static) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Early(early) = &mut *state {
            early.drain(..).for_each(&ear);
        }
        *state = State::Heard(Box::new(ear));
    }

    fn take(&self, notice: Notice) {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Early(early) if early.len() < EARLY_NOTICES => early.push_back(notice),
            State::Early(_) => {}
            State::Heard(ear) => ear(notice),
        }
    }
}

/// Something was noticed on a core.
pub(super) fn tell(shard: &Shard, notice: Notice) {
    if let Some(notices) = shard.service::<Notices>() {
        notices.take(notice);
    }
}

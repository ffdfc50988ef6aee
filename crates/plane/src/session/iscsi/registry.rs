//! Which sessions a node has, and on which core each lives. Touched at login and logout only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::iscsi::{IscsiName, Isid};

use crate::limits::SESSIONS;

/// What makes a session the same one again: RFC 7143 section 6.3.5, with one portal group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SessionKey {
    /// `InitiatorName`.
    pub initiator: IscsiName,
    /// ISID.
    pub isid: Isid,
    /// `TargetName`; none for discovery, of which any number may exist.
    pub target: Option<IscsiName>,
}

/// Where a session is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its handle.
    pub tsih: u16,
    /// Its core.
    pub shard: usize,
    /// Whose it is.
    pub key: SessionKey,
}

#[derive(Default)]
struct State {
    by_tsih: HashMap<u16, Place>,
    by_key: HashMap<SessionKey, u16>,
    last: u16,
}

/// All sessions of a node.
#[derive(Default)]
pub struct Registry(Mutex<State>);

impl Registry {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a session that will live on `shard`. The error is the session that has to go first
    /// (reinstatement), or `None` when the node has as many as it can.
    pub fn enter(&self, key: SessionKey, shard: usize) -> Result<u16, Option<Place>> {
        let mut state = self.lock();
        if key.target.is_some()
            && let Some(tsih) = state.by_key.get(&key)
        {
            return Err(state.by_tsih.get(tsih).cloned());
        }
        if state.by_tsih.len() >= SESSIONS {
            return Err(None);
        }
        loop {
            state.last = state.last.wrapping_add(1);
            if state.last != 0 && !state.by_tsih.contains_key(&state.last) {
                break;
            }
        }
        let tsih = state.last;
        if key.target.is_some() {
            state.by_key.insert(key.clone(), tsih);
        }
        state.by_tsih.insert(tsih, Place { tsih, shard, key });
        Ok(tsih)
    }

    /// The session with this handle.
    pub fn find(&self, tsih: u16) -> Option<Place> {
        self.lock().by_tsih.get(&tsih).cloned()
    }

    /// Removes a session that is no more.
    pub fn leave(&self, tsih: u16) {
        let mut state = self.lock();
        if let Some(place) = state.by_tsih.remove(&tsih)
            && state.by_key.get(&place.key) == Some(&tsih)
        {
            state.by_key.remove(&place.key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().by_tsih.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(isid: u8, target: Option<&str>) -> SessionKey {
        SessionKey {
            initiator: IscsiName::parse("iqn.2026-11.internal.host:a").unwrap(),
            isid: Isid([isid; 6]),
            target: target.map(|name| IscsiName::parse(name).unwrap()),
        }
    }

    #[test]
    fn the_same_initiator_isid_and_target_is_the_same_session() {
        let registry = Registry::default();
        let demo = Some("iqn.2026-11.internal.fels:demo");
        let first = registry.enter(key(1, demo), 0).unwrap();
        let second = registry.enter(key(2, demo), 1).unwrap();
        assert_ne!(first, second);
        let old = registry.enter(key(1, demo), 1).unwrap_err().unwrap();
        assert_eq!((old.tsih, old.shard), (first, 0));
        registry.leave(first);
        let again = registry.enter(key(1, demo), 1).unwrap();
        assert_eq!(registry.find(again).unwrap().shard, 1);
        assert_eq!(registry.len(), 2);
    }

    #[test]
    fn any_number_of_discoveries() {
        let registry = Registry::default();
        assert!(registry.enter(key(1, None), 0).is_ok() && registry.enter(key(1, None), 0).is_ok());
    }

    #[test]
    fn a_full_node_says_so() {
        let registry = Registry::default();
        for _ in 0..SESSIONS {
            registry.enter(key(1, None), 0).unwrap();
        }
        assert_eq!(registry.enter(key(1, None), 0), Err(None));
    }
}

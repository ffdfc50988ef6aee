//! What all cores share and somebody replaces as a whole now and then: looked at by logins, never by requests.

use std::sync::{Arc, Mutex, PoisonError};

/// The latest of several versions. Who has taken one keeps it.
#[derive(Debug, Default)]
pub struct Latest<T>(Mutex<Arc<T>>);

impl<T> Latest<T> {
    /// The first version.
    pub fn new(first: T) -> Latest<T> {
        Latest(Mutex::new(Arc::new(first)))
    }

    /// The version of now.
    pub fn get(&self) -> Arc<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on `next` is the version.
    pub fn set(&self, next: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}

//! What was done, kept until the page that follows a form says it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::people::token::random_hex;

/// Notes that wait at most; the oldest one is forgotten for a new one.
const MOST: usize = 128;

/// One note: what its address says, and its sentences.
type Note = (String, Vec<String>);

/// Notes that wait for their page.
#[derive(Clone, Default)]
pub(super) struct Notes(Arc<Mutex<VecDeque<Note>>>);

impl Notes {
    /// Keeps sentences for a page, and gives the address with which it says them.
    pub fn after(&self, path: &str, sentences: Vec<String>) -> String {
        let Ok(id) = random_hex::<8>() else { return path.to_owned() };
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= MOST {
            notes.pop_front();
        }
        let address = format!("{path}?said={id}");
        notes.push_back((id, sentences));
        address
    }

    /// What is to be said, once.
    pub fn take(&self, id: &str) -> Option<Vec<String>> {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = notes.iter().position(|(other, _)| other == id)?;
        notes.remove(place).map(|(_, sentences)| sentences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_said_once_and_no_more_wait_than_there_is_room_for() {
        let notes = Notes::default();
        let id = |address: &str| address.split_once('=').unwrap().1.to_owned();
        let first = id(&notes.after("/a", vec!["done".into()]));
        assert_eq!(notes.take(&first), Some(vec!["done".to_owned()]));
        assert_eq!(notes.take(&first), None);
        let oldest = id(&notes.after("/a", Vec::new()));
        for _ in 0..MOST {
            notes.after("/a", Vec::new());
        }
        assert_eq!(notes.take(&oldest), None);
    }
}

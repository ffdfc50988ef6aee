//! Asynchronous events: Base 2.1 section 5.1.2. A state machine: what is to be told, and the requests that wait for it.

use std::collections::VecDeque;

use wire::nvme::admin::event::Event;
use wire::nvme::admin::log::LogPage;

use super::slots::SlotId;
use crate::limits::NVME_EVENT_REQUESTS;

/// Notices that wait to be told, and the requests that wait for them.
#[derive(Debug, Default)]
pub struct Events {
    parked: VecDeque<SlotId>,
    pending: VecDeque<Event>,
    /// Told and not read yet: the same kind is not told again before.
    told: Vec<Event>,
}

impl Events {
    /// Keeps an Asynchronous Event Request; false when there are too many.
    pub fn park(&mut self, id: SlotId) -> bool {
        let fits = self.parked.len() < NVME_EVENT_REQUESTS;
        if fits {
            self.parked.push_back(id);
        }
        fits
    }

    /// Gives up a request; false when it does not wait here.
    pub fn unpark(&mut self, id: SlotId) -> bool {
        let before = self.parked.len();
        self.parked.retain(|parked| *parked != id);
        self.parked.len() < before
    }

    /// Something happened. It is told once until the host has read its page.
    pub fn add(&mut self, event: Event) {
        if !self.told.contains(&event) && !self.pending.contains(&event) {
            self.pending.push_back(event);
        }
    }

    /// What can be told now, and the request that it ends.
    pub fn next(&mut self) -> Option<(SlotId, Event)> {
        if self.parked.is_empty() {
            return None;
        }
        let event = self.pending.pop_front()?;
        self.told.push(event);
        self.parked.pop_front().map(|id| (id, event))
    }

    /// The host has read a page: what it says of it is known, and the next change is told again.
    pub fn read(&mut self, page: LogPage) {
        self.told.retain(|event| event.log_page != page);
        self.pending.retain(|event| event.log_page != page);
    }

    /// Forgets everything; gives the requests that waited.
    pub fn reset(&mut self) -> VecDeque<SlotId> {
        std::mem::take(self).parked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGE: Event = Event::NAMESPACE_ATTRIBUTE_CHANGED;

    fn id(tag: u16) -> SlotId {
        SlotId::of_tag(tag)
    }

    #[test]
    fn an_event_is_told_once_until_its_page_has_been_read() {
        let mut events = Events::default();
        assert!(events.park(id(1)) && events.park(id(2)));
        events.add(CHANGE);
        assert_eq!(events.next(), Some((id(1), CHANGE)));
        events.add(CHANGE);
        assert_eq!(events.next(), None);
        events.read(LogPage::DISCOVERY);
        events.add(CHANGE);
        assert_eq!(events.next(), None, "another page was read");
        events.read(LogPage::CHANGED_NAMESPACES);
        assert_eq!(events.next(), None, "nothing has happened since");
        events.add(CHANGE);
        assert_eq!(events.next(), Some((id(2), CHANGE)));
    }

    #[test]
    fn an_event_waits_for_a_request_and_is_forgotten_when_its_page_is_read_before() {
        let mut events = Events::default();
        events.add(CHANGE);
        events.add(Event::ANA_CHANGE);
        assert_eq!(events.next(), None);
        events.read(LogPage::CHANGED_NAMESPACES);
        assert!(events.park(id(1)) && events.park(id(2)));
        assert_eq!(events.next(), Some((id(1), Event::ANA_CHANGE)));
        assert_eq!(events.next(), None);
        assert!(events.unpark(id(2)) && !events.unpark(id(2)));
    }

    #[test]
    fn requests_are_bounded_and_a_reset_gives_them_back() {
        let mut events = Events::default();
        assert!((0..NVME_EVENT_REQUESTS as u16).all(|tag| events.park(id(tag))));
        assert!(!events.park(id(99)));
        assert_eq!(events.reset().len(), NVME_EVENT_REQUESTS);
        assert!(events.park(id(99)));
    }
}

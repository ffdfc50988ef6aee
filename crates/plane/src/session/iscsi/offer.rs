//! How a change of what is offered reaches the sessions of every core.
//!
//! The list of targets that a node is given is the truth: nothing is told of how it came to be. New logins find the new list
//! at once; a session stays as long as its volume is offered by the same target to its initiator.

use std::rc::Rc;
use std::time::Duration;

use super::service::Service;
use super::session::Session;
use super::target::Targets;

impl Service {
    /// Offers these targets, and nothing else, from now on, on all cores.
    pub fn offer(&self, targets: Targets) {
        self.node().targets.set(targets);
    }

    /// Ends the sessions of this core that what is offered now does not let be: their initiators are asked to go, and get
    /// `grace` for it.
    pub async fn adopt(self: Rc<Self>, grace: Duration) {
        let targets = self.node().targets.get();
        let is_over = |session: &Session| {
            let Some(attached) = &session.attached else { return false };
            let (old, initiator) = (&attached.target, &session.place.key.initiator);
            let new = targets.find(&old.name).filter(|new| new.volume == old.volume);
            !new.is_some_and(|new| new.admits(initiator))
        };
        self.dismiss(is_over, grace, "its target is not offered to this initiator any more").await;
    }
}

//! The keep alive timer of a controller. Base 2.1 section 3.9.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::atomic::Ordering;
use std::time::Duration;

use ring::Instant;

use super::controller::Controller;
use crate::watch::Watched;

/// A timer runs at least so long.
const SHORTEST: Duration = Duration::from_secs(1);

/// Ends the association when the host says nothing for a time. Traffic counts (TBKAS): a timer that finds some begins anew.
pub struct KeepAlive {
    controller: Weak<Controller>,
    milliseconds: u32,
    /// When it is over, once it has begun.
    due: Cell<Option<Instant>>,
}

impl KeepAlive {
    /// A timer that begins with the first look at it.
    pub fn new(controller: &Rc<Controller>, milliseconds: u32) -> Rc<KeepAlive> {
        Rc::new(KeepAlive { controller: Rc::downgrade(controller), milliseconds, due: Cell::new(None) })
    }
}

impl Watched for KeepAlive {
    fn look(&self, now: Instant) -> Option<Instant> {
        let controller = self.controller.upgrade()?;
        let admin = controller.admin().filter(|admin| !admin.connection.outgoing.is_closed())?;
        if let Some(due) = self.due.get().filter(|due| now < *due) {
            return Some(due);
        }
        let has_begun = self.due.get().is_some();
        if has_begun && !controller.link.traffic.swap(false, Ordering::Relaxed) {
            let milliseconds = self.milliseconds;
            controller.csts.set(controller.csts.get().with_cfs(1));
            admin
                .connection
                .close(format!("the host said nothing for its keep alive time of {milliseconds} ms"));
            return None;
        }
        let due = now + Duration::from_millis(self.milliseconds.into()).max(SHORTEST);
        self.due.set(Some(due));
        Some(due)
    }
}

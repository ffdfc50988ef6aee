//! How a change of what is offered reaches the connections of every core.

use std::rc::Rc;
use std::time::Duration;

use super::export::Exports;
use super::service::Service;

impl Service {
    /// Offers these exports, and nothing else, from now on, on all cores.
    pub fn offer(&self, exports: Exports) {
        self.node().exports.set(exports);
    }

    /// Ends the connections of this core whose volume is no export any more; requests in flight get `grace` to end.
    pub async fn adopt(self: Rc<Self>, grace: Duration) {
        let exports = self.node().exports.get();
        let volumes: std::collections::HashSet<usize> =
            exports.list().iter().map(|export| export.volume).collect();
        let is_over = |volume: Option<usize>| volume.is_some_and(|volume| !volumes.contains(&volume));
        self.dismiss(
            |connection| is_over(connection.volume.get()),
            grace,
            "its export is not offered any more",
        )
        .await;
    }
}

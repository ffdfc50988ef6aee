//! How a controller is enabled, reset, shut down and ended: Base 2.1 sections 3.5.3, 3.6 and 3.7.
//!
//! What takes time goes on beside the admin queue, which tells how far it is by CSTS. A controller says that it is
//! disabled, or shut down, only when nothing of its queues is with a volume any more: until then an old write could
//! still land on what the host writes next. A write that the kernel has cannot be called back, and the memory it
//! writes from stays with it. So when a disk stands still the controller waits, and after [`NVME_RESET_TIME`] it says
//! what hosts look for to give up on it: CSTS.CFS, with CSTS.RDY as it was. If the disk comes back later, the reset
//! completes late, and clears it.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use wire::nvme::Status;
use wire::nvme::admin::features::EventConfiguration;
use wire::nvme::fabrics::{
    ControllerConfiguration, ControllerStatus, Property, PropertySet, PropertySize, Shutdown, ShutdownStatus,
};

use super::connection::Outcome;
use super::controller::Controller;
use super::link::Kind;
use super::service::Service;
use crate::limits::NVME_RESET_TIME;
use crate::log::trouble;
use crate::request::Request;
use crate::shard::Shard;

#[derive(Clone, Copy)]
enum Transition {
    Reset,
    Shutdown,
}

impl Controller {
    pub(super) fn property_set(self: &Rc<Self>, set: PropertySet) -> Result<Outcome, Status> {
        if set.offset != Property::CC || set.size != PropertySize::FOUR {
            return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
        }
        let (old, new) = (self.cc.get(), ControllerConfiguration(set.value as u32));
        let enables = old.en() == 0 && new.en() == 1;
        if enables && self.transitions.get() > 0 {
            // The host has to wait for CSTS.RDY to be cleared first (Base 2.1 section 3.1.4.5).
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        self.cc.set(new);
        let asks = new.shutdown() != Shutdown::None && old.shutdown() == Shutdown::None;
        if asks && self.csts.get().shst() == ShutdownStatus::Normal as u32 {
            self.csts.set(self.csts.get().with_shutdown(ShutdownStatus::Occurring));
            self.begin(Transition::Shutdown);
        }
        match (old.en(), new.en()) {
            (0, 1) => self.enable(new),
            (1, 0) => self.begin(Transition::Reset),
            _ => {}
        }
        Ok(Outcome::done())
    }

    fn enable(&self, cc: ControllerConfiguration) {
        // Sizes of entries and pages that are not those of fabrics: the controller does not become ready.
        let sizes = self.link.is_discovery() || (cc.iosqes() == 6 && cc.iocqes() == 4);
        if cc.mps() != 0 || cc.ams() != 0 || !matches!(cc.css(), 0 | 6) || !sizes {
            self.csts.set(self.csts.get().with_cfs(1));
            return;
        }
        self.csts.set(ControllerStatus::default().with_rdy(1));
        self.link.begin_life();
    }

    /// Begins a reset or a shutdown, after what is under way of that kind. There are two at most: one of each between
    /// two enablings.
    fn begin(self: &Rc<Self>, transition: Transition) {
        self.link.end_life();
        self.transitions.set(self.transitions.get() + 1);
        let controller = self.clone();
        self.shard.ring().spawn_later(async move {
            let free = || (!controller.in_transition.replace(true)).then_some(());
            controller.transition_ended.until(free).await;
            match transition {
                Transition::Reset => controller.in_time("reset", controller.disable()).await,
                Transition::Shutdown => controller.in_time("shut down", controller.shut_down()).await,
            }
            controller.in_transition.set(false);
            controller.transitions.set(controller.transitions.get() - 1);
            controller.transition_ended.notify();
        });
    }

    /// Waits for `work`, and says so when it takes too long.
    async fn in_time(&self, what: &str, work: impl Future<Output = ()>) {
        let mut work = pin!(work);
        if self.shard.ring().timeout(NVME_RESET_TIME, work.as_mut()).await.is_some() {
            return;
        }
        self.csts.set(self.csts.get().with_cfs(1));
        trouble!(
            "controller {} of {} cannot be {what}: its commands have not ended within {} seconds; hint: a volume's disk \
             stands still",
            self.link.cntlid,
            self.link.host,
            NVME_RESET_TIME.as_secs()
        );
        work.await;
    }

    /// Controller level reset: afterwards no command of an I/O queue is under way.
    async fn disable(&self) {
        self.end_queues("the host has reset the controller").await;
        self.configuration.set(EventConfiguration::empty());
        self.link.write_cache.store(true, Ordering::Release);
        self.changed.borrow_mut().clear();
        let parked = self.events.borrow_mut().reset();
        if let Some(admin) = self.admin() {
            for id in parked {
                admin.finish(id, Outcome::failed(Status::COMMAND_ABORT_REQUESTED));
            }
        }
        // Last: the host may go on at once.
        self.csts.set(ControllerStatus::default());
    }

    async fn shut_down(&self) {
        self.end_queues("the host has shut the controller down").await;
        // Complete means that everything is durable; what is not so is not said.
        let durable = self.flush().await;
        let csts = self.csts.get();
        self.csts.set(if durable { csts.with_shutdown(ShutdownStatus::Complete) } else { csts.with_cfs(1) });
    }

    /// Makes durable what the host has written: it may take the power away after a shutdown (Base 2.1 section 3.6).
    /// False when that failed.
    async fn flush(&self) -> bool {
        let Kind::Io(subsystem) = self.link.kind() else { return true };
        let mut durable = true;
        for namespace in &subsystem.namespaces {
            let Some(channel) = self.shard.find_volume(namespace.volume) else { return false };
            if let Err(error) = channel.submit(Request::flush()).await.result {
                trouble!("volume {}: the flush of a shutdown failed: {error}", channel.volume().name());
                durable = false;
            }
        }
        durable
    }

    /// Ends every I/O queue, and waits until nothing of them is under way.
    pub(super) async fn end_queues(&self, reason: &'static str) {
        let seats: Vec<_> = self.queues.borrow().iter().map(|(qid, seat)| (*qid, *seat)).collect();
        let cntlid = self.link.cntlid;
        // All are closed before one is waited for: the host learns of it whatever the volumes do.
        for (qid, seat) in &seats {
            let (qid, token) = (*qid, seat.token);
            self.shard.tell(seat.shard, move |shard| {
                if let Some(queue) = Service::queue_on(&shard, cntlid, qid, token) {
                    queue.connection.close_quietly(reason);
                }
            });
        }
        for (qid, seat) in seats {
            let quiesce = move |shard: Rc<Shard>| async move {
                if let Some(queue) = Service::queue_on(&shard, cntlid, qid, seat.token) {
                    queue.quiesce().await;
                }
            };
            self.shard.call(seat.shard, quiesce).await;
            self.leave(qid, seat.token);
        }
    }

    /// The end of the association: nothing of it is under way afterwards. Until then it keeps its identifier and its
    /// place among those of its host.
    pub async fn end(&self) {
        self.link.end_life();
        self.in_time("ended", self.end_queues("the admin queue has ended")).await;
        self.admin.take();
        self.node.release(self.link.cntlid);
    }
}

//! Where a node listens: portals are opened with the node, and others while it serves.
//!
//! Lives on the first core; what comes in is spread over all of them. A portal that is closed takes nobody more, and who came in
//! by it stays.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ring::{CongestionControl, Listener, Notify, Ring};

use crate::session::traffic::{Ledger, Portal as Name};
use crate::session::{iscsi, nbd, nvme};
use crate::shard::Shard;
use crate::spread::accept;

/// How long an address that was just given up may take to be free.
const FREE_TIME: Duration = Duration::from_secs(2);

/// How often it is asked for meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// Where a node listens, a list for each protocol. Port 0 takes a free one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Portals {
    /// iSCSI.
    pub iscsi: Vec<SocketAddr>,
    /// NBD over TCP.
    pub nbd: Vec<SocketAddr>,
    /// NBD over a unix socket.
    pub nbd_socket: Option<PathBuf>,
    /// NVMe/TCP: I/O and discovery controllers.
    pub nvme: Vec<SocketAddr>,
    /// NVMe/TCP: where hosts look for discovery controllers.
    pub nvme_discovery: Vec<SocketAddr>,
    /// NVMe/TCP: discovery services elsewhere that ours names to hosts.
    pub nvme_referrals: Vec<SocketAddr>,
    /// How fast connections send.
    pub congestion: Congestion,
}

/// The congestion control of each protocol's portals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// iSCSI.
    pub iscsi: CongestionControl,
    /// NBD over TCP.
    pub nbd: CongestionControl,
    /// NVMe/TCP.
    pub nvme: CongestionControl,
}

/// Who is welcomed at a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Iscsi,
    Nbd,
    Nvme,
    NvmeDiscovery,
}

/// Where a portal is, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Inet(SocketAddr),
    Unix(PathBuf),
}

/// A portal that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    kind: Kind,
    address: Address,
}

/// A portal that is open.
#[derive(Clone)]
struct Portal {
    wish: Wish,
    /// By which its traffic is told: with the port that the kernel has given.
    name: Arc<Name>,
    listener: Rc<Listener>,
    end: Rc<End>,
}

/// Says to who takes connections at a portal that it closes.
#[derive(Default)]
struct End {
    now: Cell<bool>,
    said: Notify,
}

/// The portals of a node.
pub struct Listening {
    shard: Rc<Shard>,
    open: RefCell<Vec<Portal>>,
    /// Of those that are open.
    congestion: RefCell<Congestion>,
}

impl Portals {
    fn wishes(&self) -> impl Iterator<Item = Wish> + '_ {
        let inet = |kind| move |address: &SocketAddr| Wish { kind, address: Address::Inet(*address) };
        let unix = |path: &PathBuf| Wish { kind: Kind::Nbd, address: Address::Unix(path.clone()) };
        let iscsi = self.iscsi.iter().map(inet(Kind::Iscsi));
        let nbd = self.nbd.iter().map(inet(Kind::Nbd)).chain(self.nbd_socket.iter().map(unix));
        let nvme = self.nvme.iter().map(inet(Kind::Nvme));
        iscsi.chain(nbd).chain(nvme).chain(self.nvme_discovery.iter().map(inet(Kind::NvmeDiscovery)))
    }
}

/// How a peer that has reached `local` comes to a portal: one on all addresses by the address that was reached. None when that
/// leads nowhere: the portal is on all addresses of IPv4, and the peer came over IPv6.
pub fn reached(portal: SocketAddr, local: SocketAddr) -> Option<SocketAddr> {
    if !portal.ip().is_unspecified() {
        return Some(portal);
    }
    // A socket of all addresses names one of IPv4 in the form of IPv6, which not every peer can connect to.
    let local = local.ip().to_canonical();
    (portal.is_ipv6() || local.is_ipv4()).then(|| SocketAddr::new(local, portal.port()))
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Iscsi => "iscsi",
            Kind::Nbd => "nbd",
            Kind::Nvme => "nvme",
            Kind::NvmeDiscovery => "nvme-discovery",
        }
    }
}

impl Congestion {
    fn of(&self, kind: Kind) -> &CongestionControl {
        match kind {
            Kind::Iscsi => &self.iscsi,
            Kind::Nbd => &self.nbd,
            Kind::Nvme | Kind::NvmeDiscovery => &self.nvme,
        }
    }
}

impl Wish {
    fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Inet(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }

    fn open(&self, ring: &Ring, congestion: &CongestionControl) -> Result<Portal, ListenError> {
        let failed = |source| ListenError::Bind { portal: self.address.to_string(), source };
        let listener = match &self.address {
            Address::Inet(address) => Listener::bind(ring, *address).map_err(failed)?,
            Address::Unix(path) => Listener::bind_unix(ring, path).map_err(failed)?,
        };
        let address = match &self.address {
            Address::Inet(_) => listener.address().map_err(failed)?.to_string(),
            Address::Unix(path) => path.display().to_string(),
        };
        let name = Arc::new(Name { protocol: self.kind.name(), address });
        let portal = Portal { wish: self.clone(), name, listener: Rc::new(listener), end: Rc::default() };
        portal.set_congestion_control(congestion)?;
        Ok(portal)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(path) => Path::display(path).fmt(f),
        }
    }
}

impl Portal {
    fn set_congestion_control(&self, congestion: &CongestionControl) -> Result<(), ListenError> {
        let Address::Inet(portal) = self.wish.address else { return Ok(()) };
        let wanted = congestion.to_string();
        let failed = |source| ListenError::Congestion { portal, wanted, source };
        self.listener.set_congestion_control(congestion).map_err(failed)
    }

    fn close(&self) {
        self.end.now.set(true);
        self.end.said.notify();
    }
}

impl Listening {
    /// Opens these portals, all of them or none.
    pub(crate) fn open(shard: &Rc<Shard>, wanted: &Portals) -> Result<Rc<Listening>, ListenError> {
        let congestion = RefCell::new(wanted.congestion.clone());
        let listening = Listening { shard: shard.clone(), open: RefCell::default(), congestion };
        let open = |wish: Wish| wish.open(shard.ring(), wanted.congestion.of(wish.kind));
        let portals = wanted.wishes().map(open).collect::<Result<Vec<_>, _>>()?;
        for portal in &portals {
            listening.welcome(portal);
        }
        listening.open.replace(portals);
        listening.tell(&listening.addresses(wanted)?);
        Ok(Rc::new(listening))
    }

    /// Where it really listens: `wanted` with the ports that the kernel has given.
    pub(crate) fn addresses(&self, wanted: &Portals) -> Result<Portals, ListenError> {
        let open = self.open.borrow();
        let of = |kind| {
            let portals = open.iter().filter(move |portal| portal.wish.kind == kind);
            let inet = portals.filter(|portal| matches!(portal.wish.address, Address::Inet(_)));
            let address = |portal: &Portal| {
                let failed = |source| ListenError::Bind { portal: portal.wish.address.to_string(), source };
                portal.listener.address().map_err(failed)
            };
            inet.map(address).collect::<Result<Vec<_>, _>>()
        };
        Ok(Portals {
            iscsi: of(Kind::Iscsi)?,
            nbd: of(Kind::Nbd)?,
            nvme: of(Kind::Nvme)?,
            nvme_discovery: of(Kind::NvmeDiscovery)?,
            ..wanted.clone()
        })
    }

    /// Listens where `wanted` says from now on, and nowhere else. If that cannot be, it listens where it did. One change at a time.
    pub(crate) async fn change(&self, wanted: &Portals) -> Result<Portals, ListenError> {
        let mut left = self.open.borrow().clone();
        // For each wish the portal that is open already, in the order of the wishes.
        let found: Vec<(Wish, Option<Portal>)> = wanted
            .wishes()
            .map(|wish| {
                let place = left.iter().position(|portal| portal.wish == wish);
                (wish, place.map(|place| left.remove(place)))
            })
            .collect();
        let missing: Vec<u16> =
            found.iter().filter(|(_, open)| open.is_none()).filter_map(|(wish, _)| wish.port()).collect();
        // One address of a port may keep another one from being had: `127.0.0.1:3260` before `0.0.0.0:3260`.
        let in_the_way =
            left.extract_if(.., |portal| portal.wish.port().is_some_and(|port| missing.contains(&port)));
        let given_up: Vec<Portal> = in_the_way.collect();
        self.open
            .borrow_mut()
            .retain(|portal| given_up.iter().all(|gone| !Rc::ptr_eq(&gone.end, &portal.end)));
        let waits = !given_up.is_empty();
        given_up.iter().for_each(Portal::close);
        let lost: Vec<(Wish, Arc<Name>)> =
            given_up.into_iter().map(|portal| (portal.wish, portal.name)).collect();
        match self.open_all(found, wanted, waits).await {
            Ok(open) => {
                left.iter().for_each(Portal::close);
                let gone =
                    left.iter().map(|portal| portal.name.clone()).chain(lost.into_iter().map(|lost| lost.1));
                let is_open = |name: &Arc<Name>| open.iter().any(|portal| portal.name == *name);
                self.forget(&gone.filter(|name| !is_open(name)).collect::<Vec<_>>());
                self.open.replace(open);
                self.congestion.replace(wanted.congestion.clone());
                let addresses = self.addresses(wanted)?;
                self.tell(&addresses);
                Ok(addresses)
            }
            Err(error) => {
                self.open_again(lost).await;
                Err(error)
            }
        }
    }

    /// Opens what is missing; closes it again if that cannot be done for all. `waits`: addresses become free in a moment.
    async fn open_all(
        &self,
        found: Vec<(Wish, Option<Portal>)>,
        wanted: &Portals,
        waits: bool,
    ) -> Result<Vec<Portal>, ListenError> {
        let (mut open, mut new) = (Vec::with_capacity(found.len()), Vec::new());
        for (wish, there) in found {
            let portal = if let Some(portal) = there {
                portal
            } else {
                let portal = self.open_one(&wish, &wanted.congestion, waits).await?;
                new.push(portal.clone());
                portal
            };
            portal.set_congestion_control(wanted.congestion.of(wish.kind))?;
            open.push(portal);
        }
        for portal in &new {
            self.welcome(portal);
        }
        Ok(open)
    }

    async fn open_one(
        &self,
        wish: &Wish,
        congestion: &Congestion,
        waits: bool,
    ) -> Result<Portal, ListenError> {
        let ring = self.shard.ring();
        let deadline = ring.now() + FREE_TIME;
        loop {
            match wish.open(ring, congestion.of(wish.kind)) {
                Err(error) if waits && error.is_in_use() && ring.now() < deadline => ring.sleep(LOOK).await,
                result => return result,
            }
        }
    }

    /// Listens again where others were to come, and as it did: what was wanted may be what could not be had.
    async fn open_again(&self, lost: Vec<(Wish, Arc<Name>)>) {
        let congestion = self.congestion.borrow().clone();
        for portal in self.open.borrow().iter() {
            if let Err(error) = portal.set_congestion_control(congestion.of(portal.wish.kind)) {
                tracing::error!("a portal keeps what it was not to get: {error}");
            }
        }
        for (wish, _) in lost {
            match self.open_one(&wish, &congestion, true).await {
                Ok(portal) => {
                    self.welcome(&portal);
                    self.open.borrow_mut().push(portal);
                }
                Err(error) => tracing::error!("a portal that was to be replaced is lost: {error}"),
            }
        }
    }

    /// Lets no core tell of these portals any more.
    fn forget(&self, closed: &[Arc<Name>]) {
        for index in 0..self.shard.count() {
            let closed = closed.to_vec();
            self.shard.tell(index, move |shard| {
                let ledger = Ledger::of(&shard);
                for name in &closed {
                    ledger.close(name);
                }
            });
        }
    }

    /// Tells the protocols, and by them their peers, where the node is.
    fn tell(&self, at: &Portals) {
        if let Some(service) = self.shard.service::<iscsi::Service>() {
            service.node().set_portals(at.iscsi.clone());
        }
        if let Some(service) = self.shard.service::<nvme::Service>() {
            service.tell_places(nvme::Places {
                io: at.nvme.clone(),
                discovery: at.nvme_discovery.clone(),
                referrals: at.nvme_referrals.clone(),
            });
        }
    }

    /// Takes connections at a portal from now on, until it is closed.
    fn welcome(&self, portal: &Portal) {
        let (ring, listener, name) = (self.shard.ring(), portal.listener.clone(), portal.name.clone());
        let end = portal.end.clone();
        match portal.wish.kind {
            Kind::Iscsi => {
                let Some(service) = self.shard.service::<iscsi::Service>() else { return };
                ring.spawn_later(until(end, accept(service, listener, name)));
            }
            Kind::Nbd => {
                let Some(service) = self.shard.service::<nbd::Service>() else { return };
                ring.spawn_later(until(end, accept(service, listener, name)));
            }
            Kind::Nvme | Kind::NvmeDiscovery => {
                let Some(service) = self.shard.service::<nvme::Service>() else { return };
                ring.spawn_later(until(end, accept(service, listener, name)));
            }
        }
    }
}

/// Does `work` until the end is said.
async fn until(end: Rc<End>, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    let mut said = pin!(end.said.until(|| end.now.get().then_some(())));
    poll_fn(|context| {
        if said.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        work.as_mut().poll(context)
    })
    .await;
}

/// A portal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Its address is not to be had.
    #[error(
        "cannot listen on {portal}: {source}; hint: another program may use it (`ss -lntxp`), or the address is not this machine's"
    )]
    Bind {
        /// Which: an address, or the path of a unix socket.
        portal: String,
        /// Why.
        source: std::io::Error,
    },
    /// Its congestion control is not to be had.
    #[error(
        "the congestion control {wanted} cannot be set on {portal}: {source}; hint: \
         `sysctl net.ipv4.tcp_available_congestion_control` lists what this host has, and \
         `net.ipv4.tcp_allowed_congestion_control` what others than root may use"
    )]
    Congestion {
        /// Which.
        portal: SocketAddr,
        /// What was asked for.
        wanted: String,
        /// Why.
        source: std::io::Error,
    },
}

impl ListenError {
    /// Whether somebody else has the address, who may go yet.
    pub fn is_in_use(&self) -> bool {
        matches!(self, ListenError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::Peers;
    use ring::{Options, Reactor};

    #[test]
    fn a_change_that_cannot_be_made_leaves_every_portal_as_it_was() {
        let reactor = Reactor::new(&Options::default()).unwrap();
        let ring = reactor.ring().clone();
        reactor.block_on(async move {
            let (peers, mail) = Peers::new(1);
            let shard = Shard::new(0, ring, peers, mail.into_iter().next().unwrap(), Vec::new());
            let named = |name: &str| CongestionControl::Named(name.to_owned());
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let stays = Portals {
                iscsi: vec!["127.0.0.1:0".parse().unwrap()],
                nbd: vec![free],
                congestion: Congestion { iscsi: named("reno"), nbd: named("reno"), ..Congestion::default() },
                ..Portals::default()
            };
            let listening = Listening::open(&shard, &stays).unwrap();
            let before = listening.addresses(&stays).unwrap();
            let wanted = Portals {
                nbd: vec![SocketAddr::from(([127, 0, 0, 2], free.port()))],
                congestion: Congestion {
                    iscsi: named("cubic"),
                    nbd: named("no-such"),
                    ..stays.congestion.clone()
                },
                ..stays.clone()
            };
            assert!(matches!(listening.change(&wanted).await, Err(ListenError::Congestion { .. })));
            assert_eq!(listening.addresses(&stays).unwrap(), before);
            let portals = listening.open.borrow().clone();
            assert_eq!(portals.len(), 2);
            for portal in portals {
                let _client = std::net::TcpStream::connect(portal.listener.address().unwrap()).unwrap();
                let (server, _) = portal.listener.accept().await.unwrap();
                assert_eq!(server.congestion_control().unwrap(), "reno");
            }
            shard.dismantle();
        });
    }
}

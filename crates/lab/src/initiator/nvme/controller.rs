//! From an address to a controller that is ready: Base 2.1 section 3.5.1 (Fabrics).

use std::rc::Rc;
use std::time::Duration;

use ring::{Buffer, Ring};
use wire::nvme::admin::features::{Feature, NumberOfQueues, SetFeatures};
use wire::nvme::admin::identify::{
    Cns, FusedOperations, IDENTIFY_LENGTH, Identify, IdentifyController, IdentifyNamespace,
    NamespaceFeatures, NvmController, OptionalCommands,
};
use wire::nvme::admin::keep_alive;
use wire::nvme::fabrics::{
    Capabilities, ControllerConfiguration, ControllerStatus, Property, PropertyGet, PropertySet,
    PropertySize, Shutdown, ShutdownStatus,
};
use wire::nvme::tcp::ADMIN_IN_CAPSULE;
use wire::nvme::{SglDescriptor, Status};

use super::connect::{ConnectError, connect_queue, greet};
use super::queue::Queue;
use crate::initiator::table::Transfer;
use crate::initiator::{Cause, Geometry, IoError, OpenError, OpenOptions, connect, reach};
use crate::target::NvmeTarget;

/// The number of our I/O queue.
pub(super) const IO_QUEUE: u16 = 1;
/// Entries of the admin queue.
const ADMIN_ENTRIES: u16 = 32;
/// Most entries of the I/O queue.
const MAX_ENTRIES: u32 = 1024;
/// The controller gives us up when it hears nothing for so long.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it hears from us.
const KEEP_ALIVE_PERIOD: Duration = Duration::from_secs(15);
/// How often CSTS is looked at.
const READY_PAUSE: Duration = Duration::from_millis(1);

/// What the I/O commands need to know of the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// ONCS.
    pub(super) commands: OptionalCommands,
    /// Compare and Write can be fused.
    pub(super) fused: bool,
    /// Bytes that go along with a command.
    pub(super) in_capsule: u32,
    /// Most blocks of a Dataset Management range.
    pub(super) dataset_blocks: u32,
    /// CAP.TO: how long CSTS.RDY may take to follow CC.EN.
    pub(super) ready_time: Duration,
}

pub(super) struct Opened {
    pub(super) admin: Rc<Queue>,
    pub(super) queue: Rc<Queue>,
    pub(super) geometry: Geometry,
    pub(super) facts: Facts,
}

/// Ends the queues when the start does not succeed.
struct Guard(Vec<Rc<Queue>>);

impl Drop for Guard {
    fn drop(&mut self) {
        for queue in &self.0 {
            queue.fail("the session could not be opened");
        }
    }
}

pub(super) async fn open(
    ring: &Ring,
    target: &NvmeTarget,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    let mut guard = Guard(Vec::new());
    let (socket, address) = reach(ring, &target.host, target.port).await?;
    let agreed = greet(ring, &socket, options).await?;
    let admin = Queue::start(ring, socket, agreed, options.timeout);
    guard.0.push(admin.clone());
    let cntlid = connect_queue(&admin, target, options, 0, ADMIN_ENTRIES, KEEP_ALIVE_TIMEOUT, None).await?;
    admin.set_limits(usize::from(ADMIN_ENTRIES) - 1, ADMIN_IN_CAPSULE as usize);
    let capabilities = enable(ring, &admin).await?;
    keep_alive_in_time(ring, &admin);

    let controller = IdentifyController::decode(&identify(&admin, Cns::CONTROLLER, 0).await?);
    let namespace = namespace(&admin, target.nsid).await?;
    let nvm = nvm_controller(&admin).await;
    let facts = Facts {
        commands: controller.oncs,
        fused: controller.fuses.contains(FusedOperations::COMPARE_AND_WRITE),
        in_capsule: controller.in_capsule_data().min(options.in_capsule),
        dataset_blocks: if nvm.dmrsl == 0 { u32::MAX } else { nvm.dmrsl },
        ready_time: ready_time(capabilities),
    };
    let geometry = geometry(&namespace, &controller, capabilities)?;
    ask_for_queues(&admin).await?;

    // A queue takes one command less than it has entries.
    let most = (capabilities.mqes() as u32 + 1).min(MAX_ENTRIES);
    let entries = (options.depth.saturating_add(1)).clamp(2, most.max(2)) as u16;
    let socket = connect(ring, address).await?;
    let agreed = greet(ring, &socket, options).await?;
    let queue = Queue::start(ring, socket, agreed, options.timeout);
    guard.0.push(queue.clone());
    connect_queue(&queue, target, options, IO_QUEUE, entries, Duration::ZERO, Some(cntlid)).await?;
    let most = if controller.maxcmd == 0 { u16::MAX } else { controller.maxcmd };
    queue.set_limits(usize::from((entries - 1).min(most)), facts.in_capsule as usize);
    admin.join(&queue);
    guard.0.clear();
    Ok(Opened { admin, queue, geometry, facts })
}

async fn get(admin: &Rc<Queue>, size: PropertySize, offset: Property) -> Result<u64, IoError> {
    let command = PropertyGet { size, offset }.command(0);
    admin.command("Property Get", command, Transfer::Nothing).await.result
}

async fn status(admin: &Rc<Queue>) -> Result<ControllerStatus, IoError> {
    get(admin, PropertySize::FOUR, Property::CSTS).await.map(|value| ControllerStatus(value as u32))
}

async fn configure(admin: &Rc<Queue>, value: ControllerConfiguration) -> Result<(), IoError> {
    let command = PropertySet { size: PropertySize::FOUR, offset: Property::CC, value: value.0.into() };
    admin.command("Property Set", command.command(0), Transfer::Nothing).await.result.map(|_| ())
}

/// CAP.TO counts halves of a second.
fn ready_time(capabilities: Capabilities) -> Duration {
    Duration::from_millis(500) * (capabilities.to() as u32).max(1)
}

/// Why CSTS.RDY does not follow CC.EN.
enum Stuck {
    /// CSTS could not be read.
    Unread(IoError),
    /// It says so, or takes too long.
    Told(String),
}

/// Waits until CSTS.RDY says what CC.EN was told to be: the answer to Property Set means only that it was told.
async fn until_ready(ring: &Ring, admin: &Rc<Queue>, ready: bool, patience: Duration) -> Result<(), Stuck> {
    let since = ring.now();
    loop {
        let status = status(admin).await.map_err(Stuck::Unread)?;
        if status.cfs() == 1 {
            return Err(Stuck::Told("it reports a fatal status".to_owned()));
        }
        if (status.rdy() == 1) == ready {
            return Ok(());
        }
        if ring.now().since(since) > patience {
            return Err(Stuck::Told(format!("not within {} s", patience.as_secs_f32())));
        }
        ring.sleep(READY_PAUSE).await;
    }
}

/// Enables the controller and waits until it is ready.
async fn enable(ring: &Ring, admin: &Rc<Queue>) -> Result<Capabilities, OpenError> {
    let start = |command| move |source| OpenError::Start { command, source };
    let capabilities = get(admin, PropertySize::EIGHT, Property::CAP).await.map_err(start("Property Get"))?;
    let capabilities = Capabilities(capabilities);
    configure(admin, ControllerConfiguration::ENABLED).await.map_err(start("Property Set"))?;
    match until_ready(ring, admin, true, ready_time(capabilities)).await {
        Ok(()) => Ok(capabilities),
        Err(Stuck::Unread(source)) => Err(start("Property Get")(source)),
        Err(Stuck::Told(why)) => Err(ConnectError::NotReady(why).into()),
    }
}

/// Tells the controller that we go, and waits until it has made everything durable.
pub(super) async fn shut_down(ring: &Ring, admin: &Rc<Queue>) {
    let value = ControllerConfiguration::ENABLED.with_shn(Shutdown::Normal as u32);
    if configure(admin, value).await.is_err() {
        return;
    }
    while let Ok(status) = status(admin).await {
        if status.shst() == ShutdownStatus::Complete as u32 || status.cfs() == 1 {
            return;
        }
        ring.sleep(READY_PAUSE).await;
    }
}

/// Disables the controller, and waits until it says that it is disabled: until then a command of its I/O queues may
/// still be under way (Base 2.1 sections 3.1.4.5 and 3.1.4.6, CC.EN and CSTS.RDY).
pub(super) async fn reset(ring: &Ring, admin: &Rc<Queue>, patience: Duration) -> Result<(), IoError> {
    configure(admin, ControllerConfiguration::ENABLED.with_en(0)).await?;
    until_ready(ring, admin, false, patience).await.map_err(|stuck| match stuck {
        Stuck::Unread(error) => error,
        Stuck::Told(why) => Cause::Connection(format!("the controller was not reset: {why}").into()).into(),
    })
}

/// Sends Keep Alive until the queue is gone.
fn keep_alive_in_time(ring: &Ring, admin: &Rc<Queue>) {
    let (clock, watched) = (ring.clone(), Rc::downgrade(admin));
    ring.spawn_later(async move {
        loop {
            clock.sleep(KEEP_ALIVE_PERIOD).await;
            let Some(admin) = watched.upgrade() else { return };
            if admin.lost().is_some() {
                return;
            }
            let finished = admin.command("Keep Alive", keep_alive(0), Transfer::Nothing).await;
            if let Err(error) = &finished.result
                && let Cause::Nvme { status, .. } = error.cause()
            {
                return admin.fail(&format!("the target refused Keep Alive: {status}"));
            }
        }
    });
}

async fn identify(admin: &Rc<Queue>, cns: Cns, nsid: u32) -> Result<[u8; IDENTIFY_LENGTH], OpenError> {
    let command = Identify { nsid, cns, ..Identify::default() }.command(0);
    let finished = admin.command("Identify", command, Transfer::In(Buffer::zeroed(IDENTIFY_LENGTH))).await;
    let start = |source| OpenError::Start { command: "Identify", source };
    let (result, received, buffer) = finished.parts();
    result.map_err(start)?;
    let (moved, wanted) = (received as u64, IDENTIFY_LENGTH as u64);
    let bytes = buffer.first_chunk().copied().filter(|_| moved == wanted);
    bytes.ok_or_else(|| start(Cause::Short { moved, wanted }.into()))
}

async fn namespace(admin: &Rc<Queue>, nsid: u32) -> Result<IdentifyNamespace, OpenError> {
    let absent = || {
        OpenError::Unusable(format!(
            "there is no namespace {nsid} in this subsystem; hint: the first one is 1"
        ))
    };
    match identify(admin, Cns::NAMESPACE, nsid).await {
        Ok(bytes) => {
            let namespace = IdentifyNamespace::decode(&bytes);
            // Namespaces that are not active are all zero.
            if namespace.nsze == 0 { Err(absent()) } else { Ok(namespace) }
        }
        Err(OpenError::Start { source, .. }) if matches!(source.cause(), Cause::Nvme { status, .. } if status.plain() == Status::INVALID_NAMESPACE_OR_FORMAT) => {
            Err(absent())
        }
        Err(other) => Err(other),
    }
}

/// Limits of the NVM command set; a controller that does not know the question has none.
async fn nvm_controller(admin: &Rc<Queue>) -> NvmController {
    let bytes = identify(admin, Cns::COMMAND_SET_CONTROLLER, 0).await;
    bytes.map_or_else(|_| NvmController::default(), |bytes| NvmController::decode(&bytes))
}

/// Asks for one I/O queue: some controllers want to be asked.
async fn ask_for_queues(admin: &Rc<Queue>) -> Result<(), OpenError> {
    let wanted = NumberOfQueues::default();
    let command =
        SetFeatures { feature: Feature::NUMBER_OF_QUEUES, value: wanted.0, ..SetFeatures::default() };
    let command = command.command(0, SglDescriptor::NOTHING);
    let finished = admin.command("Set Features", command, Transfer::Nothing).await;
    finished.result.map(|_| ()).map_err(|source| OpenError::Start { command: "Set Features", source })
}

fn geometry(
    namespace: &IdentifyNamespace,
    controller: &IdentifyController,
    capabilities: Capabilities,
) -> Result<Geometry, OpenError> {
    let unusable = |problem: &str| OpenError::Unusable(problem.to_owned());
    let block_size = namespace.block_size().filter(|size| *size <= 1 << 16);
    let block_size = block_size.ok_or_else(|| unusable("the namespace has blocks of no usable size"))?;
    if namespace.metadata_size() != 0 {
        return Err(unusable("the namespace has metadata; hint: format it without"));
    }
    let size = namespace.nsze.checked_mul(u64::from(block_size));
    let size = size.ok_or_else(|| unusable("the namespace has more than 2^64 bytes"))?;
    let preferred = (u32::from(namespace.npwg) + 1).saturating_mul(block_size);
    let told = namespace.nsfeat.contains(NamespaceFeatures::OPTIMAL_SIZES) && preferred.is_power_of_two();
    let pages = u32::from(controller.mdts) + 12 + capabilities.mpsmin() as u32;
    let mut most = (ring::LARGEST as u64).min(super::MAX_BLOCKS * u64::from(block_size));
    if controller.mdts != 0 {
        most = most.min(1u64.checked_shl(pages).unwrap_or(u64::MAX));
    }
    Ok(Geometry {
        block_size,
        physical_block_size: if told { preferred } else { block_size },
        size,
        maximum_transfer: u32::try_from(most).unwrap_or(u32::MAX),
        discard: controller.oncs.contains(OptionalCommands::DATASET_MANAGEMENT),
    })
}

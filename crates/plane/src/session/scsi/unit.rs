//! What all cores share of one logical unit: its mode parameters, whether it is stopped, and its I_T nexuses.
//!
//! A command only loads two atomics of it; the list of nexuses is touched by logins, mode changes and resets.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use wire::scsi::mode::ModeParameters;
use wire::scsi::{Sense, SenseFormat};

use super::attention::{Attentions, UnitAttention};

const WRITE_CACHE: u8 = 0x01;
const DESCRIPTOR_SENSE: u8 = 0x02;
const WRITE_PROTECT: u8 = 0x04;
const STOPPED: u8 = 0x08;

/// The target port that a nexus came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// RELATIVE TARGET PORT IDENTIFIER, from 1.
    pub relative: u16,
    /// Target port group; for iSCSI the target portal group tag.
    pub group: u16,
}

/// The part of a logical unit that is one for all cores.
#[derive(Debug)]
pub struct Unit {
    target_name: String,
    default: ModeParameters,
    state: AtomicU8,
    nexuses: Mutex<Vec<Weak<NexusState>>>,
}

#[derive(Debug)]
struct NexusState {
    attentions: Attentions,
    prevents_removal: AtomicBool,
    port: TargetPort,
}

/// One I_T nexus as the logical unit sees it; clones are the same nexus. With the last one the nexus is gone, and
/// with it what it prevented.
#[derive(Clone, Debug)]
pub struct Nexus {
    state: Arc<NexusState>,
}

impl Nexus {
    /// Adds a unit attention for this nexus.
    pub fn establish(&self, attention: UnitAttention) {
        self.state.attentions.establish(attention);
    }

    /// The port it came by.
    pub fn port(&self) -> TargetPort {
        self.state.port
    }

    pub(super) fn has_attention(&self) -> bool {
        self.state.attentions.any()
    }

    /// The next unit attention as sense data; it is told with that.
    pub(super) fn take_attention(&self) -> Option<Sense> {
        self.state.attentions.take().map(|attention| Sense::unit_attention(attention.additional()))
    }

    pub(super) fn set_prevents_removal(&self, prevents: bool) {
        self.state.prevents_removal.store(prevents, Ordering::Relaxed);
    }
}

fn pack(parameters: ModeParameters) -> u8 {
    let mut state = 0;
    if parameters.write_cache {
        state |= WRITE_CACHE;
    }
    if parameters.sense_format == SenseFormat::Descriptor {
        state |= DESCRIPTOR_SENSE;
    }
    if parameters.write_protect {
        state |= WRITE_PROTECT;
    }
    state
}

impl Unit {
    /// A started logical unit of the target with this name. `write_cache`: acknowledged writes of the volume may
    /// be volatile until a flush; WCE begins with that.
    pub fn new(target_name: &str, write_cache: bool) -> Arc<Self> {
        let default = ModeParameters { write_cache, sense_format: SenseFormat::Fixed, write_protect: false };
        Arc::new(Self {
            target_name: target_name.to_owned(),
            default,
            state: AtomicU8::new(pack(default)),
            nexuses: Mutex::new(Vec::new()),
        })
    }

    /// The name of the target that the logical unit belongs to.
    pub fn target_name(&self) -> &str {
        &self.target_name
    }

    /// A new nexus by this port, which is first told `attention`, if any: [`UnitAttention::PowerOnOrReset`] for
    /// a nexus that was never there, [`UnitAttention::NexusLoss`] for one that comes back.
    pub fn attach(&self, port: TargetPort, attention: Option<UnitAttention>) -> Nexus {
        let state = Arc::new(NexusState {
            attentions: Attentions::default(),
            prevents_removal: AtomicBool::new(false),
            port,
        });
        let nexus = Nexus { state };
        if let Some(attention) = attention {
            nexus.establish(attention);
        }
        let mut nexuses = self.nexuses.lock().unwrap_or_else(PoisonError::into_inner);
        // Pruned here, so that the list is never longer than the sessions at the busiest moment.
        nexuses.retain(|nexus| nexus.strong_count() > 0);
        nexuses.push(Arc::downgrade(&nexus.state));
        nexus
    }

    fn for_each(&self, mut visit: impl FnMut(&Arc<NexusState>)) {
        let nexuses = self.nexuses.lock().unwrap_or_else(PoisonError::into_inner);
        nexuses.iter().filter_map(Weak::upgrade).for_each(|nexus| visit(&nexus));
    }

    /// Adds a unit attention for every nexus: the capacity or the list of LUNs has changed.
    pub fn establish_all(&self, attention: UnitAttention) {
        self.for_each(|nexus| nexus.attentions.establish(attention));
    }

    /// Adds a unit attention for every nexus but this one.
    pub fn establish_others(&self, except: &Nexus, attention: UnitAttention) {
        self.for_each(|nexus| {
            if !Arc::ptr_eq(nexus, &except.state) {
                nexus.attentions.establish(attention);
            }
        });
    }

    /// What a reset does to the device server (SAM-5 section 6.3): mode parameters go back to their defaults, a
    /// stopped unit starts, nothing prevents removal, and every nexus is told. Aborting tasks is the session's.
    pub fn reset(&self, attention: UnitAttention) {
        self.state.store(pack(self.default), Ordering::Release);
        self.for_each(|nexus| {
            nexus.prevents_removal.store(false, Ordering::Relaxed);
            nexus.attentions.establish(attention);
        });
    }

    /// True if any nexus prevents removal.
    pub(super) fn removal_prevented(&self) -> bool {
        let mut prevented = false;
        self.for_each(|nexus| prevented |= nexus.prevents_removal.load(Ordering::Relaxed));
        prevented
    }

    /// The mode parameters now.
    pub fn parameters(&self) -> ModeParameters {
        let state = self.state.load(Ordering::Acquire);
        ModeParameters {
            write_cache: state & WRITE_CACHE != 0,
            sense_format: self.sense_format(),
            write_protect: state & WRITE_PROTECT != 0,
        }
    }

    /// The mode parameters after power on.
    pub(super) fn default_parameters(&self) -> ModeParameters {
        self.default
    }

    pub(super) fn set_parameters(&self, parameters: ModeParameters) {
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            Some((state & STOPPED) | pack(parameters))
        });
    }

    /// The format that `D_SENSE` chooses.
    pub fn sense_format(&self) -> SenseFormat {
        if self.state.load(Ordering::Relaxed) & DESCRIPTOR_SENSE != 0 {
            SenseFormat::Descriptor
        } else {
            SenseFormat::Fixed
        }
    }

    /// WCE.
    pub(super) fn write_cache(&self) -> bool {
        self.state.load(Ordering::Acquire) & WRITE_CACHE != 0
    }

    /// SWP.
    pub(super) fn write_protect(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WRITE_PROTECT != 0
    }

    /// Stopped by START STOP UNIT.
    pub(super) fn stopped(&self) -> bool {
        self.state.load(Ordering::Relaxed) & STOPPED != 0
    }

    pub(super) fn set_stopped(&self, stopped: bool) {
        if stopped {
            self.state.fetch_or(STOPPED, Ordering::AcqRel);
        } else {
            self.state.fetch_and(!STOPPED, Ordering::AcqRel);
        }
    }
}

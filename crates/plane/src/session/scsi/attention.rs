//! Unit attention conditions (SAM-5 section 5.14): a bounded set for each I_T nexus, a bit each.

use std::sync::atomic::{AtomicU32, Ordering};

use wire::scsi::AdditionalSense;

/// A condition that an I_T nexus has to be told of once. In the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum UnitAttention {
    /// POWER ON, RESET, OR BUS DEVICE RESET OCCURRED: a new nexus, or a target cold reset.
    PowerOnOrReset,
    /// SCSI BUS RESET OCCURRED: a target warm reset.
    TargetReset,
    /// BUS DEVICE RESET FUNCTION OCCURRED: a logical unit reset.
    LogicalUnitReset,
    /// `I_T` NEXUS LOSS OCCURRED: an earlier session of this nexus ended.
    NexusLoss,
    /// NOT READY TO READY CHANGE.
    BecameReady,
    /// REPORTED LUNS DATA HAS CHANGED.
    ReportedLunsChanged,
    /// INQUIRY DATA HAS CHANGED.
    InquiryDataChanged,
    /// CAPACITY DATA HAS CHANGED.
    CapacityChanged,
    /// MODE PARAMETERS CHANGED, by another nexus.
    ModeParametersChanged,
    /// COMMANDS CLEARED BY ANOTHER INITIATOR.
    CommandsCleared,
    /// ASYMMETRIC ACCESS STATE CHANGED.
    AccessStateChanged,
    /// RESERVATIONS PREEMPTED.
    ReservationsPreempted,
    /// RESERVATIONS RELEASED.
    ReservationsReleased,
    /// REGISTRATIONS PREEMPTED.
    RegistrationsPreempted,
    /// THIN PROVISIONING SOFT THRESHOLD REACHED.
    SoftThresholdReached,
}

impl UnitAttention {
    const ALL: [Self; 15] = [
        Self::PowerOnOrReset,
        Self::TargetReset,
        Self::LogicalUnitReset,
        Self::NexusLoss,
        Self::BecameReady,
        Self::ReportedLunsChanged,
        Self::InquiryDataChanged,
        Self::CapacityChanged,
        Self::ModeParametersChanged,
        Self::CommandsCleared,
        Self::AccessStateChanged,
        Self::ReservationsPreempted,
        Self::ReservationsReleased,
        Self::RegistrationsPreempted,
        Self::SoftThresholdReached,
    ];

    const fn bit(self) -> u32 {
        1 << self as u8
    }

    /// A reset makes every condition before it pointless (SAM-5 section 5.14.3).
    const fn clears_others(self) -> bool {
        matches!(self, Self::PowerOnOrReset | Self::TargetReset | Self::LogicalUnitReset)
    }

    /// The additional sense code that tells of it.
    pub const fn additional(self) -> AdditionalSense {
        match self {
            Self::PowerOnOrReset => AdditionalSense::POWER_ON_OR_RESET_OCCURRED,
            Self::TargetReset => AdditionalSense::BUS_RESET_OCCURRED,
            Self::LogicalUnitReset => AdditionalSense::BUS_DEVICE_RESET_OCCURRED,
            Self::NexusLoss => AdditionalSense::I_T_NEXUS_LOSS_OCCURRED,
            Self::BecameReady => AdditionalSense::NOT_READY_TO_READY,
            Self::ReportedLunsChanged => AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED,
            Self::InquiryDataChanged => AdditionalSense::INQUIRY_DATA_HAS_CHANGED,
            Self::CapacityChanged => AdditionalSense::CAPACITY_DATA_HAS_CHANGED,
            Self::ModeParametersChanged => AdditionalSense::MODE_PARAMETERS_CHANGED,
            Self::CommandsCleared => AdditionalSense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR,
            Self::AccessStateChanged => AdditionalSense::ASYMMETRIC_ACCESS_STATE_CHANGED,
            Self::ReservationsPreempted => AdditionalSense::RESERVATIONS_PREEMPTED,
            Self::ReservationsReleased => AdditionalSense::RESERVATIONS_RELEASED,
            Self::RegistrationsPreempted => AdditionalSense::REGISTRATIONS_PREEMPTED,
            Self::SoftThresholdReached => AdditionalSense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED,
        }
    }
}

/// The conditions pending for one nexus. Commands of one nexus may run on several cores.
#[derive(Debug, Default)]
pub(super) struct Attentions(AtomicU32);

impl Attentions {
    /// True if something is pending; the only cost to a command when nothing is.
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Adds a condition; one that is pending already is not queued twice.
    pub(super) fn establish(&self, attention: UnitAttention) {
        if attention.clears_others() {
            // A higher reset that is still pending tells as much as the new one.
            let higher = attention.bit() - 1;
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| {
                Some(if pending & higher == 0 { attention.bit() } else { pending & higher })
            });
        } else {
            self.0.fetch_or(attention.bit(), Ordering::Relaxed);
        }
    }

    /// Takes the condition of highest precedence away and returns it.
    pub(super) fn take(&self) -> Option<UnitAttention> {
        UnitAttention::ALL
            .into_iter()
            .find(|attention| self.0.fetch_and(!attention.bit(), Ordering::Relaxed) & attention.bit() != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_the_order_of_precedence() {
        for (position, attention) in UnitAttention::ALL.into_iter().enumerate() {
            assert_eq!(attention.bit(), 1 << position);
        }
    }

    #[test]
    fn conditions_come_out_once_by_precedence() {
        let attentions = Attentions::default();
        assert!(!attentions.any());
        attentions.establish(UnitAttention::ModeParametersChanged);
        attentions.establish(UnitAttention::ModeParametersChanged);
        attentions.establish(UnitAttention::CapacityChanged);
        assert_eq!(attentions.take(), Some(UnitAttention::CapacityChanged));
        assert_eq!(attentions.take(), Some(UnitAttention::ModeParametersChanged));
        assert_eq!(attentions.take(), None);
    }

    #[test]
    fn a_reset_clears_what_was_before_it() {
        let attentions = Attentions::default();
        attentions.establish(UnitAttention::CapacityChanged);
        attentions.establish(UnitAttention::LogicalUnitReset);
        assert_eq!(attentions.take(), Some(UnitAttention::LogicalUnitReset));
        assert!(!attentions.any());
        attentions.establish(UnitAttention::PowerOnOrReset);
        attentions.establish(UnitAttention::LogicalUnitReset);
        assert_eq!(attentions.take(), Some(UnitAttention::PowerOnOrReset));
        assert_eq!(attentions.take(), None);
    }
}

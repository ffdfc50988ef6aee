//! Get and Set Features: Base 2.1 sections 5.1.11 and 5.1.25.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use ring::Buffer;
use wire::nvme::admin::features::{
    EventConfiguration, Feature, GetFeatures, NumberOfQueues, Select, SetFeatures, SupportedCapabilities,
    TemperatureThreshold, VolatileWriteCache,
};
use wire::nvme::{Command, Status};

use super::connection::Outcome;
use super::controller::Controller;
use super::link::Kind;
use crate::limits::NVME_QUEUES;

const INVALID: Status = Status::INVALID_FIELD_IN_COMMAND.do_not_retry();
/// Granularity of the keep alive timer, in milliseconds (KAS).
const KEEP_ALIVE_UNIT_MS: u32 = 100;
/// The longest keep alive timeout, in milliseconds: a dead host has to be noticed within a day.
const KEEP_ALIVE_LIMIT_MS: u32 = 24 * 3600 * 1000;

/// Bytes that the host sends with Set Features.
pub fn output(command: &Command) -> u32 {
    if SetFeatures::of(command).feature == Feature::HOST_IDENTIFIER { 16 } else { 0 }
}

fn supports(controller: &Controller, feature: Feature) -> bool {
    let io = !controller.link.is_discovery();
    match feature {
        Feature::ASYNCHRONOUS_EVENT_CONFIGURATION | Feature::KEEP_ALIVE_TIMER | Feature::HOST_IDENTIFIER => {
            true
        }
        Feature::ARBITRATION
        | Feature::POWER_MANAGEMENT
        | Feature::TEMPERATURE_THRESHOLD
        | Feature::ERROR_RECOVERY
        | Feature::VOLATILE_WRITE_CACHE
        | Feature::NUMBER_OF_QUEUES
        | Feature::WRITE_ATOMICITY_NORMAL => io,
        _ => false,
    }
}

/// Whether any volume of the controller has a volatile cache.
pub fn has_cache(controller: &Controller) -> bool {
    let Kind::Io(subsystem) = controller.link.kind() else { return false };
    let cached = |volume: usize| {
        controller.shard.find_volume(volume).is_some_and(|channel| channel.geometry().write_cache)
    };
    subsystem.namespaces.iter().any(|namespace| cached(namespace.volume))
}

/// Set Features.
pub fn set(controller: &Rc<Controller>, command: &Command, _: &Buffer) -> Result<Outcome, Status> {
    let set = SetFeatures::of(command);
    if !supports(controller, set.feature) {
        return Err(INVALID);
    }
    if set.save {
        return Err(Status::FEATURE_IDENTIFIER_NOT_SAVEABLE.do_not_retry());
    }
    match set.feature {
        Feature::NUMBER_OF_QUEUES => {
            let asked = NumberOfQueues(set.value);
            if asked.submission() == 0xffff || asked.completion() == 0xffff {
                return Err(INVALID);
            }
            Ok(Outcome::with_result(queues(asked.submission(), asked.completion())))
        }
        Feature::VOLATILE_WRITE_CACHE => {
            if !has_cache(controller) {
                return Err(INVALID);
            }
            let enabled = VolatileWriteCache(set.value).enabled() != 0;
            controller.link.write_cache.store(enabled, Ordering::Release);
            Ok(Outcome::done())
        }
        Feature::ASYNCHRONOUS_EVENT_CONFIGURATION => {
            controller.configuration.set(EventConfiguration::from_bits_truncate(set.value));
            Ok(Outcome::done())
        }
        Feature::KEEP_ALIVE_TIMER => {
            if set.value > KEEP_ALIVE_LIMIT_MS {
                return Err(Status::KEEP_ALIVE_TIMEOUT_INVALID.do_not_retry());
            }
            controller.set_keep_alive_ms(set.value.next_multiple_of(KEEP_ALIVE_UNIT_MS));
            Ok(Outcome::done())
        }
        Feature::TEMPERATURE_THRESHOLD => {
            let threshold = TemperatureThreshold(set.value);
            if threshold.sensor() == 0 && threshold.kind() == 0 {
                controller.temperature_threshold.set(threshold.kelvin());
            }
            Ok(Outcome::done())
        }
        // Over fabrics it is said at Connect, once.
        Feature::HOST_IDENTIFIER => Err(Status::COMMAND_SEQUENCE_ERROR.do_not_retry()),
        Feature::POWER_MANAGEMENT if set.value & 0x1f != 0 => Err(INVALID),
        // Accepted, and without effect on what has no arbitration, no power states and no time limits.
        Feature::ARBITRATION | Feature::POWER_MANAGEMENT | Feature::WRITE_ATOMICITY_NORMAL => {
            Ok(Outcome::done())
        }
        Feature::ERROR_RECOVERY if set.value >> 16 & 1 != 0 => Err(INVALID),
        Feature::ERROR_RECOVERY => Ok(Outcome::done()),
        _ => Err(Status::FEATURE_NOT_CHANGEABLE.do_not_retry()),
    }
}

fn queues(submission: u32, completion: u32) -> u64 {
    let most = u32::from(NVME_QUEUES) - 1;
    let granted =
        NumberOfQueues::default().with_submission(submission.min(most)).with_completion(completion.min(most));
    u64::from(granted.0)
}

/// Get Features.
pub fn get(controller: &Controller, command: &Command) -> Result<Outcome, Status> {
    let get = GetFeatures::of(command);
    if !supports(controller, get.feature) {
        return Err(INVALID);
    }
    if get.select == Select::SUPPORTED_CAPABILITIES {
        let fixed = matches!(get.feature, Feature::HOST_IDENTIFIER);
        let can = if fixed { SupportedCapabilities::empty() } else { SupportedCapabilities::CHANGEABLE };
        return Ok(Outcome::with_result(u64::from(can.bits())));
    }
    if get.select != Select::CURRENT && get.select != Select::DEFAULT {
        return Err(INVALID);
    }
    let default = get.select == Select::DEFAULT;
    let value = match get.feature {
        Feature::NUMBER_OF_QUEUES => queues(u32::MAX, u32::MAX),
        Feature::VOLATILE_WRITE_CACHE if !has_cache(controller) => return Err(INVALID),
        Feature::VOLATILE_WRITE_CACHE => {
            u64::from(default || controller.link.write_cache.load(Ordering::Acquire))
        }
        Feature::ASYNCHRONOUS_EVENT_CONFIGURATION if default => 0,
        Feature::ASYNCHRONOUS_EVENT_CONFIGURATION => u64::from(controller.configuration.get().bits()),
        Feature::KEEP_ALIVE_TIMER if default => 0,
        Feature::KEEP_ALIVE_TIMER => u64::from(controller.keep_alive_ms()),
        Feature::TEMPERATURE_THRESHOLD if default => 0,
        Feature::TEMPERATURE_THRESHOLD => u64::from(controller.temperature_threshold.get()),
        Feature::HOST_IDENTIFIER => {
            return Ok(Outcome::with_data(Buffer::copy_of(&controller.link.host_id).share()));
        }
        _ => 0,
    };
    Ok(Outcome::with_result(value))
}

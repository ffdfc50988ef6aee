//! MODE SELECT, START STOP UNIT, REQUEST SENSE: commands that change or ask for the state of the device server.

use wire::scsi::cdb::{ModeSelect, StartStop};
use wire::scsi::{AdditionalSense, Sense, SenseFormat, SenseKey, mode};

use super::attention::UnitAttention;
use super::logical_unit::LogicalUnit;
use super::response::Response;
use super::unit::Nexus;
use crate::request::{Extent, Request};

impl LogicalUnit {
    /// Takes the wanted parameters over and tells the other nexuses, if anything changes. A write cache that is
    /// switched off is emptied before the command ends.
    pub(super) async fn mode_select(
        &self,
        nexus: &Nexus,
        command: &ModeSelect,
        data_out: &[u8],
    ) -> Result<Response, Sense> {
        let list = data_out.get(..usize::from(command.parameter_list_length));
        let context = self.mode_context();
        let wanted = mode::select(command, list.ok_or(Sense::parameter_list_length_error())?, &context)?;
        if wanted == context.current {
            return Ok(Response::good());
        }
        self.unit().set_parameters(wanted);
        self.unit().establish_others(nexus, UnitAttention::ModeParametersChanged);
        if context.current.write_cache && !wanted.write_cache {
            // Writes that began before the cache was off may still be on their way to it, on any core: wait for
            // them, then empty it.
            let everything = Extent::new(0, self.geometry().bytes());
            let held = self.channel.exclusive(&self.shard, everything).await;
            let completion = held.submit(Request::flush()).await;
            completion.result.map_err(|error| self.failures.sense(&error, "MODE SELECT", 0))?;
        }
        Ok(Response::good())
    }

    /// Stopping makes durable what was acknowledged, unless the command says not to.
    pub(super) async fn start_stop(&self, action: StartStop) -> Result<Response, Sense> {
        if !action.start && !action.no_flush {
            self.flush("START STOP UNIT", 0).await?;
        }
        self.unit().set_stopped(!action.start);
        Ok(Response::good())
    }

    /// What is pending, as data: a unit attention, which is told with that, or why the unit is not ready
    /// (SPC-5 section 6.39).
    pub(super) fn request_sense(&self, nexus: &Nexus, descriptor: bool, allocation_length: u8) -> Response {
        let stopped = || {
            let additional = AdditionalSense::INITIALIZING_COMMAND_REQUIRED;
            self.unit().stopped().then(|| Sense::new(SenseKey::NotReady, additional))
        };
        let sense = nexus.take_attention().or_else(stopped).unwrap_or(Sense::none());
        let format = if descriptor { SenseFormat::Descriptor } else { SenseFormat::Fixed };
        Response::bytes(&sense.encode(format), u32::from(allocation_length))
    }
}

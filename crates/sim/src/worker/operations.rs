//! What a lane does: what every transport has, and what only some have.

use std::time::Duration;

use lab::initiator::{Cause, IoError, IscsiSession, NvmeSession, Session};
use ring::{Buffer, Shared};
use wire::nbd::{Command, CommandFlags};
use wire::nvme::io::{DatasetAttributes, DatasetManagement, DatasetRange, RangeFlags};
use wire::nvme::{SglDescriptor, Status};
use wire::scsi::cdb::{Transfer, WriteSame, encode};

use super::Lane;
use crate::history::{Place, Wish};
use crate::{Failure, SECTOR};

fn offset(place: &Place) -> u64 {
    place.first * SECTOR as u64
}

fn length(place: &Place) -> u64 {
    place.count * SECTOR as u64
}

impl Lane {
    /// One command, or a few that belong together.
    pub(super) async fn step(&mut self) {
        let session = self.session.clone();
        match (self.random.u8(0..100), &session) {
            (0..35, _) => self.read().await,
            (35..62, _) => self.write(false).await,
            (62..72, _) => self.write(true).await,
            (72..80, _) => self.flush().await,
            (80..84, _) => self.discard().await,
            (84..88, _) => self.zero().await,
            (88..90, Session::Iscsi(session)) => self.write_same(session).await,
            (88..90, Session::Nvme(session)) => self.compare(session).await,
            (90..96, Session::Iscsi(_) | Session::Nvme(_)) => self.compare_and_write().await,
            (96.., Session::Iscsi(session)) => self.aborted_scsi_write(session).await,
            (96.., Session::Nvme(session)) => self.aborted_nvme_write(session).await,
            _ => self.write(false).await,
        }
    }

    fn transfer(&self, place: &Place, fua: bool) -> Transfer {
        let blocks = (place.count / self.block) as u32;
        Transfer { lba: place.first / self.block, blocks, dpo: false, fua }
    }

    async fn read(&mut self) {
        let place = self.place(1 << 20);
        let (id, buffer) = self.begin(place, Wish::Read, false);
        let (result, buffer) = self.session.read(offset(&place), buffer).await;
        self.end(id, &place, &Wish::Read, result, &buffer);
    }

    async fn write(&mut self, fua: bool) {
        let place = self.place(1 << 20);
        let (id, data) = self.begin(place, Wish::Write, fua);
        let result = self.session.write(offset(&place), data.share(), fua).await;
        self.end(id, &place, &Wish::Write, result, &[]);
    }

    /// A write whose abort is asked for while it is under way.
    async fn aborted_scsi_write(&mut self, session: &IscsiSession) {
        let place = self.place(1 << 17);
        let fua = self.random.bool();
        let (id, data) = self.begin(place, Wish::Write, fua);
        let cdb = encode::write_16(self.transfer(&place, fua)).padded();
        let command = session.begin(cdb, data.share());
        let ring = session.ring().clone();
        ring.sleep(Duration::from_micros(self.random.u64(0..2000))).await;
        // What the function answers is of no interest: when it has, the command has ended too or will with GOOD.
        let answer = session.abort(&command).await;
        if answer.is_err() {
            return;
        }
        let result = command.end().await.0;
        self.end(id, &place, &Wish::Write, result, &[]);
        self.overwrite(place).await;
    }

    async fn aborted_nvme_write(&mut self, session: &NvmeSession) {
        let place = self.place(1 << 17);
        let (id, data) = self.begin(place, Wish::Write, false);
        let Ok(command) = session.begin_write(offset(&place), data.share()) else { return };
        session.ring().sleep(Duration::from_micros(self.random.u64(0..2000))).await;
        // Abort by identifier: one that has ended already is not found, which is an answer too.
        if session.abort(&command).await.is_err() {
            return;
        }
        let result = command.end().await.0.map(|_| ());
        self.end(id, &place, &Wish::Write, result, &[]);
        self.overwrite(place).await;
    }

    /// What comes after an abort is what a late write would destroy.
    async fn overwrite(&mut self, place: Place) {
        let (id, data) = self.begin(place, Wish::Write, false);
        let result = self.session.write(offset(&place), data.share(), false).await;
        self.end(id, &place, &Wish::Write, result, &[]);
    }

    async fn flush(&mut self) {
        let begin = self.control.history.borrow_mut().begin_flush();
        match self.session.flush().await {
            Ok(()) => {
                let flushed = self.control.history.borrow_mut().flushed(self.volume, begin);
                self.control.keep(flushed);
            }
            Err(error) => {
                let place = Place { volume: self.volume, first: 0, count: 0 };
                self.judge(&error, &place, &Wish::Zero);
            }
        }
    }

    /// All three promise that what was given back reads as zeroes. It is durable for certain where NBD is asked for
    /// that alone.
    async fn discard(&mut self) {
        let place = self.place(1 << 18);
        let fua = self.random.bool();
        let session = self.session.clone();
        match &session {
            Session::Nbd(session) => {
                let (id, _) = self.begin(place, Wish::Zero, fua);
                let flags = if fua { CommandFlags::FUA } else { CommandFlags::empty() };
                let result = session.plain(Command::TRIM, flags, offset(&place), length(&place) as u32).await;
                self.end(id, &place, &Wish::Zero, result, &[]);
            }
            Session::Nvme(session) if fua => self.discard_two(session, place).await,
            other => {
                let id = self.begin_volatile(place);
                let result = other.discard(offset(&place), length(&place)).await;
                self.end(id, &place, &Wish::Zero, result, &[]);
            }
        }
    }

    /// Giving space back is no write: switching the cache off does not make it durable.
    fn begin_volatile(&self, place: Place) -> crate::history::Id {
        self.control.history.borrow_mut().begin(self.nexus, place, Wish::Zero, false)
    }

    /// Two ranges in one Dataset Management.
    async fn discard_two(&mut self, session: &NvmeSession, first: Place) {
        let places = [first, self.place(1 << 16)];
        let ids = places.map(|place| self.begin_volatile(place));
        let mut ranges = [0; 2 * DatasetRange::LENGTH];
        for (place, bytes) in places.iter().zip(ranges.as_chunks_mut().0) {
            let Transfer { lba, blocks, .. } = self.transfer(place, false);
            DatasetRange { attributes: 0, length: blocks, slba: lba }.encode(bytes);
        }
        let command = DatasetManagement { nr: 1, attributes: DatasetAttributes::DEALLOCATE };
        let command = command.command(0, session.nsid(), SglDescriptor::NOTHING);
        let data = Buffer::copy_of(&ranges).share();
        let result = session.raw(command, Buffer::empty(), data).await.0.map(|_| ());
        for (id, place) in ids.into_iter().zip(places) {
            self.end(id, &place, &Wish::Zero, result.clone(), &[]);
        }
    }

    /// Zeroes: with or without data, with or without giving space back, durable or not.
    async fn zero(&mut self) {
        let place = self.place(1 << 18);
        let (unmap, other) = (self.random.bool(), self.random.bool());
        let session = self.session.clone();
        let (id, result) = match &session {
            Session::Nvme(session) => {
                let (id, _) = self.begin(place, Wish::Zero, other);
                let mut flags = RangeFlags::empty();
                flags.set(RangeFlags::DEALLOCATE, unmap);
                flags.set(RangeFlags::FORCE_UNIT_ACCESS, other);
                (id, session.write_zeroes(offset(&place), length(&place), flags).await)
            }
            Session::Nbd(session) => {
                let (id, _) = self.begin(place, Wish::Zero, other);
                let mut flags = CommandFlags::empty();
                flags.set(CommandFlags::NO_HOLE, !unmap);
                flags.set(CommandFlags::FUA, other);
                flags.set(CommandFlags::FAST_ZERO, self.random.bool());
                (id, session.write_zeroes(offset(&place), length(&place) as u32, flags).await)
            }
            Session::Iscsi(session) => {
                let (id, _) = self.begin(place, Wish::Zero, false);
                let Transfer { lba, blocks, .. } = self.transfer(&place, false);
                let cdb = encode::write_same_16(WriteSame { lba, blocks, unmap, ndob: other }).padded();
                let block = self.block as usize * SECTOR;
                let zeroes = if other { Buffer::empty() } else { Buffer::zeroed(block) };
                let result = session.raw(cdb, Buffer::empty(), zeroes.share()).await.0;
                (id, result.map(|_| ()))
            }
            Session::File(_) | Session::Pool(_) | Session::Null(_) => return,
        };
        self.end(id, &place, &Wish::Zero, result, &[]);
    }

    async fn write_same(&mut self, session: &IscsiSession) {
        let place = self.place(1 << 17);
        let wish = Wish::WriteSame { block: self.block };
        let (id, data) = self.begin(place, wish.clone(), false);
        let result = session.write_same(offset(&place), length(&place), data.share()).await;
        self.end(id, &place, &wish, result, &[]);
    }

    fn few_blocks(&mut self) -> Place {
        self.place(self.block * SECTOR as u64 * 4)
    }

    async fn compare(&mut self, session: &NvmeSession) {
        let place = self.few_blocks();
        let wish = Wish::Compare(self.control.history.borrow().guess(place));
        let (id, data) = self.begin(place, wish.clone(), false);
        let result = session.compare(offset(&place), data.share()).await;
        self.end(id, &place, &wish, result, &[]);
    }

    async fn compare_and_write(&mut self) {
        let place = self.few_blocks();
        let fua = self.random.bool();
        let guess = self.control.history.borrow().guess(place);
        let wish = Wish::CompareAndWrite(guess);
        let (id, data) = self.begin(place, wish.clone(), fua);
        let data = data.share();
        let session = self.session.clone();
        let result = match &session {
            Session::Iscsi(session) => {
                let cdb =
                    encode::compare_and_write(self.transfer(&place, fua)).expect("a few blocks").padded();
                session.raw(cdb, Buffer::empty(), data).await.0.map(|_| ())
            }
            Session::Nvme(session) => self.fused(session, place, &data, fua).await,
            _ => return,
        };
        self.end(id, &place, &wish, result, &[]);
    }

    /// The two halves as one: what the write says counts only when the comparison has succeeded.
    async fn fused(
        &self,
        session: &NvmeSession,
        place: Place,
        data: &Shared,
        fua: bool,
    ) -> Result<(), IoError> {
        let half = length(&place) as usize;
        let (old, new) = (data.slice(0..half), data.slice(half..2 * half));
        let [compared, written] = session.compare_and_write(offset(&place), old, new, fua).await;
        if let Err(Cause::Nvme { status, .. }) = compared.as_ref().map_err(IoError::cause)
            && status.plain() == Status::COMPARE_FAILURE
        {
            let right = match written.as_ref().map_err(IoError::cause) {
                Err(Cause::Nvme { status, .. }) => {
                    status.plain() == Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND
                }
                Err(cause) => matches!(cause, Cause::Connection(_)),
                Ok(()) => false,
            };
            if !right {
                let text =
                    format!("the write of a fused pair whose comparison failed ended with {written:?}");
                self.control.fail(Failure(text));
            }
        }
        compared.and(written)
    }
}

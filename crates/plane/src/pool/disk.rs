//! A volume on a pool, as a disk.

use std::rc::Rc;

use ring::{Buffer, PooledFuture};

use super::core::PoolCore;
use super::format::{RowExtent, UNWRITTEN, VolumeEntry};
use super::gather::Part;
use super::join::{Several, join};
use super::layout::{Piece, Row, members, pieces_from, set};
use crate::disk::{Disk, PHYSICAL_BLOCK};
use crate::error::Error;
use crate::request::{Completion, Extent, Geometry, Io, Request, Run, Verb};

/// Pieces that one request reads at once.
const AT_ONCE: usize = 8;

/// Rows that one request changes at once.
const ROWS_AT_ONCE: usize = 32;

/// Neighbouring rows of a volume, all of one set.
struct Span {
    first_row: u64,
    /// Bytes of each row.
    row_bytes: u64,
    /// Bytes of all.
    bytes: u64,
}

/// A part of a span.
struct SpanRun {
    first_row: u64,
    row_bytes: u64,
    /// From the begin of the first row on.
    offset: u64,
    length: u64,
}

/// One core's view of a volume on a pool.
pub struct PoolDisk {
    core: Rc<PoolCore>,
    spans: Vec<Span>,
    geometry: Geometry,
}

impl PoolDisk {
    /// The volume that `entry` describes.
    pub fn new(core: Rc<PoolCore>, entry: &VolumeEntry) -> PoolDisk {
        let geometry = Geometry {
            block_size: entry.block_size,
            physical_block_size: PHYSICAL_BLOCK,
            blocks: entry.bytes / u64::from(entry.block_size),
            // What is acknowledged is in the journal, on stable media.
            write_cache: false,
            read_only: false,
            discard: true,
            discard_zeroes: true,
            discard_granularity: PHYSICAL_BLOCK,
        };
        let span = |extent: &RowExtent| {
            let row_bytes = core.geometry().row_bytes_of(extent.first_row);
            Span { first_row: extent.first_row, row_bytes, bytes: extent.rows * row_bytes }
        };
        let spans = entry.extents.iter().map(span).collect();
        PoolDisk { core, spans, geometry }
    }

    /// The parts of its spans that a run of the volume's bytes is.
    fn runs(&self, extent: Extent) -> impl Iterator<Item = SpanRun> + '_ {
        let mut before = 0;
        self.spans.iter().filter_map(move |span| {
            let start = before;
            before += span.bytes;
            let from = extent.offset.max(start);
            let to = (extent.offset + extent.length).min(before);
            let (first_row, row_bytes) = (span.first_row, span.row_bytes);
            (from < to).then(|| SpanRun { first_row, row_bytes, offset: from - start, length: to - from })
        })
    }

    /// The pieces of a run of the volume's bytes.
    fn pieces(&self, extent: Extent) -> impl Iterator<Item = Piece> + '_ {
        let pool = self.core.geometry();
        self.runs(extent).flat_map(move |run| pieces_from(pool, run.first_row, run.offset, run.length))
    }

    async fn read(&self, request: Request) -> Completion {
        let Request { extent, buffer, .. } = request;
        let mut pieces = self.pieces(extent);
        let buffer = match (pieces.next(), pieces.next()) {
            // Whole blocks of one member come straight to where they are wanted.
            (Some(piece), None) if piece.is_whole() => match self.core.read_blocks(&piece, buffer).await {
                (true, buffer) => return Completion { result: Ok(()), buffer },
                (false, buffer) => buffer,
            },
            _ => buffer,
        };
        self.read_pieces(extent, buffer).await
    }

    async fn read_pieces(&self, extent: Extent, mut buffer: Buffer) -> Completion {
        let mut rest: &mut [u8] = &mut buffer;
        let mut pieces = self.pieces(extent).peekable();
        while pieces.peek().is_some() {
            let mut reads = Several::new();
            for piece in pieces.by_ref().take(AT_ONCE) {
                let (out, more) = std::mem::take(&mut rest).split_at_mut(piece.length);
                rest = more;
                reads.push(PooledFuture::future(self.core.read_piece(piece, out)));
            }
            for result in join(reads).await {
                if let Err(error) = result {
                    return Completion { result: Err(error), buffer };
                }
            }
        }
        Completion { result: Ok(()), buffer }
    }

    /// Carries out `work`, and counts it.
    fn counted<'a>(
        &'a self,
        verb: Verb,
        extent: Extent,
        work: impl Future<Output = Completion> + 'a,
    ) -> Io<'a> {
        Io::pending(async move {
            let (gauge, ring) = (&self.core.gauge, &self.core.ring);
            let (_under_way, begun) = (gauge.begin(), ring.turn_time());
            let completion = work.await;
            let failed = completion.result.is_err();
            gauge.meter.done(verb, extent.length, begun, ring.turn_time(), failed);
            completion
        })
    }

    /// Writes `buffer`, or zeroes if it is empty, to an extent.
    async fn change(&self, extent: Extent, buffer: Buffer) -> Completion {
        let core = &self.core;
        let job = core.gather.begin(buffer);
        let mut at = 0;
        let mut result = Ok(());
        for SpanRun { first_row, row_bytes, mut offset, length } in self.runs(extent) {
            let end = offset + length;
            while offset < end && result.is_ok() {
                let (row, within) = (first_row + offset / row_bytes, offset % row_bytes);
                let count = (row_bytes - within).min(end - offset);
                core.change(row, Part::new(&job, at, within as usize, count as usize));
                (at, offset) = (at + count as usize, offset + count);
                if job.parts() >= ROWS_AT_ONCE {
                    result = job.wait().await;
                }
            }
        }
        let rest = job.wait().await;
        Completion { result: result.and(rest), buffer: core.gather.end(job) }
    }
}

impl Disk for PoolDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) -> Io<'_> {
        match request.verb {
            Verb::Read => self.counted(Verb::Read, request.extent, self.read(request)),
            Verb::Write => {
                self.counted(Verb::Write, request.extent, self.change(request.extent, request.buffer))
            }
            // Whatever was acknowledged is on stable media.
            Verb::Flush => {
                self.core.gauge.meter.prompt(Verb::Flush, 0);
                Io::ready(request.done())
            }
            verb @ (Verb::Discard | Verb::WriteZeroes) => {
                self.counted(verb, request.extent, self.change(request.extent, Buffer::empty()))
            }
        }
    }

    fn allocation(&self, extent: Extent) -> Result<Run, Error> {
        let mapped = |piece: &Piece| {
            let copies = set(Row::new(self.core.geometry(), piece.row).copies(piece.unit));
            let table = &self.core.shared.table;
            // The entries of a member that is out say nothing: its blocks may be rebuilt from the others.
            let Some(slot) = members(copies & !self.core.gone(piece.row)).next() else { return true };
            piece.positions().any(|position| table.entry(slot, piece.row, position) != UNWRITTEN)
        };
        let mut run: Option<Run> = None;
        for piece in self.pieces(extent) {
            match &mut run {
                None => run = Some(Run { length: piece.length as u64, mapped: mapped(&piece) }),
                Some(run) if run.mapped == mapped(&piece) => run.length += piece.length as u64,
                Some(_) => break,
            }
        }
        Ok(run.unwrap_or(Run { length: extent.length, mapped: true }))
    }
}

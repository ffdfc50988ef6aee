//! A volume on a pool, as a disk.

use std::rc::Rc;

use ring::{Buffer, PooledFuture};

use super::core::PoolCore;
use super::format::{RowExtent, UNWRITTEN, VolumeEntry};
use super::join::join;
use super::layout::{Piece, Row, members, pieces, set};
use super::write::Content;
use crate::disk::{Disk, PHYSICAL_BLOCK};
use crate::error::Error;
use crate::request::{Completion, Extent, Geometry, Io, Request, Run, Verb};

/// Rows and pieces that one request works on at once.
const AT_ONCE: usize = 8;

/// One core's view of a volume on a pool.
pub struct PoolDisk {
    core: Rc<PoolCore>,
    extents: Vec<RowExtent>,
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
        PoolDisk { core, extents: entry.extents.clone(), geometry }
    }

    /// The pieces of a run of the volume's bytes.
    fn pieces(&self, extent: Extent) -> impl Iterator<Item = Piece> + '_ {
        let pool = self.core.geometry();
        let row_bytes = pool.row_bytes();
        let mut before = 0;
        let parts = self.extents.iter().filter_map(move |rows| {
            let (start, length) = (before, rows.rows * row_bytes);
            before += length;
            let from = extent.offset.max(start);
            let to = (extent.offset + extent.length).min(start + length);
            (from < to).then(|| (rows.first_row * row_bytes + from - start, to - from))
        });
        parts.flat_map(move |(offset, length)| pieces(pool, offset, length))
    }

    async fn read(&self, request: Request) -> Completion {
        let mut buffer = request.buffer;
        let result = self.read_into(request.extent, &mut buffer).await;
        Completion { result, buffer }
    }

    async fn read_into(&self, extent: Extent, buffer: &mut Buffer) -> Result<(), Error> {
        let mut rest: &mut [u8] = buffer;
        let mut pieces = self.pieces(extent).peekable();
        while pieces.peek().is_some() {
            let mut reads = Vec::with_capacity(AT_ONCE);
            for piece in pieces.by_ref().take(AT_ONCE) {
                let (out, more) = std::mem::take(&mut rest).split_at_mut(piece.length);
                rest = more;
                reads.push(PooledFuture::future(self.core.read_piece(piece, out)));
            }
            for result in join(reads).await {
                result?;
            }
        }
        Ok(())
    }

    async fn write(&self, request: Request) -> Completion {
        let result = self.change(request.extent, Some(&request.buffer)).await;
        Completion { result, buffer: request.buffer }
    }

    /// Writes `bytes`, or zeroes, to an extent, row by row.
    async fn change(&self, extent: Extent, bytes: Option<&[u8]>) -> Result<(), Error> {
        let mut at = 0;
        let mut rows: Vec<(u64, Vec<(Piece, Content<'_>)>)> = Vec::new();
        for piece in self.pieces(extent) {
            let content =
                bytes.map_or(Content::Zeroes, |bytes| Content::Bytes(&bytes[at..at + piece.length]));
            at += piece.length;
            match rows.last_mut() {
                Some((row, pieces)) if *row == piece.row => pieces.push((piece, content)),
                _ => rows.push((piece.row, vec![(piece, content)])),
            }
        }
        for rows in rows.chunks(AT_ONCE) {
            let writes =
                rows.iter().map(|(row, pieces)| PooledFuture::future(self.core.write_row(*row, pieces)));
            for result in join(writes.collect()).await {
                result?;
            }
        }
        Ok(())
    }
}

impl Disk for PoolDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&self, request: Request) -> Io<'_> {
        match request.verb {
            Verb::Read => Io::pending(self.read(request)),
            Verb::Write => Io::pending(self.write(request)),
            // Whatever was acknowledged is on stable media.
            Verb::Flush => Io::ready(request.done()),
            Verb::Discard | Verb::WriteZeroes => Io::pending(async move {
                let result = self.change(request.extent, None).await;
                Completion { result, buffer: request.buffer }
            }),
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

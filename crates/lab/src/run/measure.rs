//! One load on one target, over several threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use ring::{Instant, Reactor, Ring, Sender};

use super::{Phase, Progress};
use crate::error::LabError;
use crate::initiator::{Geometry, OpenError, OpenOptions, Session};
use crate::journal::{Head, Journal};
use crate::load::{Ended, Load, Plan, Sample, Tallies, drive};
use crate::pool::Bed;
use crate::target::Target;

/// Between two looks at the flag that ends a run early.
const LOOK: Duration = Duration::from_millis(50);
/// From "go" to the first operation: all threads have heard it by then.
const LEAD: Duration = Duration::from_millis(50);

/// One load on one target.
#[derive(Clone, Copy)]
pub(crate) struct Measurement<'a> {
    pub(crate) target: &'a Target,
    pub(crate) load: &'a Load,
    pub(crate) open: &'a OpenOptions,
    pub(crate) threads: usize,
    pub(crate) journal: Option<&'a Path>,
}

/// One second of all threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Second {
    pub(crate) span: Duration,
    pub(crate) tallies: Tallies,
    pub(crate) backlog: u64,
    pub(crate) threads: usize,
}

/// What came of it.
pub(crate) struct Measured {
    pub(crate) geometry: Geometry,
    pub(crate) threads: usize,
    /// Without those of the warm-up.
    pub(crate) seconds: Vec<Second>,
    pub(crate) ended: Ended,
    /// Processor time of the lab during the measured seconds.
    pub(crate) cpu: Option<Duration>,
    /// Most bytes that the kernel kept for one core, see [`crate::page_lists`].
    pub(crate) page_lists: Option<u64>,
}

impl Measured {
    /// Of what could not be measured.
    pub(crate) fn nothing(ended: Ended) -> Measured {
        Measured { geometry: NONE, threads: 0, seconds: Vec::new(), ended, cpu: None, page_lists: None }
    }
}

/// Of a target that was not reached.
const NONE: Geometry =
    Geometry { block_size: 0, physical_block_size: 0, size: 0, maximum_transfer: 0, discard: false };

/// What the threads say.
enum Message {
    /// The thread's sessions are open; and the time by its ring's clock, which is that of all rings.
    Ready(Geometry, Instant),
    Sample(Box<Sample>),
    Ended(Box<Ended>),
    Failed(LabError),
}

/// What a thread needs.
struct Part {
    target: Target,
    load: Load,
    open: OpenOptions,
    jobs: Vec<u32>,
    journal: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    run: u64,
}

impl Measurement<'_> {
    /// Opens all sessions, starts all jobs at once, and gathers.
    pub(crate) fn run(
        self,
        name: &str,
        number: (usize, usize),
        progress: &mut dyn FnMut(&Progress<'_>),
        stop: &AtomicBool,
    ) -> Result<Measured, LabError> {
        let stopped = Arc::new(AtomicBool::new(false));
        let run = run_id();
        let (messages, inbox) = mpsc::channel();
        let mut threads = Threads { go: Vec::new(), handles: Vec::new(), stop: stopped.clone() };
        for thread in 0..self.threads {
            let part = Part {
                target: self.target.clone(),
                load: self.load.clone(),
                open: self.open.clone(),
                jobs: (0..self.load.jobs).filter(|job| *job as usize % self.threads == thread).collect(),
                journal: self.journal.map(Path::to_owned),
                stop: stopped.clone(),
                run,
            };
            threads.start(part, messages.clone());
        }
        drop(messages);
        let mut gathering = Gathering::new(self.load, self.threads);
        let mut filling = Filling::of(self.target);
        while gathering.ended < self.threads {
            match inbox.recv_timeout(LOOK) {
                Ok(Message::Ready(geometry, now)) => {
                    gathering.ready(geometry, now);
                    if gathering.ready == self.threads {
                        threads.go(gathering.now + LEAD);
                    }
                }
                Ok(Message::Sample(sample)) => gathering.take(&sample, name, number, progress),
                Ok(Message::Ended(ended)) => gathering.end(*ended),
                Ok(Message::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(LabError::Thread),
            }
            if gathering.ready < self.threads
                && let Some(percent) = filling.told()
            {
                progress(&Progress::filling(name, number, percent));
            }
            if stop.load(Ordering::Relaxed) {
                stopped.store(true, Ordering::Relaxed);
                // Before all are ready there is nothing to gather.
                if gathering.ready < self.threads {
                    filling.give_up();
                    break;
                }
            }
        }
        drop(threads);
        Ok(gathering.measured())
    }
}

/// What is told while a pool is filled, before its first measurement.
struct Filling<'a> {
    bed: Option<&'a Bed>,
    told: Option<u32>,
}

impl<'a> Filling<'a> {
    fn of(target: &'a Target) -> Self {
        let bed = if let Target::Pool(pool) = target { Some(&**pool.bed()) } else { None };
        Filling { bed, told: None }
    }

    /// Hundredths that are filled, when that is news and more are to come.
    fn told(&mut self) -> Option<u32> {
        let percent = Some(self.bed?.filled_percent()).filter(|&percent| percent < 100);
        if percent == self.told {
            return None;
        }
        self.told = percent;
        percent
    }

    fn give_up(&self) {
        self.bed.into_iter().for_each(Bed::give_up);
    }
}

/// Names a run in its stamps, and its sessions at the target: one of the same name and number would end the other.
pub(super) fn run_id() -> u64 {
    let mut bytes = [0; 8];
    // Without random numbers the clock has to do: the name only has to differ from those of other runs.
    if getrandom::fill(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        return now.as_nanos() as u64;
    }
    u64::from_le_bytes(bytes)
}

/// The threads of a measurement; they end when this goes.
struct Threads {
    go: Vec<Sender<Instant>>,
    handles: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Threads {
    fn start(&mut self, part: Part, messages: mpsc::Sender<Message>) {
        let (go, mut start) = ring::mailbox::<Instant>();
        self.go.push(go);
        self.handles.push(std::thread::spawn(move || {
            let last = messages.clone();
            let options = ring::Options { busy_poll: part.load.busy_poll, ..ring::Options::default() };
            let result = Reactor::new(&options).map_err(LabError::from).and_then(|reactor| {
                let ring = reactor.ring().clone();
                reactor.block_on(async move {
                    let sessions = open(&ring, &part).await?;
                    let Some((_, session)) = sessions.first() else { return Err(LabError::Thread) };
                    let geometry = session.geometry();
                    let journal = journal(&ring, &part, &geometry).await?;
                    messages.send(Message::Ready(geometry, ring.now())).ok();
                    let Some(start) = start.receive().await else { return Ok(Ended::default()) };
                    let plan = Plan { start, stop: part.stop.clone(), run: part.run };
                    let path = part.journal.clone().unwrap_or_default();
                    let sink = |sample| drop(messages.send(Message::Sample(Box::new(sample))));
                    let ended = drive(ring, part.load, sessions, plan, journal, sink).await;
                    ended.map_err(|source| LabError::Journal { path, source })
                })
            });
            let message = match result {
                Ok(ended) => Message::Ended(Box::new(ended)),
                Err(error) => Message::Failed(error),
            };
            last.send(message).ok();
        }));
    }

    fn go(&self, start: Instant) {
        for go in &self.go {
            // A thread that is gone has sent why.
            go.send(start).ok();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.go.clear();
        for handle in self.handles.drain(..) {
            // A thread that panicked has said so itself.
            handle.join().ok();
        }
    }
}

async fn open(ring: &Ring, part: &Part) -> Result<Vec<(u32, Session)>, LabError> {
    let mut sessions = Vec::new();
    for &job in &part.jobs {
        let options = OpenOptions {
            session_id: part.run.wrapping_add(u64::from(job)),
            depth: part.load.depth,
            ..part.open.clone()
        };
        let failed = |source: OpenError| LabError::Open { target: part.target.to_string(), source };
        let session = match sessions.first() {
            Some((_, Session::Pool(open))) => Session::Pool(open.for_another()),
            _ => Session::open(ring, &part.target, &options).await.map_err(failed)?,
        };
        part.load
            .fits(&session.geometry())
            .map_err(|misfit| LabError::Job { problem: misfit.problem, hint: misfit.hint })?;
        sessions.push((job, session));
    }
    Ok(sessions)
}

async fn journal(ring: &Ring, part: &Part, geometry: &Geometry) -> Result<Option<Journal>, LabError> {
    let Some(path) = &part.journal else { return Ok(None) };
    let size = part.load.size.unwrap_or(geometry.size.saturating_sub(part.load.offset));
    let head = Head {
        run: part.run,
        block_size: geometry.block_size,
        slot_size: part.load.block_size,
        offset: part.load.offset,
        slots: size / u64::from(part.load.block_size),
    };
    let journal = Journal::create(ring, path, &head).await;
    journal.map(Some).map_err(|source| LabError::Journal { path: path.clone(), source })
}

/// Puts the threads' seconds together.
struct Gathering<'a> {
    load: &'a Load,
    threads: usize,
    warm_up: usize,
    geometry: Option<Geometry>,
    ready: usize,
    now: Instant,
    ended: usize,
    seconds: Vec<Second>,
    result: Ended,
    cpu_before: Option<Duration>,
    cpu_after: Option<Duration>,
    page_lists: Option<u64>,
}

impl<'a> Gathering<'a> {
    fn new(load: &'a Load, threads: usize) -> Self {
        Gathering {
            load,
            threads,
            warm_up: load.warm_up.as_millis().div_ceil(1000) as usize,
            geometry: None,
            ready: 0,
            now: Instant::ZERO,
            ended: 0,
            seconds: Vec::new(),
            result: Ended::default(),
            cpu_before: crate::cpu::used(),
            cpu_after: None,
            page_lists: None,
        }
    }

    fn ready(&mut self, geometry: Geometry, now: Instant) {
        self.ready += 1;
        self.now = self.now.max(now);
        self.geometry = Some(geometry);
        self.cpu_before = crate::cpu::used();
    }

    fn take(
        &mut self,
        sample: &Sample,
        name: &str,
        number: (usize, usize),
        progress: &mut dyn FnMut(&Progress<'_>),
    ) {
        let index = sample.second as usize;
        if self.seconds.len() <= index {
            self.seconds.resize_with(index + 1, Second::default);
        }
        let second = &mut self.seconds[index];
        second.span = second.span.max(sample.span);
        second.tallies.merge(&sample.tallies);
        second.backlog += sample.backlog;
        second.threads += 1;
        if second.threads < self.threads {
            return;
        }
        if index + 1 == self.warm_up {
            self.cpu_before = crate::cpu::used();
        }
        self.cpu_after = crate::cpu::used();
        self.page_lists = self.page_lists.max(crate::page_lists::longest());
        let span = second.span.as_secs_f64().max(1e-9);
        let latency = second.tallies.latency_ns();
        progress(&Progress {
            test: name,
            number,
            seconds: (
                (index + 1).saturating_sub(self.warm_up) as u32,
                self.load.time.as_millis().div_ceil(1000) as u32,
            ),
            phase: if index < self.warm_up { Phase::WarmingUp } else { Phase::Measuring },
            iops: second.tallies.operations() as f64 / span,
            mib_per_s: second.tallies.bytes() as f64 / span / f64::from(1 << 20),
            mean_us: latency.mean() / 1e3,
            p99_us: latency.value_at_quantile(0.99) as f64 / 1e3,
        });
    }

    fn end(&mut self, ended: Ended) {
        self.ended += 1;
        let result = &mut self.result;
        result.late.merge(&ended.late);
        result.errors += ended.errors;
        for told in ended.told {
            if !result.told.contains(&told) {
                result.told.push(told);
            }
        }
        result.findings.merge(ended.findings);
        result.proven_bytes += ended.proven_bytes;
        result.dropped += ended.dropped;
        result.retries += ended.retries;
        result.room = result.room.into_iter().chain(ended.room).min();
    }

    fn measured(mut self) -> Measured {
        let seconds = self.seconds.split_off(self.warm_up.min(self.seconds.len()));
        let cpu = self.cpu_before.zip(self.cpu_after);
        Measured {
            geometry: self.geometry.unwrap_or(NONE),
            threads: self.threads,
            seconds,
            ended: self.result,
            cpu: cpu.map(|(before, after)| after.saturating_sub(before)),
            page_lists: self.page_lists,
        }
    }
}

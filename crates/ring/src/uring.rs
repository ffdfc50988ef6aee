//! The driver that is the kernel: operations become io_uring entries.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use crate::activity::Activity;
use crate::alone::{Alone, Brought, Held};
use crate::buffer::Buffer;
use crate::calls;
use crate::chunk::Chunk;
use crate::clock::Instant;
use crate::op::{Allocate, Completion, Keep, OpKey, Operation};
use crate::provided::{GROUP, Provided};
use crate::ring::{Options, StartError};
use crate::send_list::SendList;
use crate::slab;

/// Completions with this name are nobody's: of cancellations.
const NOBODY: u64 = u64::MAX;
/// The bell of [`crate::remote::Remote`] rang.
const BELL: u64 = u64::MAX - 1;
/// Looks between two at the clock, which takes longer than a look.
const LOOKS: usize = 8;

pub(crate) struct Uring {
    // Dropped first: the kernel must be gone from the memory below it.
    kernel: IoUring,
    provided: Rc<Provided>,
    /// Of each slab of this thread, whether the kernel knows it by its number.
    known: [Option<bool>; slab::MOST],
    bell: OwnedFd,
    /// Reads and writes of files in this turn.
    transfers: usize,
    /// Receives of this turn. They go behind everything else: one that finds nothing yet is not to keep an answer waiting.
    receives: Vec<squeue::Entry>,
    /// What has ended without the kernel's ring, to be passed on in the next turn.
    done: Vec<(OpKey, Completion)>,
    alone: Alone,
    /// The last look had to wait for what the kernel's ring has.
    waited: bool,
    pub(crate) activity: Activity,
    /// In the last turn.
    pub(crate) brought: Brought,
}

/// How a turn ends.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Only submit and look.
    No,
    /// Until something completes, at most so long.
    For(Duration),
    /// Until something completes.
    Forever,
}

/// What a look came to.
pub(crate) struct Look {
    /// There is something to take in, or somebody called.
    pub(crate) found: bool,
    /// Without what it took to hand over what was to be submitted.
    pub(crate) lasted: Duration,
    /// What the socket had that was asked: then it is all that there is.
    pub(crate) asked: Option<Asked>,
}

/// What a socket had that was asked, past the kernel's ring.
pub(crate) struct Asked {
    pub(crate) key: OpKey,
    pub(crate) completion: Completion,
    /// The clock shortly before: to ask it afterwards would keep the answer waiting.
    pub(crate) at: Instant,
}

impl Uring {
    pub(crate) fn new(options: &Options, bell: OwnedFd) -> Result<Uring, StartError> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(options.entries * 4)
            .build(options.entries)
            .map_err(StartError::Uring)?;
        let count = options.receive_buffers;
        let provided = Provided::register(&uring.submitter(), count, options.receive_buffer_bytes)
            .map_err(StartError::Uring)?;
        // A kernel that does not have this is told of each transfer's memory.
        let may_know = uring.submitter().register_buffers_sparse(slab::MOST as u32).is_ok();
        let mut driver = Uring {
            kernel: uring,
            provided: Rc::new(provided),
            known: [(!may_know).then_some(false); slab::MOST],
            bell,
            transfers: 0,
            receives: Vec::new(),
            done: Vec::new(),
            alone: Alone::default(),
            waited: false,
            activity: Activity::default(),
            brought: Brought::default(),
        };
        driver.watch_bell();
        Ok(driver)
    }

    fn watch_bell(&mut self) {
        let poll = opcode::PollAdd::new(Fd(self.bell.as_raw_fd()), libc::POLLIN as u32).multi(true);
        self.push(&poll.build().user_data(BELL));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        self.activity.submissions += 1;
        // SAFETY: every entry refers to memory and descriptors that the operation table (or this driver) keeps
        // until the completion has been seen.
        while unsafe { self.kernel.submission().push(entry) }.is_err() {
            // A full queue. An error here (no memory for a while) is met by trying again.
            self.hand_over().ok();
        }
    }

    /// Hands over what is in the queue.
    fn hand_over(&mut self) -> io::Result<usize> {
        self.activity.enters += 1;
        self.kernel.submit()
    }

    /// Hands over what is in the queue, and lets the kernel do its deferred work: what has come meanwhile is received by
    /// the same call.
    fn exchange(&mut self) -> io::Result<usize> {
        self.activity.enters += 1;
        let count = self.kernel.submission().len() as u32;
        let none = None::<&libc::sigset_t>;
        // SAFETY: no pointers; what is handed over is kept, see `push`.
        unsafe { self.kernel.submitter().enter(count, 0, EnterFlags::GETEVENTS.bits(), none) }
    }

    pub(crate) fn submit(&mut self, key: OpKey, operation: Operation, descriptor: RawFd, keep: &mut Keep) {
        if matches!(operation, Operation::KeepReceiving) && self.alone.holds(Held { key, descriptor }) {
            return;
        }
        let is_transfer = matches!(operation, Operation::Read { .. } | Operation::Write { .. });
        let known = if is_transfer { self.known(keep) } else { None };
        let entry = match (known, keep) {
            (Some(number), Keep::Buffer(buffer)) => known_entry(operation, Fd(descriptor), buffer, number),
            (_, keep) => entry(operation, Fd(descriptor), keep),
        }
        .user_data(key.to_bits());
        if operation.receives() {
            self.receives.push(entry);
            return;
        }
        self.push(&entry);
        if is_transfer {
            self.transfers += 1;
            // A disk that is done with everything would wait for the end of the turn: it gets two at once, and then as
            // many again as it has, so that it works while the rest is made ready, and many still go together.
            if self.transfers >= 2 && self.transfers.is_power_of_two() {
                // What fails here is still queued and met at the end of the turn.
                self.hand_over().ok();
            }
        }
    }

    /// The number by which the kernel knows the memory that is kept, of which it is told when it comes for the first time.
    fn known(&mut self, keep: &Keep) -> Option<u16> {
        let Keep::Buffer(buffer) = keep else { return None };
        let slab = buffer.slab()?;
        let number = slab.number();
        let known = &mut self.known[number as usize];
        let is_known = *known.get_or_insert_with(|| {
            // Refused where a process may not hold so much memory (RLIMIT_MEMLOCK).
            // SAFETY: the slab stays where it is until this thread ends; the kernel holds its pages even then.
            let told = unsafe {
                self.kernel.submitter().register_buffers_update(number.into(), &[slab.whole()], None)
            };
            told.is_ok()
        });
        is_known.then_some(number)
    }

    /// Ends an operation. A receive that the kernel does not have yet is taken back: handed over together with what
    /// cancels it, it would take what has come before that.
    #[cold]
    pub(crate) fn cancel(&mut self, key: OpKey) {
        let waiting = self.receives.iter().position(|entry| entry.get_user_data() == key.to_bits());
        if let Some(place) = waiting {
            self.receives.remove(place);
        } else if self.alone.held().is_some_and(|held| held.key == key) {
            self.alone.let_go();
        } else {
            return self.push(&opcode::AsyncCancel::new(key.to_bits()).build().user_data(NOBODY));
        }
        self.done.push((key, Completion { result: -libc::ECANCELED, flags: 0, more: false }));
    }

    /// Everything that is to be submitted comes into the queue. False when there is nothing.
    fn gather(&mut self) -> bool {
        let mut receives = std::mem::take(&mut self.receives);
        for entry in receives.drain(..) {
            self.push(&entry);
        }
        self.receives = receives;
        !self.kernel.submission().is_empty()
    }

    /// Whether the kernel has work that it does only when it is entered.
    fn is_deferred(&mut self) -> bool {
        let submission = self.kernel.submission();
        submission.taskrun() || submission.cq_overflow()
    }

    /// Hands over what is to be submitted, then looks until something can be taken in, at most for `span`, or until
    /// `told` says that somebody called.
    pub(crate) fn look(&mut self, span: Duration, told: impl Fn() -> bool) -> Look {
        self.waited = false;
        self.transfers = 0;
        // Without a buffer to ask with, the kernel's are to be waited for.
        if self.alone.is_of_several() || self.alone.held().is_some() && !self.provided.has_spare() {
            self.hand_over_held();
        }
        if self.gather() {
            self.exchange().ok();
        }
        // Completions come only when the kernel is entered; until then its deferred work shows as a flag. Nothing is
        // written meanwhile: flags and counters share a line, for which two cores would quarrel.
        if !self.done.is_empty() || !self.kernel.completion().is_empty() {
            return Look { found: true, lasted: Duration::ZERO, asked: None };
        }
        let looks = if self.alone.held().is_some() { 1 } else { LOOKS };
        let start = Instant::monotonic();
        let mut at = start;
        loop {
            let lasted = at.since(start);
            self.waited = self.has_come(looks, &told);
            if self.waited {
                return Look { found: true, lasted, asked: None };
            }
            if let Some((key, completion)) = self.ask() {
                return Look { found: true, lasted, asked: Some(Asked { key, completion, at }) };
            }
            if lasted >= span {
                return Look { found: false, lasted, asked: None };
            }
            at = Instant::monotonic();
        }
    }

    /// Hands over what is to be submitted, and takes nothing in for `span`.
    pub(crate) fn hold(&mut self, span: Duration) {
        if self.gather() {
            self.hand_over().ok();
        }
        let begin = Instant::monotonic();
        while Instant::monotonic().since(begin) < span {
            std::hint::spin_loop();
        }
    }

    /// Whether something comes while it looks so often.
    fn has_come(&mut self, looks: usize, told: impl Fn() -> bool) -> bool {
        let submission = self.kernel.submission();
        for _ in 0..looks {
            if submission.taskrun() || submission.cq_overflow() || told() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Submits, waits as told, and passes each completion to `complete`.
    pub(crate) fn turn(&mut self, wait: Wait, mut complete: impl FnMut(OpKey, Completion)) {
        self.transfers = 0;
        // What is done already is not to be waited for.
        let wait = if self.done.is_empty() { wait } else { Wait::No };
        if !matches!(wait, Wait::No) || self.alone.passes() {
            self.hand_over_held();
        }
        let any = self.gather();
        let entered = match wait {
            Wait::No if !any && !self.is_deferred() => Ok(0),
            Wait::No => self.exchange(),
            Wait::Forever => {
                self.count_sleep();
                self.kernel.submit_and_wait(1)
            }
            Wait::For(span) => {
                self.count_sleep();
                let span = Timespec::new().sec(span.as_secs()).nsec(span.subsec_nanos());
                self.kernel.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        };
        if let Err(error) = entered {
            // Time is up, a signal came, or the kernel wants its completions taken first: all mean "go on".
            let code = error.raw_os_error().unwrap_or(0);
            let usual = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
            assert!(usual.contains(&code), "io_uring_enter failed for good: {error}");
        }
        for (key, completion) in self.done.drain(..) {
            complete(key, completion);
        }
        let mut bell = None;
        let mut brought = Brought::default();
        let completions = self.kernel.completion();
        self.activity.completions += completions.len() as u64;
        for entry in completions {
            let (result, flags) = (entry.result(), entry.flags());
            let more = cqueue::more(flags);
            let key = OpKey::from_bits(entry.user_data());
            match entry.user_data() {
                NOBODY => continue,
                BELL => {
                    bell = Some(more);
                    continue;
                }
                _ if more && cqueue::buffer_select(flags).is_some() => {
                    let before = brought.by.replace(key);
                    brought.by_others |= before.is_some_and(|before| before != key);
                    brought.times += 1;
                }
                _ => brought.others += 1,
            }
            self.activity.moved += u64::try_from(result).unwrap_or(0);
            complete(key, Completion { result, flags, more });
        }
        self.brought = brought;
        if let Some(key) = self.alone.learn(std::mem::take(&mut self.waited), brought) {
            self.cancel(key);
        }
        if let Some(still_watched) = bell {
            let mut count = 0u64;
            // SAFETY: eight writable bytes; the descriptor does not block.
            unsafe { libc::read(self.bell.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
            if !still_watched {
                self.watch_bell();
            }
        }
    }

    /// The receive that is held goes to the kernel.
    fn hand_over_held(&mut self) {
        if let Some(Held { key, descriptor }) = self.alone.let_go() {
            let entry = entry(Operation::KeepReceiving, Fd(descriptor), &mut Keep::Nothing);
            self.receives.push(entry.user_data(key.to_bits()));
        }
    }

    /// Asks the socket of the receive that is held. Gives what came of it, if anything.
    fn ask(&mut self) -> Option<(OpKey, Completion)> {
        let Held { key, descriptor } = self.alone.held()?;
        let completion = match self.provided.receive(descriptor)? {
            Ok((0, _)) => Completion { result: 0, flags: 0, more: false },
            Ok((count, flags)) => Completion { result: count, flags, more: true },
            Err(libc::EAGAIN | libc::EINTR) => {
                self.alone.waits();
                return None;
            }
            Err(code) => Completion { result: -code, flags: 0, more: false },
        };
        self.activity.direct += u64::from(completion.more);
        self.activity.moved += u64::try_from(completion.result).unwrap_or(0);
        self.alone.answered();
        if !completion.more {
            self.alone.let_go();
        }
        Some((key, completion))
    }

    #[cfg(test)]
    pub(crate) fn holds(&self) -> bool {
        self.alone.held().is_some()
    }

    /// See [`crate::Inflow::several`].
    pub(crate) fn several(&mut self) {
        self.alone.several();
    }

    /// Whether this core asks the socket itself.
    pub(crate) fn asks(&self, descriptor: RawFd) -> bool {
        self.alone.held().is_some_and(|held| held.descriptor == descriptor)
    }

    /// Sends what goes without a wait, on the socket that is asked. None where the rest, or all, is for the kernel's ring.
    #[inline]
    pub(crate) fn send_at_once(&mut self, descriptor: RawFd, list: &mut SendList) -> Option<io::Result<()>> {
        if self.asks(descriptor) { self.send_without_ring(descriptor, list) } else { None }
    }

    fn send_without_ring(&mut self, descriptor: RawFd, list: &mut SendList) -> Option<io::Result<()>> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let sent = match list.only_piece() {
            Some(piece) => calls::send(descriptor, piece, flags),
            // SAFETY: the message refers to memory of the list, which is not changed meanwhile.
            None => unsafe { calls::sendmsg(descriptor, list.message(), flags) },
        };
        let Ok(count) = usize::try_from(sent) else {
            let error = io::Error::last_os_error();
            let is_to_wait = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            // A socket tells once why it is broken.
            return (!is_to_wait).then_some(Err(error));
        };
        self.activity.direct += 1;
        self.activity.moved += count as u64;
        list.note_gone(count);
        (list.left() == 0).then_some(Ok(()))
    }

    fn count_sleep(&mut self) {
        self.activity.enters += 1;
        self.activity.sleeps += 1;
    }

    /// See [`Provided::has_plenty`].
    pub(crate) fn has_plenty(&self) -> bool {
        self.provided.has_plenty()
    }

    /// Whether a receive of so many bytes has filled its buffer.
    pub(crate) fn fills_a_buffer(&self, bytes: usize) -> bool {
        self.provided.is_filled_by(bytes)
    }

    /// A receive found no buffer. Whether it may try again at once.
    pub(crate) fn widen(&self) -> bool {
        self.provided.widen()
    }

    /// The received bytes that a completion of [`Operation::Receive`] or [`Operation::KeepReceiving`] speaks of.
    pub(crate) fn chunk(&self, result: i32, flags: u32) -> Option<Chunk> {
        let id = cqueue::buffer_select(flags)?;
        Some(Chunk::provided(self.provided.clone(), id, usize::try_from(result).unwrap_or(0)))
    }
}

/// A transfer from or to memory that the kernel knows by its number.
fn known_entry(operation: Operation, fd: Fd, buffer: &mut Buffer, number: u16) -> squeue::Entry {
    let (data, length) = (buffer.as_mut_ptr(), buffer.len() as u32);
    match operation {
        Operation::Read { offset } => opcode::ReadFixed::new(fd, data, length, number).offset(offset).build(),
        Operation::Write { offset, durable } => opcode::WriteFixed::new(fd, data, length, number)
            .offset(offset)
            .rw_flags(sync_flags(durable))
            .build(),
        operation => unreachable!("{operation:?} is no transfer"),
    }
}

fn sync_flags(durable: bool) -> i32 {
    if durable { libc::RWF_DSYNC } else { 0 }
}

fn entry(operation: Operation, fd: Fd, keep: &mut Keep) -> squeue::Entry {
    match (operation, keep) {
        (Operation::Read { offset }, Keep::Buffer(buffer)) => {
            opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).offset(offset).build()
        }
        (Operation::Write { offset, durable }, Keep::Buffer(buffer)) => {
            opcode::Write::new(fd, buffer.as_ptr(), buffer.len() as u32)
                .offset(offset)
                .rw_flags(sync_flags(durable))
                .build()
        }
        (Operation::Sync, _) => opcode::Fsync::new(fd).flags(io_uring::types::FsyncFlags::DATASYNC).build(),
        (Operation::Allocate { mode, offset, length }, _) => {
            let mode = match mode {
                Allocate::Reserve => libc::FALLOC_FL_KEEP_SIZE,
                Allocate::Punch => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                Allocate::Zero => libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
            };
            opcode::Fallocate::new(fd, length).offset(offset).mode(mode).build()
        }
        (Operation::Accept, _) => {
            let none = std::ptr::null_mut();
            opcode::Accept::new(fd, none, none.cast()).flags(libc::SOCK_CLOEXEC).build()
        }
        (Operation::Connect { to }, Keep::Address(address)) => {
            let length = crate::address::encode(to, address);
            opcode::Connect::new(fd, std::ptr::from_ref(&**address).cast(), length).build()
        }
        (Operation::ConnectUnix { length }, Keep::Address(address)) => {
            opcode::Connect::new(fd, std::ptr::from_ref(&**address).cast(), length).build()
        }
        (Operation::Receive, _) => opcode::Recv::new(fd, std::ptr::null_mut(), 0)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT),
        (Operation::KeepReceiving, _) => opcode::RecvMulti::new(fd, GROUP).build(),
        (Operation::ReceiveInto { start, end }, Keep::Buffer(buffer)) => {
            let part = &mut buffer[start..end];
            opcode::Recv::new(fd, part.as_mut_ptr(), part.len() as u32).build()
        }
        (Operation::Send, Keep::List(list)) => {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
            if let Some(piece) = list.only_piece() {
                return opcode::Send::new(fd, piece.as_ptr(), piece.len() as u32).flags(flags).build();
            }
            opcode::SendMsg::new(fd, list.message()).flags(flags as u32).build()
        }
        (Operation::Populate { at, length }, Keep::Memory(memory)) => {
            opcode::Madvise::new(memory.place(at, length), length as i64, libc::MADV_POPULATE_WRITE).build()
        }
        (operation, _) => unreachable!("{operation:?} was submitted without what it needs"),
    }
}

/// What a failed system call left in `errno`, or its result.
pub(crate) fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_before_a_receive_which_ends_when_it_is_given_up() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut driver = Uring::new(&Options::default(), crate::remote::bell().unwrap()).unwrap();
        driver.turn(Wait::No, |_, _| {});
        let [receive, send, given_up] = [1, 2, 3].map(OpKey::from_bits);
        let mut list = crate::SendList::new();
        list.push_bytes(b"answer");
        let mut list = Keep::List(list);
        driver.submit(receive, Operation::Receive, ours.as_raw_fd(), &mut Keep::Nothing);
        driver.submit(send, Operation::Send, theirs.as_raw_fd(), &mut list);
        assert_eq!((driver.kernel.submission().len(), driver.receives.len()), (1, 1));
        let mut done = Vec::new();
        while done.len() < 2 {
            driver.turn(Wait::Forever, |key, completion| done.push((key, completion.result)));
        }
        assert_eq!(done, [(send, 6), (receive, 6)], "sent first, the receive finds it");
        for is_handed_over in [false, true] {
            driver.submit(given_up, Operation::Receive, ours.as_raw_fd(), &mut Keep::Nothing);
            if is_handed_over {
                driver.turn(Wait::No, |_, _| unreachable!("there is nothing to receive"));
            }
            driver.cancel(given_up);
            assert_eq!(driver.kernel.submission().len(), usize::from(is_handed_over));
            let mut result = 0;
            driver.turn(Wait::For(Duration::from_secs(5)), |_, completion| result = completion.result);
            assert_eq!(result, -libc::ECANCELED);
            assert!(!driver.look(Duration::ZERO, || false).found, "nothing is left over");
        }
    }

    #[test]
    fn a_disk_does_not_wait_for_the_end_of_a_turn() {
        let path = std::env::temp_dir().join(format!("fels-ring-turn-{}", std::process::id()));
        std::fs::write(&path, [7; 4096]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let options = Options { entries: 64, ..Options::default() };
        let mut driver = Uring::new(&options, crate::remote::bell().unwrap()).unwrap();
        driver.turn(Wait::No, |_, _| {});
        let mut buffers: Vec<Keep> = (0..32).map(|_| Keep::Buffer(Buffer::new(4096))).collect();
        for _ in 0..2 {
            let mut queued = Vec::new();
            for (number, buffer) in buffers.iter_mut().enumerate() {
                let key = OpKey::from_bits(number as u64);
                driver.submit(key, Operation::Read { offset: 0 }, file.as_raw_fd(), buffer);
                queued.push(driver.kernel.submission().len());
            }
            assert_eq!(queued[..9], [1, 0, 1, 0, 1, 2, 3, 0, 1]);
            assert_eq!((queued[14], queued[15], queued[30], queued[31]), (7, 0, 15, 0));
            let mut done = 0;
            while done < buffers.len() {
                driver.turn(Wait::Forever, |_, completion| {
                    assert_eq!(completion.result, 4096);
                    done += 1;
                });
            }
        }
        // Whatever is no transfer goes with the others.
        for _ in 0..4 {
            driver.submit(OpKey::from_bits(0), Operation::Sync, file.as_raw_fd(), &mut Keep::Nothing);
        }
        assert_eq!(driver.kernel.submission().len(), 4);
    }

    #[test]
    #[cfg_attr(sanitized, ignore = "nothing is kept")]
    fn memory_is_told_of_once_and_moves_bytes_either_way() {
        let path = std::env::temp_dir().join(format!("fels-ring-known-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut driver = Uring::new(&Options::default(), crate::remote::bell().unwrap()).unwrap();
        driver.turn(Wait::No, |_, _| {});
        let transfer = |driver: &mut Uring, operation, keep: &mut Keep| {
            driver.submit(OpKey::from_bits(0), operation, file.as_raw_fd(), keep);
            let mut result = None;
            while result.is_none() {
                driver.turn(Wait::Forever, |_, completion| result = Some(completion.result));
            }
            result.unwrap()
        };
        // Cut out of a slab, too large for one, and where the kernel may not hold any more.
        for (length, refused, told) in [(5000, false, 1), (2 << 20, false, 1), (5000, true, 0)] {
            if refused {
                driver.known = [Some(false); slab::MOST];
            }
            for byte in 1..4 {
                let [mut from, into] = [(); 2].map(|()| Buffer::new(length));
                from.fill(byte);
                let (mut from, mut into) = (Keep::Buffer(from), Keep::Buffer(into));
                for (operation, keep) in [
                    (Operation::Write { offset: 512, durable: byte == 2 }, &mut from),
                    (Operation::Read { offset: 512 }, &mut into),
                ] {
                    assert_eq!(transfer(&mut driver, operation, keep), length as i32);
                }
                let (Keep::Buffer(from), Keep::Buffer(into)) = (from, into) else { unreachable!() };
                assert!(*from == *into && into.iter().all(|have| *have == byte));
            }
            assert_eq!(driver.known.iter().filter(|known| **known == Some(true)).count(), told);
        }
    }
}

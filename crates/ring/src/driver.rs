//! Who carries operations out: the kernel, or a simulated world. The same calls for both.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::activity::Activity;
use crate::alone::Brought;
use crate::chunk::Chunk;
use crate::clock::Instant;
use crate::congestion::MAX_CONGESTION_CONTROL_NAME;
use crate::file::FileOptions;
use crate::handle::own;
use crate::op::{Keep, OpKey, Operation, Orphan, Table};
use crate::send_list::SendList;
use crate::sim::{Afar, Driver as Simulated};
use crate::unix;
use crate::uring::{Look, Uring, Wait, checked};

/// Connections that the kernel may hold for us before they are accepted.
const BACKLOG: i32 = 4096;

#[expect(clippy::large_enum_variant, reason = "one per core, and the kernel's is not to be behind a pointer")]
pub(crate) enum Driver {
    Kernel(RefCell<Uring>),
    Simulated(Simulated),
}

impl Driver {
    pub(crate) fn simulated(&self) -> Option<&Simulated> {
        match self {
            Driver::Kernel(_) => None,
            Driver::Simulated(world) => Some(world),
        }
    }

    /// Where a descriptor that has left its ring is closed when it never reaches another one: in the kernel, or in
    /// the world that this gives.
    pub(crate) fn afar(&self) -> Option<Afar> {
        self.simulated().map(Simulated::afar)
    }

    pub(crate) fn now(&self) -> Instant {
        match self {
            Driver::Kernel(_) => Instant::monotonic(),
            Driver::Simulated(world) => world.now(),
        }
    }

    #[inline]
    pub(crate) fn submit(&self, key: OpKey, operation: Operation, descriptor: RawFd, keep: &mut Keep) {
        match self {
            Driver::Kernel(uring) => uring.borrow_mut().submit(key, operation, descriptor, keep),
            Driver::Simulated(world) => world.submit(key, operation, descriptor, keep),
        }
    }

    /// See [`Uring::send_at_once`]; in a simulated world nobody is asked.
    #[inline]
    pub(crate) fn send_at_once(&self, descriptor: RawFd, list: &mut SendList) -> Option<io::Result<()>> {
        match self {
            Driver::Kernel(uring) => uring.borrow_mut().send_at_once(descriptor, list),
            Driver::Simulated(_) => None,
        }
    }

    pub(crate) fn cancel(&self, key: OpKey) {
        match self {
            Driver::Kernel(uring) => uring.borrow_mut().cancel(key),
            Driver::Simulated(world) => world.cancel(key),
        }
    }

    /// See [`Uring::look`]; a simulated world has nothing to look at.
    pub(crate) fn look(&self, span: Duration, told: impl Fn() -> bool) -> Look {
        match self {
            Driver::Kernel(uring) => uring.borrow_mut().look(span, told),
            Driver::Simulated(_) => Look { found: false, lasted: span, asked: None },
        }
    }

    /// See [`Uring::hold`].
    pub(crate) fn hold(&self, span: Duration) {
        if let Driver::Kernel(uring) = self {
            uring.borrow_mut().hold(span);
        }
    }

    #[cfg(test)]
    pub(crate) fn holds(&self) -> bool {
        matches!(self, Driver::Kernel(uring) if uring.borrow().holds())
    }

    /// See [`Uring::asks`].
    pub(crate) fn asks(&self, descriptor: RawFd) -> bool {
        matches!(self, Driver::Kernel(uring) if uring.borrow().asks(descriptor))
    }

    /// See [`crate::Inflow::several`].
    pub(crate) fn several(&self) {
        if let Driver::Kernel(uring) = self {
            uring.borrow_mut().several();
        }
    }

    /// Whether a simulated reactor is told that it works in turn with its peer in its `turn`th turn.
    pub(crate) fn simulates_lockstep(&self, turn: u64) -> bool {
        turn % 2 == 1 && self.simulated().is_some_and(Simulated::has_lockstep)
    }

    /// What the last turn brought, as far as it came through the kernel's ring.
    pub(crate) fn brought(&self) -> Brought {
        match self {
            Driver::Kernel(uring) => uring.borrow().brought,
            Driver::Simulated(_) => Brought::default(),
        }
    }

    /// See [`Activity::count_look`].
    pub(crate) fn count_look(&self, span: Duration, found: bool) {
        if let Driver::Kernel(uring) = self {
            uring.borrow_mut().activity.count_look(span, found);
        }
    }

    /// See [`Activity::moved`].
    pub(crate) fn moved(&self) -> u64 {
        match self {
            Driver::Kernel(uring) => uring.borrow().activity.moved,
            Driver::Simulated(_) => 0,
        }
    }

    pub(crate) fn activity(&self) -> Activity {
        match self {
            Driver::Kernel(uring) => uring.borrow().activity,
            Driver::Simulated(_) => Activity::default(),
        }
    }

    /// Submits, waits, and puts completions into `table`; what abandoned operations leave goes to `orphans`.
    pub(crate) fn turn(&self, wait: Wait, table: &mut Table, orphans: &mut Vec<Orphan>) {
        match self {
            Driver::Kernel(uring) => {
                uring
                    .borrow_mut()
                    .turn(wait, |key, completion| orphans.extend(table.complete(key, completion)));
            }
            Driver::Simulated(world) => world.turn(table, orphans),
        }
    }

    pub(crate) fn chunk(&self, result: i32, flags: u32) -> Option<Chunk> {
        match self {
            Driver::Kernel(uring) => uring.borrow().chunk(result, flags),
            Driver::Simulated(world) => world.chunk(flags),
        }
    }

    /// Whether receive buffers can be kept by who waits for more bytes.
    pub(crate) fn has_plenty(&self) -> bool {
        match self {
            Driver::Kernel(uring) => uring.borrow().has_plenty(),
            Driver::Simulated(world) => world.has_plenty(),
        }
    }

    /// Whether a receive of so many bytes has filled its buffer. Simulated ones have no size.
    pub(crate) fn fills_a_buffer(&self, bytes: usize) -> bool {
        matches!(self, Driver::Kernel(uring) if uring.borrow().fills_a_buffer(bytes))
    }

    /// A receive found no buffer. Whether it may try again at once. Of a simulated world's all go round.
    pub(crate) fn widen(&self) -> bool {
        match self {
            Driver::Kernel(uring) => uring.borrow().widen(),
            Driver::Simulated(_) => false,
        }
    }

    pub(crate) fn close(&self, descriptor: RawFd) {
        match self {
            Driver::Kernel(_) => drop(own(descriptor)),
            Driver::Simulated(world) => world.close(descriptor),
        }
    }

    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<RawFd> {
        match self {
            Driver::Kernel(_) => {
                let listener = TcpListener::bind(address)?;
                // SAFETY: a listening socket of ours; only its backlog changes.
                checked(unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) })?;
                Ok(listener.into_raw_fd())
            }
            Driver::Simulated(world) => world.listen(address),
        }
    }

    /// A TCP socket that is not connected yet.
    pub(crate) fn socket(&self, to: SocketAddr) -> io::Result<RawFd> {
        match self {
            Driver::Kernel(_) => {
                let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
                // SAFETY: no pointers.
                checked(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })
            }
            Driver::Simulated(world) => world.socket(to),
        }
    }

    /// See [`crate::Listener::bind_unix`].
    pub(crate) fn listen_unix(&self, path: &Path) -> io::Result<RawFd> {
        match self {
            Driver::Kernel(_) => unix::listen(path, BACKLOG),
            Driver::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// A unix socket that is not connected yet.
    pub(crate) fn socket_unix(&self) -> io::Result<RawFd> {
        match self {
            Driver::Kernel(_) => unix::socket().map(IntoRawFd::into_raw_fd),
            Driver::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The process at the other end of a unix socket.
    pub(crate) fn peer_process(&self, descriptor: RawFd) -> io::Result<u32> {
        match self {
            Driver::Kernel(_) => unix::peer_process(descriptor),
            Driver::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends small pieces at once: what is to be gathered, we gather.
    pub(crate) fn set_no_delay(&self, descriptor: RawFd) -> io::Result<()> {
        match self {
            Driver::Kernel(_) => {
                let on: libc::c_int = 1;
                let size = size_of::<libc::c_int>() as libc::socklen_t;
                // SAFETY: `on` is readable for `size` bytes.
                checked(unsafe {
                    libc::setsockopt(
                        descriptor,
                        libc::IPPROTO_TCP,
                        libc::TCP_NODELAY,
                        (&raw const on).cast(),
                        size,
                    )
                })?;
                Ok(())
            }
            Driver::Simulated(_) => Ok(()),
        }
    }

    /// The name of the algorithm that decides how fast a TCP socket sends.
    pub(crate) fn congestion_control(&self, descriptor: RawFd) -> io::Result<String> {
        match self {
            Driver::Kernel(_) => {
                let mut name = [0u8; MAX_CONGESTION_CONTROL_NAME + 1];
                let mut size = name.len() as libc::socklen_t;
                // SAFETY: `name` is writable for `size` bytes.
                checked(unsafe {
                    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
                    libc::getsockopt(descriptor, level, option, name.as_mut_ptr().cast(), &raw mut size)
                })?;
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                Ok(String::from_utf8_lossy(name).into_owned())
            }
            Driver::Simulated(_) => Ok("simulated".to_owned()),
        }
    }

    /// The same of a socket of which nobody has said anything.
    pub(crate) fn default_congestion_control(&self) -> io::Result<String> {
        // Closed at once; a simulated world has no need of one.
        let fresh = match self {
            // SAFETY: no pointers.
            Driver::Kernel(_) => own(checked(unsafe {
                libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)
            })?),
            Driver::Simulated(_) => return self.congestion_control(0),
        };
        self.congestion_control(fresh.as_raw_fd())
    }

    /// Sets it. A simulated network has no congestion.
    pub(crate) fn set_congestion_control(&self, descriptor: RawFd, name: &str) -> io::Result<()> {
        match self {
            Driver::Kernel(_) => {
                let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
                let size = name.len() as libc::socklen_t;
                // SAFETY: `name` is readable for `size` bytes.
                checked(unsafe { libc::setsockopt(descriptor, level, option, name.as_ptr().cast(), size) })?;
                Ok(())
            }
            Driver::Simulated(_) => Ok(()),
        }
    }

    pub(crate) fn shutdown(&self, descriptor: RawFd) {
        match self {
            Driver::Kernel(_) => {
                // SAFETY: no pointers. Fails only when the peer is gone already.
                unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
            }
            Driver::Simulated(world) => world.shutdown(descriptor),
        }
    }

    /// The peer of a connection.
    pub(crate) fn peer(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        match self {
            Driver::Kernel(_) => borrow_stream(descriptor, std::net::TcpStream::peer_addr),
            Driver::Simulated(world) => world.peer(descriptor),
        }
    }

    /// The local address of a socket.
    pub(crate) fn local(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        match self {
            Driver::Kernel(_) => borrow_stream(descriptor, std::net::TcpStream::local_addr),
            Driver::Simulated(world) => world.local(descriptor),
        }
    }

    pub(crate) fn open(&self, path: &Path, options: FileOptions) -> io::Result<RawFd> {
        match self {
            Driver::Kernel(_) => {
                let mut open = OpenOptions::new();
                open.read(true).write(!options.read_only);
                if options.create {
                    open.create(true).truncate(false).mode(0o600);
                }
                if options.direct {
                    open.custom_flags(libc::O_DIRECT);
                }
                Ok(open.open(path)?.into_raw_fd())
            }
            Driver::Simulated(world) => world.open(path, options),
        }
    }

    pub(crate) fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        match self {
            Driver::Kernel(_) => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
            }
            // A simulated file is there for good once it has been opened.
            Driver::Simulated(_) => Ok(()),
        }
    }

    pub(crate) fn lock(&self, descriptor: RawFd) -> io::Result<bool> {
        match self {
            Driver::Kernel(_) => borrow_file(descriptor, |file| match file.try_lock() {
                Ok(()) => Ok(true),
                Err(std::fs::TryLockError::WouldBlock) => Ok(false),
                Err(std::fs::TryLockError::Error(error)) => Err(error),
            }),
            Driver::Simulated(world) => world.lock(descriptor),
        }
    }

    /// Bytes of a file or block device.
    pub(crate) fn length(&self, descriptor: RawFd) -> io::Result<u64> {
        match self {
            Driver::Kernel(_) => {
                borrow_file(descriptor, |mut file| io::Seek::seek(&mut file, io::SeekFrom::End(0)))
            }
            Driver::Simulated(world) => world.length(descriptor),
        }
    }

    pub(crate) fn set_length(&self, descriptor: RawFd, length: u64) -> io::Result<()> {
        match self {
            Driver::Kernel(_) => borrow_file(descriptor, |file| file.set_len(length)),
            Driver::Simulated(world) => world.set_length(descriptor, length),
        }
    }

    /// The first run of data at or after `offset`; none when only holes follow.
    pub(crate) fn data_after(&self, descriptor: RawFd, offset: u64) -> io::Result<Option<Range<u64>>> {
        match self {
            Driver::Kernel(_) => {
                // SAFETY: no pointers; the file position is nobody's, as all our reads and writes name their offset.
                let start = unsafe { libc::lseek(descriptor, offset as i64, libc::SEEK_DATA) };
                if start < 0 {
                    let error = io::Error::last_os_error();
                    return if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) };
                }
                // SAFETY: as above.
                let end = unsafe { libc::lseek(descriptor, start, libc::SEEK_HOLE) };
                if end < 0 {
                    return Err(io::Error::last_os_error());
                }
                Ok(Some(start as u64..end as u64))
            }
            Driver::Simulated(world) => world.data_after(descriptor, offset),
        }
    }

    /// The alignment that direct I/O on the file asks for, in bytes.
    pub(crate) fn direct_alignment(&self, descriptor: RawFd) -> io::Result<u32> {
        match self {
            Driver::Kernel(_) => {
                // SAFETY: zeroes are a valid `statx`, the path is an empty C string, and the result is checked.
                let status = unsafe {
                    let mut status: libc::statx = std::mem::zeroed();
                    let flags = libc::AT_EMPTY_PATH;
                    checked(libc::statx(
                        descriptor,
                        c"".as_ptr(),
                        flags,
                        libc::STATX_DIOALIGN,
                        &raw mut status,
                    ))?;
                    status
                };
                let known = status.stx_mask & libc::STATX_DIOALIGN != 0 && status.stx_dio_offset_align != 0;
                Ok(if known { status.stx_dio_offset_align.max(status.stx_dio_mem_align) } else { 512 })
            }
            Driver::Simulated(world) => world.direct_alignment(descriptor),
        }
    }
}

fn borrow_file<T>(descriptor: RawFd, look: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
    let file = std::mem::ManuallyDrop::new(File::from(own(descriptor)));
    look(&file)
}

fn borrow_stream<T>(
    descriptor: RawFd,
    look: impl FnOnce(&std::net::TcpStream) -> io::Result<T>,
) -> io::Result<T> {
    let stream = std::mem::ManuallyDrop::new(std::net::TcpStream::from(own(descriptor)));
    look(&stream)
}

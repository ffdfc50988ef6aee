//! The client against a server that follows a script: for what a well-behaved server never does.

use std::time::Duration;

use ring::{Listener, Options, Reactor, SendList};
use wire::nbd::{
    BlockSizes, Errno, Greeting, HandshakeFlags, Info, OptionCode, OptionReplyType, REQUEST_LENGTH, Request,
    SimpleReply, encode_option_reply,
};

use super::*;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Ring) -> F) -> T {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring))
}

struct Server {
    socket: Socket,
    received: Vec<u8>,
}

impl Server {
    async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            let chunk = self.socket.receive().await.unwrap();
            assert!(!chunk.is_empty(), "the client is gone");
            self.received.extend_from_slice(&chunk);
        }
        self.received.drain(..count).collect()
    }

    async fn request(&mut self) -> Request {
        let bytes = self.take(REQUEST_LENGTH).await;
        Request::decode(bytes.first_chunk().unwrap()).unwrap()
    }

    async fn send(&self, bytes: &[u8]) {
        let mut list = SendList::new();
        list.push_bytes(bytes);
        self.socket.send(list).await.0.unwrap();
    }

    async fn reply(&self, cookie: u64, error: Errno, data: &[u8]) {
        self.send(&[&SimpleReply { error, cookie }.encode(), data].concat()).await;
    }
}

fn replies(infos: &[Info<'_>], end: OptionReplyType) -> Vec<u8> {
    let mut out = Vec::new();
    for info in infos {
        encode_option_reply(OptionCode::GO, OptionReplyType::INFO, &mut out, |out| info.encode(out));
    }
    encode_option_reply(OptionCode::GO, end, &mut out, |_| {});
    out
}

fn usual() -> Vec<u8> {
    let flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_TRIM;
    let sizes = BlockSizes { minimum: 1, preferred: 4096, maximum: 1 << 20 };
    replies(&[Info::Export { size: (1 << 20) + 100, flags }, Info::BlockSize(sizes)], OptionReplyType::ACK)
}

/// Opens a session with a server that answers the handshake with `replies`, and behaves by `then` afterwards.
async fn open<F: Future<Output = ()> + 'static>(
    ring: &Ring,
    replies: Vec<u8>,
    timeout: Duration,
    then: impl FnOnce(Server) -> F + 'static,
) -> Result<NbdSession, OpenError> {
    let listener = Listener::bind(ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.address().unwrap().port();
    ring.spawn_later(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut server = Server { socket, received: Vec::new() };
        server.send(&Greeting { flags: HandshakeFlags::all() }.encode()).await;
        // Client flags, the option's header, and the data for "demo" with one kind of information.
        server.take(4 + 16 + 4 + 4 + 2 + 2).await;
        server.send(&replies).await;
        then(server).await;
    });
    let address = NbdAddress::Inet { host: "127.0.0.1".to_owned(), port };
    let target = NbdTarget { address, export: "demo".to_owned() };
    NbdSession::open(ring, &target, &OpenOptions { timeout, ..OpenOptions::default() }).await
}

const PATIENCE: Duration = Duration::from_secs(20);

fn reason(result: Result<(), IoError>) -> String {
    match result.map_err(|error| error.cause().clone()) {
        Err(Cause::Connection(reason)) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_find_their_requests_in_any_order() {
    run(|ring| async move {
        let session = open(&ring, usual(), PATIENCE, |mut server| async move {
            let mut requests = Vec::new();
            for _ in 0..8 {
                requests.push(server.request().await);
            }
            // In one send and backwards; the failed one has no data.
            let mut bytes = Vec::new();
            for request in requests.iter().rev() {
                let error = if request.offset == 3 * 4096 { Errno::EIO } else { Errno::OK };
                bytes.extend_from_slice(&SimpleReply { error, cookie: request.cookie }.encode());
                if error == Errno::OK {
                    bytes.extend_from_slice(&vec![request.offset.to_be_bytes()[6]; 4096]);
                }
            }
            server.send(&bytes).await;
            server.request().await;
        });
        let session = session.await.unwrap();
        let geometry = session.geometry();
        assert_eq!((geometry.block_size, geometry.size, geometry.maximum_transfer), (512, 1 << 20, 1 << 20));
        let request = |at: u64| {
            let transfer = Transfer::In(Buffer::new(4096));
            session.0.inner.request(Command::READ, CommandFlags::empty(), at * 4096, 4096, transfer)
        };
        let pending: Vec<_> = (0..8).map(request).collect();
        for (at, pending) in (0u64..).zip(pending) {
            let (result, _, buffer) = pending.await.parts();
            if at == 3 {
                assert!(matches!(result.as_ref().map_err(IoError::cause), Err(Cause::Nbd(Errno::EIO))));
            } else {
                result.unwrap();
                assert!(buffer.iter().all(|byte| *byte == (at * 16) as u8), "{at}");
            }
        }
    });
}

#[test]
fn a_long_read_comes_in_pieces_straight_into_its_buffer() {
    run(|ring| async move {
        let clock = ring.clone();
        let session = open(&ring, usual(), PATIENCE, |mut server| async move {
            let request = server.request().await;
            let data: Vec<u8> = (0..request.length).map(|at| (at % 251) as u8).collect();
            server.reply(request.cookie, Errno::OK, &data[..100_001]).await;
            clock.sleep(Duration::from_millis(20)).await;
            server.send(&data[100_001..]).await;
            server.request().await;
        });
        let session = session.await.unwrap();
        let (result, buffer) = session.read(0, Buffer::new(1 << 20)).await;
        result.unwrap();
        assert!(buffer.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    });
}

#[test]
fn data_that_nobody_looks_at_is_not_copied() {
    run(|ring| async move {
        let session = open(&ring, usual(), PATIENCE, |mut server| async move {
            for _ in 0..2 {
                let request = server.request().await;
                server.reply(request.cookie, Errno::OK, &vec![7; request.length as usize]).await;
            }
            server.request().await;
        });
        let session = session.await.unwrap();
        for length in [4096, 1 << 20] {
            let asked = ring.now();
            session.read_unseen(0, length).await.unwrap();
            assert!((asked..=ring.now()).contains(&session.heard()));
        }
    });
}

#[test]
fn a_server_that_breaks_the_rules_loses_us() {
    for (bytes, words) in [
        (SimpleReply { error: Errno::OK, cookie: 77 << 32 }.encode().to_vec(), "a request that is not there"),
        (vec![0; 16], "no reply"),
    ] {
        run(|ring| async move {
            let session = open(&ring, usual(), PATIENCE, |mut server| async move {
                server.request().await;
                server.send(&bytes).await;
                server.take(1).await;
            });
            let session = session.await.unwrap();
            let said = reason(session.read(0, Buffer::new(512)).await.0);
            assert!(said.contains(words), "{said}");
            assert!(session.flush().await.unwrap_err().is_final(), "and what comes after");
        });
    }
}

#[test]
fn a_request_without_an_answer_ends_with_its_time() {
    run(|ring| async move {
        let session = open(&ring, usual(), Duration::from_millis(100), |mut server| async move {
            server.request().await;
            server.socket.receive().await.ok();
        });
        let said = reason(session.await.unwrap().flush().await);
        assert!(said.contains("FLUSH was not answered"), "{said}");
    });
}

#[test]
fn a_server_without_fua_is_asked_to_flush() {
    run(|ring| async move {
        let session = open(&ring, usual(), PATIENCE, |mut server| async move {
            let write = server.request().await;
            assert_eq!((write.command, write.flags), (Command::WRITE, CommandFlags::empty()));
            server.take(512).await;
            server.reply(write.cookie, Errno::OK, &[]).await;
            let flush = server.request().await;
            assert_eq!(flush.command, Command::FLUSH);
            server.reply(flush.cookie, Errno::ENOSPC, &[]).await;
            server.request().await;
        });
        let written = session.await.unwrap().write(0, Buffer::zeroed(512).share(), true).await;
        assert!(
            matches!(written.as_ref().map_err(IoError::cause), Err(Cause::Nbd(Errno::ENOSPC))),
            "{written:?}"
        );
    });
}

#[test]
fn handshakes_that_fail_say_why() {
    let export = Info::Export { size: 512, flags: TransmissionFlags::HAS_FLAGS };
    let nonsense = Info::BlockSize(BlockSizes { minimum: 3, preferred: 3, maximum: 3 });
    let mut speaks_early = usual();
    speaks_early.push(0);
    for (replies, words) in [
        (replies(&[], OptionReplyType::ERR_UNKNOWN), "no export \"demo\"; hint: `nbdinfo --list`"),
        (replies(&[], OptionReplyType::ERR_TLS_REQD), "refused: NBD_REP_ERR_TLS_REQD"),
        (replies(&[], OptionReplyType::ACK), "does not tell the size"),
        (replies(&[export, nonsense], OptionReplyType::ACK), "make no sense"),
        (speaks_early, "speaks before it is asked"),
        (vec![0; 20], "the magic number is wrong"),
    ] {
        let error = run(|ring| async move {
            let opened = open(&ring, replies, PATIENCE, |mut server| async move {
                server.take(1).await;
            });
            opened.await.err().unwrap().to_string()
        });
        assert!(error.contains(words), "{error}");
    }
}

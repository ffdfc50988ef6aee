//! The host against a controller that follows a script: for what a well-behaved one never does.

mod peer;

use std::time::Duration;

use ring::{Buffer, Options, Reactor, Ring};
use wire::nvme::fabrics::ConnectAttributes;
use wire::nvme::io::{BlockRange, DatasetRanges};
use wire::nvme::tcp::{DigestFlags, FatalError, PduFlags, PduType, TermReq};

use super::*;
use peer::{Peer, Script};

const GOOD: Status = Status::SUCCESSFUL_COMPLETION;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Ring) -> F) -> T {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring))
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn reason<T: std::fmt::Debug>(result: Result<T, IoError>) -> String {
    match result.map_err(|error| error.cause().clone()) {
        Err(Cause::Connection(reason)) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn size_and_limits_of_the_namespace_are_learnt() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            peer.next().await;
        });
        let geometry = session.await.unwrap().geometry();
        assert_eq!((geometry.block_size, geometry.physical_block_size), (512, 4096));
        assert_eq!((geometry.size, geometry.maximum_transfer), (512 << 20, 128 << 10));
        assert!(geometry.discard);
    });
}

#[test]
fn a_connection_that_dies_ends_every_command_also_those_that_wait() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            for _ in 0..8 {
                peer.command().await;
            }
        });
        let session = session.await.unwrap();
        let reads: Vec<_> = (0..20).map(|_| session.begin_read(0, Buffer::new(4096)).unwrap()).collect();
        for read in reads {
            assert!(reason(read.end().await.0).contains("the target closed the connection"));
        }
        let (late, _) = session.read(0, Buffer::new(512)).await;
        assert!(late.unwrap_err().is_final(), "and those after it");
        let (admin, _) = session
            .raw_admin(wire::nvme::admin::keep_alive(0), Buffer::empty(), Buffer::empty().share())
            .await;
        assert!(admin.unwrap_err().is_final(), "and those of the admin queue");
    });
}

#[test]
fn a_command_without_an_answer_ends_with_its_time() {
    run(|ring| async move {
        let script = Script { timeout: Duration::from_millis(100), ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            peer.command().await;
            peer.next().await;
        });
        let (result, _) = session.await.unwrap().read(0, Buffer::new(512)).await;
        assert!(reason(result).contains("Read was not answered within 0.1 s"));
    });
}

#[test]
fn input_in_many_pieces_comes_together() {
    for digests in [DigestFlags::empty(), DigestFlags::all()] {
        run(move |ring| async move {
            let attributes = ConnectAttributes::DISABLE_SQ_FLOW_CONTROL;
            let script = Script { digests, cpda: 3, attributes, ..Script::default() };
            let session = peer::open(&ring, script, |mut peer: Peer| async move {
                let (command, _) = peer.command().await;
                let whole = data(99_840);
                // A large piece is received directly, small ones in batches.
                for piece in [0..70_000, 70_000..70_004] {
                    peer.input(&command, piece.start, &whole[piece], PduFlags::empty()).await;
                }
                let last = PduFlags::LAST_PDU | PduFlags::SUCCESS;
                peer.input(&command, 70_004, &whole[70_004..], last).await;
                let (command, _) = peer.command().await;
                peer.input(&command, 0, &data(512), PduFlags::LAST_PDU).await;
                peer.end(&command, GOOD, 0).await;
                let (command, _) = peer.command().await;
                let last = PduFlags::LAST_PDU | PduFlags::SUCCESS;
                peer.input(&command, 0, &data(99_840), last).await;
                peer.next().await;
            });
            let session = session.await.unwrap();
            let (result, buffer) = session.read(0, Buffer::new(99_840)).await;
            result.unwrap();
            assert!(buffer[..] == data(99_840));
            let (result, buffer) = session.read(0, Buffer::new(512)).await;
            result.unwrap();
            assert!(buffer[..] == data(512));
            // What nobody looks at is received, and its digest looked at, but not copied.
            let asked = ring.now();
            session.read_unseen(0, 99_840).await.unwrap();
            assert!((asked..=ring.now()).contains(&session.heard()));
        });
    }
}

#[test]
fn small_output_goes_along_and_large_output_when_it_is_asked_for() {
    for digests in [DigestFlags::empty(), DigestFlags::all()] {
        run(move |ring| async move {
            let script = Script { digests, cpda: 17, ..Script::default() };
            let session = peer::open(&ring, script, |mut peer: Peer| async move {
                let (command, along) = peer.command().await;
                assert!(along == data(4096));
                assert!(BlockRange::of(&command).flags.contains(RangeFlags::FORCE_UNIT_ACCESS));
                peer.end(&command, GOOD, 0).await;
                let (command, along) = peer.command().await;
                assert!(along.is_empty() && command.sgl.length == 20_480);
                let mut got = peer.output(&command, 1, 0, 16_384, 8192).await;
                got.extend(peer.output(&command, 2, 16_384, 4096, 8192).await);
                assert!(got == data(20_480));
                peer.end(&command, GOOD, 0).await;
                peer.next().await;
            });
            let session = session.await.unwrap();
            session.write(0, Buffer::copy_of(&data(4096)).share(), true).await.unwrap();
            session.write(4096, Buffer::copy_of(&data(20_480)).share(), false).await.unwrap();
        });
    }
}

#[test]
fn commands_wait_for_an_entry_of_the_queue() {
    run(|ring| async move {
        let clock = ring.clone();
        let script = Script { depth: 2, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let mut open = vec![peer.command().await.0, peer.command().await.0];
            let early = clock.timeout(Duration::from_millis(50), peer.command()).await;
            assert!(early.is_none(), "the queue is full");
            for _ in 0..2 {
                peer.end(&open.remove(0), GOOD, 0).await;
                open.push(peer.command().await.0);
            }
            for command in open {
                peer.end(&command, GOOD, 0).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        let block = Buffer::zeroed(512).share();
        let writes: Vec<_> = (0..4).map(|_| session.begin_write(0, block.clone()).unwrap()).collect();
        for write in writes {
            write.end().await.0.unwrap();
        }
    });
}

#[test]
fn a_read_that_came_straight_into_its_buffer_leaves_its_entry_to_one_that_waits() {
    run(|ring| async move {
        let clock = ring.clone();
        let attributes = ConnectAttributes::DISABLE_SQ_FLOW_CONTROL;
        let script = Script { depth: 1, attributes, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            for _ in 0..2 {
                let (command, _) = peer.command().await;
                peer.late_input(&command, &data(32 << 10), &clock).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        let reads = [(); 2].map(|()| session.begin_read(0, Buffer::new(32 << 10)).unwrap());
        for read in reads {
            let ended = ring.timeout(Duration::from_secs(5), read.end()).await;
            ended.expect("the second one waits for ever").0.unwrap();
        }
    });
}

#[test]
fn what_may_be_repeated_is_repeated_and_what_may_not_is_not() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            let last = Status::LBA_OUT_OF_RANGE.do_not_retry();
            for status in [Status::COMMAND_INTERRUPTED, Status::NAMESPACE_NOT_READY, GOOD, last] {
                let (command, data) = peer.command().await;
                assert_eq!(data.len(), 512, "the data goes along each time");
                peer.end(&command, status, 0).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        session.write(0, Buffer::zeroed(512).share(), false).await.unwrap();
        assert_eq!(session.retries(), 2);
        let refused = session.write(0, Buffer::zeroed(512).share(), false).await.unwrap_err();
        assert_eq!(refused.to_string(), "NVMe status 0x0/0x80 LBA_OUT_OF_RANGE");
    });
}

#[test]
fn a_discard_keeps_to_the_limits_of_the_controller() {
    run(|ring| async move {
        let script = Script { dataset_blocks: 100, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            for (slba, length) in [(8, 100), (108, 100), (208, 50)] {
                let (command, list) = peer.command().await;
                let wanted = DatasetManagement::of(&command);
                assert_eq!((wanted.ranges(), wanted.attributes), (1, DatasetAttributes::DEALLOCATE));
                let range = DatasetRange { attributes: 0, length, slba };
                assert!(DatasetRanges::decode(&list, 1).unwrap().iter().eq([range]));
                peer.end(&command, GOOD, 0).await;
            }
            peer.next().await;
        });
        session.await.unwrap().discard(4096, 250 * 512).await.unwrap();
    });
}

#[test]
fn what_the_controller_does_not_have_is_not_asked_for() {
    run(|ring| async move {
        let script = Script { commands: OptionalCommands::empty(), ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            peer.next().await;
        });
        let session = session.await.unwrap();
        let block = Buffer::zeroed(512).share();
        let refusals = [
            session.discard(0, 4096).await,
            session.write_zeroes(0, 4096, RangeFlags::empty()).await,
            session.compare(0, block).await,
            session.verify(0, 4096).await,
        ];
        assert!(
            refusals.iter().all(|refusal| matches!(
                refusal.as_ref().map_err(IoError::cause),
                Err(Cause::Unsupported(_))
            ))
        );
    });
}

#[test]
fn the_halves_of_a_fused_command_stand_side_by_side() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            let (compare, expected) = peer.command().await;
            let (write, new) = peer.command().await;
            assert_eq!((compare.opcode, compare.fuse()), (Opcode::COMPARE.0, Fuse::First));
            assert_eq!((write.opcode, write.fuse()), (Opcode::WRITE.0, Fuse::Second));
            assert_eq!((expected, new), (vec![1; 512], vec![2; 512]));
            peer.end(&compare, Status::COMPARE_FAILURE, 0).await;
            peer.end(&write, Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND, 0).await;
            peer.next().await;
        });
        let session = session.await.unwrap();
        let block = |byte| Buffer::copy_of(&[byte; 512]).share();
        let [compare, write] = session.compare_and_write(0, block(1), block(2), false).await;
        assert!(matches!(
            compare.as_ref().map_err(IoError::cause),
            Err(Cause::Nvme { status: Status::COMPARE_FAILURE, .. })
        ));
        assert!(write.unwrap_err().to_string().contains("FAILED_FUSED_COMMAND"));
    });
}

/// What a peer does wrong after the first command, and what we say about it.
async fn wrong<F: Future<Output = ()> + 'static>(
    ring: &Ring,
    script: Script,
    part: &str,
    then: impl FnOnce(Peer, Command) -> F + 'static,
) {
    let session = peer::open(ring, script, |mut peer: Peer| async move {
        let (command, _) = peer.command().await;
        then(peer, command).await;
    });
    let (result, _) = session.await.unwrap().read(0, Buffer::new(512)).await;
    let reason = reason(result);
    assert!(reason.contains(part), "{reason}");
}

#[test]
fn a_target_that_breaks_the_rules_is_left() {
    run(|ring| async move {
        let plain = Script::default();
        wrong(&ring, plain, "1024 bytes at 0 of 512", |mut peer, command| async move {
            peer.input(&command, 0, &[0; 1024], PduFlags::LAST_PDU).await;
            peer.next().await;
        })
        .await;
        wrong(&ring, plain, "4 bytes at 8 of 512 asked for, after 0", |mut peer, command| async move {
            peer.input(&command, 8, &[0; 4], PduFlags::LAST_PDU).await;
            peer.next().await;
        })
        .await;
        wrong(&ring, plain, "is not the last one", |mut peer, command| async move {
            peer.input(&command, 0, &[0; 512], PduFlags::SUCCESS).await;
            peer.next().await;
        })
        .await;
        wrong(&ring, plain, "a command that is not there", |mut peer, command| async move {
            let other = Command { cid: command.cid ^ 1 << 14, ..command };
            peer.end(&other, GOOD, 0).await;
            peer.next().await;
        })
        .await;
        wrong(&ring, plain, "it sent IC_RESP in the middle", |mut peer, _| async move {
            let mut header = [0; wire::nvme::tcp::ICResp::LENGTH];
            wire::nvme::tcp::ICResp::new(0, DigestFlags::empty(), 8192).encode(&mut header);
            peer.send(PduType::IC_RESP, &header, &[]).await;
            peer.next().await;
        })
        .await;
        wrong(&ring, plain, "makes no sense", |mut peer, _| async move {
            peer.send(PduType(0x3f), &[0x3f, 0, 24, 0, 24, 0, 0, 0], &[]).await;
            peer.next().await;
        })
        .await;
        wrong(&ring, plain, "ended the connection: PDU_SEQUENCE_ERROR", |mut peer, _| async move {
            let mut header = [0; TermReq::LENGTH];
            TermReq::new(PduType::C2H_TERM_REQ, FatalError::SEQUENCE, 0).encode(&mut header);
            peer.send(PduType::C2H_TERM_REQ, &header, &[]).await;
            peer.next().await;
        })
        .await;
        let digests = Script { digests: DigestFlags::all(), ..plain };
        wrong(&ring, digests, "a data digest is wrong", |mut peer, command| async move {
            peer.spoil = true;
            peer.input(&command, 0, &[0; 512], PduFlags::LAST_PDU).await;
            peer.next().await;
        })
        .await;
        let header_digest = Script { digests: DigestFlags::HEADER, ..plain };
        wrong(&ring, header_digest, "a header digest is wrong", |mut peer, command| async move {
            let framing = std::mem::take(&mut peer.framing);
            let completion = wire::nvme::Completion { cid: command.cid, ..Default::default() };
            let mut header = [0; 28];
            let capsule = wire::nvme::tcp::CapsuleResp::new(framing, completion);
            capsule.encode(header.first_chunk_mut().unwrap());
            peer.send(PduType::CAPSULE_RESP, &header, &[]).await;
            peer.next().await;
        })
        .await;
    });
}

#[test]
fn a_read_that_brings_less_is_short() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            peer.input(&command, 0, &[0; 512], PduFlags::empty()).await;
            peer.end(&command, GOOD, 0).await;
            peer.next().await;
        });
        let (result, _) = session.await.unwrap().read(0, Buffer::new(1024)).await;
        assert!(matches!(
            result.as_ref().map_err(IoError::cause),
            Err(Cause::Short { moved: 512, wanted: 1024 })
        ));
    });
}

#[test]
fn a_refused_connect_says_why() {
    for (connect, part) in [
        ((Status::CONNECT_INVALID_HOST.do_not_retry(), 0), "allow this host's NQN"),
        ((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), 0x1_0100), "no subsystem has this NQN"),
        ((Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), 44), "(byte 44 of the command)"),
        ((Status::CONNECT_CONTROLLER_BUSY, 0), "no controller left"),
    ] {
        run(move |ring| async move {
            let script = Script { connect, ..Script::default() };
            let error = peer::open(&ring, script, |_| async {}).await.err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        });
    }
}

#[test]
fn somebody_who_does_not_know_nvme_is_told_apart() {
    run(|ring| async move {
        let script = Script { garbage: true, ..Script::default() };
        let error = peer::open(&ring, script, |_| async {}).await.err().unwrap().to_string();
        assert!(error.contains("does not speak NVMe/TCP") && error.contains("hint:"), "{error}");
    });
}

#[test]
fn a_session_is_closed_in_good_order() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            assert!(peer.next().await.is_none(), "nothing comes behind the shutdown");
        });
        let session = session.await.unwrap();
        session.shut_down().await;
        assert_eq!(session.lost().as_deref(), Some("the session was closed"));
    });
}

/// The answer to the Property Set that disables a controller says only that it was told.
#[test]
fn a_reset_is_done_when_the_controller_says_that_it_is_disabled() {
    let reset = |script: Script| {
        run(move |ring| async move {
            let session = peer::open(&ring, script, |mut peer: Peer| async move {
                peer.next().await;
            });
            let (session, before) = (session.await.unwrap(), ring.now());
            (session.reset().await, ring.now().since(before))
        })
    };
    let (result, took) = reset(Script { lingers: 30, ..Script::default() });
    result.unwrap();
    assert!(took >= Duration::from_millis(30), "it was not waited for: {took:?}");
    let (result, _) = reset(Script { lingers: 3, fails: true, ..Script::default() });
    assert!(reason(result).contains("was not reset: it reports a fatal status"));
    // CAP.TO of the peer is a second.
    let (result, _) = reset(Script { lingers: u32::MAX, ..Script::default() });
    assert!(reason(result).contains("was not reset: not within 1 s"));
}

#[test]
fn output_is_cut_as_small_as_it_is_wished() {
    run(|ring| async move {
        let script = Script { data_pdu: 516, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            let got = peer.output(&command, 1, 0, 20_480, 516).await;
            assert!(got == data(20_480));
            peer.end(&command, GOOD, 0).await;
            peer.next().await;
        });
        let session = session.await.unwrap();
        session.write(0, Buffer::copy_of(&data(20_480)).share(), false).await.unwrap();
    });
}

#[test]
fn no_more_goes_along_with_a_command_than_is_wished() {
    for (along, goes) in [(0, 0), (4095, 0), (4096, 4096)] {
        run(move |ring| async move {
            let script = Script { along, ..Script::default() };
            let session = peer::open(&ring, script, move |mut peer: Peer| async move {
                let (command, along) = peer.command().await;
                assert_eq!(along.len(), goes);
                if goes == 0 {
                    assert!(peer.output(&command, 1, 0, 4096, 8192).await == data(4096));
                }
                peer.end(&command, GOOD, 0).await;
                peer.next().await;
            });
            let session = session.await.unwrap();
            session.write(0, Buffer::copy_of(&data(4096)).share(), false).await.unwrap();
        });
    }
}

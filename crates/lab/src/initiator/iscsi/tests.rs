//! The initiator against a peer that follows a script: for what a well-behaved target never does.

mod peer;

use std::time::Duration;

use ring::{Buffer, Options, Reactor, Ring};
use wire::iscsi::{
    AsyncEvent, AsyncMessage, DataIn, DataInFlags, NopIn, NopOut, Opcode, RESERVED_TAG, SerialNumber,
};
use wire::scsi::Status;

use super::*;
use peer::{Peer, Script};

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Ring) -> F) -> T {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring))
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn reason(result: Result<(), IoError>) -> String {
    match result.map_err(|error| error.cause().clone()) {
        Err(Cause::Connection(reason)) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_that_dies_ends_every_command() {
    run(|ring| async move {
        let script = Script::default();
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            for _ in 0..10 {
                peer.command().await;
            }
        });
        let session = session.await.unwrap();
        let reads: Vec<_> = (0..10).map(|_| session.begin_read(0, Buffer::new(4096))).collect();
        for read in reads {
            assert!(reason(read.end().await.0).contains("the target closed the connection"));
        }
        let (late, _) = session.read(0, Buffer::new(512)).await;
        assert!(late.unwrap_err().is_final(), "and those after it");
    });
}

#[test]
fn a_command_without_an_answer_ends_with_its_time() {
    run(|ring| async move {
        let script = Script { timeout: Duration::from_millis(100), ..Script::default() };
        let forever = |mut peer: Peer| async move {
            peer.command().await;
            peer.next().await;
        };
        let session = peer::open(&ring, script, forever).await.unwrap();
        let (result, _) = session.read(0, Buffer::new(512)).await;
        assert!(reason(result).contains("READ was not answered within"));
    });
}

#[test]
fn input_in_many_pieces_comes_together() {
    run(|ring| async move {
        let script = Script { header_digest: true, data_digest: true, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            let whole = data(100_000 / 512 * 512);
            // A large piece is received directly, small ones in batches, the last of an odd place.
            let pieces = [0..70_000, 70_000..70_004, 70_004..whole.len()];
            for (number, piece) in pieces.into_iter().enumerate() {
                let last = piece.end == whole.len();
                peer.data_in(&command, number as u32, piece.start, &whole[piece], last).await;
            }
            let (command, _) = peer.command().await;
            peer.data_in(&command, 0, 0, &whole, true).await;
            peer.next().await;
        });
        let session = session.await.unwrap();
        let (result, buffer) = session.read(0, Buffer::new(99_840)).await;
        result.unwrap();
        assert!(buffer[..] == data(99_840));
        // What nobody looks at is received, and its digest looked at, but not copied.
        let asked = ring.now();
        session.read_unseen(0, 99_840).await.unwrap();
        assert!((asked..=ring.now()).contains(&session.heard()));
    });
}

#[test]
fn output_goes_when_it_is_asked_for() {
    run(|ring| async move {
        let script = Script {
            answers: "ImmediateData=No\0InitialR2T=Yes\0MaxBurstLength=8192\0MaxRecvDataSegmentLength=4096\0",
            ..Script::default()
        };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let (command, immediate) = peer.command().await;
            assert!(immediate.is_empty());
            let mut got = Vec::new();
            for (number, start) in (0..20_480).step_by(8192).enumerate() {
                let length = (20_480 - start).min(8192);
                peer.r2t(&command, number as u32, start as u32, length as u32).await;
                got.extend(peer.sequence(length).await);
            }
            assert!(got == data(20_480));
            peer.status(&command, Status::Good as u8, &[]).await;
            peer.next().await;
        });
        let session = session.await.unwrap();
        session.write(4096, Buffer::copy_of(&data(20_480)).share(), false).await.unwrap();
    });
}

#[test]
fn output_goes_unasked_as_far_as_agreed() {
    run(|ring| async move {
        let script = Script {
            answers: "ImmediateData=Yes\0InitialR2T=No\0FirstBurstLength=8192\0MaxRecvDataSegmentLength=4096\0",
            ..Script::default()
        };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let (command, mut got) = peer.command().await;
            assert_eq!(got.len(), 4096);
            got.extend(peer.sequence(4096).await);
            peer.r2t(&command, 0, 8192, 2048).await;
            got.extend(peer.sequence(2048).await);
            assert!(got == data(10_240));
            peer.status(&command, Status::Good as u8, &[]).await;
            peer.next().await;
        });
        let session = session.await.unwrap();
        session.write(0, Buffer::copy_of(&data(10_240)).share(), true).await.unwrap();
    });
}

#[test]
fn commands_wait_for_the_window() {
    run(|ring| async move {
        let clock = ring.clone();
        let script = Script { window: 2, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let (first, _) = peer.command().await;
            // The answer to the first leaves room for two: no third comes before the next answer.
            peer.status(&first, Status::Good as u8, &[]).await;
            let mut open = vec![peer.command().await.0, peer.command().await.0];
            assert!(
                clock.timeout(Duration::from_millis(50), peer.command()).await.is_none(),
                "the window is full"
            );
            for _ in 0..2 {
                let command = open.remove(0);
                peer.status(&command, Status::Good as u8, &[]).await;
                open.push(peer.command().await.0);
            }
            for command in open {
                peer.status(&command, Status::Good as u8, &[]).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        session.flush().await.unwrap();
        let writes: Vec<_> = (0..4).map(|_| session.begin_write(0, Buffer::zeroed(512).share())).collect();
        for write in writes {
            write.end().await.0.unwrap();
        }
    });
}

#[test]
fn a_read_that_came_straight_into_its_buffer_leaves_its_room_to_one_that_waits() {
    run(|ring| async move {
        let clock = ring.clone();
        let script = Script { window: 1, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            for _ in 0..2 {
                let (command, _) = peer.command().await;
                peer.late_data_in(&command, &data(32 << 10), &clock).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        let reads = [(); 2].map(|()| session.begin_read(0, Buffer::new(32 << 10)));
        for read in reads {
            let ended = ring.timeout(Duration::from_secs(5), read.end()).await;
            ended.expect("the second one waits for ever").0.unwrap();
        }
    });
}

#[test]
fn a_ping_is_answered() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            let ping = NopIn {
                initiator_task_tag: RESERVED_TAG,
                target_transfer_tag: 77,
                stat_sn: peer.stat_sn,
                max_cmd_sn: peer.max_cmd_sn(),
                ..NopIn::default()
            };
            peer.send(|bhs| ping.encode(bhs), &[]).await;
            let (bhs, _) = peer.next().await.unwrap();
            assert_eq!(Opcode::of(&bhs), Ok(Opcode::NopOut));
            let answer = NopOut::decode(&bhs);
            assert_eq!((answer.target_transfer_tag, answer.initiator_task_tag), (77, RESERVED_TAG));
            peer.status(&command, Status::Good as u8, &[]).await;
            peer.next().await;
        });
        session.await.unwrap().flush().await.unwrap();
    });
}

#[test]
fn an_announced_end_is_told() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            peer.command().await;
            let notice = AsyncMessage {
                initiator_task_tag: RESERVED_TAG,
                event: AsyncEvent::SESSION_DROPPED,
                ..AsyncMessage::default()
            };
            peer.send(|bhs| notice.encode(bhs), &[]).await;
            peer.next().await;
        });
        let result = session.await.unwrap().flush().await;
        assert!(reason(result).contains("announced to drop the session"));
    });
}

#[test]
fn a_busy_target_is_asked_again() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            for status in [Status::Busy, Status::TaskSetFull, Status::Good] {
                let (command, data) = peer.command().await;
                assert_eq!(data.len(), 512, "the data goes along each time");
                peer.status(&command, status as u8, &[]).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        session.write(0, Buffer::zeroed(512).share(), false).await.unwrap();
        assert_eq!(session.retries(), 2);
    });
}

#[test]
fn a_discard_keeps_to_the_limits_of_the_unit() {
    run(|ring| async move {
        let script = Script { maximum_unmap: 100, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            for (lba, blocks) in [(8, 100), (108, 100), (208, 50)] {
                let (command, list) = peer.command().await;
                let length = list.len() as u16;
                let expected = wire::scsi::Command::Unmap { parameter_list_length: length };
                assert_eq!(wire::scsi::Command::decode(&command.cdb), Ok(expected));
                let ranges: Vec<_> = unmap::UnmapList::decode(&list, 1).unwrap().iter().collect();
                assert_eq!(ranges, [BlockDescriptor { lba, blocks }]);
                peer.status(&command, Status::Good as u8, &[]).await;
            }
            peer.next().await;
        });
        let session = session.await.unwrap();
        assert!(session.geometry().discard);
        session.discard(4096, 250 * 512).await.unwrap();
    });
}

#[test]
fn a_unit_without_unmap_is_not_asked_to() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            peer.next().await;
        });
        let result = session.await.unwrap().discard(0, 4096).await;
        assert!(matches!(result.as_ref().map_err(IoError::cause), Err(Cause::Unsupported("UNMAP"))));
    });
}

#[test]
fn sense_data_becomes_a_sentence() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            let mut sense = vec![0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0];
            sense.splice(0..0, [0, 18]);
            peer.status(&command, Status::CheckCondition as u8, &sense).await;
            peer.next().await;
        });
        let (result, _) = session.await.unwrap().read(0, Buffer::new(512)).await;
        assert_eq!(
            result.unwrap_err().to_string(),
            "SCSI status CheckCondition: MediumError, UNRECOVERED READ ERROR"
        );
    });
}

#[test]
fn an_aborted_command_ends() {
    run(|ring| async move {
        let session = peer::open(&ring, Script::default(), |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            let request = peer.management().await;
            assert_eq!(request.referenced_task_tag, command.initiator_task_tag);
            assert_eq!(request.ref_cmd_sn, command.cmd_sn);
            peer.managed(&request, TaskManagementResponseCode::FUNCTION_COMPLETE).await;
            peer.next().await;
        });
        let session = session.await.unwrap();
        let read = session.begin_read(0, Buffer::new(4096));
        assert_eq!(session.abort(&read).await.unwrap(), TaskManagementResponseCode::FUNCTION_COMPLETE);
        let (result, buffer) = read.end().await;
        assert!(matches!(result.as_ref().map_err(IoError::cause), Err(Cause::Aborted)));
        assert_eq!(buffer.len(), 4096);
    });
}

/// What a peer must not do, and what is said of it.
#[test]
fn a_peer_that_breaks_the_rules_is_left() {
    type Crime = fn(&mut DataIn) -> Vec<u8>;
    let crimes: [(Crime, &str); 5] = [
        (|_| vec![0; 8192], "8192 bytes at 0 of 4096 asked for"),
        (
            |pdu| {
                pdu.buffer_offset = 512;
                vec![0; 512]
            },
            "512 bytes at 512 of 4096",
        ),
        (
            |pdu| {
                pdu.buffer_offset = u32::MAX;
                vec![0; 512]
            },
            "512 bytes at 4294967295",
        ),
        (
            |pdu| {
                pdu.initiator_task_tag ^= 0x5_0000;
                vec![0; 512]
            },
            "a task that is not there",
        ),
        (|_| vec![0; 300 << 10], "more than we take"),
    ];
    for (crime, said) in crimes {
        let text = run(move |ring| async move {
            let session = peer::open(&ring, Script::default(), move |mut peer: Peer| async move {
                let (command, _) = peer.command().await;
                let mut pdu = DataIn {
                    flags: DataInFlags::FINAL,
                    initiator_task_tag: command.initiator_task_tag,
                    target_transfer_tag: RESERVED_TAG,
                    max_cmd_sn: SerialNumber(100),
                    ..DataIn::default()
                };
                let data = crime(&mut pdu);
                peer.send(|bhs| pdu.encode(bhs), &data).await;
                peer.next().await;
            });
            let (result, _) = session.await.unwrap().read(0, Buffer::new(4096)).await;
            reason(result)
        });
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_wrong_digest_ends_the_connection() {
    run(|ring| async move {
        let script = Script { data_digest: true, ..Script::default() };
        let session = peer::open(&ring, script, |mut peer: Peer| async move {
            let (command, _) = peer.command().await;
            peer.spoil = true;
            peer.data_in(&command, 0, 0, &data(512), true).await;
            peer.next().await;
        });
        let (result, _) = session.await.unwrap().read(0, Buffer::new(512)).await;
        assert!(reason(result).contains("a data digest is wrong"));
    });
}

#[test]
fn garbage_instead_of_a_login_is_refused() {
    run(|ring| async move {
        let script = Script { garbage: true, ..Script::default() };
        let error = peer::open(&ring, script, |_| async {}).await.err().unwrap();
        assert!(error.to_string().contains("does not follow the protocol"), "{error}");
    });
}

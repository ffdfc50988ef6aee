//! Channels on several cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::{Buffer, Options, Reactor};

use super::*;
use crate::request::{Extent, Request};
use crate::shard::{Mail, Peers, Shard};

fn core(index: usize, peers: Peers, mail: Mail, volume: &Arc<Volume>) -> (Reactor, std::rc::Rc<Shard>) {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let channel =
        Channel::new(0, volume.clone(), volume.stack(&ring, &crate::pool::PoolCores::default()).unwrap());
    let shard = Shard::new(index, ring, peers, mail, vec![std::rc::Rc::new(channel)]);
    (reactor, shard)
}

/// Adds one to a counter in block 0, as COMPARE AND WRITE does: read, change, write, with others in between.
async fn increment(shard: &std::rc::Rc<Shard>, exclusively: bool) {
    let channel = shard.volume(0);
    let held = if exclusively { Some(channel.exclusive(shard, Extent::new(0, 512)).await) } else { None };
    let buffer = match &held {
        Some(held) => held.submit(Request::read(0, Buffer::new(512))).await.buffer,
        None => channel.submit(Request::read(0, Buffer::new(512))).await.buffer,
    };
    let value = u64::from_le_bytes(buffer[..8].try_into().unwrap()) + 1;
    shard.ring().yield_now().await;
    let mut buffer = buffer;
    buffer[..8].copy_from_slice(&value.to_le_bytes());
    match &held {
        Some(held) => held.submit(Request::write(0, buffer)).await.result.unwrap(),
        None => channel.submit(Request::write(0, buffer)).await.result.unwrap(),
    }
}

fn count_on_two_cores(exclusively: bool) -> u64 {
    const ROUNDS: u64 = 500;
    let options = VolumeOptions {
        name: "counter".into(),
        id: [1; 16],
        bytes: 1 << 20,
        block_size: 512,
        backing: Backing::Memory,
        limits: Limits::default(),
        may_grow: false,
        faults: None,
    };
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let volume = Arc::new(reactor.block_on(async move {
        Volume::prepare(&ring, options, &crate::pool::Pools::default()).await.unwrap().0
    }));
    let (peers, mails) = Peers::new(2);
    let done = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = mails
        .into_iter()
        .enumerate()
        .map(|(index, mail)| {
            let (peers, volume, done) = (peers.clone(), volume.clone(), done.clone());
            std::thread::spawn(move || {
                let (reactor, shard) = core(index, peers, mail, &volume);
                for _ in 0..2 {
                    let (shard, done) = (shard.clone(), done.clone());
                    reactor.ring().spawn_later(async move {
                        for _ in 0..ROUNDS {
                            increment(&shard, exclusively).await;
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                    });
                }
                let ring = shard.ring().clone();
                reactor.block_on(async move {
                    while done.load(Ordering::SeqCst) < 4 {
                        ring.sleep(std::time::Duration::from_millis(1)).await;
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (reactor, shard) = {
        let (peers, mut mails) = Peers::new(1);
        core(0, peers, mails.remove(0), &volume)
    };
    let buffer = reactor
        .block_on(async move { shard.volume(0).submit(Request::read(0, Buffer::new(512))).await.buffer });
    let count = u64::from_le_bytes(buffer[..8].try_into().unwrap());
    assert!(count <= 4 * ROUNDS);
    count
}

#[test]
fn exclusive_use_loses_no_update() {
    assert_eq!(count_on_two_cores(true), 2000);
}

#[test]
fn without_it_updates_are_lost() {
    assert!(count_on_two_cores(false) < 2000, "the test above would not notice");
}

#[test]
fn nothing_is_done_at_once_to_what_somebody_has_exclusively() {
    let options = VolumeOptions {
        name: "at-once".into(),
        id: [3; 16],
        bytes: 1 << 20,
        block_size: 512,
        backing: Backing::Memory,
        limits: Limits::default(),
        may_grow: false,
        faults: None,
    };
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let volume = Arc::new(reactor.block_on(async move {
        Volume::prepare(&ring, options, &crate::pool::Pools::default()).await.unwrap().0
    }));
    let (peers, mut mails) = Peers::new(1);
    let (reactor, shard) = core(0, peers, mails.remove(0), &volume);
    reactor.block_on(async move {
        let (channel, extent) = (shard.volume(0), Extent::new(512, 512));
        assert!(channel.is_prompt() && channel.absorb(extent, &[&[1; 512]]).is_some());
        let held = channel.exclusive(&shard, extent).await;
        assert!(channel.absorb(extent, &[&[2; 512]]).is_none() && channel.lend(extent).is_none());
        drop(held);
        shard.ring().yield_now().await;
        assert!(channel.lend(extent).unwrap().iter().all(|&byte| byte == 1));
        assert!(channel.absorb(extent, &[&[3; 512]]).is_some());
    });
}

#[test]
fn exclusive_use_that_the_end_of_its_shard_cuts_short_lets_go_of_nothing() {
    let options = VolumeOptions {
        name: "short".into(),
        id: [2; 16],
        bytes: 1 << 20,
        block_size: 512,
        backing: Backing::Memory,
        limits: Limits::default(),
        may_grow: false,
        faults: None,
    };
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let volume = Arc::new(reactor.block_on(async move {
        Volume::prepare(&ring, options, &crate::pool::Pools::default()).await.unwrap().0
    }));
    let (peers, mut mails) = Peers::new(1);
    let (reactor, shard) = core(0, peers, mails.remove(0), &volume);
    let holder = shard.clone();
    reactor.block_on(async move {
        let held = holder.volume(0).exclusive(&holder, Extent::new(0, 512)).await;
        holder.dismantle();
        drop(held);
    });
    assert!(shard.find_volume(0).is_none());
}

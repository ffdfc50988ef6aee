//! Who uses volumes is told while he does, and no longer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use control::api::client::Client;
use control::api::model::{Activity, Initiators};
use control::start;
use control::store::Store;

/// As an old client does it: an export by its name, without any option. `NBD_OPT_EXPORT_NAME` of doc/proto.md.
fn connect(address: std::net::SocketAddr, export: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let mut said = 3u32.to_be_bytes().to_vec();
    said.extend(b"IHAVEOPT");
    said.extend(1u32.to_be_bytes());
    said.extend((export.len() as u32).to_be_bytes());
    said.extend(export.as_bytes());
    stream.write_all(&said).unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    stream
}

/// Sessions of the only volume, as they are counted and not listed.
fn sessions(directory: &Path) -> u64 {
    Client::new(directory).unwrap().get::<Activity>("/v1/activity").unwrap().volumes[0].sessions
}

fn initiators(directory: &Path) -> Initiators {
    Client::new(directory).unwrap().get("/v1/initiators").unwrap()
}

#[test]
fn who_uses_a_volume_is_told_while_he_does() {
    let directory = tempfile::tempdir().unwrap();
    let text = "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n[nbd]\nlisten = [\"127.0.0.1:0\"]\n\
         [[volume]]\nname = \"demo\"\nsize = \"1MiB\"\nbacking = { memory = true }\n";
    std::fs::write(directory.path().join("fels.toml"), text).unwrap();
    let store = Store::of_directory(directory.path()).unwrap();
    let document = store.read().unwrap();
    let node = start(store, document).unwrap();
    assert_eq!(initiators(directory.path()), Initiators::default());
    let streams = [0, 1].map(|_| connect(node.portals().nbd[0], "demo"));
    let told = initiators(directory.path());
    assert_eq!((told.initiators.len(), sessions(directory.path())), (2, 2), "{told:?}");
    for stream in &streams {
        let from = stream.local_addr().unwrap().to_string();
        let one = told.initiators.iter().find(|one| one.name == from).expect("it is there");
        assert_eq!((one.protocol.as_str(), &one.sessions[0].volumes[..]), ("nbd", &["demo".to_owned()][..]));
        assert_eq!(one.sessions[0].connections[0].from, from);
    }
    drop(streams);
    let end = Instant::now() + Duration::from_secs(20);
    while initiators(directory.path()) != Initiators::default() || sessions(directory.path()) > 0 {
        assert!(Instant::now() < end, "who is gone is told for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    node.shutdown().unwrap();
}

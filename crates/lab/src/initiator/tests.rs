//! How a host is reached.

use ring::{Listener, Options, Reactor};

use super::*;

#[test]
fn a_host_that_listens_on_one_of_its_addresses_is_reached() {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let bind = || Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        let (listener, gone) = (bind(), bind());
        let [open, closed] = [&listener, &gone].map(|listener| listener.address().unwrap());
        drop(gone);
        let (_socket, reached) = first_of(&ring, vec![closed, open]).await.unwrap();
        assert_eq!(reached, open);
        let error = first_of(&ring, vec![closed]).await.err().unwrap().to_string();
        assert!(error.contains("no connection (") && error.contains("hint: "), "{error}");
    });
}

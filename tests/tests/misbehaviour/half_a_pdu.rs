//! PDUs that end in the middle.

use std::io::Write as _;
use std::net::Shutdown;

use beds::initiator::{HEADER, Initiator, login_request};
use beds::peer::{UNDISTURBED, WRONG_ENDS_WITHIN, is_closed};

use crate::{connect, expect_reason, node};

#[test]
fn half_a_pdu() {
    let (mut node, companion) = node();
    let whole = login_request("half", &[("SessionType", "Normal")]);
    for length in (1..whole.len()).step_by(7) {
        let mut stream = connect(&node);
        stream
            .write_all(&whole[..length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("half a login");
        assert!(is_closed(&mut stream, WRONG_ENDS_WITHIN), "{length} bytes of a login keep their connection");
    }
    for length in [1, HEADER - 1] {
        let mut session = Initiator::login(node.address(), "nothing").expect("a login");
        let stream = session.stream();
        stream
            .write_all(&vec![0x01; length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("half a command");
        assert!(is_closed(stream, WRONG_ENDS_WITHIN), "{length} bytes of a command keep their connection");
        expect_reason(&node, session.stream(), WRONG_ENDS_WITHIN);
    }
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}

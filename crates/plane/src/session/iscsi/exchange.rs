//! Pings, text and logout: RFC 7143 sections 11.10, 11.11, 11.14, 11.15, 11.18 and 11.19.

use std::rc::Rc;

use ring::Buffer;
use wire::iscsi::{
    AsyncEvent, AsyncMessage, Bhs, LogoutReason, LogoutRequest, LogoutResponse, LogoutResponseCode, Lun,
    NopIn, NopOut, RESERVED_TAG, TextRequest, U24,
};

use super::connection::Connection;
use super::session::Session;
use super::target::{PORTAL_GROUP_TAG, Visible};
use super::text::TextAction;

impl Session {
    /// Answers a ping with its own data.
    pub fn answer_ping(&self, connection: &Connection, header: &NopOut, mut data: Buffer) {
        data.set_len(data.len().min(connection.segment()));
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let pdu = NopIn {
            data_segment_length: U24::saturating(data.len()),
            lun: header.lun,
            initiator_task_tag: header.initiator_task_tag,
            target_transfer_tag: RESERVED_TAG,
            stat_sn: connection.next_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
        };
        connection.send(|header| pdu.encode(header), Some(data.share()));
    }

    /// Asks the initiator whether it is there.
    pub fn send_ping(&self, connection: &Connection, tag: u32) {
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let pdu = NopIn {
            initiator_task_tag: RESERVED_TAG,
            target_transfer_tag: tag,
            stat_sn: connection.stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
            ..NopIn::default()
        };
        connection.send(|header| pdu.encode(header), None);
    }

    /// Answers a text request.
    pub fn answer_text(&self, connection: &Connection, header: &TextRequest, text: &[u8]) {
        let addresses: Vec<String> = self
            .node
            .addresses_for(connection.local)
            .into_iter()
            .map(|address| format!("{address},{PORTAL_GROUP_TAG}"))
            .collect();
        let targets = self.node.targets.get();
        let visible =
            Visible { targets: &targets, initiator: &self.place.key.initiator, addresses: &addresses };
        let action = connection.text.borrow_mut().handle(header, text, &visible);
        match action {
            TextAction::Respond { header: mut response, text } => {
                let (exp_cmd_sn, max_cmd_sn) = self.numbers();
                response.stat_sn = connection.next_stat_sn();
                response.exp_cmd_sn = exp_cmd_sn;
                response.max_cmd_sn = max_cmd_sn;
                connection.send(|header| response.encode(header), Some(Buffer::copy_of(&text).share()));
                let segment = connection.text.borrow().initiator_max_recv_data_segment_length();
                connection.set_segment(segment);
            }
            TextAction::Reject(reason) => {
                let mut bhs: Bhs = [0; 48];
                header.encode(&mut bhs);
                self.reject(connection, &bhs, reason);
            }
        }
    }

    /// Ends a connection or the whole session, as the initiator asks. The answer goes out when what ends has ended.
    pub fn log_out(self: &Rc<Self>, connection: &Rc<Connection>, header: &LogoutRequest, numbered: bool) {
        // At once: what came in one piece with the logout is not to be taken either.
        connection.logged_out.set(connection.logged_out.get() || ends_its_own(connection, header));
        if header.reason == LogoutReason::CLOSE_SESSION {
            self.set_logged_out();
        }
        let (session, connection, header) = (self.clone(), connection.clone(), *header);
        self.shard.ring().spawn_later(async move {
            let code = session.end_for_logout(&connection, &header).await;
            session.done_or_left(numbered);
            session.answer_logout(&connection, &header, code);
            if connection.logged_out.get() {
                connection.outgoing.below(1).await;
                connection.close("logged out");
            }
        });
    }

    /// Ends what a logout names; the connection on which it came stays for the answer.
    async fn end_for_logout(
        self: &Rc<Self>,
        connection: &Rc<Connection>,
        header: &LogoutRequest,
    ) -> LogoutResponseCode {
        match header.reason {
            LogoutReason::CLOSE_SESSION => {
                for other in self.connections().iter().filter(|other| !Rc::ptr_eq(other, connection)) {
                    // Alone, else the session would end before it has been answered.
                    other.logged_out.set(true);
                    other.close("the session was logged out");
                }
                self.abort(|_| true).await;
                LogoutResponseCode::CLOSED_SUCCESSFULLY
            }
            LogoutReason::CLOSE_CONNECTION => match self.connection(header.cid) {
                Some(ended) if Rc::ptr_eq(&ended, connection) => {
                    self.abort(|task| Rc::ptr_eq(&task.connection, &ended)).await;
                    LogoutResponseCode::CLOSED_SUCCESSFULLY
                }
                Some(ended) => {
                    self.end_alone(&ended, "the connection was logged out").await;
                    LogoutResponseCode::CLOSED_SUCCESSFULLY
                }
                None => LogoutResponseCode::CID_NOT_FOUND,
            },
            LogoutReason::REMOVE_CONNECTION_FOR_RECOVERY => {
                LogoutResponseCode::CONNECTION_RECOVERY_NOT_SUPPORTED
            }
            _ => LogoutResponseCode::CLEANUP_FAILED,
        }
    }

    fn answer_logout(&self, connection: &Connection, header: &LogoutRequest, code: LogoutResponseCode) {
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let pdu = LogoutResponse {
            response: code,
            initiator_task_tag: header.initiator_task_tag,
            stat_sn: connection.next_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
            time2wait_s: self.parameters.default_time2wait_s,
            time2retain_s: self.parameters.default_time2retain_s,
        };
        connection.send(|header| pdu.encode(header), None);
    }

    /// Tells the initiator of something it did not ask for (section 11.9).
    pub fn send_async(&self, connection: &Connection, event: AsyncEvent, parameters: [u16; 3]) {
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let pdu = AsyncMessage {
            lun: Lun::default(),
            initiator_task_tag: RESERVED_TAG,
            stat_sn: connection.next_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
            event,
            parameter1: parameters[0],
            parameter2: parameters[1],
            parameter3: parameters[2],
            ..AsyncMessage::default()
        };
        connection.send(|header| pdu.encode(header), None);
    }
}

/// Whether a logout ends the connection on which it came.
fn ends_its_own(connection: &Connection, header: &LogoutRequest) -> bool {
    match header.reason {
        LogoutReason::CLOSE_SESSION => true,
        LogoutReason::CLOSE_CONNECTION => header.cid == connection.cid,
        _ => false,
    }
}

//! Task management: RFC 7143 sections 11.5 and 11.6. Tasks are really aborted: a function completes when nothing of
//! what it aborts is under way any more.

use std::rc::Rc;
use std::time::Duration;

use ring::mailbox;
use wire::iscsi::{
    Lun, SerialNumber, TaskManagementFunction as Function, TaskManagementRequest, TaskManagementResponse,
    TaskManagementResponseCode as Code,
};

use super::connection::Connection;
use super::service::Service;
use super::session::Session;
use super::tasks::Task;
use crate::memory_gate::POLL;
use crate::session::scsi::UnitAttention;

/// How long the answer to a reset that ends all connections may take to go out.
const LAST_WORD: Duration = Duration::from_millis(100);

/// How long a function waits for what is numbered before it. What does not come in this time was never sent, and initiators give
/// up on a function that is not answered within 15 seconds.
pub(super) const CATCH_UP: Duration = Duration::from_secs(5);

/// Whether both name the same logical unit, in whatever form.
fn is_same(one: Lun, other: Lun) -> bool {
    one == other || one.index().is_some_and(|index| other.index() == Some(index))
}

/// Whether a task stands before what has this `CmdSN`.
fn is_before(task: &Task, number: SerialNumber) -> bool {
    task.immediate || task.cmd_sn.precedes(number)
}

/// Whether it names the only logical unit of a target.
fn is_the_unit(lun: Lun) -> bool {
    lun.index() == Some(0)
}

impl Session {
    /// The turn of a task management function has come.
    pub fn manage(
        self: &Rc<Self>,
        connection: &Rc<Connection>,
        request: &TaskManagementRequest,
        numbered: bool,
    ) {
        let (session, connection, request) = (self.clone(), connection.clone(), *request);
        self.shard.ring().spawn(async move {
            let code = session.carry_out(&request).await;
            session.done_or_left(numbered);
            session.answer_management(&connection, &request, code);
            if request.function == Function::TARGET_COLD_RESET && code == Code::FUNCTION_COMPLETE {
                // The answer is worth a moment.
                connection.ring().timeout(LAST_WORD, connection.outgoing.below(1)).await;
                session.end_all_sessions();
            }
        });
    }

    fn answer_management(&self, connection: &Connection, request: &TaskManagementRequest, code: Code) {
        let (exp_cmd_sn, max_cmd_sn) = self.numbers();
        let pdu = TaskManagementResponse {
            response: code,
            initiator_task_tag: request.initiator_task_tag,
            stat_sn: connection.next_stat_sn(),
            exp_cmd_sn,
            max_cmd_sn,
        };
        connection.send(|header| pdu.encode(header), None);
    }

    async fn carry_out(self: &Rc<Self>, request: &TaskManagementRequest) -> Code {
        let Some(attached) = &self.attached else { return Code::FUNCTION_NOT_SUPPORTED };
        let for_unit = matches!(
            request.function,
            Function::ABORT_TASK
                | Function::ABORT_TASK_SET
                | Function::CLEAR_TASK_SET
                | Function::LOGICAL_UNIT_RESET
                | Function::QUERY_TASK
                | Function::QUERY_TASK_SET
        );
        if for_unit && !is_the_unit(request.lun) {
            return Code::LUN_DOES_NOT_EXIST;
        }
        let ends_several = matches!(
            request.function,
            Function::ABORT_TASK_SET
                | Function::CLEAR_TASK_SET
                | Function::LOGICAL_UNIT_RESET
                | Function::TARGET_WARM_RESET
                | Function::TARGET_COLD_RESET
        );
        if ends_several {
            let caught_up = self.catch_up(request.cmd_sn);
            if self.shard.ring().timeout(CATCH_UP, caught_up).await.is_none() {
                return Code::FUNCTION_REJECTED;
            }
        }
        match request.function {
            Function::ABORT_TASK => self.abort_task(request).await,
            Function::ABORT_TASK_SET => {
                self.abort(|task| is_the_unit(task.lun) && is_before(task, request.cmd_sn)).await;
                Code::FUNCTION_COMPLETE
            }
            Function::CLEAR_TASK_SET => {
                // Of its own session only a reset may affect what is numbered behind it (section 11.5.1).
                self.abort_everywhere(Some(request.cmd_sn)).await;
                attached.unit.unit().establish_others(&attached.nexus, UnitAttention::CommandsCleared);
                Code::FUNCTION_COMPLETE
            }
            Function::LOGICAL_UNIT_RESET => {
                self.abort_everywhere(None).await;
                attached.unit.unit().reset(UnitAttention::LogicalUnitReset);
                Code::FUNCTION_COMPLETE
            }
            Function::TARGET_WARM_RESET | Function::TARGET_COLD_RESET => {
                self.abort_everywhere(None).await;
                attached.unit.unit().reset(UnitAttention::TargetReset);
                Code::FUNCTION_COMPLETE
            }
            Function::TASK_REASSIGN => Code::TASK_REASSIGNMENT_NOT_SUPPORTED,
            Function::QUERY_TASK => {
                self.query(|tag, lun| tag == request.referenced_task_tag && is_same(lun, request.lun))
            }
            Function::QUERY_TASK_SET => self.query(|_, lun| is_the_unit(lun)),
            _ => Code::FUNCTION_NOT_SUPPORTED,
        }
    }

    /// Waits until all that is numbered before an immediate function has come, perhaps on another connection: the function
    /// covers it, and nothing that it covers may be carried out or answered after it (section 11.5.1, which lets it be
    /// postponed for that). What the window has no room for cannot be on its way.
    async fn catch_up(&self, number: SerialNumber) {
        let beyond = self.numbers().1.next();
        let number = if number.precedes(beyond) { number } else { beyond };
        while self.numbers().0.precedes(number) && !self.is_closing() {
            self.shard.ring().sleep(POLL).await;
        }
    }

    fn query(&self, matches: impl Fn(u32, Lun) -> bool) -> Code {
        let found = self.tasks(|tasks| tasks.select(|task| matches(task.initiator_task_tag, task.lun)));
        if found.is_empty() { Code::FUNCTION_COMPLETE } else { Code::FUNCTION_SUCCEEDED }
    }

    async fn abort_task(self: &Rc<Self>, request: &TaskManagementRequest) -> Code {
        let tag = request.referenced_task_tag;
        let is_it = |task: &Task| task.initiator_task_tag == tag && is_same(task.lun, request.lun);
        if !self.tasks(|tasks| tasks.select(is_it)).is_empty() {
            self.abort(is_it).await;
            return Code::FUNCTION_COMPLETE;
        }
        // Section 11.5.1: a command that has not come yet counts as come and aborted.
        let number = request.ref_cmd_sn;
        if number.precedes(request.cmd_sn) && self.window(|window| window.accepts(number)) {
            self.pass_over(number);
            return Code::FUNCTION_COMPLETE;
        }
        Code::TASK_DOES_NOT_EXIST
    }

    /// Aborts the tasks of every session of this target on every core, but those of this session that do not stand before
    /// `spared`: of all at once, so that one that waits for a slow disk does not let others go on.
    async fn abort_everywhere(self: &Rc<Self>, spared: Option<SerialNumber>) {
        let (done, mut all) = mailbox();
        let own = self.place.tsih;
        for shard in 0..self.shard.count() {
            let (target, done) = (self.place.key.target.clone(), done.clone());
            self.shard.tell(shard, move |shard| {
                let sessions = shard.service::<Service>().map_or_else(Vec::new, |service| service.sessions());
                let given_up: Vec<_> = sessions
                    .into_iter()
                    .filter(|session| session.place.key.target == target)
                    .map(|session| {
                        let spared = spared.filter(|_| session.place.tsih == own);
                        let is_covered = |task: &Task| spared.is_none_or(|number| is_before(task, number));
                        (session.give_up(|task| is_the_unit(task.lun) && is_covered(task)), session)
                    })
                    .collect();
                shard.ring().spawn(async move {
                    for (tasks, session) in given_up {
                        session.ended(&tasks).await;
                    }
                    done.send(()).ok();
                });
            });
        }
        for _ in 0..self.shard.count() {
            all.receive().await;
        }
    }

    /// Target cold reset: every session of the target ends, this one too (section 11.5.1).
    fn end_all_sessions(self: &Rc<Self>) {
        let target = self.place.key.target.clone();
        for shard in 0..self.shard.count() {
            let target = target.clone();
            self.shard.tell(shard, move |shard| {
                let Some(service) = shard.service::<Service>() else { return };
                for session in
                    service.sessions().into_iter().filter(|session| session.place.key.target == target)
                {
                    let ring = shard.ring().clone();
                    ring.spawn_later(async move { session.close("target cold reset").await });
                }
            });
        }
    }
}

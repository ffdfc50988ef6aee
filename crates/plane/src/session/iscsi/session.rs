//! A session: the order of its commands, its tasks, its connections, and how all of that ends.
//!
//! Lives on one core. Commands are delivered by `CmdSN` over all connections; what is delivered is carried out by
//! the other files of this room: [`super::command`], [`super::manage`], [`super::exchange`].

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ring::{Buffer, Notify, Soon};
use wire::iscsi::{Bhs, LogoutRequest, NopOut, SerialNumber, TaskManagementRequest, TextRequest, cdb_of};

use super::claim::Claim;
use super::connection::Connection;
use super::login::SessionParameters;
use super::registry::Place;
use super::service::{Node, Service};
use super::target::Target;
use super::tasks::{TaskId, Tasks};
use super::window::CommandWindow;
use crate::limits::COMMAND_WINDOW;
use crate::session::notice::{self, Leaving, Notice, What};
use crate::session::scsi::{LogicalUnit, Nexus};
use crate::session::traffic::Guest;
use crate::shard::Shard;

/// What waits for its turn in the order of `CmdSN`.
pub enum Item {
    /// A SCSI command.
    Command(TaskId),
    /// A task management function.
    Management(Rc<Connection>, TaskManagementRequest),
    /// A text request and its text.
    Text(Rc<Connection>, TextRequest, Vec<u8>),
    /// A logout.
    Logout(Rc<Connection>, LogoutRequest),
    /// A ping and its data.
    Ping(Rc<Connection>, NopOut, Buffer),
}

/// The target of a normal session, as this session sees it.
pub struct Attached {
    /// The target.
    pub target: Arc<Target>,
    /// The device server of LUN 0 on this core.
    pub unit: Rc<LogicalUnit>,
    /// The I_T nexus.
    pub nexus: Nexus,
    /// It counts among those who use the volume.
    pub guest: Guest,
}

struct State {
    window: CommandWindow<Item>,
    tasks: Tasks,
    connections: Vec<Rc<Connection>>,
    /// Places of connections that are logging in.
    promised: usize,
    immediate: usize,
}

/// A session of one initiator.
pub struct Session {
    /// Its handle, its core, whose it is.
    pub place: Place,
    /// The node's side of it.
    pub node: Arc<Node>,
    /// Its core.
    pub shard: Rc<Shard>,
    /// The target; none in a discovery session.
    pub attached: Option<Attached>,
    /// What was agreed at the login of the leading connection.
    pub parameters: SessionParameters,
    state: RefCell<State>,
    changed: Notify,
    closing: Cell<bool>,
    /// Its initiator has logged it out, as a whole.
    logged_out: Cell<bool>,
    over: Cell<bool>,
    /// How and why it ends, once that is known.
    leaving: RefCell<Option<(Leaving, String)>>,
    /// Where its first connection came from.
    from: Cell<Option<SocketAddr>>,
}

impl Session {
    /// A session without connections. `first` is the number of its first command.
    pub fn new(
        place: Place,
        node: Arc<Node>,
        shard: Rc<Shard>,
        attached: Option<Attached>,
        parameters: SessionParameters,
        first: SerialNumber,
    ) -> Rc<Session> {
        let state = State {
            window: CommandWindow::new(first, COMMAND_WINDOW),
            tasks: Tasks::default(),
            connections: Vec::new(),
            promised: 0,
            immediate: 0,
        };
        Rc::new(Session {
            place,
            node,
            shard,
            attached,
            parameters,
            state: RefCell::new(state),
            changed: Notify::new(),
            closing: Cell::new(false),
            logged_out: Cell::new(false),
            over: Cell::new(false),
            leaving: RefCell::default(),
            from: Cell::new(None),
        })
    }

    /// Works on the tasks.
    pub fn tasks<T>(&self, work: impl FnOnce(&mut Tasks) -> T) -> T {
        work(&mut self.state.borrow_mut().tasks)
    }

    /// Works on the command window.
    pub fn window<T>(&self, work: impl FnOnce(&mut CommandWindow<Item>) -> T) -> T {
        work(&mut self.state.borrow_mut().window)
    }

    /// `ExpCmdSN` and `MaxCmdSN` as every response tells them.
    pub fn numbers(&self) -> (SerialNumber, SerialNumber) {
        let state = self.state.borrow();
        (state.window.expected(), state.window.maximum())
    }

    /// A PDU with this header will come. Only a hint.
    pub fn expect(&self, bhs: &Bhs, soon: Soon) {
        if let (Some(attached), Some(cdb)) = (&self.attached, cdb_of(bhs)) {
            attached.unit.expect(cdb, soon);
        }
    }

    /// Takes in something numbered and delivers what is due. Numbers outside of the window are ignored, as are
    /// duplicates (RFC 7143 section 4.2.2.1); false tells so.
    pub fn arrive(self: &Rc<Self>, number: SerialNumber, item: Item) -> bool {
        let mut due = {
            let mut state = self.state.borrow_mut();
            if !state.window.accepts(number) {
                return false;
            }
            state.window.arrive(number, item)
        };
        while let Some(item) = due {
            self.deliver(item, true);
            due = self.window(CommandWindow::next);
        }
        true
    }

    /// Delivers what was held behind a number that has been skipped.
    pub fn deliver_held(self: &Rc<Self>) {
        while let Some(item) = self.window(CommandWindow::next) {
            self.deliver(item, true);
        }
    }

    /// Hands something on whose turn it is; `numbered`: it holds a place in the window until it is done.
    pub fn deliver(self: &Rc<Self>, item: Item, numbered: bool) {
        match item {
            Item::Command(id) => self.begin(id),
            Item::Management(connection, request) => self.manage(&connection, &request, numbered),
            Item::Ping(connection, header, data) => {
                self.done(numbered);
                self.answer_ping(&connection, &header, data);
            }
            Item::Text(connection, header, text) => {
                self.done(numbered);
                self.answer_text(&connection, &header, &text);
            }
            Item::Logout(connection, header) => {
                self.log_out(&connection, &header, numbered);
            }
        }
    }

    /// A delivered item no longer holds its place in the window.
    pub fn done(&self, numbered: bool) {
        if numbered {
            self.window(CommandWindow::done);
        }
    }

    /// What was delivered at once or in its turn, as `numbered` says, is done.
    pub fn done_or_left(&self, numbered: bool) {
        if numbered {
            self.window(CommandWindow::done);
        } else {
            self.leave_immediate();
        }
    }

    /// Uses up a number whose PDU was refused: what comes after it does not wait for it.
    pub fn pass_over(self: &Rc<Self>, number: SerialNumber) {
        self.window(|window| window.skip(number));
        self.deliver_held();
    }

    /// Counts immediate commands under way; false when there are too many.
    pub fn enter_immediate(&self, limit: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let room = state.immediate < limit;
        state.immediate += usize::from(room);
        room
    }

    /// An immediate command is done.
    pub fn leave_immediate(&self) {
        self.state.borrow_mut().immediate -= 1;
    }

    /// The connections now.
    pub fn connections(&self) -> Vec<Rc<Connection>> {
        self.state.borrow().connections.clone()
    }

    /// How many connections it has.
    pub fn connection_count(&self) -> usize {
        self.state.borrow().connections.len()
    }

    /// The connection with this CID.
    pub fn connection(&self, cid: u16) -> Option<Rc<Connection>> {
        self.state.borrow().connections.iter().find(|connection| connection.cid == cid).cloned()
    }

    /// Counts a connection that is logging in; false when the session has as many as agreed. One that has this CID
    /// already will go.
    pub fn promise_place(&self, cid: u16) -> bool {
        let mut state = self.state.borrow_mut();
        let staying = state.connections.iter().filter(|connection| connection.cid != cid).count();
        let room = staying + state.promised < usize::from(self.parameters.max_connections);
        state.promised += usize::from(room);
        room
    }

    /// A connection that was logging in did not come.
    pub async fn give_place_back(self: &Rc<Self>) {
        self.state.borrow_mut().promised -= 1;
        if self.is_deserted() {
            self.close("a connection was reinstated by one that did not come").await;
        }
    }

    /// Adds a connection that has logged in.
    pub fn add(&self, connection: Rc<Connection>, claim: Claim) {
        // Of two logins with the same CID at the same time the later one stays.
        if let Some(old) = self.connection(connection.cid) {
            old.logged_out.set(true);
            old.close("reinstated by a new connection");
        }
        let mut state = self.state.borrow_mut();
        state.promised -= usize::from(!claim.is_leading());
        state.connections.push(connection);
        claim.take();
    }

    /// Ends a connection and its tasks; the session goes on without it.
    pub async fn end_alone(self: &Rc<Self>, connection: &Rc<Connection>, reason: &str) {
        connection.logged_out.set(true);
        connection.close(reason);
        self.abort(|task| Rc::ptr_eq(&task.connection, connection)).await;
    }

    /// No connection is there, and none on its way.
    fn is_deserted(&self) -> bool {
        let state = self.state.borrow();
        state.connections.is_empty() && state.promised == 0
    }

    /// Whether the initiator has data to send on this connection, announced or asked for.
    pub fn is_owed_data(&self, connection: &Rc<Connection>) -> bool {
        let owed = |task: &super::tasks::Task| {
            task.transfer.is_owed() && !task.aborted && Rc::ptr_eq(&task.connection, connection)
        };
        self.tasks(|tasks| tasks.has(owed))
    }

    /// Whether a part of such data is coming in.
    pub fn is_receiving_data(&self, connection: &Rc<Connection>) -> bool {
        self.tasks(|tasks| tasks.has(|task| task.lent && Rc::ptr_eq(&task.connection, connection)))
    }

    /// A connection has ended: its tasks end with it, and, at error recovery level 0, so does the session unless
    /// the connection was logged out alone.
    pub async fn remove(self: &Rc<Self>, connection: &Rc<Connection>, alone: bool) {
        self.state.borrow_mut().connections.retain(|other| !Rc::ptr_eq(other, connection));
        self.changed.notify();
        self.abort(|task| Rc::ptr_eq(&task.connection, connection)).await;
        let is_last = self.is_deserted() || self.logged_out.get() && self.connection_count() == 0;
        if !alone || is_last {
            self.close("another connection of the session was lost").await;
        }
    }

    /// Something that people are to know of it; of discovery sessions nothing is.
    pub fn tell(&self, from: SocketAddr, what: What) {
        let Some(attached) = &self.attached else { return };
        self.from.set(Some(from));
        let initiator = self.place.key.initiator.as_str().to_owned();
        let (from, target) = (from.to_string(), attached.target.name.as_str().to_owned());
        notice::tell(&self.shard, Notice { protocol: "iscsi", initiator, from, target, what });
    }

    /// How and why it is going to end. What is said first counts.
    pub fn leave(&self, how: Leaving, why: &str) {
        self.leaving.borrow_mut().get_or_insert_with(|| (how, why.to_owned()));
    }

    /// A connection has ended, and with it the session, unless it was logged out and leaves others.
    pub fn note_end(&self, connection: &Rc<Connection>, logged_out: bool, why: &str) {
        if !logged_out {
            return self.leave(Leaving::Lost, why);
        }
        let state = self.state.borrow();
        let stays = |other: &Rc<Connection>| !Rc::ptr_eq(other, connection);
        let comes = state.promised > 0 && !self.logged_out.get();
        if !comes && !state.connections.iter().any(stays) {
            self.leave(Leaving::Orderly, "");
        }
    }

    /// Whether it is coming to its end: no connection comes to it any more, not even one that is logging in.
    pub fn is_closing(&self) -> bool {
        self.closing.get() || self.logged_out.get()
    }

    /// Its initiator has logged it out, as a whole.
    pub fn set_logged_out(&self) {
        self.logged_out.set(true);
    }

    /// Ends the session: every connection, every task. At the end nothing of it is under way any more, and it has
    /// left the registry.
    pub async fn close(self: &Rc<Self>, reason: &str) {
        if !self.closing.replace(true) {
            self.leave(Leaving::Lost, reason);
            for connection in self.connections() {
                connection.close(reason);
            }
            // A task of its own: who wants the end may give up waiting for it, as a login does that takes too long.
            self.shard.ring().spawn(self.clone().end());
        }
        self.changed.until(|| self.over.get().then_some(())).await;
    }

    async fn end(self: Rc<Self>) {
        self.abort(|_| true).await;
        self.changed.until(|| (self.connection_count() == 0).then_some(())).await;
        if let Some(service) = self.shard.service::<Service>() {
            service.forget(&self);
        }
        self.node.registry.leave(self.place.tsih);
        if let (Some(from), Some((how, why))) = (self.from.get(), self.leaving.take()) {
            self.tell(from, What::Left(how, why));
        }
        self.over.set(true);
        self.changed.notify();
    }

    /// Aborts every task that `chosen` picks: those that wait for data go at once, those that are with the device
    /// server are waited for, because a write that still comes after its abort could overwrite newer data.
    /// No response is sent for any of them (RFC 7143 section 4.2.3.3).
    pub async fn abort(self: &Rc<Self>, chosen: impl Fn(&super::tasks::Task) -> bool) {
        let picked = self.give_up(chosen);
        self.ended(&picked).await;
    }

    /// The first half of [`Session::abort`]: from now on none of them is answered. Gives those that were picked.
    pub fn give_up(&self, chosen: impl Fn(&super::tasks::Task) -> bool) -> Vec<TaskId> {
        let picked = self.tasks(|tasks| tasks.select(&chosen));
        for id in &picked {
            let running = self.tasks(|tasks| {
                tasks.get(*id).is_some_and(|task| {
                    task.aborted = true;
                    task.running
                })
            });
            if !running {
                self.retire(*id);
            }
        }
        picked
    }

    /// The second half: waits until nothing of them is under way.
    pub async fn ended(&self, picked: &[TaskId]) {
        let over = || self.tasks(|tasks| picked.iter().all(|id| tasks.get(*id).is_none()));
        self.changed.until(|| over().then_some(())).await;
    }

    /// Takes a task out of the table, gives its place in the window back, and wakes who waits for its end.
    pub fn retire(&self, id: TaskId) -> Option<super::tasks::Task> {
        let task = self.tasks(|tasks| tasks.remove(id))?;
        if task.immediate {
            self.leave_immediate();
        } else if task.delivered {
            self.window(CommandWindow::done);
        }
        self.changed.notify();
        Some(task)
    }
}

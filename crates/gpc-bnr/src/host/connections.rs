//! Connections of processes and commands: accept, read, answer, close.

use std::os::fd::{AsRawFd as _, RawFd};

use mio::Interest;

use super::clients::{ConnectionInput, Link};
use super::engine::Engine;
use super::links::UnidentifiedConnection;
use super::listeners::{TOOLS_MAX, UNIDENTIFIED_LIMIT, UNIDENTIFIED_MAX};
use super::mailbox::EngineMessage;
use super::sources::Source;
use super::unread::DelayCause;
use crate::domain::Input;
use crate::protocol::Conversation;
use crate::request::Client;

impl Engine {
    pub(super) fn read_client(&mut self, client: Client, buffer: &mut [u8]) -> bool {
        let Some(link) = self.links.clients.get_mut(&client) else { return false };
        let input = link.read(buffer);
        self.links.touched.insert(client);
        let more = input.more;
        if let (Client::Process(member), false) = (client, input.requests.is_empty()) {
            self.local.silent.remove(member);
        }
        self.take_requests(client, input);
        more
    }

    /// Takes the requests of a connection.
    fn take_requests(&mut self, client: Client, input: ConnectionInput) {
        for (serial, request) in input.requests {
            self.inputs.push_back(Input::Request { client, serial, request });
        }
        for (serial, ask) in input.node_requests {
            let answers = match client {
                Client::Process(member) => self.links.attributes.ask(member, serial, ask),
                Client::Tool(_) => Vec::new(),
            };
            for (member, serial, answer) in answers {
                self.answer(Client::Process(member), serial, answer);
            }
        }
    }

    /// Reads what an ended process has left in its socket. The amount is bounded, since another process that shares the
    /// socket may go on writing.
    pub(super) fn read_rest(&mut self, client: Client, buffer: &mut [u8]) {
        if let Some(link) = self.links.clients.get_mut(&client) {
            link.hung_up();
        }
        for _ in 0..64 {
            if !self.read_client(client, buffer) {
                return;
            }
        }
    }

    /// Writes pending answers, and closes connections that have ended.
    pub(super) fn flush_clients(&mut self) {
        if self.links.unread.has_room() {
            self.links.touched.append(&mut self.links.put_off);
        }
        for client in std::mem::take(&mut self.links.touched) {
            let Some(link) = self.links.clients.get_mut(&client) else { continue };
            let mut input = ConnectionInput::default();
            // Writing makes room for further answers.
            link.write();
            let more = link.take_outputs(&mut input);
            link.write();
            let more = link.resume() || more;
            let put_off = link.delay() == Some(DelayCause::Node);
            let room = link.room_wanted().map(|wanted| (wanted, link.socket().as_raw_fd()));
            let silent = input.requests.is_empty() && input.node_requests.is_empty();
            let gone = link.broken.is_some() || link.ended && !more && silent;
            let ends = link.ended && !gone;
            self.take_requests(client, input);
            if let Some((wanted, descriptor)) = room {
                self.watch_room(client, descriptor, wanted);
            }
            if ends {
                self.links.touched.insert(client);
            }
            if put_off {
                self.links.put_off.insert(client);
            }
            if gone {
                self.close(client);
            } else if more {
                self.sources.make_ready(Source::Client(client));
            }
        }
        let goes_on = !self.links.put_off.is_empty() && self.links.unread.has_room();
        if !self.inputs.is_empty() || goes_on {
            // Wakes the loop at once.
            let _ = self.mailbox.send(EngineMessage::CallReady(u64::MAX));
        }
    }

    /// Adds or removes interest in room for writing.
    fn watch_room(&mut self, client: Client, descriptor: RawFd, wanted: bool) {
        let interest = if wanted { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        if let Err(error) = self.sources.rewatch(Source::Client(client), descriptor, interest) {
            self.warn(format!("{client:?} may be answered late: {error}"));
        }
    }

    pub(super) fn close(&mut self, client: Client) {
        let Some(link) = self.links.clients.remove(&client) else { return };
        self.sources.forget(Source::Client(client), Some(link.socket().as_raw_fd()));
        if let Some(why) = &link.broken {
            match client {
                Client::Process(member) => {
                    self.warn(format!("process {member} is not answered any more: {why}"))
                }
                Client::Tool(_) => tracing::debug!(%why, "a command was closed"),
            }
        }
        if let Client::Process(member) = client {
            self.links.attributes.gone(member);
        }
        if let Client::Process(member) = client
            && self.pmix.unlink(member, self.local.alive.contains(&member))
        {
            return;
        }
        self.inputs.push_back(Input::Gone(client));
    }

    /// Watches the listeners.
    pub(super) fn watch_listeners(&mut self) {
        let listeners =
            [(Source::Tools, self.links.listeners.tools()), (Source::Port, self.links.listeners.port())];
        for (source, descriptor) in listeners {
            let Some(descriptor) = descriptor else { continue };
            if let Err(error) = self.sources.watch(source, descriptor, Interest::READABLE) {
                self.warn(format!("nobody can connect to this node: {error}"));
            }
        }
    }

    /// Accepts a connection of a command; closes it if there are too many. Returns whether there may be more.
    pub(super) fn accept_tool(&mut self) -> bool {
        let Some(socket) = self.links.listeners.accept_tool() else { return false };
        let tools = self.links.clients.keys().filter(|client| matches!(client, Client::Tool(_))).count();
        self.sources.next_source += 1;
        let client = Client::Tool(self.sources.next_source);
        let descriptor = socket.as_raw_fd();
        if tools < TOOLS_MAX
            && self.sources.watch(Source::Client(client), descriptor, Interest::READABLE).is_ok()
        {
            let link = Link::new(socket, Conversation::new(), self.links.unread.clone());
            self.links.clients.insert(client, link);
        }
        true
    }

    /// Accepts connections at the port. Returns whether there may be more.
    pub(super) fn accept_processes(&mut self) -> bool {
        let accepted = self.links.listeners.accept_processes();
        accepted.warning.into_iter().for_each(|warning| self.warn(warning));
        for socket in accepted.own {
            if self.links.unidentified.len() >= UNIDENTIFIED_MAX
                && let Some(longest) = self.links.unidentified.keys().next().copied()
            {
                self.close_unidentified(longest);
            }
            self.sources.next_source += 1;
            let number = self.sources.next_source;
            let descriptor = socket.as_raw_fd();
            if self.sources.watch(Source::Unidentified(number), descriptor, Interest::READABLE).is_ok() {
                let link = Link::new(socket, Conversation::by_port(), self.links.unread.clone());
                let until = self.now().saturating_add(UNIDENTIFIED_LIMIT);
                self.links.unidentified.insert(number, UnidentifiedConnection { link, until });
            }
        }
        accepted.more
    }

    /// Closes connections at the port that have not identified themselves in time.
    pub(super) fn close_late(&mut self) {
        let now = self.now();
        // Terminates: each iteration closes one.
        while let Some((number, unidentified)) = self.links.unidentified.first_key_value()
            && unidentified.until <= now
        {
            self.close_unidentified(*number);
        }
    }

    /// Reads a connection at the port until it identifies its process.
    pub(super) fn read_unidentified(&mut self, number: u64, buffer: &mut [u8]) -> bool {
        let Some(UnidentifiedConnection { link, .. }) = self.links.unidentified.get_mut(&number) else {
            return false;
        };
        let input = link.read(buffer);
        // The first PMI-2 message is answered before the process is identified.
        link.write();
        if let Some(secret) = input.secret {
            self.identify(number, &secret);
            return false;
        }
        if link.ended || link.broken.is_some() || !input.requests.is_empty() {
            self.close_unidentified(number);
            return false;
        }
        input.more
    }

    /// Identifies a connection by its secret; closes it if the secret is unknown.
    fn identify(&mut self, number: u64, secret: &str) {
        let Some(member) = self.links.listeners.take_secret(secret) else {
            return self.close_unidentified(number);
        };
        let Some(UnidentifiedConnection { link, .. }) = self.links.unidentified.remove(&number) else {
            return;
        };
        let descriptor = link.socket().as_raw_fd();
        self.sources.forget(Source::Unidentified(number), Some(descriptor));
        let client = Client::Process(member);
        let size = self.local.groups.get(&member.group).map_or(0, |layout| layout.size());
        if self.sources.watch(Source::Client(client), descriptor, Interest::READABLE).is_ok() {
            // The inherited socket of the process is not used in this case.
            if let Some(before) = self.links.clients.insert(client, link) {
                drop(before);
            }
            if let Some(link) = self.links.clients.get_mut(&client) {
                link.conversation.identified(Some((member.rank, size)));
                self.links.touched.insert(client);
            }
        }
    }

    fn close_unidentified(&mut self, number: u64) {
        if let Some(UnidentifiedConnection { link, .. }) = self.links.unidentified.remove(&number) {
            self.sources.forget(Source::Unidentified(number), Some(link.socket().as_raw_fd()));
        }
    }
}

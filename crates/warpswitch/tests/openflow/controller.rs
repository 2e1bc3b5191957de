//! A controller: the other end of the connection that `warpswitch switch` makes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use warpswitch_openflow::{
    FlowModMessage, HEADER_BYTES, Header, Hello, Message, MultipartReply, MultipartRequest,
    NO_BUFFER,
};
use warpswitch_rules::format::ovs;
use warpswitch_rules::openflow::{FlowStats, port};

/// How long a switch may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection with a switch.
pub struct Controller {
    stream: TcpStream,
    /// Messages that came while another one was expected.
    others: Vec<Message>,
}

impl Controller {
    /// Accepts the connection of a switch and completes the handshake.
    pub fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = listener.accept().expect("the switch connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut controller = Self { stream, others: Vec::new() };
        controller.send(&Message::Hello(Hello { version: 4, bitmap: Some(1 << 4) }));
        controller.expect(|message| matches!(message, Message::Hello(_)));
        controller
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Message) {
        self.stream.write_all(&message.encode(1)).expect("the switch listens");
    }

    /// The next message for which `is_it` holds.
    pub fn expect(&mut self, is_it: impl Fn(&Message) -> bool) -> Message {
        if let Some(at) = self.others.iter().position(&is_it) {
            return self.others.remove(at);
        }
        loop {
            let message = self.receive();
            if is_it(&message) {
                return message;
            }
            self.others.push(message);
        }
    }

    fn receive(&mut self) -> Message {
        let mut bytes = vec![0; HEADER_BYTES];
        self.stream.read_exact(&mut bytes).expect("a message in time");
        let header = Header::read(&bytes).expect("a header");
        bytes.resize(header.len.into(), 0);
        self.stream.read_exact(&mut bytes[HEADER_BYTES..]).expect("a whole message");
        Message::decode(&bytes).expect("a message as specified")
    }

    /// Waits until all messages before are in force.
    pub fn barrier(&mut self) {
        self.send(&Message::BarrierRequest);
        self.expect(|message| *message == Message::BarrierReply);
    }

    /// Changes flows, by a line of flow text, and waits until the change is in force.
    pub fn change(&mut self, text: &str) {
        let change = ovs::parse_change(text).expect("flow text");
        self.send(&Message::FlowMod(FlowModMessage { change, buffer_id: NO_BUFFER }));
        self.barrier();
    }

    /// All flows.
    pub fn flows(&mut self) -> Vec<FlowStats> {
        let filter = ovs::parse_filter("").expect("no restriction");
        assert_eq!(filter.table, port::TABLE_ALL);
        self.send(&Message::MultipartRequest(MultipartRequest::Flow(filter)));
        let is_flows =
            |message: &Message| matches!(message, Message::MultipartReply(MultipartReply::Flow(_)));
        match self.expect(is_flows) {
            Message::MultipartReply(MultipartReply::Flow(flows)) => flows,
            other => panic!("{other:?}"),
        }
    }

    /// Packets that the flow with this text has counted.
    pub fn count(&mut self, text: &str) -> u64 {
        let flows = self.flows();
        let found = flows.iter().find(|stats| ovs::flow_text(&stats.flow) == text);
        let texts = || flows.iter().map(|stats| ovs::flow_text(&stats.flow)).collect::<Vec<_>>();
        found.unwrap_or_else(|| panic!("no flow {text} among {:?}", texts())).packets
    }
}

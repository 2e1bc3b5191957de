//! The exchange of hello messages (specification 1.3.5, section 6.3.1).

use super::connection::{Connection, Stage};
use crate::{ErrorCode, ErrorMessage, Header, Hello, Message, VERSION, VERSION_1_0, message_type};

/// The hello message of this switch.
pub(super) const HELLO: Hello = Hello { version: VERSION, bitmap: Some(1 << VERSION) };

/// Processes the first message of a peer.
pub(super) fn receive(connection: &mut Connection, header: Header, message: &[u8]) {
    if header.kind == message_type::ERROR {
        connection.close("the peer reported an error instead of a hello message");
        return;
    }
    let Ok(Message::Hello(hello)) = Message::decode(message) else {
        fail(connection, header, "expected a hello message");
        connection.close("the first message is no hello message");
        return;
    };
    if is_compatible(hello) {
        connection.stage = Stage::Open;
    } else {
        fail(connection, header, "this switch supports version 0x04 (OpenFlow 1.3) only");
        connection.close("the peer does not support OpenFlow 1.3");
    }
}

fn is_compatible(hello: Hello) -> bool {
    match hello.bitmap {
        Some(bitmap) => bitmap & 1 << VERSION != 0,
        None => hello.version >= VERSION,
    }
}

/// Reports a failed handshake, in OpenFlow 1.0 to a peer of that version.
fn fail(connection: &mut Connection, header: Header, text: &str) {
    let error = ErrorCode::HELLO_INCOMPATIBLE;
    let message = Message::Error(ErrorMessage { error, data: text.as_bytes().to_vec() });
    let mut bytes = message.encode(header.xid);
    if header.version == VERSION_1_0 {
        bytes[0] = VERSION_1_0;
    }
    connection.stats.errors += 1;
    connection.output.push(&bytes);
}

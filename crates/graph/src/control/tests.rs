//! Clients that behave, and clients that do not.

use super::*;

/// One counter that can be read and set, and what is hidden.
#[derive(Default)]
struct Fake {
    value: String,
}

impl Controlled for Fake {
    fn handler(&mut self, name: &str) -> Result<HandlerSpec, HandlerError> {
        match name {
            "c.value" => Ok(HandlerSpec::both("value").with_param()),
            "c.count" => Ok(HandlerSpec::read("count")),
            "c.reset" => Ok(HandlerSpec::button("reset")),
            "c.cat" => Ok(HandlerSpec::read("cat").hidden()),
            "version" => Ok(HandlerSpec::read("version")),
            name if name.contains('.') && !name.starts_with("c.") => {
                Err(HandlerError::NoElement(name.split('.').next().unwrap_or("").into()))
            }
            _ => Err(HandlerError::Missing),
        }
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        match (name, param) {
            (_, "bad") => Err(HandlerError::failed("one\ntwo")),
            ("version", _) => Ok("1".into()),
            _ => Ok(format!("{}{param}", self.value)),
        }
    }

    fn write(&mut self, _: &str, value: &str) -> Result<String, HandlerError> {
        match value {
            "bad" => Err(HandlerError::failed("no")),
            _ => {
                self.value = value.into();
                Ok(String::new())
            }
        }
    }
}

/// What a client that sends `input` in pieces of `piece` bytes and goes away is told.
fn talk(input: &str, piece: usize, is_read_only: bool) -> String {
    let (mut connection, mut target) = (Connection::new(is_read_only), Fake::default());
    for bytes in input.as_bytes().chunks(piece) {
        connection.feed(bytes);
        while connection.obey(&mut target) {}
    }
    connection.end();
    while connection.obey(&mut target) {}
    let told = String::from_utf8_lossy(connection.output()).replace("\r\n", "\n");
    let bytes = connection.output().len();
    connection.sent(bytes);
    assert!(connection.is_over(), "{input}");
    told.strip_prefix("Click::ControlSocket/1.3\n").expect("a greeting").to_owned()
}

fn check(input: &str, expected: &str) {
    for piece in [1, 3, 1_000_000] {
        assert_eq!(talk(input, piece, false), expected, "{input:?} in pieces of {piece}");
    }
}

#[test]
fn handlers_are_read_and_written() {
    check(
        "write c.value  a  b \r\nREAD c.value\nget c.value x\r",
        "200 Write handler 'c.value' OK\n200 Read handler 'c.value' OK\nDATA 4\na  b\
         200 Read handler 'c.value' OK\nDATA 5\na  bx",
    );
    check("\n\r\n \nread .version\n", "200 Read handler '.version' OK\nDATA 1\n1");
    check("read version", "200 Read handler 'version' OK\nDATA 1\n1");
    check(
        "writedata c.value 5\na\nb\nc\nreaddata c.value 2\n\n\n",
        "200 Write handler 'c.value' OK\n200 Read handler 'c.value' OK\nDATA 7\na\nb\nc\n\n",
    );
    check(
        "writeuntil c.value EOF\nx\r\ny\nEOF \nreaduntil c.value\n\n",
        "200 Write handler 'c.value' OK\n200 Read handler 'c.value' OK\nDATA 5\nx\ny\n",
    );
}

#[test]
fn refusals_say_why() {
    check("read d.x\n", "510 No element named 'd'\n");
    check("read c.x\n", "511 No handler named 'c.x'\n");
    check("read c.cat\n", "511 No handler named 'c.cat'\n");
    check("read c.reset\n", "530 Handler 'c.reset' write-only\n");
    check("write c.count 1\n", "530 Handler 'c.count' read-only\n");
    check(
        "read c.count 1\n",
        "590-Read handler 'c.count' error:\n\
         590 read handler 'c.count' does not take parameters\n",
    );
    check("read c.value bad\n", "590-Read handler 'c.value' error:\n590-one\n590 two\n");
    check("write c.value bad\n", "520-Write handler 'c.value' error:\n520 no\n");
    check("read\nwritedata c.value\n", &"500 Wrong number of arguments\n".repeat(2));
    check("writedata c.value x\n", "500 Syntax error in 'WRITEDATA'\n");
    check("writedata c.value 9\nshort", "500 Not enough data\n");
    check("frob\n", "501 Command 'FROB' unimplemented\n");
    check("llrpc c#1\n", "501 Cannot call LLRPC 'c#1' remotely\n");
    check("quit\nread version\n", "200 Goodbye!\n");
    check("checkread c.count\n", "200 Read handler 'c.count' OK\n");
    check("checkwrite c.count\n", "511 Handler 'c.count' not writable\n");
    let told = talk("write c.value 1\ncheckwrite c.value\n", 99, true);
    assert_eq!(told, "530 Permission denied for 'c.value'\n".repeat(2));
}

#[test]
fn what_is_too_much_is_passed_over() {
    let huge = "x".repeat(LINE_BYTES_MAX + 9);
    let then = "200 Read handler 'version' OK\nDATA 1\n1";
    assert_eq!(
        talk(&format!("{huge}\nread version\n"), 60_000, false),
        format!("500 Line too long\n{then}")
    );
    let bytes = DATA_BYTES_MAX + 1;
    let input = format!("writedata c.value {bytes}\n{}read version\n", "y".repeat(bytes));
    let too_big = "521 Data too large for write handler 'c.value'\n";
    assert_eq!(talk(&input, 60_000, false), format!("{too_big}{then}"));
    let endless = format!("writeuntil c.value END\n{}", "z\n".repeat(DATA_BYTES_MAX));
    assert_eq!(talk(&endless, 60_000, false), "521 Data too large\n");
}

#[test]
fn who_does_not_listen_is_not_served() {
    let (mut connection, mut target) = (Connection::new(false), Fake::default());
    target.value = "v".repeat(1000);
    let mut fed = 0;
    while connection.wants_input() && fed < 100_000 {
        connection.feed(b"read c.value\n");
        connection.obey(&mut target);
        fed += 1;
    }
    assert!(fed < 100_000 && connection.output().len() < OUTPUT_BYTES_MAX + 2_000);
    assert!(!connection.obey(&mut target));
    connection.sent(usize::MAX);
    assert!(connection.wants_input());
}

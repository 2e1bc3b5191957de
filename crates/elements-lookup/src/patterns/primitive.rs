//! One test of a pattern: its words, its omitted qualifiers, and the expression it compiles to.

use super::expr::{Compare, Expr, Relation};
use super::program::{Place, Region};
use super::words::{self, ANY_TRANSPORT, Bits, DCCP, Subject, TCP, TCP_OR_UDP, UDP};

/// Which of two addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Src,
    Dst,
    Either,
    Both,
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Equal,
    Greater,
    Less,
}

/// The value that follows the qualifiers of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Nothing.
    None,
    /// A number.
    Int(u32),
    /// An IP address.
    Host(u32),
    /// An IP address and a mask.
    Net(u32, u32),
    /// An Ethernet address.
    Ether([u8; 6]),
    /// A name that implies the subject of the test.
    Value(Subject, u32),
}

/// A mask that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    Int(u32),
    Host(u32),
    Ether([u8; 6]),
}

/// Whose addresses are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Ip,
    Ether,
}

/// A test as it is written.
#[derive(Clone, Debug)]
pub(super) struct Primitive {
    pub(super) subject: Option<Subject>,
    pub(super) side: Option<Side>,
    pub(super) proto: Option<u32>,
    pub(super) data: Data,
    pub(super) sign: Sign,
    pub(super) negated: bool,
    pub(super) mask: Option<Mask>,
    pub(super) header: Option<Header>,
}

/// What a test leaves to those behind it: they may leave it out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    subject: Option<Subject>,
    side: Option<Side>,
    proto: Option<u32>,
    /// Whether it was about an Ethernet address.
    pub(super) is_ether: bool,
}

/// A number to compare bits with.
struct Number {
    mask: u32,
    value: u32,
    relation: Relation,
    negated: bool,
}

impl Primitive {
    /// A test of which nothing is known.
    pub(super) fn new() -> Self {
        Self {
            subject: None,
            side: None,
            proto: None,
            data: Data::None,
            sign: Sign::Equal,
            negated: false,
            mask: None,
            header: None,
        }
    }

    /// How messages call it.
    fn name(&self, subject: Subject) -> String {
        let side = match self.side {
            None => "",
            Some(Side::Src) => "src ",
            Some(Side::Dst) => "dst ",
            Some(Side::Either) => "src or dst ",
            Some(Side::Both) => "src and dst ",
        };
        format!("{side}{}", subject.name())
    }

    /// Completes it with the qualifiers of the previous test. Returns its subject.
    fn complete(&mut self, before: &Before) -> Result<Subject, String> {
        if let Some(subject) = self.subject {
            return Ok(subject);
        }
        if let Data::Int(value) = self.data {
            let subject = match before.subject {
                Some(subject @ (Subject::Bits(_) | Subject::Proto | Subject::Port)) => subject,
                _ => return Err("specify header field or 'port'".to_owned()),
            };
            self.data = Data::Value(subject, value);
        }
        let subject = match self.data {
            Data::Host(_) => Subject::Host,
            Data::Net(..) => Subject::Net,
            Data::Ether(_) => Subject::EtherHost,
            Data::Value(subject, _) => subject,
            Data::None if self.proto.is_some() => Subject::Proto,
            Data::None | Data::Int(_) => return Err("partial directive".to_owned()),
        };
        match subject {
            Subject::Proto => {}
            Subject::Bits(bits) => self.proto = self.proto.or(bits.proto),
            _ => self.side = self.side.or(before.side),
        }
        if subject == Subject::Port {
            self.proto = self.proto.or(before.proto);
        }
        self.subject = Some(subject);
        Ok(subject)
    }

    /// The expression that it means, and what it leaves to those behind it.
    ///
    /// # Errors
    /// What is wrong with it. Warnings are added to `warnings`.
    pub(super) fn read(
        mut self,
        before: &Before,
        warnings: &mut Vec<String>,
    ) -> Result<(Expr, Before), String> {
        let side_given = self.side.is_some();
        let mut subject = self.complete(before)?;
        let is_ether = matches!(self.data, Data::Ether(_));
        let header = self.header.unwrap_or(if is_ether { Header::Ether } else { Header::Ip });
        if header == Header::Ether && subject == Subject::Host {
            subject = Subject::EtherHost;
        }
        let has_sides =
            matches!(subject, Subject::Host | Subject::Net | Subject::Port | Subject::EtherHost);
        if (header == Header::Ether) != (subject == Subject::EtherHost) {
            let is_address = matches!(subject, Subject::Host | Subject::Net | Subject::EtherHost);
            let what = if is_address { "address missing" } else { "ip only" };
            return Err(format!("'{}': {what}", self.name(subject)));
        }
        let expr = self.expr(subject, warnings)?;
        if side_given && !has_sides {
            let name = self.name(subject);
            warnings.push(format!("'{name}': 'src' or 'dst' ignored"));
        }
        let subject = if subject == Subject::Net { Subject::Host } else { subject };
        let side = if has_sides { self.side.or(Some(Side::Either)) } else { self.side };
        let left = Before { subject: Some(subject), side, proto: self.proto, is_ether };
        Ok((expr, left))
    }

    fn expr(&mut self, subject: Subject, warnings: &mut Vec<String>) -> Result<Expr, String> {
        match subject {
            Subject::Host | Subject::Net => self.address(subject),
            Subject::EtherHost => self.ether_address(subject),
            Subject::Proto => self.protocol(subject, warnings),
            Subject::Port => self.port(subject, warnings),
            Subject::TcpFlags => self.tcp_flags(subject),
            Subject::Fragment | Subject::Unfragmented | Subject::EcnExperienced => {
                self.flag(subject)
            }
            Subject::EcnCapable => self.ecn_capable(subject, warnings),
            Subject::Bits(bits) => {
                let value = match self.data {
                    Data::Int(value) => value,
                    Data::Value(of, value) if of == subject => value,
                    _ => return Err(self.wrong(subject, "value missing")),
                };
                let number = self.number(subject, value, bits.max(), warnings)?;
                Ok(guarded(self.proto, bits.proto.is_some(), number.of(bits)))
            }
        }
    }

    fn wrong(&self, subject: Subject, what: &str) -> String {
        format!("'{}': {what}", self.name(subject))
    }

    /// Joins the tests of the source and of the destination.
    fn sides(&self, src: Expr, dst: Expr, negated: bool) -> Expr {
        let expr = match self.side.unwrap_or(Side::Either) {
            Side::Src => src,
            Side::Dst => dst,
            Side::Either => Expr::Or(vec![src, dst]),
            Side::Both => Expr::And(vec![src, dst]),
        };
        if negated { expr.other() } else { expr }
    }

    fn address(&self, subject: Subject) -> Result<Expr, String> {
        let (address, mask) = match (subject, self.data) {
            (Subject::Host, Data::Host(address)) => (address, u32::MAX),
            (Subject::Net, Data::Net(address, mask)) => (address, mask),
            _ => return Err(self.wrong(subject, "address missing")),
        };
        if self.sign != Sign::Equal {
            return Err(self.wrong(subject, "operator not supported"));
        }
        let mask = match self.mask {
            None => mask,
            Some(Mask::Int(mask) | Mask::Host(mask)) => mask,
            Some(Mask::Ether(_)) => return Err(self.wrong(subject, "bad mask")),
        };
        let at = |offset| Expr::equal(Place { region: Region::Network, offset }, 0, mask, address);
        let expr = self.sides(at(12), at(16), self.negated);
        Ok(guarded(self.proto, false, expr))
    }

    fn ether_address(&self, subject: Subject) -> Result<Expr, String> {
        let Data::Ether(address) = self.data else {
            return Err(self.wrong(subject, "address missing"));
        };
        if self.sign != Sign::Equal {
            return Err(self.wrong(subject, "operator not supported"));
        }
        let mask = match self.mask {
            None => [0xff; 6],
            Some(Mask::Ether(mask)) => mask,
            Some(_) => return Err(self.wrong(subject, "bad mask")),
        };
        let at = |offset, of: fn([u8; 6]) -> u32| {
            let place = Place { region: Region::Ethernet, offset };
            Expr::equal(place, 0, of(mask), of(address))
        };
        let first_two = |a: [u8; 6]| u32::from_be_bytes([0, 0, a[0], a[1]]);
        let last_four = |a: [u8; 6]| u32::from_be_bytes([a[2], a[3], a[4], a[5]]);
        let first_four = |a: [u8; 6]| u32::from_be_bytes([a[0], a[1], a[2], a[3]]);
        let last_two = |a: [u8; 6]| u32::from_be_bytes([a[4], a[5], 0, 0]);
        let src = Expr::And(vec![at(8, first_four), at(12, last_two)]);
        let dst = Expr::And(vec![at(0, first_two), at(4, last_four)]);
        let expr = self.sides(src, dst, self.negated);
        Ok(guarded(self.proto, false, expr))
    }

    fn protocol(&mut self, subject: Subject, warnings: &mut Vec<String>) -> Result<Expr, String> {
        let given = self.proto.take();
        let proto = match (self.data, given) {
            (Data::Int(value) | Data::Value(Subject::Proto, value), _) => {
                if given.is_some_and(|given| given != value) {
                    return Err(self.wrong(subject, "specified twice"));
                }
                value
            }
            (Data::None, Some(given)) => given,
            _ => return Err(self.wrong(subject, "value missing")),
        };
        let is_named = !matches!(self.data, Data::Int(_));
        if is_named && (proto == TCP_OR_UDP || proto == ANY_TRANSPORT) {
            if self.sign != Sign::Equal || self.mask.is_some() {
                let name = words::proto_name(proto);
                return Err(format!("'{name}': operator or mask not supported"));
            }
            self.proto = (!self.negated).then_some(proto);
            let expr = guarded(Some(proto), false, Expr::Always);
            return Ok(if self.negated { expr.other() } else { expr });
        }
        let number = self.number(subject, proto, 0xff, warnings)?;
        if number.relation == Relation::Equal && number.mask == 0xff && !number.negated {
            self.proto = Some(proto);
        }
        let bits = Bits { proto: None, first: 72, len: 8 };
        Ok(guarded(self.proto, false, number.of(bits)))
    }

    fn port(&mut self, subject: Subject, warnings: &mut Vec<String>) -> Result<Expr, String> {
        let value = match self.data {
            Data::Int(value) | Data::Value(Subject::Port, value) => value,
            _ => return Err(self.wrong(subject, "value missing")),
        };
        let proto = self.proto.unwrap_or(TCP_OR_UDP);
        if ![TCP, UDP, TCP_OR_UDP, DCCP].contains(&proto) {
            return Err(format!("'port': bad protocol {proto}"));
        }
        self.proto = Some(proto);
        let Number { mask, value, relation, negated } =
            self.number(subject, value, 0xffff, warnings)?;
        let place = Place { region: Region::Transport, offset: 0 };
        let at = |shift| Expr::Compare(Compare { place, shift, mask, value, relation });
        let expr = self.sides(at(16), at(0), negated);
        Ok(guarded(self.proto, true, expr))
    }

    fn tcp_flags(&mut self, subject: Subject) -> Result<Expr, String> {
        let flags = match self.data {
            Data::Int(value) | Data::Value(Subject::TcpFlags, value) => value,
            _ => return Err(self.wrong(subject, "value missing")),
        };
        let proto = *self.proto.get_or_insert(TCP);
        if proto != TCP {
            return Err(format!("'tcp opt': bad protocol {proto}"));
        }
        if self.sign != Sign::Equal || self.negated || self.mask.is_some() {
            return Err(self.wrong(subject, "operator or mask not supported"));
        }
        if flags > 255 {
            return Err(format!("'tcp opt': value {flags} out of range"));
        }
        let place = Place { region: Region::Transport, offset: 12 };
        Ok(guarded(self.proto, true, Expr::equal(place, 16, flags, flags)))
    }

    fn flag(&mut self, subject: Subject) -> Result<Expr, String> {
        if self.data != Data::None || self.mask.is_some() {
            return Err(self.wrong(subject, "value not supported"));
        }
        let place = Place { region: Region::Network, offset: 4 };
        let whole = Expr::equal(place, 0, 0x3fff, 0);
        let expr = match subject {
            Subject::EcnExperienced => Number::equal(3, 3, self.negated).of(words::TOS),
            Subject::Fragment if self.negated => whole,
            Subject::Fragment => whole.other(),
            _ => whole,
        };
        Ok(guarded(self.proto, false, expr))
    }

    fn ecn_capable(&self, subject: Subject, warnings: &mut Vec<String>) -> Result<Expr, String> {
        let number = match self.data {
            Data::None => Number::equal(3, 0, true),
            Data::Int(value) => self.number(subject, value, 3, warnings)?,
            _ => return Err(self.wrong(subject, "value missing")),
        };
        Ok(guarded(self.proto, false, number.of(words::TOS)))
    }

    /// The comparison with `value` of bits whose largest value is `max`.
    fn number(
        &self,
        subject: Subject,
        value: u32,
        max: u32,
        warnings: &mut Vec<String>,
    ) -> Result<Number, String> {
        let mask = match self.mask {
            None => max,
            Some(Mask::Int(mask)) => mask,
            Some(_) => return Err(self.wrong(subject, "bad mask")),
        };
        if mask & !max != 0 {
            let what = format!("mask out of range, bound 0x{max:X}");
            return Err(self.wrong(subject, &what));
        }
        if self.sign == Sign::Equal {
            if value > max {
                return Err(self.wrong(subject, &format!("out of range, bound {max}")));
            }
            return Ok(Number::equal(mask, value, self.negated));
        }
        let is_less = self.sign == Sign::Less;
        if is_less && (value == 0 || value > mask) || !is_less && value >= mask {
            let holds = (is_less && value > mask) != self.negated;
            let sign = match (is_less, self.negated) {
                (true, false) => "<",
                (true, true) => ">=",
                (false, false) => ">",
                (false, true) => "<=",
            };
            warnings.push(format!("relation '{sign} {value}' is always {holds} (range 0-{mask})"));
            return Ok(Number::equal(0, 0, !holds));
        }
        // Less than a number is not greater than the one before it.
        let value = if is_less { value - 1 } else { value };
        Ok(Number {
            mask,
            value: largest_under(mask, value),
            relation: Relation::Greater,
            negated: self.negated != is_less,
        })
    }
}

/// The largest number of `mask`'s bits that is not above `value`.
fn largest_under(mask: u32, value: u32) -> u32 {
    match value & !mask {
        0 => value,
        outside => {
            // The highest bit of the value that the mask has not: below it all may be ones.
            let below = (1u32 << (31 - outside.leading_zeros())) - 1;
            (value | below) & mask
        }
    }
}

impl Number {
    fn equal(mask: u32, value: u32, negated: bool) -> Self {
        Self { mask, value: value & mask, relation: Relation::Equal, negated }
    }

    /// The expression about `bits`.
    fn of(&self, bits: Bits) -> Expr {
        let Number { mask, value, relation, negated } = *self;
        let (place, shift) = (bits.place(), bits.shift());
        let expr = Expr::Compare(Compare { place, shift, mask, value, relation });
        if negated { expr.other() } else { expr }
    }
}

/// `expr` of packets of `proto` alone; if `is_transport`, of first fragments alone.
fn guarded(proto: Option<u32>, is_transport: bool, expr: Expr) -> Expr {
    let is = |proto| Expr::equal(Place { region: Region::Network, offset: 8 }, 16, 0xff, proto);
    let mut list = Vec::new();
    match proto {
        Some(TCP_OR_UDP) => list.push(Expr::Or(vec![is(TCP), is(UDP)])),
        Some(ANY_TRANSPORT) | None => {}
        Some(proto) => list.push(is(proto)),
    }
    if is_transport {
        let place = Place { region: Region::Network, offset: 4 };
        list.push(Expr::equal(place, 0, 0x1fff, 0));
    }
    if expr != Expr::Always || list.is_empty() {
        list.push(expr);
    }
    Expr::all(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_brought_under_their_mask() {
        for mask in 0..64u32 {
            for value in 0..64u32 {
                let expected = (0..=value).rev().find(|n| n & !mask == 0).unwrap_or(0);
                assert_eq!(largest_under(mask, value), expected, "{mask:b} {value:b}");
            }
        }
    }
}

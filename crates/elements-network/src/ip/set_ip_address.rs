//! Sets an address annotation.
//!
//! # Synopsis
//! `SetIPAddress(IPADDR [, ANNO])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `IPADDR`: the address
//! - `ANNO`: the annotation; default: the destination annotation
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `addr` | read, write | address |
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> SetIPAddress(10.0.0.2) -> ARPQuerier(10.0.0.1, 1:1:1:1:1:1) -> ...;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::annotation;

use warpswitch_elements_support::Anno;
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("SetIPAddress", "1/1", "a/a", || {
    Box::new(SetIpAddress { address: Ipv4Addr::UNSPECIFIED, anno: annotation::DST })
})
.live();

/// See the module.
#[derive(Clone, Debug)]
pub struct SetIpAddress {
    address: Ipv4Addr,
    anno: usize,
}

impl Element for SetIpAddress {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut anno = Anno::<4>(self.anno);
        args.read_mp("IPADDR", &mut self.address).read_p("ANNO", &mut anno);
        self.anno = anno.0;
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        let (address, at) = (self.address.octets(), self.anno);
        for packet in batch.iter_mut() {
            packet.set_anno_u32(at, u32::from_ne_bytes(address));
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("addr")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.address.to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.address = parse_seen(cx, value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, through};

    #[test]
    fn the_annotation_is_what_was_said() {
        let shown = through(b"x", "SetIPAddress(1.2.3.4) -> SetIPAddress(5.6.7.8, 44)");
        let annotations = shown.expect("it passes").annotations;
        assert_eq!((&annotations[..4], &annotations[44..]), (&[1, 2, 3, 4][..], &[5, 6, 7, 8][..]));
        let (_, _, mut router) = run("Idle -> s :: SetIPAddress(1.2.3.4) -> Discard;");
        assert!(router.write("s.addr", "1.2.3").is_err());
        router.write("s.addr", "4.3.2.1").expect("it obeys");
        assert_eq!(router.read("s.addr"), Ok("4.3.2.1".into()));
    }
}

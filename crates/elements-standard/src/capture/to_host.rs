//! Sends packets to the kernel of this machine through the interface of a `FromHost`.
//!
//! # Synopsis
//! `ToHost(DEVNAME)`
//!
//! # Ports
//! One push input.
//!
//! # Configuration
//! - `DEVNAME`: the name of a `FromHost` in the same configuration; may be omitted if there is only
//!   one. If it is omitted and there is none, packets are dropped, with a warning: in Click's
//!   kernel module they return to the kernel, but here the kernel receives the frames of an
//!   interface beside `FromDevice`
//!
//! The kernel receives the packets from that interface: with an Ethernet header, or starting with
//! the IP header if the `FromHost` has `TYPE IP`. It drops packets that are not addressed to it, so
//! send it its IP packets and the ARP replies.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `dev_name` | read | name of the interface |
//! | `sent`, `drops` | read | packets sent, packets dropped |
//!
//! # Drops
//! - `not sent`: the kernel refused the packet: it is shorter than its header, too long, or the
//!   interface is down
//! - `no FromHost`: there is no `FromHost`
//!
//! # Threads
//! Runs on the worker of its `FromHost`.
//!
//! # Example
//! ```text
//! FromHost(host0, 10.9.0.1/24) -> c :: Classifier(12/0806 20/0001, 12/0800);
//! c[0] -> ARPResponder(0.0.0.0/0 2:0:0:0:0:1) -> ToHost(host0);
//! c[1] -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, PortSpec, Transmitted, TxPort};

use super::kernel_tap::KernelTap;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ToHost", "1/0", "h", || Box::<ToHost>::default())
        .consumes_as("sent")
        .drops(&["not sent", "no FromHost"]);

/// Numbers of the reasons.
const NOT_SENT: usize = 0;
const NO_FROM_HOST: usize = 1;

const HANDLERS: &[HandlerSpec] =
    &[HandlerSpec::read("dev_name"), HandlerSpec::read("sent"), HandlerSpec::read("drops")];

/// The warning of an element that drops all packets.
const NO_INTERFACE: &str = "no FromHost in the configuration: all packets are dropped. Unless \
    SNIFFER is false, the kernel receives the frames of FromDevice as well; for other packets add \
    FromHost(DEVNAME, ADDR/MASK)";

/// See the module.
#[derive(Default)]
pub struct ToHost {
    device: String,
    tx: Option<Box<dyn TxPort>>,
    sent: u64,
    drops: u64,
}

impl ToHost {
    /// Name and device of the `FromHost` that it belongs to; `None` if the configuration has none
    /// and `DEVNAME` was omitted.
    fn find_source(&self, cx: &mut Context<'_>) -> Result<Option<(String, PortSpec)>, String> {
        let is_source = |&element: &usize| cx.graph().elements[element].class == "FromHost";
        let sources: Vec<usize> = (0..cx.graph().elements.len()).filter(is_source).collect();
        let mut known = Vec::new();
        for source in sources {
            let spec = |tap: &mut KernelTap, cx: &mut Context<'_>| {
                (tap.device.clone(), tap.port_spec(cx.name()))
            };
            known.extend(cx.with_element(source, spec));
        }
        if self.device.is_empty() && known.len() <= 1 {
            return Ok(known.pop());
        }
        let names = known.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(", ");
        let found = known.into_iter().find(|(name, _)| *name == self.device);
        found.map(Some).ok_or_else(|| match (names.is_empty(), self.device.as_str()) {
            (true, name) => format!("no FromHost({name}) in the configuration; add one"),
            (false, "") => format!("several FromHost; DEVNAME must be one of {names}"),
            (false, name) => format!("no FromHost({name}); DEVNAME must be one of {names}"),
        })
    }
}

impl Element for ToHost {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("DEVNAME", &mut self.device).complete()
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        let warning = |is_missing: bool| is_missing.then(|| NO_INTERFACE.to_owned());
        self.find_source(cx).map(|source| warning(source.is_none()).into_iter().collect())
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some((device, spec)) = self.find_source(cx)? {
            self.tx = Some(cx.console().open_tx(&spec)?);
            self.device = device;
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(tx) = &mut self.tx else {
            self.drops += batch.len() as u64;
            return cx.drop_batch(batch, NO_FROM_HOST);
        };
        for packet in batch.drain() {
            if let Transmitted::Frames(_) = tx.send(std::slice::from_ref(&packet)) {
                self.sent += 1;
                cx.consume(packet);
            } else {
                self.drops += 1;
                cx.drop_packet(packet, NOT_SENT);
            }
        }
        cx.consume_batch(batch);
    }

    fn accepts_gso(&self) -> bool {
        self.tx.as_ref().is_none_or(|tx| tx.accepts_gso())
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        HANDLERS
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "dev_name" => self.device.clone(),
            "sent" => self.sent.to_string(),
            _ => self.drops.to_string(),
        })
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.sent, self.drops) = (old.sent, old.drops);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn errors(config: &str) -> String {
        router(config, &crate::registry()).err().map_or(String::new(), |errors| errors.to_click())
    }

    const SOURCES: &str = "FromHost(a0, 10.0.0.1/8) -> Discard; FromHost(a1, TYPE IP) -> Discard;";

    #[test]
    fn requires_the_from_host_of_its_name() {
        // The simulated host opens no interface, which is reported once all places are valid.
        for (config, expected) in [
            ("FromHost(a0) -> ToHost", "no interfaces are opened here"),
            (&format!("{SOURCES} Idle -> ToHost(a1)"), "no interfaces are opened here"),
            ("Idle -> ToHost(a0)", "no FromHost(a0) in the configuration; add one"),
            (
                &format!("{SOURCES} Idle -> ToHost"),
                "several FromHost; DEVNAME must be one of a0, a1",
            ),
            (
                &format!("{SOURCES} Idle -> ToHost(b)"),
                "no FromHost(b); DEVNAME must be one of a0, a1",
            ),
        ] {
            let errors = errors(config);
            assert!(errors.contains(expected), "{config}: {errors}");
        }
    }

    #[test]
    fn drops_packets_without_a_from_host() {
        let config = "InfiniteSource(LIMIT 3) -> h :: ToHost;";
        let (mut router, transcript) = run(config, &crate::registry());
        assert!(transcript.said().contains("no FromHost in the configuration"));
        assert_eq!(
            (router.read("h.drops"), router.read("h.sent")),
            (Ok("3".into()), Ok("0".into()))
        );
    }

    #[test]
    fn from_host_rejects_invalid_arguments() {
        for (arguments, expected) in [
            ("", "DEVNAME: required argument missing"),
            ("longer-than-names-are", "DEVNAME: an interface name has 1 to 15 bytes"),
            ("a/b", "DEVNAME: an interface name has 1 to 15 bytes"),
            ("a0, 10.0.0.1/8, GATEWAY 11.0.0.1", "GATEWAY: must be an address in the network"),
            ("a0, GATEWAY 11.0.0.1", "GATEWAY: must be an address in the network"),
            ("a0, TYPE X", "TYPE: expected ETHER or IP"),
            ("a0, 10.0.0.1/8, GATEWAY 10.0.0.2", "no interfaces are opened here"),
        ] {
            let errors = errors(&format!("FromHost({arguments}) -> Discard"));
            assert!(errors.contains(expected), "{arguments}: {errors}");
        }
    }
}

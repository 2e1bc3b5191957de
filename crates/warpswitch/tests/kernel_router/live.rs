//! Our router with the live configuration, in a namespace.

use std::time::Duration;

use crate::ends::Ends;
use crate::frames::{Family, Step, host};
use crate::kernel::KNOWN_HOSTS;
use crate::netns::Namespace;
use crate::run::Run;

/// Long enough for it to stop waiting for a neighbour: three queries, a second apart each.
const PAUSE: Duration = Duration::from_millis(4500);

/// Our router between two links.
pub struct LiveRouter {
    family: Family,
    router: Run,
    ends: Ends,
}

impl LiveRouter {
    /// A running router.
    ///
    /// # Errors
    /// The reason why namespaces are unavailable.
    pub fn new(family: Family) -> Result<Self, String> {
        let namespace = Namespace::new()?;
        let ends = Ends::new(&namespace, family)?;
        namespace.ip("link set lan0 up\nlink set lan1 up\n")?;
        let config = match family {
            Family::V4 => "conf/live/ip-router.click",
            Family::V6 => "conf/live/ipv6-router.click",
        };
        let mut arguments = vec![config, "ETH0=lan0", "ETH1=lan1"];
        // That of the shipped configuration for captures.
        arguments.extend((family == Family::V6).then_some("MTU1=1400"));
        Ok(Self { family, router: Run::new(namespace, &arguments), ends })
    }

    /// Plays a scenario; returns the frames that left by each link.
    pub fn run(&mut self, steps: &[Step]) -> [Vec<Vec<u8>>; 2] {
        self.forget_neighbours();
        self.ends.play(steps, PAUSE)
    }

    /// Leaves only the known hosts in the tables of neighbours.
    fn forget_neighbours(&self) {
        let table = if self.family == Family::V4 { "arp" } else { "nd" };
        for lan in 0..2 {
            self.router.write(&format!("{table}{lan}.clear"), "");
            for number in KNOWN_HOSTS {
                let host = host(lan, number);
                let address = match self.family {
                    Family::V4 => host.v4.to_string(),
                    Family::V6 => host.v6.to_string(),
                };
                let entry = format!("{address} {}", host.mac);
                self.router.write(&format!("{table}{lan}.insert"), &entry);
            }
        }
    }
}

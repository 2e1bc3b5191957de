//! Links of a router under test, with raw ends.
//!
//! ```text
//! end of lan0 ── veth ── lan0 │ router │ lan1 ── veth ── end of lan1
//! packet socket                                       packet socket
//! ```
//! The ends have no addresses: their replies are the frames of a scenario.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};

use crate::frames::{Family, Step, fence, fence_number, router_mac};
use crate::netns::Namespace;
use crate::packet_end::{open_end, send_frame};

/// How long a fence may be under way.
const FENCE_WAIT: Duration = Duration::from_secs(20);
/// MTU of the links: more than the routes allow, so that packets which are too long can arrive.
const LINK_BYTES: u32 = 9000;

/// The ends of both links of a router.
pub struct Ends {
    family: Family,
    sockets: [OwnedFd; 2],
    fences: u32,
}

impl Ends {
    /// Adds the interfaces `lan0` and `lan1` to the namespace of the router, and opens their ends.
    ///
    /// # Errors
    /// The reason why the kernel refuses it.
    pub fn new(router: &Namespace, family: Family) -> Result<Self, String> {
        // Frames that one core sends stay in order, through softirqs too.
        if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
            core_affinity::set_for_current(core);
        }
        let open = |lan: usize| {
            let host = Namespace::new()?;
            router.link(&format!("lan{lan}"), &host, "end")?;
            host.ip(&format!("link set end mtu {LINK_BYTES}\n"))?;
            let mac = router_mac(lan);
            router.ip(&format!("link set lan{lan} mtu {LINK_BYTES} address {mac}\n"))?;
            open_end(&host)
        };
        Ok(Self { family, sockets: [open(0)?, open(1)?], fences: 0 })
    }

    /// Sends the frames of a scenario, each once all that the one before caused has left; returns
    /// the frames that left by each link. A step without a frame waits for `pause`.
    pub fn play(&mut self, steps: &[Step], pause: Duration) -> [Vec<Vec<u8>>; 2] {
        let mut left = [Vec::new(), Vec::new()];
        // Frames that are still under way belong to no scenario.
        self.collect(0, &mut [Vec::new(), Vec::new()]);
        for step in steps {
            match step.frame.is_empty() {
                true => sleep(pause),
                false => send_frame(&self.sockets[step.lan], &step.frame),
            }
            self.collect(step.lan, &mut left);
        }
        left
    }

    /// Adds the frames that left by each link until now, because of a frame that came through
    /// `lan`. A fence through `lan` is forwarded behind that frame. When it has arrived, a fence
    /// the other way follows all that the frame caused.
    fn collect(&mut self, lan: usize, left: &mut [Vec<Vec<u8>>; 2]) {
        self.fences += 1;
        for through in [lan, 1 - lan] {
            send_frame(&self.sockets[through], &fence(self.family, through, self.fences));
            let out = 1 - through;
            let until = Instant::now() + FENCE_WAIT;
            loop {
                let frame = self.receive(out, until);
                match fence_number(&frame) {
                    Some(number) if number == self.fences => break,
                    Some(_) => {}
                    None if is_housekeeping(&frame) => {}
                    None => left[out].push(frame),
                }
            }
        }
    }

    fn receive(&self, lan: usize, until: Instant) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match recv(self.sockets[lan].as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(bytes) => {
                    buffer.truncate(bytes);
                    return buffer;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => panic!("the end of lan{lan}: {error}"),
            }
            assert!(Instant::now() < until, "no fence arrives at the end of lan{lan}");
            let timeout = PollTimeout::try_from(Duration::from_millis(100)).expect("short");
            let mut fds = [PollFd::new(self.sockets[lan].as_fd(), PollFlags::POLLIN)];
            // Interrupted or not: the loop polls again.
            _ = poll(&mut fds, timeout);
        }
    }
}

/// Whether the kernel sent it on its own account: multicast listener reports (RFC 3810) list the
/// groups of its interfaces, and answer nothing.
fn is_housekeeping(frame: &[u8]) -> bool {
    const REPORT: u8 = 143;
    let is_ipv6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
    // Behind a hop-by-hop option of eight bytes.
    is_ipv6 && frame.get(20) == Some(&0) && frame.get(62) == Some(&REPORT)
}

//! What comes out of a pipeline.

use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey, PacketIn};

use crate::observe::Observed;

/// Takes what a pipeline hands out.
pub trait Output {
    /// A frame leaves by a real port or [`warpswitch_rules::openflow::port::LOCAL`].
    fn send(&mut self, egress: Egress, frame: &[u8]);

    /// A frame of a burst ([`crate::Pipeline::execute_burst`]) leaves as it came in, and nothing
    /// else happens to it. `number` is its place in the burst, so an output that owns the frames
    /// may move it instead of copying it.
    #[inline]
    fn forward(&mut self, egress: Egress, number: usize, frame: &[u8]) {
        let _ = number;
        self.send(egress, frame);
    }

    /// A packet goes to the controllers.
    fn packet_in(&mut self, packet: PacketIn);

    /// A frame is to be forwarded as a learning switch would; the key has its input port.
    fn normal(&mut self, key: &FlowKey, frame: &[u8]);

    /// Whether [`Output::observe`] does anything.
    const IS_OBSERVER: bool = false;

    /// Takes what the packet meets on its way.
    #[inline(always)]
    fn observe(&mut self, _observed: Observed<'_>) {}
}

/// Where a frame goes, and the fields of the pipeline that ports need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// The port.
    pub port: u32,
    /// Its queue, if one was set.
    pub queue: Option<u32>,
    /// The id for a tunnel, and its addresses; 0 if not set.
    pub tun_id: u64,
    /// See [`Egress::tun_id`].
    pub tun_src: u32,
    /// See [`Egress::tun_id`].
    pub tun_dst: u32,
}

impl Egress {
    /// With the fields of `key`.
    pub fn new(port: u32, queue: Option<u32>, key: &FlowKey) -> Self {
        let tun_id = u64::from(key[4]) << 32 | u64::from(key[5]);
        Self { port, queue, tun_id, tun_src: key[6], tun_dst: key[7] }
    }
}

/// Where a packet comes from: what the pipeline matches beside the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// The port that it came in on.
    pub port: u32,
    /// The physical port under it; the same number where there is none.
    pub phy_port: u32,
    /// The id of the tunnel it came through.
    pub tun_id: u64,
    /// The addresses of the tunnel.
    pub tun_src: u32,
    /// See [`Ingress::tun_src`].
    pub tun_dst: u32,
    /// The mark of the packet.
    pub pkt_mark: u32,
}

impl From<u32> for Ingress {
    fn from(port: u32) -> Self {
        Self { port, phy_port: port, ..Self::default() }
    }
}

impl Ingress {
    /// Whether words of the key beside the ports are set.
    pub(crate) fn is_tunneled(&self) -> bool {
        (self.tun_id, self.tun_src, self.tun_dst, self.pkt_mark) != (0, 0, 0, 0)
    }

    /// The way out of a packet whose fields of the pipeline stay as they came in.
    pub(crate) fn egress(&self, port: u32) -> Egress {
        let Self { tun_id, tun_src, tun_dst, .. } = *self;
        Egress { port, queue: None, tun_id, tun_src, tun_dst }
    }

    /// A flow key without header fields.
    pub(crate) fn key(&self) -> FlowKey {
        let mut key = [0; FLOW_WORDS];
        key[0] = self.port;
        key[1] = self.phy_port;
        key[4] = (self.tun_id >> 32) as u32;
        key[5] = self.tun_id as u32;
        key[6] = self.tun_src;
        key[7] = self.tun_dst;
        key[24] = self.pkt_mark;
        key
    }
}

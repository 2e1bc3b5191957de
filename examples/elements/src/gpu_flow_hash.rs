//! Spreads flows over outputs by a hash that a device computes.
//!
//! # Synopsis
//! `GPUFlowHash(OUTPUTS [, ANNO PLACE, CHK_ANNO PLACE=NUMBER])`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`.
//!
//! # Configuration
//! - `OUTPUTS`: number of outputs of the `Dispatcher` behind the chain
//! - `ANNO`: place of the annotation that gets the number of the output, four bytes; 40 by default
//! - `CHK_ANNO`: only packets whose annotation at `PLACE`, of four bytes, is `NUMBER` get an output
//!
//! The hash is that of receive-side scaling (Toeplitz) over addresses and ports of TCP and UDP over
//! IPv4, so all packets of a flow get one output. Other packets and fragments stay off the device
//! and get output 0.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `on_device`, `on_cores` | read | hashes, by where they were computed |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUFlowHash(2) -> DeviceToHostMemcpy
//!   -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher; out[0] -> ...; out[1] -> ...;
//! ```

use std::sync::Arc;

use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::kernels::{Kernel, Source};
use warpswitch_gpu::work::{Form, Lookup, Work};
use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_offload::{
    DeviceClass, DeviceElement, Joined, Load, Offload, PacketSlice, Predicate, Slice, Step,
    Written, expect_chain, read_anno,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ipv4::Ipv4;

/// Words of a flow: source, destination, ports.
const FLOW_WORDS: usize = 3;

/// What the device reads of a packet.
static FLOW: PacketSlice = PacketSlice::new("IPv4 addresses and ports", FLOW_WORDS, cut_flow);

/// Writes the flow of a packet; false if it is not of TCP or UDP over IPv4, or a fragment.
fn cut_flow(packet: &Packet, words: &mut [u32]) -> bool {
    let data = packet.from_header(Header::Network);
    let Ok(view) = Ipv4::new_checked(data) else { return false };
    let is_fragment = view.more_fragments() || view.fragment_offset() > 0;
    if !matches!(view.proto().0, 6 | 17) || is_fragment {
        return false;
    }
    let Some(&ports) = data.get(view.header_bytes()..).and_then(|l4| l4.first_chunk()) else {
        return false;
    };
    let flow = [view.src().to_bits(), view.dst().to_bits(), u32::from_be_bytes(ports)];
    words.copy_from_slice(&flow);
    true
}

/// The key of the hash, one word longer than a flow: that of Microsoft's specification of
/// receive-side scaling, whose test vectors so apply.
const KEY: [u32; FLOW_WORDS + 1] = [0x6d5a_56da, 0x255b_0ec2, 0x4167_253d, 0x43a3_8fb0];

/// The hash as work of a device. The image is the key.
#[derive(Debug)]
pub struct FlowHash;

impl FlowHash {
    /// The hash of a flow: for each of its bits that is 1, the 32 bits of the key from there on.
    pub fn hash(flow: [u32; FLOW_WORDS]) -> u32 {
        let mut hash = 0;
        for (pair, word) in KEY.windows(2).zip(flow) {
            let window = u64::from(pair[0]) << 32 | u64::from(pair[1]);
            for bit in (0..32).filter(|bit| word << bit >> 31 == 1) {
                hash ^= (window << bit >> 32) as u32;
            }
        }
        hash
    }
}

/// The CPU twin of the kernel.
impl Lookup for FlowHash {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        for (&flow, out) in keys.as_chunks().0.iter().zip(out) {
            *out = Self::hash(flow);
        }
    }
}

impl Work for FlowHash {
    type Answer = u32;

    fn form(&self) -> Form {
        Form { key_words: FLOW_WORDS, answer_bytes: 4, packed: false }
    }

    fn kernel(&self) -> Kernel {
        let source = Source { name: "flow_hash.cu", text: include_str!("flow_hash.cu") };
        Kernel::Custom { source, entry: "flow_hash" }
    }

    fn words(&self) -> &[u32] {
        &KEY
    }

    fn unpack(words: &[u32], out: &mut [u32]) {
        out.copy_from_slice(&words[..out.len()]);
    }
}

/// Where the output is written unless `ANNO` names another place.
const OUTPUT_ANNO: usize = 40;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUFlowHash", "1/1", "h/h", || Box::<GpuFlowHash>::default())
        .drops(&["no wide batch"])
        .on_device()
        .extension(&DEVICE);

static DEVICE: DeviceClass = DeviceClass::new::<GpuFlowHash>(OUTPUT_ANNO);

/// See the module.
#[derive(Debug)]
pub struct GpuFlowHash {
    outputs: u32,
    anno: usize,
    predicate: Option<Predicate>,
    /// The work on the device, if there is one.
    loaded: Option<Arc<Loaded<FlowHash>>>,
    /// Of a batch.
    numbers: Vec<u32>,
    on_device: u64,
    on_cores: u64,
}

impl Default for GpuFlowHash {
    fn default() -> Self {
        Self {
            outputs: 1,
            anno: OUTPUT_ANNO,
            predicate: None,
            loaded: None,
            numbers: Vec::new(),
            on_device: 0,
            on_cores: 0,
        }
    }
}

impl DeviceElement for GpuFlowHash {
    fn join(
        &mut self,
        _cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        _slot: usize,
    ) -> Result<Joined, String> {
        self.loaded = Some(offload.device().load_or_retire(Arc::new(FlowHash)));
        let answer_bytes = FlowHash.form().answer_bytes;
        Ok(Joined::new(Slice::Custom(&FLOW), answer_bytes).only(self.predicate))
    }

    fn written(&self) -> Option<Written> {
        Some(Written { place: self.anno, predicate: self.predicate })
    }

    fn launch(&mut self, cx: &mut Context<'_>, load: &mut Load, _packets: usize) {
        load.launch(cx, &FLOW, self.loaded.as_ref());
    }

    fn apply(&mut self, _cx: &mut Context<'_>, step: &Step, load: &mut Load, batch: &mut Batch) {
        let (on_device, on_cores) = load.answers(step, &FlowHash, 0, &mut self.numbers);
        self.on_device += on_device;
        self.on_cores += on_cores;
        self.numbers.iter_mut().for_each(|number| *number %= self.outputs);
        let to = Written { place: self.anno, predicate: self.predicate };
        load.write(batch, to, &mut self.numbers);
    }
}

impl Element for GpuFlowHash {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("OUTPUTS", &mut self.outputs);
        if self.outputs == 0 {
            args.error_at("OUTPUTS", "expected at least 1");
        }
        read_anno(args, &mut self.anno);
        self.predicate = Predicate::read(args);
        args.complete()
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        expect_chain(cx)?;
        Ok(self.predicate.and_then(|only| only.unwritten(cx)).into_iter().collect())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.launch_and_forward(cx, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("on_device"), HandlerSpec::read("on_cores")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "on_device" => Ok(self.on_device.to_string()),
            "on_cores" => Ok(self.on_cores.to_string()),
            _ => Err(HandlerError::Missing),
        }
    }
}

//! Measures what the copy from a ring into a packet costs: `cargo test --release -p warpswitch-io
//! --lib cost_of_copies -- --ignored --nocapture`, as root.
//!
//! A ring is filled over a veth pair and then drained, the time of the latter counts. Three ways:
//! the first 64 bytes of each frame are read in place; the same, and each frame gets a packet
//! without data, as if that borrowed the frame; and [`RxPort::receive`], which copies. So the
//! difference between the last two is the most that borrowing could save, with nothing counted for
//! frames that are given back to the kernel later, or copied when an element keeps them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::super::af_packet::PacketRx;
use super::super::xdp::{Xdp, XdpInterface, XdpPort};
use super::*;

/// Frames in a ring: `AF_XDP` has 2,048.
const FRAMES: usize = 1024;
/// Times that each ring is drained; the shortest counts.
const ROUNDS: usize = 200;
const BURST: usize = 64;

/// How frames are drained.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    Look,
    Borrow,
    Copy,
}

/// A port whose ring can be read in place.
enum Port {
    Packet(Box<PacketRx>),
    Xdp(Arc<Mutex<Xdp>>, XdpPort),
}

impl Port {
    fn open(method: PortMethod) -> Self {
        if method != PortMethod::AfXdp {
            return Self::Packet(Box::new(PacketRx::open(&spec("pa", method), None).unwrap()));
        }
        let xdp = Xdp::open(Arc::new(XdpInterface::new("pa")), 0).unwrap();
        let xdp = Arc::new(Mutex::new(xdp));
        Self::Xdp(xdp.clone(), XdpPort::new(xdp))
    }

    fn look_at(&mut self, look: impl FnMut(&[u8])) -> usize {
        match self {
            Self::Packet(port) => port.look_at(BURST, look),
            Self::Xdp(xdp, _) => xdp.lock().unwrap().look_at(BURST, look),
        }
    }

    fn drain(&mut self, pool: &mut Pool, drain: Drain) -> usize {
        let first_line =
            |data: &[u8]| data.iter().take(64).map(|&byte| u64::from(byte)).sum::<u64>();
        let mut batch = pool.batch();
        let (mut sum, mut count) = (0u64, 0);
        match drain {
            Drain::Look => count = self.look_at(|data| sum += first_line(data)),
            Drain::Borrow => {
                count = self.look_at(|data| {
                    sum += first_line(data);
                    let mut packet = pool.packet();
                    packet.set_packet_type(PacketType::Host);
                    packet.set_timestamp_ns(1);
                    batch.push(packet);
                });
            }
            Drain::Copy => {
                count += match self {
                    Self::Packet(port) => port.receive(pool, &mut batch, BURST),
                    Self::Xdp(_, port) => port.receive(pool, &mut batch, BURST),
                };
                batch.iter().for_each(|packet| sum += first_line(packet.data()));
            }
        }
        black_box(sum);
        pool.recycle_batch(batch);
        count
    }
}

/// Nanoseconds a frame of the fastest round of each way.
fn measure(method: PortMethod, bytes: usize) -> [f64; 3] {
    let mut pool = Pool::new();
    let mut port = Port::open(method);
    let mut tx = PortTable::default().open_tx(&spec("pb", PortMethod::AfPacket)).unwrap();
    let burst = packets(&mut pool, (0..BURST as u16).map(|number| frame(number, bytes)));
    let mut best = [f64::INFINITY; 3];
    for round in 0..3 * ROUNDS {
        (0..FRAMES / BURST).for_each(|_| send(&mut *tx, &burst));
        // A block that is not full is passed on after a millisecond.
        std::thread::sleep(Duration::from_millis(3));
        let way = [Drain::Look, Drain::Borrow, Drain::Copy][round % 3];
        let (start, mut count) = (Instant::now(), 0);
        loop {
            match port.drain(&mut pool, way) {
                0 => break,
                drained => count += drained,
            }
        }
        let ns = start.elapsed().as_nanos() as f64 / count as f64;
        assert!(count >= FRAMES - BURST, "{count} frames arrived");
        best[round % 3] = best[round % 3].min(ns);
    }
    best
}

/// Fails only if frames do not arrive: times are printed.
#[test]
#[ignore = "a measurement, to be run in a release build on a quiet machine"]
fn cost_of_copies() {
    with_veth(|| {
        println!("ns a frame: read in place, with a packet, copied");
        for method in [PortMethod::AfPacket, PortMethod::AfPacketBlocks, PortMethod::AfXdp] {
            for bytes in [60, 1514] {
                let [look, borrow, copy] = measure(method, bytes);
                println!("{method:?}, {bytes} bytes: {look:.1} {borrow:.1} {copy:.1}");
            }
        }
    });
}

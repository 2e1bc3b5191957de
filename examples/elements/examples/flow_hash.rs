//! Runs the device element `GPUFlowHash` on a pool of threads in place of a GPU: spreads the flows
//! of a capture over two outputs.
//!
//! ```text
//! cargo run -p warpswitch-example-elements --example flow_hash -- CAPTURE
//! ```

use std::thread;

use warpswitch_example_elements::register;
use warpswitch_gpu::Device;
use warpswitch_gpu::host::HostPool;
use warpswitch_offload::Offload;
use warpswitch_runtime::RunBuilder;

const CONFIG: &str = "
    FromDump($CAPTURE) -> MarkIPHeader(14) -> Batcher(IDLE true)
        -> HostToDeviceMemcpy -> hash :: GPUFlowHash(2) -> DeviceToHostMemcpy
        -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
    out[0] -> first :: Counter -> Discard;
    out[1] -> second :: Counter -> Discard;
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capture = std::env::args().nth(1).ok_or("usage: flow_hash CAPTURE")?;
    // For a GPU: Device::open_card(0, None)?
    let device = Device::from_pool(HostPool::new(2, &mut |worker| _ = thread::spawn(worker)));
    let run =
        RunBuilder::new(register(warpswitch_offload::register(warpswitch_elements::registry())))
            .text(CONFIG)
            .variable("CAPTURE", &capture)
            .device(Offload::to(device))
            .start()?;
    run.wait()?;
    for handler in ["hash.on_device", "hash.on_cores", "first.count", "second.count"] {
        println!("{handler}: {}", run.read(handler)?);
    }
    run.stop()?;
    Ok(())
}

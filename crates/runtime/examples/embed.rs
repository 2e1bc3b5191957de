//! Embeds a configuration: counts the packets of a capture by protocol, on two threads.
//!
//! ```text
//! cargo run -p warpswitch-runtime --example embed -- CAPTURE
//! ```

use warpswitch_runtime::RunBuilder;

const CONFIG: &str = "
    FromDump($CAPTURE) -> Strip(14) -> CheckIPHeader -> protocol :: IPClassifier(tcp, udp, -);
    protocol[0] -> tcp :: Counter -> Discard;
    protocol[1] -> udp :: Counter -> Discard;
    protocol[2] -> other :: Counter -> Discard;
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capture = std::env::args().nth(1).ok_or("usage: embed CAPTURE")?;
    let run = RunBuilder::new(warpswitch_elements::registry())
        .text(CONFIG)
        .variable("CAPTURE", &capture)
        .threads(2)
        .start()?;
    run.wait()?;
    println!("TCP packets: {}", run.read("tcp.count")?);
    let stats = run.stop()?;
    for element in stats.elements.iter().filter(|element| element.packets > 0) {
        println!("{} :: {}: {} packets", element.name, element.class, element.packets);
    }
    println!("{} after {:.3} s", stats.ended, stats.seconds);
    Ok(())
}

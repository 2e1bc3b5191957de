//! Embedded configurations, with real files, threads, clock and sockets.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warpswitch_io::{CaptureFormat, CaptureWriter};
use warpswitch_runtime::{
    ControlAddress, Error, ErrorKind, RunBuilder, RunEnd, RunProgress, client,
};

/// Frames of a test capture.
const FRAMES: u64 = 300;
/// The limit of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

fn builder() -> RunBuilder {
    RunBuilder::new(warpswitch_elements::registry())
}

/// Writes a capture of `FRAMES` Ethernet frames, 100 bytes each.
fn write_capture(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("in.pcap");
    let mut writer = CaptureWriter::create(&path, CaptureFormat::Pcap, false).unwrap();
    for idx in 0..FRAMES {
        let frame = [idx as u8; 100];
        writer.write_frame(1_000_000_000 + idx * 1000, &frame).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Waits until `is_done`.
fn await_that(mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "the condition is never met");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Output of a run, shared with the test.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn reads_a_capture_and_writes_another() -> Result<(), Error> {
    for threads in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (write_capture(&folder), folder.path().join("out.pcap"));
        let config = folder.path().join("copy.click");
        let text = "FromDump($IN) -> q :: Queue(1000) -> c :: Counter -> ToDump($OUT);";
        std::fs::write(&config, text).unwrap();
        let run = builder()
            .file(&config)
            .variable("IN", input.to_str().unwrap())
            .variable("OUT", output.to_str().unwrap())
            .threads(threads)
            .count_costs()
            .start()?;
        assert_eq!(run.wait()?, RunEnd::Idle);
        assert_eq!(run.read("c.count")?, FRAMES.to_string());
        let stats = run.stop()?;
        assert_eq!((stats.ended, stats.packets_unaccounted), (RunEnd::Idle, 0));
        let counter = stats.element("c").expect("c is an element");
        assert_eq!((counter.packets, counter.bytes), (FRAMES, FRAMES * 100));
        // Finished runs have written their files, byte for byte.
        let mut copy = warpswitch_io::CaptureReader::open(&output).unwrap();
        let mut frames = 0;
        while let Some(frame) = copy.next_frame().unwrap() {
            assert_eq!(frame.data, [frames as u8; 100]);
            frames += 1;
        }
        assert_eq!(frames, FRAMES);
    }
    Ok(())
}

#[test]
fn serves_handlers_while_packets_flow() -> Result<(), Error> {
    for threads in [1, 2] {
        let text = "InfiniteSource -> s :: Switch(0) -> c :: Counter -> Discard; s[1] -> Discard;";
        let run = builder().text(text).threads(threads).start()?;
        let count = |handler| run.read(handler).unwrap().parse::<u64>().unwrap();
        await_that(|| count("c.count") > 1000);
        run.write("s.switch", "1")?;
        assert_eq!(run.read("s.switch")?, "1");
        let frozen = count("c.count");
        await_that(|| count("1.packets") > frozen + 100_000);
        assert_eq!(count("c.count"), frozen);
        let error = run.read("c.cuont").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Handler);
        assert_eq!(error.to_string(), "c.cuont: no such handler");
        let stats = run.stop()?;
        assert_eq!((stats.ended, stats.packets_unaccounted), (RunEnd::Stopped, 0));
    }
    Ok(())
}

#[test]
fn reports_all_errors_of_a_configuration() {
    let error = |builder: RunBuilder| {
        let error = builder.start().err().expect("the configuration is invalid");
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        error.to_string()
    };
    let errors = error(builder().text("Nope -> Discard; Idle -> Nopes;"));
    assert!(errors.contains("Nope") && errors.contains("Nopes"), "{errors}");
    assert!(error(builder()).contains("no configuration"));
    let errors = error(builder().file("/nonexistent/router.click"));
    assert!(errors.contains("cannot read /nonexistent/router.click"), "{errors}");
    let errors = error(builder().text("FromDump(/nonexistent/in.pcap) -> Discard;"));
    assert!(errors.contains("/nonexistent/in.pcap"), "{errors}");
}

#[test]
fn separates_output_and_messages() -> Result<(), Error> {
    let (output, messages) = (Shared::default(), Shared::default());
    let run = builder()
        .text("Script(print \"counted $COUNT\", stop);")
        .variable("COUNT", "7")
        .variable("COUNTS", "8")
        .output(output.clone())
        .messages(messages.clone())
        .simulated_time()
        .start()?;
    assert_eq!(run.wait()?, RunEnd::Stopped);
    run.stop()?;
    assert_eq!(output.text(), "counted 7\n");
    let expected = "nothing in the configuration refers to the variable 'COUNTS'; \
        it refers to 'COUNT'\n";
    assert_eq!(messages.text(), expected);
    Ok(())
}

#[test]
fn replaces_the_configuration() -> Result<(), Error> {
    let text = "c :: Counter; Idle -> c -> Discard;";
    let run = builder().text(text).keep_running().allow_reconfigure().start()?;
    assert_eq!(run.read("c.count")?, "0");
    run.write("hotconfig", "d :: Counter; InfiniteSource(LIMIT 5) -> d -> Discard;")?;
    await_that(|| run.read("d.count").is_ok_and(|count| count == "5"));
    assert_eq!(run.read("c.count").unwrap_err().to_string(), "c.count: no element named 'c'");
    let error = run.write("hotconfig", "Nope -> Discard;").unwrap_err();
    assert!(error.to_string().contains("Nope"), "{error}");
    assert_eq!(run.read("d.count")?, "5");
    assert_eq!(run.stop()?.ended, RunEnd::Stopped);
    let fixed = builder().text(text).keep_running().start()?;
    assert_eq!(fixed.write("hotconfig", "").unwrap_err().kind(), ErrorKind::Handler);
    Ok(())
}

#[test]
fn serves_control_connections_and_removes_the_socket() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("router.sock");
    let address = ControlAddress::Unix(path.clone());
    let text = "c :: Counter; Idle -> c -> Discard;";
    let run = builder().text(text).control(address.clone()).start()?;
    let mut client = client::connect(&address)?;
    let value = client.read("c.count", 100).unwrap().unwrap();
    assert_eq!((value.text.as_str(), value.is_truncated), ("0", false));
    assert!(client.read("c.nope", 100).unwrap().unwrap_err().is_missing());
    let busy = builder().text(text).control(address.clone()).start().err().expect("in use");
    assert_eq!(busy.kind(), ErrorKind::System);
    drop(run);
    assert!(!path.exists());
    assert_eq!(
        client::connect(&address).err().map(|error| error.kind()),
        Some(ErrorKind::Connection)
    );
    Ok(())
}

#[test]
fn reports_progress_within_the_interval() -> Result<(), Error> {
    for threads in [1, 2] {
        let (reports, packets) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, latest) = (reports.clone(), packets.clone());
        let progress = move |progress: &RunProgress| {
            let before = latest.swap(progress.packets, Ordering::Relaxed);
            assert!(before <= progress.packets);
            count.fetch_add(1, Ordering::Relaxed);
        };
        let run = builder()
            .text("InfiniteSource -> Discard;")
            .threads(threads)
            .on_progress(Duration::from_millis(5), progress)
            .start()?;
        await_that(|| reports.load(Ordering::Relaxed) >= 3);
        let elapsed = run.stop()?.seconds;
        assert!(packets.load(Ordering::Relaxed) > 0);
        // One at the start, and one per interval.
        assert!(reports.load(Ordering::Relaxed) as f64 <= elapsed / 0.005 + 2.0);
    }
    Ok(())
}

#[test]
fn runs_scripts_in_simulated_time() -> Result<(), Error> {
    let start = Instant::now();
    let run = builder().text("Script(wait 1000h, stop);").simulated_time().start()?;
    assert_eq!(run.wait()?, RunEnd::Stopped);
    assert!(start.elapsed() < PATIENCE);
    Ok(())
}

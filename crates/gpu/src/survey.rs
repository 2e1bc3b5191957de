//! What this machine has for kernels to run on, and what it lacks.

use std::fs;

use crate::driver::{Card, card_count, compiler_version, driver_version};
use crate::error::GpuError;

/// What was found. An error says what is missing; its kind has the remedy.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The version of CUDA that the driver is of.
    pub driver: Result<(u32, u32), GpuError>,
    /// NVRTC.
    pub compiler: Result<Compiler, GpuError>,
    /// The cards, in the driver's order.
    pub cards: Result<Vec<CardInfo>, GpuError>,
}

/// NVRTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// Its version.
    pub version: (u32, u32),
}

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub memory_bytes: usize,
    /// The most of it that engines and their buffers may take.
    pub pool_bytes_max: usize,
    /// Bytes of its second-level cache.
    pub l2_bytes: usize,
    /// Bytes of shared memory that a block may take.
    pub shared_bytes: usize,
    /// Its multiprocessors.
    pub multiprocessors: usize,
    /// Its address on the PCI bus.
    pub pci_address: String,
    /// Its link, as the system tells it.
    pub link: Option<Link>,
}

/// A PCI Express link. Links slow down while nothing uses them, so what it can do counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Lanes.
    pub width: usize,
    /// Giga-transfers a second of each lane, in tenths.
    pub gts_tenths: usize,
}

impl Link {
    /// Gigabytes a second in each direction, before the overhead of packets.
    pub fn gigabytes(&self) -> f64 {
        // From PCIe 3.0 on 128 of 130 bits carry data; before it was 8 of 10.
        let coding = if self.gts_tenths >= 80 { 128.0 / 130.0 } else { 0.8 };
        self.gts_tenths as f64 / 10.0 * self.width as f64 * coding / 8.0
    }
}

/// Looks for driver, compiler and cards. Opens each card for a moment.
pub fn survey() -> Survey {
    let cards = card_count().and_then(|count| (0..count).map(card_info).collect());
    Survey {
        driver: driver_version(),
        compiler: compiler_version().map(|version| Compiler { version }),
        cards,
    }
}

fn card_info(ordinal: usize) -> Result<CardInfo, GpuError> {
    let card = Card::open(ordinal)?;
    let pci_address = card.pci_address()?;
    Ok(CardInfo {
        ordinal,
        name: card.name()?,
        capability: card.compute_capability()?,
        memory_bytes: card.memory_bytes()?,
        pool_bytes_max: card.memory_use().bytes_max,
        l2_bytes: card.l2_bytes()?,
        shared_bytes: card.shared_bytes()?,
        multiprocessors: card.multiprocessors()?,
        link: link(&pci_address),
        pci_address,
    })
}

/// The link of a device, from the system's files.
fn link(pci_address: &str) -> Option<Link> {
    let read =
        |name: &str| fs::read_to_string(format!("/sys/bus/pci/devices/{pci_address}/{name}")).ok();
    parse_link(&read("max_link_speed")?, &read("current_link_width")?)
}

/// A link from `32.0 GT/s PCIe` and `16`.
fn parse_link(speed: &str, width: &str) -> Option<Link> {
    let number = speed.split_whitespace().next()?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let tenths = part.chars().next()?.to_digit(10)? as usize;
    let gts_tenths = whole.parse::<usize>().ok()?.checked_mul(10)?.checked_add(tenths)?;
    let width = width.trim().parse().ok().filter(|&width| width > 0 && width <= 64)?;
    Some(Link { width, gts_tenths })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_from_what_the_system_tells() {
        let link = parse_link("32.0 GT/s PCIe\n", "16\n").unwrap();
        assert_eq!(link, Link { width: 16, gts_tenths: 320 });
        assert_eq!((link.gigabytes() * 10.0).round(), 630.0);
        assert_eq!(parse_link("2.5 GT/s", "1").map(|l| l.gts_tenths), Some(25));
        for (speed, width) in [("Unknown", "16"), ("8.0 GT/s", "0"), ("", ""), ("8.", "255")] {
            assert_eq!(parse_link(speed, width), None, "{speed} {width}");
        }
    }

    #[test]
    fn a_survey_names_what_is_missing() {
        let survey = survey();
        for error in [survey.driver.as_ref().err(), survey.compiler.as_ref().err()] {
            assert!(error.is_none_or(|error| !error.kind().remedy().is_empty()));
        }
        // Without a driver there can be no cards, for the same reason.
        if let Err(missing) = &survey.driver {
            assert_eq!(survey.cards.err().map(|error| error.kind()), Some(missing.kind()));
        }
    }
}

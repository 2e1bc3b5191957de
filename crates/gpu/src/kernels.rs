//! The kernels: their sources, embedded, and their machine code for one kind of card.
//!
//! A kernel is compiled for the shape of an image (words of a key, format of rows), so that loops
//! over words unroll and keys stay in registers. What was compiled is kept on disk
//! ([`crate::cache`]); it is compiled again when source, options, card or compiler change.

use crate::cache::KernelCache;
use crate::driver::{LaunchShape, compile, compiler_version, driver_version};
use crate::error::{ErrorKind, GpuError};
use crate::image::hashes::HashFunction;
use crate::image::{Algorithm, Image, abi};

/// The name of the kernel that classifies batches.
pub const ENTRY: &str = "ws_classify";
/// The name of the kernels that divide rules.
pub const SPLIT_ENTRY: &str = "ws_classify_split";
/// The name of the kernel that stays.
pub const RESIDENT_ENTRY: &str = "ws_resident";
/// The name of the probe.
pub const PROBE_ENTRY: &str = "ws_probe_abi";

/// The name of the kernels that look up addresses.
pub const ROUTE_ENTRY: &str = "ws_route";

/// The name of the kernel that searches payloads.
pub const SCAN_ENTRY: &str = "ws_scan";

/// The name of the kernel that lays texts out on pages.
pub const GATHER_ENTRY: &str = "ws_gather";

/// Its source.
pub const GATHER: Source =
    Source { name: "gather.cu", text: include_str!("../../../kernels/src/gather.cu") };

/// The name of the kernels that hash and nothing else.
pub const HASHES_ENTRY: &str = "ws_hashes";

/// The headers, by the names under which they are included.
pub const HEADERS: [(&str, &str); 19] = [
    ("warpswitch/abi.h", include_str!("../../../kernels/include/warpswitch/abi.h")),
    ("warpswitch/key.cuh", include_str!("../../../kernels/include/warpswitch/key.cuh")),
    ("warpswitch/rows.cuh", include_str!("../../../kernels/include/warpswitch/rows.cuh")),
    ("warpswitch/linear.cuh", include_str!("../../../kernels/include/warpswitch/linear.cuh")),
    ("warpswitch/hash.cuh", include_str!("../../../kernels/include/warpswitch/hash.cuh")),
    ("warpswitch/tables.cuh", include_str!("../../../kernels/include/warpswitch/tables.cuh")),
    ("warpswitch/hashes.cuh", include_str!("../../../kernels/include/warpswitch/hashes.cuh")),
    ("warpswitch/terms.cuh", include_str!("../../../kernels/include/warpswitch/terms.cuh")),
    ("warpswitch/stage.cuh", include_str!("../../../kernels/include/warpswitch/stage.cuh")),
    (
        "warpswitch/stage_rows.cuh",
        include_str!("../../../kernels/include/warpswitch/stage_rows.cuh"),
    ),
    (
        "warpswitch/stage_tables.cuh",
        include_str!("../../../kernels/include/warpswitch/stage_tables.cuh"),
    ),
    ("warpswitch/split.cuh", include_str!("../../../kernels/include/warpswitch/split.cuh")),
    ("warpswitch/masks.cuh", include_str!("../../../kernels/include/warpswitch/masks.cuh")),
    ("warpswitch/turbo.cuh", include_str!("../../../kernels/include/warpswitch/turbo.cuh")),
    ("warpswitch/routes.cuh", include_str!("../../../kernels/include/warpswitch/routes.cuh")),
    ("warpswitch/headers.cuh", include_str!("../../../kernels/include/warpswitch/headers.cuh")),
    ("warpswitch/scan.cuh", include_str!("../../../kernels/include/warpswitch/scan.cuh")),
    ("warpswitch/gather.cuh", include_str!("../../../kernels/include/warpswitch/gather.cuh")),
    ("warpswitch/resident.cuh", include_str!("../../../kernels/include/warpswitch/resident.cuh")),
];

/// The probe's source: it reports what the card's compiler made of `abi.h`.
pub const PROBE: Source =
    Source { name: "probe.cu", text: include_str!("../../../kernels/src/probe.cu") };

/// The name of the kernel that writes patches.
pub const PATCH_ENTRY: &str = "ws_patch";

/// Its source.
pub const PATCH: Source =
    Source { name: "patch.cu", text: include_str!("../../../kernels/src/patch.cu") };

/// A kernel's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its file, for messages.
    pub name: &'static str,
    /// Its text, which includes headers.
    pub text: &'static str,
}

impl Source {
    /// The source of an algorithm's kernel.
    pub fn of(algorithm: Algorithm) -> Self {
        let (name, text) = match algorithm {
            Algorithm::Linear => ("linear.cu", include_str!("../../../kernels/src/linear.cu")),
            Algorithm::Tuple => ("tuple.cu", include_str!("../../../kernels/src/tuple.cu")),
            Algorithm::Bloom => ("bloom.cu", include_str!("../../../kernels/src/bloom.cu")),
            Algorithm::MaskHash => {
                ("maskhash.cu", include_str!("../../../kernels/src/maskhash.cu"))
            }
            Algorithm::Turbo => ("turbo.cu", include_str!("../../../kernels/src/turbo.cu")),
        };
        Self { name, text }
    }

    /// The source of an algorithm's kernel that divides rules, if it has one.
    pub fn split(algorithm: Algorithm) -> Option<Self> {
        macro_rules! source {
            ($name:literal) => {
                ($name, include_str!(concat!("../../../kernels/src/", $name)))
            };
        }
        let (name, text) = match algorithm {
            Algorithm::Linear => source!("split_linear.cu"),
            Algorithm::Tuple => source!("split_tuple.cu"),
            Algorithm::Bloom => source!("split_bloom.cu"),
            Algorithm::MaskHash | Algorithm::Turbo => return None,
        };
        Some(Self { name, text })
    }

    /// The source of an algorithm's kernel that stays.
    pub fn resident(algorithm: Algorithm) -> Self {
        macro_rules! source {
            ($name:literal) => {
                ($name, include_str!(concat!("../../../kernels/src/", $name)))
            };
        }
        let (name, text) = match algorithm {
            Algorithm::Linear => source!("resident_linear.cu"),
            Algorithm::Tuple => source!("resident_tuple.cu"),
            Algorithm::Bloom => source!("resident_bloom.cu"),
            Algorithm::MaskHash => source!("resident_maskhash.cu"),
            Algorithm::Turbo => source!("resident_turbo.cu"),
        };
        Self { name, text }
    }

    /// The source of the kernel that hashes by a function.
    pub fn hashing(function: HashFunction) -> Self {
        macro_rules! source {
            ($name:literal) => {
                ($name, include_str!(concat!("../../../kernels/src/", $name)))
            };
        }
        let (name, text) = match function {
            HashFunction::Universal => source!("hash_universal.cu"),
            HashFunction::Murmur3 => source!("hash_murmur3.cu"),
            HashFunction::SuperFast => source!("hash_superfast.cu"),
            HashFunction::Sum => source!("hash_sum.cu"),
            HashFunction::Terms => source!("hash_terms.cu"),
        };
        Self { name, text }
    }

    /// The text with every header in the place of its first inclusion.
    pub fn whole(&self) -> String {
        let mut included = Vec::new();
        expand(self.name, self.text, &mut included)
    }
}

fn expand(name: &str, text: &str, included: &mut Vec<&'static str>) -> String {
    let mut whole = format!("#line 1 \"{name}\"\n");
    for (idx, line) in text.lines().enumerate() {
        let header = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
        let known = header.and_then(|name| HEADERS.iter().find(|(known, _)| *known == name));
        match known {
            Some(&(name, _)) if included.contains(&name) => whole.push('\n'),
            Some(&(header, text)) => {
                included.push(header);
                whole += &expand(header, text, included);
                whole += &format!("#line {} \"{name}\"\n", idx + 2);
            }
            None => {
                whole += line;
                whole.push('\n');
            }
        }
    }
    whole
}

/// A kernel that answers batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Of rules, by algorithm.
    Rules(Algorithm),
    /// Of routes to IPv4 addresses.
    Route4,
    /// Of routes to IPv6 addresses.
    Route6,
    /// Of whole IPv4 headers.
    Header4,
    /// Hashes and nothing else.
    Hash(HashFunction),
    /// Of patterns in payloads.
    Scan,
    /// A kernel that another crate defines. All of them share one estimate of their duration, that
    /// of the slowest.
    Custom {
        /// Its source, which may include the headers of this crate.
        source: Source,
        /// Its name in the source.
        entry: &'static str,
    },
}

impl Kernel {
    /// How many there are.
    pub const COUNT: usize = Self::ROUTES + 5 + HashFunction::ALL.len();

    /// The first number behind those of algorithms.
    const ROUTES: usize = Algorithm::ALL.len();

    /// A number below [`Kernel::COUNT`] for each.
    pub fn index(self) -> usize {
        match self {
            Kernel::Rules(algorithm) => {
                let at = Algorithm::ALL.iter().position(|other| *other == algorithm);
                at.expect("every algorithm is in the list")
            }
            Kernel::Route4 => Kernel::ROUTES,
            Kernel::Route6 => Kernel::ROUTES + 1,
            Kernel::Header4 => Kernel::ROUTES + 2,
            Kernel::Hash(function) => Kernel::ROUTES + 3 + function.index(),
            Kernel::Scan => Kernel::COUNT - 2,
            Kernel::Custom { .. } => Kernel::COUNT - 1,
        }
    }

    /// Its source.
    pub fn source(self) -> Source {
        match self {
            Kernel::Rules(algorithm) => Source::of(algorithm),
            Kernel::Route4 => {
                Source { name: "route4.cu", text: include_str!("../../../kernels/src/route4.cu") }
            }
            Kernel::Route6 => {
                Source { name: "route6.cu", text: include_str!("../../../kernels/src/route6.cu") }
            }
            Kernel::Header4 => {
                Source { name: "header4.cu", text: include_str!("../../../kernels/src/header4.cu") }
            }
            Kernel::Hash(function) => Source::hashing(function),
            Kernel::Scan => {
                Source { name: "scan.cu", text: include_str!("../../../kernels/src/scan.cu") }
            }
            Kernel::Custom { source, .. } => source,
        }
    }

    /// Its name in the source.
    pub fn entry(self) -> &'static str {
        match self {
            Kernel::Rules(_) => ENTRY,
            Kernel::Route4 | Kernel::Route6 | Kernel::Header4 => ROUTE_ENTRY,
            Kernel::Hash(_) => HASHES_ENTRY,
            Kernel::Scan => SCAN_ENTRY,
            Kernel::Custom { entry, .. } => entry,
        }
    }
}

/// What a kernel is compiled for: the definitions of `abi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelShape {
    /// Words of a key.
    pub words: usize,
    /// The word with the transport ports.
    pub ports_word: usize,
    /// Whether rows are compact.
    pub compact: bool,
    /// Whether keys are packed: see [`crate::packed`].
    pub packed: bool,
}

impl KernelShape {
    /// The shape of a kernel whose keys have so many words and are not matched with rules.
    pub const fn of_words(words: usize) -> Self {
        Self { words, ports_word: 0, compact: false, packed: false }
    }

    /// The definitions, as a compiler's options.
    pub fn definitions(&self) -> [String; 4] {
        [
            format!("-DWS_WORDS={}", self.words),
            format!("-DWS_PORTS_WORD={}", self.ports_word),
            format!("-DWS_COMPACT={}", u8::from(self.compact)),
            format!("-DWS_PACKED={}", u8::from(self.packed)),
        ]
    }
}

/// How an image's kernel is laid over a card whose blocks have at most `shared_bytes_max` of shared
/// memory.
pub fn launch_shape(image: &Image, shared_bytes_max: usize) -> LaunchShape {
    let shape = |threads, keys_per_thread, shared_bytes, persistent| LaunchShape {
        threads,
        keys_per_block: threads * keys_per_thread,
        shared_bytes,
        persistent,
    };
    // WS_KEYS of the sources.
    let by_words = |four: usize, ten: usize| match image.shape().words {
        4 => four,
        10 => ten,
        _ => 1,
    };
    match image.algorithm() {
        Algorithm::Linear => shape(256, by_words(4, 2), 0, false),
        Algorithm::MaskHash | Algorithm::Tuple => shape(256, by_words(1, 2), 0, false),
        Algorithm::Turbo => shape(256, 1, 0, false),
        Algorithm::Bloom => {
            // Terms of a thread's two keys, beside the filters.
            let terms_bytes = image.numbers()[abi::TERM_SLOTS] as usize * 2 * 4;
            let bytes = |threads| image.shared_words() * 4 + threads * terms_bytes;
            let fits = |threads: &usize| bytes(*threads) <= shared_bytes_max;
            let threads = [512, 256, 128, 64].into_iter().find(fits).unwrap_or(64);
            shape(threads, 2, bytes(threads), true)
        }
    }
}

/// The machine code of `source` for cards of `capability`, from `cache` or compiled now.
///
/// # Errors
/// [`ErrorKind::NoCompiler`], [`ErrorKind::DriverTooOld`], [`ErrorKind::Compile`].
pub fn machine_code(
    source: Source,
    shape: &KernelShape,
    capability: (u32, u32),
    cache: Option<&KernelCache>,
) -> Result<Vec<u8>, GpuError> {
    let driver = driver_version()?;
    let options = options(shape, capability);
    let whole = source.whole();
    // The compiler may be gone by now, and the code of a former one do as well.
    let compiler = compiler_version().ok();
    let of_compiler = |version: (u32, u32)| {
        let (major, minor) = version;
        format!("{}\nNVRTC {major}.{minor}\ndriver {}\n{whole}", options.join(" "), driver.0)
    };
    let any = format!("{}\nany NVRTC\ndriver {}\n{whole}", options.join(" "), driver.0);
    let key = compiler.map_or(any.clone(), of_compiler);
    if let Some(code) = cache.and_then(|cache| cache.get(&key)) {
        return Ok(code);
    }
    let (major, minor) = compiler_version()?;
    if major > driver.0 {
        let message = format!(
            "NVRTC {major}.{minor} generates code that the driver (CUDA {}.{}) cannot load",
            driver.0, driver.1
        );
        return Err(GpuError::new(ErrorKind::DriverTooOld, message));
    }
    let (code, _) = compile(source.name, &whole, &options)?;
    if let Some(cache) = cache {
        cache.put(&key, &code);
        cache.put(&any, &code);
    }
    Ok(code)
}

/// The options of a compilation for cards of `capability`.
pub fn options(shape: &KernelShape, (major, minor): (u32, u32)) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture=sm_{major}{minor}"),
        "--std=c++17".to_owned(),
        "--restrict".to_owned(),
    ];
    options.extend(shape.definitions());
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_whole_and_headers_come_once() {
        for algorithm in Algorithm::ALL {
            let whole = Source::of(algorithm).whole();
            assert!(!whole.contains("#include"), "{algorithm}");
            assert_eq!(whole.matches("typedef struct ws_view").count(), 1, "{algorithm}");
            assert!(whole.contains(ENTRY), "{algorithm}");
            assert!(Source::resident(algorithm).whole().contains(RESIDENT_ENTRY), "{algorithm}");
            if let Some(source) = Source::split(algorithm) {
                let whole = source.whole();
                assert!(!whole.contains("#include") && whole.contains(SPLIT_ENTRY), "{algorithm}");
            }
        }
        let hashes = HashFunction::ALL.map(Kernel::Hash);
        let others = [Kernel::Route4, Kernel::Route6, Kernel::Header4, Kernel::Scan];
        for kernel in others.into_iter().chain(hashes) {
            let whole = kernel.source().whole();
            assert!(!whole.contains("#include") && whole.contains(kernel.entry()), "{kernel:?}");
        }
        for (source, entry) in [(PROBE, PROBE_ENTRY), (PATCH, PATCH_ENTRY), (GATHER, GATHER_ENTRY)]
        {
            let whole = source.whole();
            assert!(!whole.contains("#include") && whole.contains(entry), "{}", source.name);
        }
    }

    #[test]
    fn kernels_have_numbers_of_their_own() {
        let rules = Algorithm::ALL.map(Kernel::Rules).into_iter();
        let routes = [Kernel::Route4, Kernel::Route6, Kernel::Header4];
        let hashes = HashFunction::ALL.map(Kernel::Hash);
        let custom = Kernel::Custom { source: PROBE, entry: PROBE_ENTRY };
        let all = rules.chain(routes).chain(hashes).chain([Kernel::Scan, custom]);
        let numbers: Vec<usize> = all.map(Kernel::index).collect();
        assert_eq!(numbers, (0..Kernel::COUNT).collect::<Vec<_>>());
    }

    /// Every shape that images have.
    fn shapes() -> Vec<KernelShape> {
        let mut shapes = Vec::new();
        for schema in warpswitch_rules::schema::SCHEMAS {
            for compact in [false, true] {
                let (words, ports_word) = (schema.words, schema.ports_word);
                if !compact || words == 4 {
                    shapes.push(KernelShape { words, ports_word, compact, packed: false });
                }
                if words == 4 {
                    shapes.push(KernelShape { words, ports_word, compact, packed: true });
                }
            }
        }
        shapes
    }

    /// Registers and spilled bytes of a kernel, as the assembler reports them.
    fn resources(log: &str) -> Option<(usize, usize)> {
        let number = |before: &str| {
            let text = &log[..log.find(before)?];
            text.rsplit(|c: char| !c.is_ascii_digit()).find(|n| !n.is_empty())?.parse().ok()
        };
        Some((number(" registers")?, number(" bytes spill stores")?))
    }

    /// Compiled for the cards of the records, without one. `WARPSWITCH_NEED_NVRTC`, which the
    /// checks before a change lands set, makes the compiler's absence a failure.
    #[test]
    fn every_kernel_compiles_and_keeps_its_keys_in_registers() {
        if compiler_version().is_err() {
            let needed = std::env::var_os("WARPSWITCH_NEED_NVRTC").is_some();
            assert!(!needed, "NVRTC is not there");
            return;
        }
        for shape in shapes() {
            let sources = Algorithm::ALL.map(Source::of).into_iter().chain([PROBE, PATCH]);
            let sources = sources.chain(HashFunction::ALL.map(Source::hashing));
            // Packed keys come with compact rows where there are such.
            let is_never = |source: &Source| {
                shape.packed && !shape.compact && ["turbo.cu", "linear.cu"].contains(&source.name)
            };
            let sources = sources.filter(|source| !is_never(source));
            let split = Algorithm::ALL.into_iter().filter_map(Source::split);
            let split = split.filter(|source| {
                !(shape.packed && !shape.compact && source.name == "split_linear.cu")
            });
            for source in split {
                // So many leave room for the largest block.
                let registers_max = if shape.words == 4 { 64 } else { 128 };
                let registers = registers(source, &shape);
                assert!(registers <= registers_max, "{} {shape:?}: {registers}", source.name);
            }
            for source in sources.chain(Algorithm::ALL.map(Source::resident)) {
                let registers = registers(source, &shape);
                assert!(registers <= 128, "{} {shape:?}: {registers} registers", source.name);
            }
        }
        // So many leave room for as many threads as a multiprocessor can have, or three quarters.
        // Of payloads, for one block of 1024 threads.
        for (source, words, registers_max) in [
            (Kernel::Route4.source(), 1, 32),
            (Kernel::Route6.source(), 4, 32),
            (Kernel::Header4.source(), 16, 42),
            (Kernel::Scan.source(), 4, 64),
            (GATHER, 4, 64),
        ] {
            let shape = KernelShape { words, ports_word: 0, compact: false, packed: false };
            let registers = registers(source, &shape);
            assert!(registers <= registers_max, "{}: {registers} registers", source.name);
        }
    }

    /// A row that is read in parts, a tag apart from its words, is a frame's answer to another
    /// frame's key: the compiler splits a read of 16 bytes if not all of them are made use of.
    #[test]
    fn resident_kernels_read_rows_whole() {
        if compiler_version().is_err() {
            let needed = std::env::var_os("WARPSWITCH_NEED_NVRTC").is_some();
            assert!(!needed, "NVRTC is not there");
            return;
        }
        let shapes = shapes().into_iter().filter(|shape| !shape.packed);
        for (shape, algorithm) in shapes.flat_map(|shape| Algorithm::ALL.map(|one| (shape, one))) {
            let source = Source::resident(algorithm);
            let (code, _) =
                compile(source.name, &source.whole(), &options(&shape, (9, 0))).unwrap();
            let pieces = if shape.words == 4 { 1 } else { shape.words.div_ceil(3) };
            // Alone: the tag seen and a word of the view; the control words.
            let expected = [2, 1, pieces];
            assert_eq!(strong_loads(&code), expected, "{} {shape:?}", source.name);
        }
    }

    /// Loads of machine code for compute capability 9.0 that go to memory that others write, by
    /// what they read: 4, 8 and 16 bytes (`LDG.E[.64|.128].STRONG.SYS`, as `nvdisasm` calls it).
    fn strong_loads(code: &[u8]) -> [usize; 3] {
        let mut loads = [0; 3];
        for instruction in code.chunks_exact(16) {
            let word = |at: usize| u32::from_le_bytes(*instruction[at..].first_chunk().unwrap());
            let size = word(8) >> 9 & 7;
            if word(0) & 0xfff == 0x981 && word(8) & !(7 << 9) == 0x0c1f_5100 {
                loads[size as usize - 4] += 1;
            }
        }
        loads
    }

    /// Compiles a kernel that must spill nothing; the registers that it takes.
    fn registers(source: Source, shape: &KernelShape) -> usize {
        let mut options = options(shape, (9, 0));
        options.push("--ptxas-options=-v".to_owned());
        let (code, log) = compile(source.name, &source.whole(), &options).unwrap();
        assert!(code.starts_with(b"\x7fELF"), "{}", source.name);
        let (registers, spilled) =
            resources(&log).unwrap_or_else(|| panic!("{}: no resources in {log:?}", source.name));
        println!("{} {shape:?}: {registers} registers", source.name);
        assert_eq!(spilled, 0, "{} {shape:?}: {log}", source.name);
        registers
    }

    #[test]
    fn the_header_has_the_numbers_of_the_host() {
        let header = HEADERS[0].1;
        for (name, value) in abi::FACTS.iter().filter(|(name, _)| !name.contains(' ')) {
            let told = header.lines().any(|line| {
                let mut words = line.split([' ', ',', '{', '}']).filter(|word| !word.is_empty());
                words.any(|word| word == *name) && {
                    let after = line.split(name).nth(1).unwrap_or("");
                    let digits = after.trim_start_matches([' ', '=']);
                    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                    digits[..end].parse() == Ok(*value)
                }
            });
            assert!(told, "{name} = {value} is not in abi.h");
        }
    }
}

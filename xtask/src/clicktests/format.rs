//! The format of Click's regression files: sections, each begun by a line `%name arguments`.
//!
//! | section | holds |
//! | --- | --- |
//! | `%script`, `%test` | shell commands; each must succeed |
//! | `%require [-q]` | shell commands that tell whether the test can run here |
//! | `%file [-de] [+BYTES] NAME…`, `%stdin` | an input |
//! | `%expect [-adeiw] NAME…`, `%stdout`, `%stderr` | an output; `{{regex}}` where it varies |
//! | `%expectv`, `%expectx` | the same, taken literally or each line as a regex |
//! | `%ignore`, `%ignorev`, `%ignorex` | lines of an output that do not count |
//! | `%info`, `%desc`, `%cut` | words |
//! | `%include NAME`, `%eot`, `%eof` | another file, the end of one test of several, the end |
//!
//! Flags: `-a` another that will do, `-d` each line loses its first character, `-e` base64, `-i`
//! case does not matter, `-w` blanks do not. `\%` at the beginning of a line is a `%`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::GeneralPurpose;

/// Files that a file may include, in all: a file that includes itself ends here.
const INCLUDES_MAX: usize = 32;

/// Shell commands and where they stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Lines, each with its number in the file.
    pub lines: Vec<(usize, Vec<u8>)>,
}

impl Script {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// How an expectation is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Byte by byte.
    Verbatim,
    /// Line by line, what is in `{{…}}` being a regex.
    Braces,
    /// Line by line, each being a regex.
    Regex,
}

/// One text of a section, for one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name of the file that it is about.
    pub name: String,
    /// Its text.
    pub text: Vec<u8>,
    /// How it is compared.
    pub mode: Mode,
    /// Whether case does not matter in its regexes.
    pub any_case: bool,
    /// Whether blanks do not count.
    pub any_blanks: bool,
    /// The line of the file where its text begins.
    pub line: usize,
}

/// One test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Test {
    /// Whether it can run here.
    pub require: Script,
    /// What it does.
    pub script: Script,
    /// Its inputs.
    pub files: Vec<Section>,
    /// Its outputs; several of one name are alternatives.
    pub expects: Vec<Section>,
    /// Lines of outputs that do not count; the name `all` means every output.
    pub ignores: Vec<Section>,
}

impl Test {
    /// Writes the inputs, and makes the folders that inputs and outputs lie in.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn write_files(&self, folder: &Path) -> Result<()> {
        for section in self.files.iter().chain(&self.expects) {
            let path = folder.join(&section.name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
        }
        for file in &self.files {
            let path = folder.join(&file.name);
            std::fs::write(&path, &file.text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Whether some section speaks of the file.
    pub fn mentions(&self, name: &str) -> bool {
        let sections = self.files.iter().chain(&self.expects).chain(&self.ignores);
        sections.into_iter().any(|section| section.name == name)
    }
}

/// Reads the tests of a file, which lies at `path` if it includes others.
///
/// # Errors
/// What is wrong with it, with its line.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Vec<Test>, String> {
    let mut reader = Reader {
        lines: lines_of(bytes),
        folder: path.parent().unwrap_or(Path::new("")).to_owned(),
        includes: 0,
    };
    let mut tests = Vec::new();
    loop {
        let (test, more) = reader.test()?;
        if !test.script.is_empty() {
            tests.push(test);
        }
        if !more {
            break;
        }
    }
    match tests.is_empty() {
        true => Err("it has no %script".to_owned()),
        false => Ok(tests),
    }
}

fn lines_of(bytes: &[u8]) -> VecDeque<(usize, Vec<u8>)> {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    lines.enumerate().map(|(idx, line)| (idx + 1, line.to_vec())).collect()
}

struct Reader {
    /// Lines that are still to be read, with their ends and their numbers.
    lines: VecDeque<(usize, Vec<u8>)>,
    folder: PathBuf,
    includes: usize,
}

impl Reader {
    /// One test, and whether another one follows.
    fn test(&mut self) -> Result<(Test, bool), String> {
        let mut test = Test::default();
        while let Some((number, line)) = self.lines.pop_front() {
            // What stands before the first section, or behind one that holds nothing, is comment.
            let Some(line) = line.strip_prefix(b"%") else { continue };
            let line = String::from_utf8_lossy(line).trim().to_owned();
            let name_len = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, args) = line.split_at(name_len.unwrap_or(line.len()));
            let name = name.to_ascii_lowercase();
            match name.as_str() {
                "eot" => return Ok((test, true)),
                "eof" => self.lines.clear(),
                "include" => self.include(args.trim()).map_err(|told| at(number, &told))?,
                "script" | "test" => test.script.lines.extend(self.text_lines()),
                "require" => test.require.lines.extend(self.text_lines()),
                "info" | "desc" | "cut" => _ = self.text_lines(),
                _ => self.section(&mut test, &name, args, number)?,
            }
        }
        Ok((test, false))
    }

    /// Lines up to the next section.
    fn text_lines(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut lines = Vec::new();
        while let Some((number, mut line)) = self.lines.pop_front() {
            if line.starts_with(b"%") {
                self.lines.push_front((number, line));
                break;
            }
            if line.starts_with(b"\\%") {
                line.remove(0);
            }
            lines.push((number, line));
        }
        lines
    }

    /// The next bytes, of which the last line may be shared with what follows.
    fn counted(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < bytes {
            let (number, line) = self.lines.pop_front()?;
            let (taken, rest) = line.split_at(line.len().min(bytes - text.len()));
            text.extend_from_slice(taken);
            if !rest.is_empty() {
                self.lines.push_front((number, rest.to_vec()));
            }
        }
        Some(text)
    }

    fn include(&mut self, name: &str) -> Result<(), String> {
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            return Err(format!("more than {INCLUDES_MAX} includes"));
        }
        let bytes = std::fs::read(self.folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
        for line in lines_of(&bytes).into_iter().rev() {
            self.lines.push_front(line);
        }
        Ok(())
    }

    /// A section that is about files.
    fn section(
        &mut self,
        test: &mut Test,
        name: &str,
        args: &str,
        number: usize,
    ) -> Result<(), String> {
        let (list, mode, default) = match name {
            "file" | "stdin" | "input" => (&mut test.files, Mode::Verbatim, "stdin"),
            "expect" | "stdout" | "output" => (&mut test.expects, Mode::Braces, "stdout"),
            "stderr" => (&mut test.expects, Mode::Braces, "stderr"),
            "expectx" => (&mut test.expects, Mode::Regex, "stdout"),
            "expectv" | "expect_verbatim" | "verbatim" => {
                (&mut test.expects, Mode::Verbatim, "stdout")
            }
            "ignore" => (&mut test.ignores, Mode::Braces, "all"),
            "ignorev" => (&mut test.ignores, Mode::Verbatim, "all"),
            "ignorex" => (&mut test.ignores, Mode::Regex, "all"),
            other => return Err(at(number, &format!("no section is called '{other}'"))),
        };
        let flags = Flags::read(args).map_err(|told| at(number, &told))?;
        let mut text = match flags.bytes {
            Some(bytes) => {
                self.counted(bytes).ok_or_else(|| at(number, "the text is shorter than that"))?
            }
            None => self.text_lines().into_iter().flat_map(|(_, line)| line).collect(),
        };
        if flags.drops_first {
            text = lines_of(&text).into_iter().flat_map(|(_, l)| without_first(l)).collect();
        }
        if flags.is_base64 {
            text = from_base64(&text).map_err(|told| at(number, &told))?;
        }
        let is_literal = flags.is_base64 && mode == Mode::Braces;
        let names = if flags.names.is_empty() { vec![default.to_owned()] } else { flags.names };
        for name in names {
            let is_known = list.iter().any(|known: &Section| known.name == name);
            // Click's driver lets lines to ignore add up, and wants `-a` for everything else.
            if is_known && !flags.is_alternative && default != "all" {
                return Err(at(number, &format!("'{name}' is here twice")));
            }
            list.push(Section {
                name: checked(name).map_err(|told| at(number, &told))?,
                text: text.clone(),
                mode: if is_literal { Mode::Verbatim } else { mode },
                any_case: flags.any_case,
                any_blanks: flags.any_blanks,
                line: number + 1,
            });
        }
        Ok(())
    }
}

fn at(line: usize, told: &str) -> String {
    format!("line {line}: {told}")
}

fn without_first(mut line: Vec<u8>) -> Vec<u8> {
    if line.first().is_some_and(|&byte| byte != b'\n') {
        line.remove(0);
    }
    line
}

fn from_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    use base64::engine::general_purpose::PAD;
    use base64::engine::{DecodePaddingMode::Indifferent, GeneralPurposeConfig};
    let lenient: GeneralPurposeConfig = PAD.with_decode_padding_mode(Indifferent);
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient);
    engine.decode(text).map_err(|error| format!("no base64: {error}"))
}

/// Names stay below the folder of the test.
fn checked(name: String) -> Result<String, String> {
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
    let leaves =
        name.starts_with('/') || name.split('/').any(|part| part.is_empty() || part == "..");
    match is_plain && !leaves {
        true => Ok(name),
        false => Err(format!("'{name}' is no name of a file of a test")),
    }
}

/// What stands behind the name of a section.
#[derive(Default)]
struct Flags {
    is_alternative: bool,
    drops_first: bool,
    is_base64: bool,
    any_case: bool,
    any_blanks: bool,
    bytes: Option<usize>,
    names: Vec<String>,
}

impl Flags {
    fn read(args: &str) -> Result<Self, String> {
        let mut flags = Self::default();
        for word in args.split_ascii_whitespace() {
            if !flags.names.is_empty() {
                flags.names.push(word.to_owned());
            } else if let Some(count) = word.strip_prefix('+') {
                let bytes = count.parse().map_err(|_| format!("'{word}' is no number of bytes"))?;
                flags.bytes = Some(bytes);
            } else if let Some(letters) = word.strip_prefix('-').filter(|word| !word.is_empty()) {
                letters.chars().try_for_each(|letter| flags.set(letter))?;
            } else {
                flags.names.push(word.to_owned());
            }
        }
        Ok(flags)
    }

    fn set(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'a' => self.is_alternative = true,
            'd' => self.drops_first = true,
            'e' => self.is_base64 = true,
            'i' => self.any_case = true,
            'w' => self.any_blanks = true,
            _ => return Err(format!("no section has a flag '-{letter}'")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Test {
        let mut tests = parse(text.as_bytes(), Path::new("x.clicktest")).unwrap();
        assert_eq!(tests.len(), 1);
        tests.remove(0)
    }

    #[test]
    fn sections_are_read() {
        let test = one("words\n%info\nmore\n%require -q\na\n%script\nb\n\\% c\n%file -d x y/z\n\
            |d\n| e\n%expect -aw\nf\n%expect -a\ng\n%stderr -i\nh\n%ignorex\n#.*\n%ignore -w err\n\
            i\n%eof\n%script\nj\n");
        assert_eq!(test.require.lines, [(5, b"a\n".to_vec())]);
        assert_eq!(test.script.lines, [(7, b"b\n".to_vec()), (8, b"% c\n".to_vec())]);
        let names: Vec<&str> = test.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["x", "y/z"]);
        assert_eq!(test.files[1].text, b"d\n e\n");
        let of = |s: &Section| (s.name.clone(), s.mode, s.any_blanks, s.any_case, s.line);
        let expects: Vec<_> = test.expects.iter().map(of).collect();
        assert_eq!(expects[0], ("stdout".into(), Mode::Braces, true, false, 13));
        assert_eq!(expects[1], ("stdout".into(), Mode::Braces, false, false, 15));
        assert_eq!(expects[2], ("stderr".into(), Mode::Braces, false, true, 17));
        let ignores: Vec<_> = test.ignores.iter().map(of).collect();
        assert_eq!(ignores[0], ("all".into(), Mode::Regex, false, false, 19));
        assert_eq!(ignores[1], ("err".into(), Mode::Braces, true, false, 21));
        assert!(test.mentions("y/z") && test.mentions("err") && !test.mentions("stdin"));
    }

    #[test]
    fn bytes_are_counted_and_decoded() {
        let test = one("%script\na\n%file +4 x\n%b\nc\n%file -e y\naGk=\n%expect -e\naGk\n");
        assert_eq!(test.files[0].text, b"%b\nc");
        assert_eq!(test.files[1].text, b"hi");
        assert_eq!((&test.expects[0].text[..], test.expects[0].mode), (&b"hi"[..], Mode::Verbatim));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let cases = [
            ("%file x\na\n", "it has no %script"),
            ("%script\na\n%file x\n%file x\n", "line 4: 'x' is here twice"),
            ("%script\na\n%file ../x\n", "line 3: '../x' is no name of a file of a test"),
            ("%script\na\n%file -q x\n", "line 3: no section has a flag '-q'"),
            ("%script\na\n%file +9 x\nb\n", "line 3: the text is shorter than that"),
            ("%script\na\n%file -e x\n!\n", "line 3: no base64: Invalid symbol 33, offset 0."),
        ];
        for (text, told) in cases {
            let tests = parse(text.as_bytes(), Path::new("x.clicktest"));
            assert_eq!(tests, Err(told.to_owned()), "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.clicktest");
        std::fs::write(&path, "%include x.clicktest\n").unwrap();
        let told = parse(b"%include x.clicktest\n", &path).unwrap_err();
        assert!(told.contains("more than 32 includes"), "{told}");
    }
}

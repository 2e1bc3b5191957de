//! This program under the name `click-flatten`: a configuration without compound elements.
//!
//! As Click's tool of that name it has no element classes: any name may be one, and arguments and
//! ports are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use warpswitch_graph::language::{self, ClassSpec, ClassTable, FlatGraph, Source};

use super::options::{Config, once};
use super::words::{self, Known, Takes, Word};
use super::{complain, print, read_config};
use warpswitch_runtime::config::{ConfigText, Libraries};

const HELP: &str = "\
Reads a configuration in the Click language, flattens it (removing any compound elements), and
writes an equivalent configuration to the standard output.

Usage: click-flatten [OPTION]... [ROUTERFILE] [NAME=VALUE]...

Options:
  -c, --classes             Write the classes that the configuration uses.
  -n, --names               Write the names of the elements.
  -d, --declarations        Write the declarations of the elements.
  -f, --file FILE           Read the configuration from FILE (default: standard input).
  -e, --expression EXPR     Use EXPR as configuration.
      --config              Write the configuration (default).
      --expand-vars         Replace variables (always on).
  -o, --output FILE         Write to FILE.
  -C, --clickpath PATH      Use PATH for CLICKPATH.
      --help                Print this and exit.
  -v, --version             Print the version and exit.
";

/// The options.
const OPTIONS: [Known; 12] = [
    ("classes", 'c', Takes::Nothing, false),
    ("clickpath", 'C', Takes::Value, false),
    ("config", '\0', Takes::Nothing, false),
    ("declarations", 'd', Takes::Nothing, false),
    ("elements", 'n', Takes::Nothing, false),
    ("expand-vars", '\0', Takes::Nothing, true),
    ("expression", 'e', Takes::Value, false),
    ("file", 'f', Takes::Value, false),
    ("help", '\0', Takes::Nothing, false),
    ("names", 'n', Takes::Nothing, false),
    ("output", 'o', Takes::Value, false),
    ("version", 'v', Takes::Nothing, false),
];

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    #[default]
    Graph,
    Classes,
    Names,
    Declarations,
}

/// The options of the command line.
#[derive(Debug, Default)]
struct Options {
    config: Option<Config>,
    variables: BTreeMap<String, String>,
    output: Option<String>,
    click_path: Option<String>,
    what: What,
    /// Text that is printed in place of everything else.
    tells: Option<String>,
}

impl Options {
    fn read(args: &[OsString]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words::read(args, &OPTIONS)? {
            match word {
                Word::Option { name, value, .. } => options.set(name, value.unwrap_or_default())?,
                Word::Variable(name, value) => _ = options.variables.insert(name, value),
                Word::Name(name) => options.set("file", name)?,
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: OsString) -> Result<(), String> {
        let text = value.to_string_lossy().into_owned();
        let config = match name {
            "classes" => return self.write(What::Classes),
            "config" => return self.write(What::Graph),
            "declarations" => return self.write(What::Declarations),
            "elements" | "names" => return self.write(What::Names),
            "output" => return once(&mut self.output, text, "--output file specified twice"),
            "clickpath" => {
                self.click_path = Some(text);
                return Ok(());
            }
            "help" => return self.tell(HELP.to_owned()),
            "version" => {
                let version = env!("CARGO_PKG_VERSION");
                return self.tell(format!("click-flatten (warpswitch) {version}\n"));
            }
            "file" => Config::File(value),
            "expression" => Config::Text(value),
            // Variables are replaced in any case.
            _ => return Ok(()),
        };
        match self.config.replace(config) {
            None => Ok(()),
            Some(_) => Err("router configuration specified twice".to_owned()),
        }
    }

    fn write(&mut self, what: What) -> Result<(), String> {
        self.what = what;
        Ok(())
    }

    fn tell(&mut self, text: String) -> Result<(), String> {
        self.tells.get_or_insert(text);
        Ok(())
    }
}

/// Any name is a class.
struct AnyClass;

impl ClassTable for AnyClass {
    fn get(&self, _class: &str) -> Option<&ClassSpec> {
        None
    }

    fn takes_any(&self) -> bool {
        true
    }
}

/// Runs the command line of `click-flatten`.
pub fn main(args: &[OsString]) -> ExitCode {
    let options = match Options::read(args) {
        Ok(options) => options,
        Err(error) => {
            complain(&format!("click-flatten: {error}"));
            complain("Usage: click-flatten [OPTION]... [ROUTERFILE]");
            complain("Try 'click-flatten --help' for more information.");
            return ExitCode::FAILURE;
        }
    };
    if let Some(text) = &options.tells {
        print(text);
        return ExitCode::SUCCESS;
    }
    match flatten(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            complain(errors.trim_end());
            ExitCode::FAILURE
        }
    }
}

fn flatten(options: &Options) -> Result<(), String> {
    let text = read_config(options.config.as_ref())?;
    let graph = expand(&text, options)?;
    let lines = |lines: BTreeSet<String>| lines.into_iter().map(|line| line + "\n").collect();
    let elements = graph.elements.iter();
    let text: String = match options.what {
        What::Graph => language::flatten(&graph),
        What::Classes => lines(elements.map(|element| element.class.clone()).collect()),
        What::Names => lines(elements.map(|element| element.name.clone()).collect()),
        What::Declarations => lines(elements.map(language::FlatElement::declaration).collect()),
    };
    match options.output.as_deref() {
        None | Some("-") => {
            print(&text);
            Ok(())
        }
        Some(path) => {
            let file = std::fs::File::create(path);
            let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
            let named = |error| warpswitch_io::name_folder(path.as_ref(), error);
            written.map_err(|error| format!("{path}: {}", named(error)))
        }
    }
}

/// The graph of a text; what is wrong with it, in Click's words, is printed or the error.
fn expand(text: &ConfigText, options: &Options) -> Result<FlatGraph, String> {
    let source = Source::new(&text.name, &text.bytes).map_err(|errors| errors.to_click())?;
    let mut libraries = Libraries::new(options.click_path.as_deref());
    let (ast, mut found) = language::parse_with(source, &mut libraries);
    match language::expand(&ast, &AnyClass, &options.variables) {
        Ok(graph) if !found.has_errors() => {
            if !found.is_empty() {
                complain(found.to_click().trim_end());
            }
            Ok(graph)
        }
        Ok(_) => Err(found.to_click()),
        Err(errors) => {
            found.append(errors);
            Err(found.to_click())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        Options::read(&text.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read() {
        let read = options("-o/dev/null -e x A=1 --decl").unwrap();
        assert_eq!(read.config, Some(Config::Text("x".into())));
        assert_eq!(read.output.as_deref(), Some("/dev/null"));
        assert_eq!((read.what, read.variables["A"].as_str()), (What::Declarations, "1"));
        assert_eq!(options("-n --config x").unwrap().what, What::Graph);
        assert!(options("--version").unwrap().tells.unwrap().starts_with("click-flatten "));
        assert_eq!(options("a b").unwrap_err(), "router configuration specified twice");
        assert_eq!(options("-q").unwrap_err(), "unrecognized option '-q'");
    }

    #[test]
    fn any_class_will_do() {
        let text = |bytes: &str| ConfigText { name: String::new(), bytes: bytes.into() };
        let expand = |bytes: &str| expand(&text(bytes), &Options::default());
        let graph = expand("elementclass C { $a | Foo($a) -> x :: Bar }; C(1); Foo -> b :: Qux;");
        let graph = graph.unwrap();
        let declarations: Vec<String> = graph.elements.iter().map(|e| e.declaration()).collect();
        let expected = ["Foo@2 :: Foo", "b :: Qux", "C@1/Foo@1 :: Foo", "C@1/x :: Bar"];
        assert_eq!(declarations, expected);
        // What was a class once stays one.
        let errors = expand("A -> B;\nA :: Idle;").unwrap_err();
        assert_eq!(errors, "config:2: class 'A' used as element name\n");
        let errors = expand("A :: A;\nelementclass E { B :: F }\nB :: Idle;").unwrap_err();
        assert_eq!(errors, "config:1: class 'A' used as element name\n");
    }
}

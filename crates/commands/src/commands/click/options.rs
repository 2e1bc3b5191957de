//! The command line of Click's driver.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;

use super::words::{self, Known, Takes, Word};

/// The options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The configuration: a file, or the text itself.
    pub config: Option<Config>,
    /// Variables of the configuration.
    pub variables: BTreeMap<String, String>,
    /// Read handlers whose answers are printed after the run.
    pub handlers: Vec<String>,
    /// The read handler that gives the exit code.
    pub exit_handler: Option<String>,
    /// Where the flat configuration goes.
    pub output: Option<String>,
    /// Control sockets: TCP ports, then paths.
    pub ports: Vec<String>,
    pub paths: Vec<String>,
    /// Whether the configuration can be written.
    pub reconfigures: bool,
    /// Whether nothing runs.
    pub quits: bool,
    /// Whether the run time is printed.
    pub tells_time: bool,
    /// Whether warnings are left out.
    pub no_warnings: bool,
    /// Threads, if more than one.
    pub threads: Option<u32>,
    /// The core of the first thread, if they are to be pinned; the others follow.
    pub affinity: Option<usize>,
    /// Whether time is simulated, and from when on.
    pub simulated: Option<Option<f64>>,
    /// Where libraries are.
    pub click_path: Option<String>,
    /// Text to print instead of a run.
    pub tells: Option<Tells>,
    /// Errors that do not keep the configuration from running.
    pub complaints: Vec<String>,
}

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Config {
    File(OsString),
    Text(OsString),
}

/// What is only printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    Help,
    Version,
}

/// The options.
const OPTIONS: [Known; 19] = [
    ("affinity", 'a', Takes::Perhaps, true),
    ("allow-reconfigure", 'R', Takes::Nothing, true),
    ("clickpath", 'C', Takes::Value, false),
    ("cpu", '\0', Takes::Perhaps, true),
    ("exit-handler", 'x', Takes::Value, false),
    ("expression", 'e', Takes::Value, false),
    ("file", 'f', Takes::Value, false),
    ("handler", 'h', Takes::Value, false),
    ("help", '\0', Takes::Nothing, false),
    ("output", 'o', Takes::Value, false),
    ("port", 'p', Takes::Value, false),
    ("quit", 'q', Takes::Nothing, false),
    ("simtime", '\0', Takes::Perhaps, false),
    ("simulation-time", '\0', Takes::Perhaps, false),
    ("threads", 'j', Takes::Value, false),
    ("time", 't', Takes::Nothing, false),
    ("unix-socket", 'u', Takes::Value, false),
    ("version", 'v', Takes::Nothing, false),
    ("warnings", 'w', Takes::Nothing, true),
];

/// Reads the arguments behind the name of the program.
///
/// # Errors
/// What is wrong.
pub fn parse(args: &[OsString]) -> Result<Options, String> {
    let mut options = Options::default();
    for word in words::read(args, &OPTIONS)? {
        match word {
            Word::Option { name, value, negated } => options.set(name, value, negated)?,
            Word::Variable(name, value) => match options.variables.entry(name) {
                Entry::Vacant(entry) => _ = entry.insert(value),
                Entry::Occupied(entry) => {
                    let told = format!("parameter '{}' multiply defined", entry.key());
                    options.complaints.push(told);
                }
            },
            Word::Name(name) => options.config(Config::File(name))?,
        }
    }
    Ok(options)
}

/// Sets what can be set once.
pub(super) fn once(slot: &mut Option<String>, value: String, told: &str) -> Result<(), String> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(told.to_owned()),
    }
}

impl Options {
    fn config(&mut self, config: Config) -> Result<(), String> {
        match self.config.replace(config) {
            None => Ok(()),
            Some(_) => Err("router configuration specified twice".to_owned()),
        }
    }

    fn set(&mut self, name: &str, value: Option<OsString>, negated: bool) -> Result<(), String> {
        let text = || value.as_ref().map(|value| value.to_string_lossy().into_owned());
        let value_text = text().unwrap_or_default();
        match name {
            "file" => return self.config(Config::File(value.unwrap_or_default())),
            "expression" => return self.config(Config::Text(value.unwrap_or_default())),
            "handler" => self.handlers.push(value_text),
            "exit-handler" => {
                let told = "--exit-handler specified twice";
                return once(&mut self.exit_handler, value_text, told);
            }
            "output" => return once(&mut self.output, value_text, "output file specified twice"),
            "port" => {
                let number = value_text.strip_suffix('+').unwrap_or(&value_text);
                if !number.parse::<u16>().is_ok_and(|port| port > 0) {
                    let told = format!("'-p' expects a TCP port number, not '{value_text}'");
                    return Err(told);
                }
                self.ports.push(value_text);
            }
            "unix-socket" => self.paths.push(value_text),
            "threads" => {
                let threads = value_text.parse();
                let told = || format!("'-j' expects an integer, not '{value_text}'");
                self.threads = Some(threads.map_err(|_| told())?);
            }
            "affinity" if negated => self.affinity = None,
            "affinity" => {
                let told = || format!("'--affinity' expects an integer, not '{value_text}'");
                let first = text().map_or(Ok(0), |text| text.parse());
                self.affinity = Some(first.map_err(|_| told())?);
            }
            "simtime" | "simulation-time" => {
                let seconds = match text() {
                    None => None,
                    Some(text) => match text.parse::<f64>() {
                        Ok(seconds) if seconds.is_finite() => Some(seconds),
                        _ => return Err(format!("'--{name}' expects a number, not '{text}'")),
                    },
                };
                self.simulated = Some(seconds);
            }
            "clickpath" => self.click_path = text(),
            "allow-reconfigure" => self.reconfigures = !negated,
            "quit" => self.quits = true,
            "time" => self.tells_time = true,
            "warnings" => self.no_warnings = negated,
            "help" => self.tells = self.tells.or(Some(Tells::Help)),
            "version" => self.tells = self.tells.or(Some(Tells::Version)),
            _ => {}
        }
        Ok(())
    }

    /// Declarations of the control sockets of the options.
    pub fn control_sockets(&self) -> String {
        use warpswitch_graph::language::args::split::quote;
        let ports = self.ports.iter().map(|port| format!("TCP, {port}"));
        let paths = self.paths.iter().map(|path| format!("UNIX, {}", quote(path.as_bytes())));
        let sockets = ports.chain(paths).enumerate().map(|(idx, config)| {
            let number = if idx == 0 { String::new() } else { format!("@{idx}") };
            format!("click_driver@@ControlSocket{number} :: ControlSocket({config});\n")
        });
        sockets.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Options, String> {
        let args: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        parse(&args)
    }

    #[test]
    fn options_are_read() {
        let options = parse_text("-qe Idle -h a.b --handler=c -hd -x e --no-warn --sim A=1 B_=x=y");
        let options = options.unwrap();
        assert_eq!(options.config, Some(Config::Text("Idle".into())));
        assert_eq!(options.handlers, ["a.b", "c", "d"]);
        assert!(options.quits && options.no_warnings && options.simulated == Some(None));
        assert_eq!(options.exit_handler.as_deref(), Some("e"));
        assert_eq!(options.variables["B_"], "x=y");
        let options =
            parse_text("-R -w -t -j 4 --simtime=5.5 -p 80 -p 90+ -u a -o - -- -f").unwrap();
        assert_eq!(options.config, Some(Config::File("-f".into())));
        assert!(options.reconfigures && options.no_warnings && options.tells_time);
        assert_eq!((options.threads, options.simulated), (Some(4), Some(Some(5.5))));
        let affinity = |text| parse_text(text).map(|options| options.affinity);
        assert_eq!(affinity("-q"), Ok(None));
        assert_eq!(affinity("--affinity"), Ok(Some(0)));
        assert_eq!(affinity("--affinity=3"), Ok(Some(3)));
        assert_eq!(affinity("--affinity=3 --no-affinity"), Ok(None));
        assert!(affinity("--affinity=x").is_err());
        assert_eq!(
            options.control_sockets(),
            "click_driver@@ControlSocket :: ControlSocket(TCP, 80);\n\
             click_driver@@ControlSocket@1 :: ControlSocket(TCP, 90+);\n\
             click_driver@@ControlSocket@2 :: ControlSocket(UNIX, a);\n"
        );
        assert_eq!(parse_text("--vers").unwrap().tells, Some(Tells::Version));
        assert_eq!(parse_text("-V --help").unwrap().tells, Some(Tells::Version));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let cases = [
            ("-z", "unrecognized option '-z'"),
            ("--frob", "unrecognized option '--frob'"),
            ("--no-quit", "unrecognized option '--no-quit'"),
            ("-f", "'-f' requires an argument"),
            ("--file", "'--file' requires an argument"),
            ("--quit=1", "'--quit=1' takes no value"),
            ("a b", "router configuration specified twice"),
            ("-p x", "'-p' expects a TCP port number, not 'x'"),
            ("-p 70000", "'-p' expects a TCP port number, not '70000'"),
            ("--simtime=x", "'--simtime' expects a number, not 'x'"),
            ("-x a -x b", "--exit-handler specified twice"),
        ];
        for (text, told) in cases {
            assert_eq!(parse_text(text), Err(told.to_owned()), "{text}");
        }
        let complaints = parse_text("A=1 A=2").unwrap().complaints;
        assert_eq!(complaints, ["parameter 'A' multiply defined"]);
    }
}

//! Replacement of a running configuration.

use std::collections::BTreeMap;
use std::rc::Rc;

use warpswitch_graph::control::Controlled;
use warpswitch_graph::{HandlerError, HandlerSpec, Registry, Router, RouterOptions, Time};

use crate::config::{ConfigText, Libraries, load};
use crate::environment::Environment;

/// Builds routers from configuration texts.
pub struct RouterFactory {
    /// The element classes.
    pub registry: Registry,
    /// Variables of the configuration.
    pub variables: BTreeMap<String, String>,
    /// Search path of libraries.
    pub libraries: Libraries,
    /// Text appended to each configuration, such as control sockets of the command line.
    pub appendix: String,
    /// Seed of random choices.
    pub seed: u64,
    /// A fast clock that counts the cost of elements.
    pub ticks: Option<fn() -> u64>,
}

impl RouterFactory {
    /// A factory without variables, libraries and costs.
    pub fn new(registry: Registry) -> Self {
        let (variables, libraries) = (BTreeMap::new(), Libraries::default());
        Self { registry, variables, libraries, appendix: String::new(), seed: 1, ticks: None }
    }

    /// Options of routers that start at `now` in `environment`.
    pub fn options(&self, environment: &Rc<Environment>, now: Time) -> RouterOptions {
        let console = environment.console();
        RouterOptions { console, seed: self.seed, now, ticks: self.ticks }
    }

    /// `text` followed by the appendix.
    pub fn text(&self, name: &str, text: &[u8]) -> ConfigText {
        let mut bytes = text.to_vec();
        if !self.appendix.is_empty() {
            bytes.push(b'\n');
            bytes.extend_from_slice(self.appendix.as_bytes());
        }
        ConfigText { name: name.to_owned(), bytes }
    }

    /// Replaces the configuration of `router` by `text`. Elements with the same name and class keep
    /// their state and packets. Returns a message about packets that were lost, or an empty text.
    ///
    /// # Errors
    /// All errors of the text; `router` is unchanged then.
    pub(crate) fn replace(
        &mut self,
        router: &mut Router,
        environment: &Rc<Environment>,
        now: Time,
        text: &str,
    ) -> Result<String, String> {
        let text = self.text("", text.as_bytes());
        let result = load(&text, &self.registry, &self.variables, &mut self.libraries);
        let loaded = result.map_err(|errors| errors.to_click())?;
        let empty = self.empty_router(environment, now);
        environment.sockets.borrow_mut().begin_generation();
        let old = std::mem::replace(router, empty);
        match Router::replacing(loaded, &self.registry, self.options(environment, now), old) {
            Ok((new, lost)) => {
                *router = new;
                environment.sockets.borrow_mut().end_generation(true);
                let message =
                    format!("{lost} packets were lost: the new configuration does not hold them");
                Ok(if lost > 0 { message } else { String::new() })
            }
            Err((errors, old)) => {
                *router = *old;
                environment.sockets.borrow_mut().end_generation(false);
                Err(format!("{}Router could not be initialized!\n", errors.to_click()))
            }
        }
    }

    /// A placeholder while the old router is consumed.
    fn empty_router(&self, environment: &Rc<Environment>, now: Time) -> Router {
        let text = ConfigText { name: String::new(), bytes: Vec::new() };
        let (registry, variables) = (Registry::default(), BTreeMap::new());
        let Ok(loaded) = load(&text, &registry, &variables, &mut Libraries::default()) else {
            unreachable!("an empty text has no errors")
        };
        let Ok(router) = Router::new(loaded, &registry, self.options(environment, now)) else {
            unreachable!("an empty configuration has no errors")
        };
        router
    }
}

/// A router with the handler `hotconfig`, which replaces its configuration.
pub(crate) struct ReconfigurableRouter<'r> {
    /// The router.
    pub router: &'r mut Router,
    /// Builds its successor; without one `hotconfig` does not exist.
    pub factory: Option<&'r mut RouterFactory>,
    /// The environment of both.
    pub environment: &'r Rc<Environment>,
    /// The current time.
    pub now: Time,
}

impl Controlled for ReconfigurableRouter<'_> {
    fn handler(&mut self, name: &str) -> Result<HandlerSpec, HandlerError> {
        match self.factory {
            Some(_) if name == "hotconfig" => Ok(HandlerSpec::write("hotconfig").as_is()),
            _ => self.router.handler(name),
        }
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.router.read_with(name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        match &mut self.factory {
            Some(factory) if name == "hotconfig" => {
                let replaced = factory.replace(self.router, self.environment, self.now, value);
                replaced.map_err(HandlerError::Failed)
            }
            _ => self.router.write(name, value),
        }
    }
}

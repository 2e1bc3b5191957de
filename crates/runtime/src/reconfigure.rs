//! A new configuration in place of the one that runs.

use std::collections::BTreeMap;
use std::rc::Rc;

use warpswitch_graph::control::Controlled;
use warpswitch_graph::{HandlerError, HandlerSpec, Registry, Router, RouterOptions, Time};

use super::config::{ConfigText, Libraries, load};
use super::console::World;

/// What is needed to make routers of texts.
pub struct Reload {
    /// The classes.
    pub registry: Registry,
    /// Variables of the command line.
    pub variables: BTreeMap<String, String>,
    /// Where libraries are.
    pub libraries: Libraries,
    /// Text that is put behind each configuration: the sockets of the command line.
    pub appendix: String,
    /// Seeds random choices.
    pub seed: u64,
    /// Reads a fast clock, to count what elements cost.
    pub ticks: Option<fn() -> u64>,
}

impl Reload {
    /// How routers of this world are made at `now`.
    pub fn options(&self, world: &Rc<World>, now: Time) -> RouterOptions {
        RouterOptions { console: world.console(), seed: self.seed, now, ticks: self.ticks }
    }

    /// `text` with what is put behind it.
    pub fn text(&self, name: &str, text: &[u8]) -> ConfigText {
        let mut bytes = text.to_vec();
        if !self.appendix.is_empty() {
            bytes.push(b'\n');
            bytes.extend_from_slice(self.appendix.as_bytes());
        }
        ConfigText { name: name.to_owned(), bytes }
    }

    /// Has `router` run `text` from now on, with what its elements know and hold; what there is to
    /// tell of packets that have no place in it.
    ///
    /// # Errors
    /// All that is wrong with the text; `router` goes on as it was.
    pub(super) fn replace(
        &mut self,
        router: &mut Router,
        world: &Rc<World>,
        now: Time,
        text: &str,
    ) -> Result<String, String> {
        let text = self.text("", text.as_bytes());
        let made = load(&text, &self.registry, &self.variables, &mut self.libraries);
        let loaded = made.map_err(|errors| errors.to_click())?;
        // Something must stand in its place for a moment.
        let empty_text = ConfigText { name: String::new(), bytes: Vec::new() };
        let none = (Registry::default(), BTreeMap::new());
        let Ok(nothing) = load(&empty_text, &none.0, &none.1, &mut Libraries::default()) else {
            unreachable!("an empty text is right")
        };
        let options = self.options(world, now);
        let Ok(empty) = Router::new(nothing, &Registry::default(), options) else {
            unreachable!("an empty configuration is right")
        };
        world.sockets.borrow_mut().begin_generation();
        let old = std::mem::replace(router, empty);
        match Router::replacing(loaded, &self.registry, self.options(world, now), old) {
            Ok((new, lost)) => {
                *router = new;
                world.sockets.borrow_mut().end_generation(true);
                let told = format!("{lost} packets had no place and are gone");
                Ok(if lost > 0 { told } else { String::new() })
            }
            Err((errors, old)) => {
                *router = *old;
                world.sockets.borrow_mut().end_generation(false);
                Err(format!("{}Router could not be initialized!\n", errors.to_click()))
            }
        }
    }
}

/// A router whose configuration can be written.
pub struct Reloadable<'r> {
    /// The router.
    pub router: &'r mut Router,
    /// How others are made.
    pub reload: Option<&'r mut Reload>,
    /// The world of it.
    pub world: &'r Rc<World>,
    /// The time.
    pub now: Time,
}

impl Controlled for Reloadable<'_> {
    fn handler(&mut self, name: &str) -> Result<HandlerSpec, HandlerError> {
        match self.reload {
            Some(_) if name == "hotconfig" => Ok(HandlerSpec::write("hotconfig").as_is()),
            _ => self.router.handler(name),
        }
    }

    fn read(&mut self, name: &str, param: &str) -> Result<String, HandlerError> {
        self.router.read_with(name, param)
    }

    fn write(&mut self, name: &str, value: &str) -> Result<String, HandlerError> {
        match &mut self.reload {
            Some(reload) if name == "hotconfig" => {
                let replaced = reload.replace(self.router, self.world, self.now, value);
                replaced.map_err(HandlerError::Failed)
            }
            _ => self.router.write(name, value),
        }
    }
}

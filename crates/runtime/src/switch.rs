//! Runs an OpenFlow switch: opens its ports, moves the bytes of its controllers, and waits.
//!
//! One thread does all of it. While frames arrive, controllers are served every 100 us, and frames
//! get as much time as the messages of a controller took before the next one is served; a switch
//! without work sleeps in `poll(2)`.

use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpswitch_graph::Time;
use warpswitch_io::{PortTable, ethernet_address};
use warpswitch_openflow::ConnectionId;
use warpswitch_packet::{PortMethod, PortSpec};
use warpswitch_switch::tunnel::TunnelOptions;
use warpswitch_switch::{AppctlReply, NewPort, NewTunnel, Switch, SwitchOptions};

use crate::appctl::AppctlServer;
use crate::capture_ports::{CapturePorts, check_captures, is_capture_port};
use crate::clock::RunClock;
use crate::controllers::{ConnectionNumber, ControllerAddress, ControllerEvent, Controllers};
use crate::error::{Error, ErrorKind};
use crate::signals::{SignalEvent, Signals, StopSignals};
use crate::tls::TlsIdentity;
use crate::tunnels::TunnelSockets;

/// Interval between two looks at the controllers while frames arrive.
const CONTROL_NS: u64 = 100_000;
/// Interval between two looks at the control socket while frames arrive.
const APPCTL_NS: u64 = 10_000_000;

/// What a running switch reports.
#[derive(Debug, PartialEq, Eq)]
pub enum SwitchNews {
    /// The switch exchanged hello messages with a controller.
    Connected(ControllerAddress),
    /// The connection ended, for this reason.
    Disconnected(ControllerAddress, String),
    /// A controller cannot be reached, for this reason; the switch tries again. Reported once for
    /// each outage.
    Unreachable(ControllerAddress, String),
}

/// An open switch.
pub struct SwitchRun {
    switch: Switch,
    controllers: Controllers,
    connections: Vec<Connected>,
    /// Controllers that were reported as unreachable.
    unreachable: Vec<ControllerAddress>,
    appctl: Option<AppctlServer>,
    captures: CapturePorts,
    /// Whether it ends with its captures: every port is one.
    ends_with_captures: bool,
    signals: Signals,
    clock: RunClock,
    /// When it was opened.
    start: Time,
}

/// A connection with a controller.
struct Connected {
    number: ConnectionNumber,
    id: ConnectionId,
    /// The controller, if the switch made it: those that others make come and go with each
    /// `ovs-ofctl`.
    address: Option<ControllerAddress>,
    /// Whether hello messages were exchanged.
    is_greeted: bool,
}

impl Connected {
    /// What its end is for people.
    fn ended(&self, why: String) -> Option<SwitchNews> {
        let address = self.address.clone()?;
        Some(match self.is_greeted {
            true => SwitchNews::Disconnected(address, why),
            false => SwitchNews::Unreachable(address, why),
        })
    }
}

impl SwitchRun {
    /// Opens a switch with ports on `devices`, numbered from 1 in this order, and with controllers
    /// at `addresses`. INT, TERM and HUP end it. A device is a name as in [`PortSpec`], or a tunnel
    /// port as in [`TunnelOptions`].
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if a tunnel port is invalid,
    /// [`ErrorKind::System`] if a port cannot be opened or an address cannot be listened at,
    /// [`ErrorKind::Address`] if the host of a controller is unknown.
    pub fn open(
        options: SwitchOptions,
        devices: &[String],
        method: PortMethod,
        addresses: &[ControllerAddress],
        tls: Option<TlsIdentity>,
    ) -> Result<Self, Error> {
        let clock = RunClock::real();
        let mut switch = Switch::new(options);
        check_captures(devices)?;
        let captures = CapturePorts::default();
        let (mut table, mut tunnels) = (PortTable::default(), Vec::new());
        for device in devices {
            if is_capture_port(device) {
                let (rx, tx) = captures.open(device)?;
                let (rx, tx) = (Box::new(rx), Box::new(tx));
                let (name, mac) = (device.clone(), virtual_address(device));
                switch.add_port(NewPort { name, mac, rx, tx }, 0);
                continue;
            }
            let cannot = |why| {
                let message = format!("cannot open port '{device}'");
                Error::caused(ErrorKind::System, message, why)
            };
            if TunnelOptions::is_tunnel(device) {
                tunnels.push(add_tunnel(&mut switch, device)?);
                continue;
            }
            let spec = PortSpec {
                device: device.clone(),
                method,
                is_promiscuous: true,
                ..PortSpec::default()
            };
            let rx = table.open_rx(&spec).map_err(cannot)?;
            let tx = table.open_tx(&spec).map_err(cannot)?;
            let mac = ethernet_address(device).unwrap_or_else(|_| virtual_address(device));
            switch.add_port(NewPort { name: device.clone(), mac, rx, tx }, 0);
        }
        if !tunnels.is_empty() {
            switch.set_underlay(Box::new(TunnelSockets::open(&tunnels)?));
        }
        let signals = Signals::new(StopSignals::Handle)
            .map_err(|why| Error::caused(ErrorKind::System, "cannot handle signals", why))?;
        let controllers = Controllers::open(addresses, tls)?;
        let start = clock.now();
        Ok(Self {
            switch,
            controllers,
            connections: Vec::new(),
            unreachable: Vec::new(),
            appctl: None,
            ends_with_captures: captures.len() == devices.len(),
            captures,
            signals,
            clock,
            start,
        })
    }

    /// Also serves `ovs-appctl` at a socket.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the path is in use or not permitted.
    pub fn listen_appctl(&mut self, path: &Path) -> Result<(), Error> {
        self.appctl = Some(AppctlServer::open(path)?);
        Ok(())
    }

    /// The addresses that it listens at, with the ports that the system chose for port 0.
    pub fn listening(&self) -> Vec<ControllerAddress> {
        self.controllers.listening()
    }

    /// The switch.
    pub fn switch(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Nanoseconds since it was opened.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.now().0 - self.start.0).unwrap_or(0)
    }

    /// Ends the captures that its ports write.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if a capture could not be read or written.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.captures.finish()
    }

    /// Runs the switch until a signal or a command ends it, or all its ports are captures that are
    /// read to their ends.
    pub fn run(&mut self, mut news: impl FnMut(SwitchNews)) {
        let (mut next_control_ns, mut next_appctl_ns) = (0, 0);
        loop {
            let now_ns = self.now_ns();
            let is_busy = self.switch.run(now_ns);
            if !is_busy || now_ns >= next_control_ns {
                next_control_ns = now_ns + CONTROL_NS;
                self.control(now_ns, &mut news);
                if matches!(self.signals.next(), Some(SignalEvent::Stop)) {
                    return;
                }
            }
            if !is_busy || now_ns >= next_appctl_ns {
                next_appctl_ns = now_ns + APPCTL_NS;
                // Later than `now_ns`, as controllers were served: no frame is of the future.
                if self.serve_appctl(self.now_ns()) {
                    return;
                }
            }
            if !is_busy && self.ends_with_captures && self.captures.is_over() {
                return;
            }
            if !is_busy && !self.has_input() {
                self.sleep();
            }
        }
    }

    /// Executes the commands of `ovs-appctl`; whether one of them ends the switch.
    fn serve_appctl(&mut self, now_ns: u64) -> bool {
        let Self { appctl: Some(appctl), switch, .. } = self else { return false };
        let mut is_over = false;
        appctl.serve(
            now_ns,
            &mut |name, arguments| match switch.appctl(name, arguments, now_ns)? {
                AppctlReply::Text(text) => Ok(text),
                AppctlReply::Exit => {
                    is_over = true;
                    Ok(String::new())
                }
            },
        );
        is_over
    }

    /// Whether messages of controllers, or commands, wait for the next round.
    fn has_input(&mut self) -> bool {
        let Self { switch, connections, appctl, .. } = self;
        if appctl.as_ref().is_some_and(AppctlServer::has_input) {
            return true;
        }
        connections.iter().any(|known| switch.agent().has_input(known.id))
    }

    /// Moves bytes between the controllers and the agent.
    fn control(&mut self, now_ns: u64, news: &mut impl FnMut(SwitchNews)) {
        let Self { switch, controllers, connections, unreachable, clock, start, .. } = self;
        let time_ns = || u64::try_from(clock.now().0 - start.0).unwrap_or(0);
        let mut news = |event: SwitchNews| {
            match &event {
                SwitchNews::Connected(address) => unreachable.retain(|known| known != address),
                SwitchNews::Unreachable(address, _) if unreachable.contains(address) => return,
                SwitchNews::Unreachable(address, _) => unreachable.push(address.clone()),
                SwitchNews::Disconnected(..) => {}
            }
            news(event);
        };
        let now = Duration::from_nanos(now_ns);
        controllers.poll(now, &mut |event| match event {
            ControllerEvent::Opened(number, address) => {
                let id = switch.connect(address.is_some(), time_ns());
                connections.push(Connected { number, id, address, is_greeted: false });
            }
            ControllerEvent::Received(number, bytes) => {
                if let Some(known) = connections.iter().find(|known| known.number == number) {
                    let began_ns = time_ns();
                    switch.receive_control(known.id, bytes, began_ns);
                    forward(switch, began_ns, time_ns);
                }
            }
            ControllerEvent::Closed(number, why) => {
                let Some(at) = connections.iter().position(|known| known.number == number) else {
                    return;
                };
                let connection = connections.swap_remove(at);
                switch.disconnect(connection.id);
                connection.ended(why).into_iter().for_each(&mut news);
            }
            ControllerEvent::Unreachable(address, why) => {
                news(SwitchNews::Unreachable(address, why));
            }
        });
        connections.retain_mut(|connection| {
            let Connected { number, id, .. } = *connection;
            if switch.agent().is_open(id) && !connection.is_greeted {
                connection.is_greeted = true;
                controllers.greeted(number);
                let address = connection.address.clone();
                address.into_iter().for_each(|address| news(SwitchNews::Connected(address)));
            }
            let began_ns = time_ns();
            let end = exchange(switch, controllers, number, id, began_ns);
            forward(switch, began_ns, time_ns);
            match end {
                // Its last bytes were offered; a peer that reads nothing is not waited for.
                Some(why) => {
                    controllers.close(number, now);
                    switch.disconnect(id);
                    connection.ended(why.to_owned()).into_iter().for_each(&mut news);
                    false
                }
                None => true,
            }
        });
    }

    /// Waits for frames, controllers, signals, or the next tick.
    fn sleep(&mut self) {
        let wait_ns = self.switch.wait_ns(self.now_ns());
        let wakers: Vec<_> = self.switch.wake_fds().collect();
        let flags = |is_writable| if is_writable { PollFlags::OUT } else { PollFlags::IN };
        let ports = wakers.iter().map(|(fd, is_full)| PollFd::new(fd, flags(*is_full)));
        let controllers = self.controllers.descriptors();
        let controllers = controllers.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
        let appctl = self.appctl.iter().flat_map(AppctlServer::descriptors);
        let appctl = appctl.map(|(fd, is_full)| PollFd::from_borrowed_fd(fd, flags(is_full)));
        let mut fds: Vec<_> = ports.chain(controllers).chain(appctl).collect();
        fds.push(PollFd::new(&self.signals.wake, PollFlags::IN));
        let timeout = Timespec::try_from(Duration::from_nanos(wait_ns)).ok();
        // The caller looks for work afterwards, so an interrupted wait needs no retry.
        _ = poll(&mut fds, timeout.as_ref());
    }
}

/// Forwards frames for as long as the messages of a controller took since `began_ns`, unless fewer
/// frames wait.
fn forward(switch: &mut Switch, began_ns: u64, time_ns: impl Fn() -> u64) {
    let mut now_ns = time_ns();
    let took_ns = now_ns.saturating_sub(began_ns);
    if took_ns < CONTROL_NS {
        return;
    }
    let until_ns = now_ns + took_ns;
    while now_ns < until_ns && switch.run(now_ns) {
        now_ns = time_ns();
    }
}

/// Offers what the agent has to send to a connection, and reads from it only while the agent wants
/// more. The reason if the agent closes it.
fn exchange(
    switch: &mut Switch,
    controllers: &mut Controllers,
    number: ConnectionNumber,
    id: ConnectionId,
    now_ns: u64,
) -> Option<&'static str> {
    // What did not fit into the last round.
    if switch.agent().has_input(id) {
        switch.receive_control(id, &[], now_ns);
    }
    if controllers.unsent(number) == 0 {
        let agent = switch.agent();
        let bytes = agent.transmit(id);
        let len = bytes.len();
        if len > 0 {
            controllers.send(number, bytes);
            agent.sent(id, len);
            // Requests that waited for room go on.
            switch.receive_control(id, &[], now_ns);
        }
    }
    let agent = switch.agent();
    controllers.pause(number, agent.has_input(id) || !agent.wants_input(id));
    agent.close_reason(id)
}

/// Adds a tunnel port; returns its options.
fn add_tunnel(switch: &mut Switch, device: &str) -> Result<TunnelOptions, Error> {
    let invalid = |why| {
        let message = format!("tunnel port '{device}': {why}");
        Error::new(ErrorKind::Configuration, message)
    };
    let options: TunnelOptions = device.parse().map_err(invalid)?;
    let tunnel = NewTunnel { mac: virtual_address(&options.name), options: options.clone() };
    switch.add_tunnel(tunnel, 0).map_err(invalid)?;
    Ok(options)
}

/// A locally administered address for a device without one.
fn virtual_address(device: &str) -> [u8; 6] {
    // FNV-1a: the same device has the same address in every run.
    let hash = device.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [2, a, b, c, d, e]
}

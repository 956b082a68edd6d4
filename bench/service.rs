//! An ephemeral service under measurement, and its processes.

use std::ffi::OsString;
use std::path::PathBuf;

use super::load::Load;
use super::{Bench, BenchError, meter};
use proc::signals::Signals;
use service::ephemeral::{EphemeralPlan, EphemeralService, Way};

/// A controller and agents, each a process. Dropping it stops the service in the background; [`Service::end`] waits for the
/// end.
#[derive(Debug)]
pub(crate) struct Service {
    host: EphemeralService,
}

impl Bench<'_> {
    /// Starts a service with its store on disk.
    pub(crate) fn host(&mut self, agents: u16) -> Result<Service, BenchError> {
        self.host_with(agents, &[])
    }

    /// As [`Self::host`], with some keys of the configuration set.
    pub(crate) fn host_with(&mut self, agents: u16, keys: &[(&'static str, String)]) -> Result<Service, BenchError> {
        // Without CURVE, whose cost is that of the cipher.
        let unset = [
            "LLTS_CURVE_SERVER_SECRET_KEY_FILE",
            "LLTS_CURVE_AUTHORISED_KEYS_DIR",
            "LLTS_CURVE_SECRET_KEY_FILE",
            "LLTS_CURVE_SERVER_PUBLIC_KEY_FILE",
            "LLTS_TOOL_SOURCES_DIR",
        ];
        let usual: [(&'static str, OsString); 3] = [
            ("LLTS_CONTROLLER_IPC_FILE", "auto".into()),
            ("LLTS_DURABILITY", "disk".into()),
            ("LLTS_AGENT_TOOLS_DIR", self.place.tools().into()),
        ];
        let usual = usual.into_iter().chain(unset.map(|name| (name, OsString::new())));
        // Of two values for the same key, the later one applies.
        let environment = usual.chain(keys.iter().map(|(name, value)| (*name, value.into()))).collect();
        let program = llts_program()?;
        let config = Some(self.plan.config.clone());
        let home = std::env::current_dir().map_err(|error| BenchError::Unexpected(error.to_string()))?;
        let host = EphemeralPlan { program, home, config, agents, way: Way::Tcp, environment }.start(self.signals)?;
        Ok(Service { host })
    }
}

impl Service {
    /// The endpoint for requests.
    pub(crate) fn endpoint(&self) -> &str {
        &self.host.up().controller
    }

    /// The configuration keys with which a program finds this controller.
    pub(crate) fn keys(&self) -> Vec<(&'static str, String)> {
        let port = |endpoint: &str| endpoint.rsplit_once(':').map(|(_, port)| port.to_owned()).unwrap_or_default();
        vec![
            ("LLTS_CONTROLLER_IP", "127.0.0.1".to_owned()),
            ("LLTS_CONTROLLER_REP_PORT", port(&self.host.up().controller)),
            ("LLTS_CONTROLLER_PUB_PORT", port(&self.host.up().publisher)),
        ]
    }

    /// A connection to it.
    pub(crate) fn load(&self, signals: &mut Signals) -> Result<Load, BenchError> {
        Load::connect(self.endpoint(), signals)
    }

    /// The path of the store.
    pub(crate) fn state_dir(&self) -> std::path::PathBuf {
        self.host.folder().join("state")
    }

    /// The pid of the controller.
    pub(crate) fn controller(&self) -> Result<u32, BenchError> {
        let found = self.processes("controller")?.first().copied();
        found.ok_or_else(|| BenchError::Unexpected("the service has no controller".to_owned()))
    }

    /// The pids of the agents.
    pub(crate) fn agents(&self) -> Result<Vec<u32>, BenchError> {
        self.processes("agent")
    }

    fn processes(&self, command: &str) -> Result<Vec<u32>, BenchError> {
        let all = meter::children(self.host.up().pid)?.into_iter();
        Ok(all.filter(|(_, words)| words.iter().any(|word| word == command)).map(|(pid, _)| pid).collect())
    }

    /// Stops the service and waits for its end.
    pub(crate) fn end(self, signals: &mut Signals) {
        // Files that could not be removed stay among the temporary files.
        let _ = self.host.end(signals);
    }
}

/// `llts`, which cargo builds beside this program.
pub(crate) fn llts_program() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::io("find this program"))?;
    let program = own.with_file_name("llts");
    if program.is_file() {
        return Ok(program);
    }
    Err(BenchError::Missing(format!("{} does not exist; scripts/bench.sh builds it", program.display())))
}

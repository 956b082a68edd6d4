//! How a supervisor carries out orders of its user, and ends a service that has no work.

use super::Supervisor;
use crate::supervisor::Report;
use crate::supervisor::order::Order;
use api::service_file::Service;
use base::{Role, span};
use proc::signals::SENT_RETIRE;
use proc::{clock, idle_stop};

impl<F: FnMut(&Report)> Supervisor<'_, F> {
    /// Takes a pending order; `false` if there is none.
    pub(super) fn take_order(&mut self) -> bool {
        let order = match Order::take(&self.config.paths.state_dir) {
            Ok(Some(order)) => order,
            Ok(None) => return false,
            Err(error) => {
                log::error!("an order of `llts up` cannot be read: {error}");
                return true;
            }
        };
        if order.is_lasting {
            self.starter.keep();
            self.tell_limit();
            self.processes.signal(Role::Controller, SENT_RETIRE);
        }
        if let Some(agents) = order.agents
            && self.plan.handle_agents(clock::now().mono, agents)
        {
            log::info!("ordered: {agents} agents instead of {}", self.starter.agents());
            self.starter.set_agents(agents);
        }
        self.order = Some((order.id().to_owned(), false));
        true
    }

    /// Publishes that an order has been carried out.
    pub(super) fn finish_order(&mut self) {
        if !self.plan.is_complete() {
            return;
        }
        if let Some((_, is_done @ false)) = &mut self.order {
            *is_done = true;
            self.rewrite(|_| {});
        }
    }

    /// Rewrites the service file. The time of the start and the state of a renewal are kept.
    pub(super) fn rewrite(&self, change: impl FnOnce(&mut Service)) {
        let before = Service::read(&self.config.paths.state_dir);
        let Some(mut service) = self.present() else { return };
        if let Some(before) = before {
            (service.started, service.renewal) = (before.started, before.renewal);
        }
        change(&mut service);
        self.write(&service);
    }

    /// Tells the controller how long it stays up without work.
    pub(super) fn tell_limit(&self) {
        let limit = self.starter.limit(self.config);
        if let Err(error) = idle_stop::write(&self.config.paths.state_dir, limit) {
            log::error!("cannot tell the controller when it ends without work: {error}");
        }
    }

    /// The controller has ended for want of work, and takes no more requests.
    pub(super) fn end_idle(&mut self) {
        match self.starter.limit(self.config) {
            Some(limit) => {
                log::info!("no work for {} (IDLE_STOP): stopping", span(limit));
                self.stop();
            }
            // An order to stay came a moment ago, so another controller is started.
            None => log::info!("the controller has ended without work, but the service stays"),
        }
    }
}

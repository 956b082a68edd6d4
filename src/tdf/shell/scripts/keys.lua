-- The keys that claims and reports do without, so that those do not pay for their names.
local LOSSES, POISONED, SEEN, WORKERS = P .. 'llts:losses', P .. 'llts:poisoned', P .. 'llts:seen', P .. 'llts:workers'
local CALLBACKS, HOLDERS, ATTEMPTS = P .. 'llts:callbacks', P .. 'llts:callback_holders', P .. 'llts:callback_attempts'
local NAMES, JOINED = P .. 'llts:names', P .. 'llts:joined'


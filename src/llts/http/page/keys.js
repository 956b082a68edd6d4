// The keyboard: views say what a key does while they are shown; the newest one that knows a key gets it.

import { useEffect, useRef } from './vendor/htm-preact.js';

const layers = [];
let pending = '';

/** Binds keys while the component is shown. A handler that returns false passes the key on. */
export function useKeys(bindings) {
    const own = useRef({});
    own.current = bindings;
    useEffect(() => {
        layers.push(own);
        return () => { layers.splice(layers.indexOf(own), 1); };
    }, []);
}

addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector('dialog[open]')) return;
    const at = event.target;
    const typing = at.matches?.('input:not([type=checkbox]), select, textarea');
    if (typing) {
        if (event.key === 'Escape' || (event.key === 'Enter' && at.matches('[type=search]'))) {
            at.blur();
            document.querySelector('[role=grid]')?.focus();
            event.preventDefault();
        }
        return;
    }
    // Enter and blank belong to a button or link that has the focus.
    if ((event.key === 'Enter' || event.key === ' ') && at.matches?.('a, button, summary, input')) return;
    const key = pending ? `${pending} ${event.key}` : event.key;
    pending = '';
    if (key === 'g') {
        pending = 'g';
        return;
    }
    for (const layer of [...layers].reverse()) {
        const handler = layer.current[key];
        if (handler && handler(event) !== false) {
            event.preventDefault();
            return;
        }
    }
});

// Addresses: #/tasks?state=failed&text=x names a view and its parameters, and can be sent to a colleague.

import { changed } from './store.js';

export const route = { view: 'overview', id: '', query: new URLSearchParams() };

/** How many views were visited before this one: as often one can go back without leaving the page. */
let visited = -1;
let last;

export function read() {
    if (location.hash !== last) visited += 1;
    last = location.hash;
    const [, path, query] = /^#\/([^?]*)\??(.*)$/.exec(location.hash) ?? [];
    const [view, ...rest] = (path || 'overview').split('/');
    route.view = view;
    try {
        route.id = decodeURIComponent(rest.join('/'));
    } catch {
        route.id = rest.join('/');
    }
    route.query = new URLSearchParams(query ?? '');
    changed();
}

export function href(view, id = '', query = {}) {
    const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value != null && value !== '' && value !== false)).toString();
    return `#/${view}${id ? `/${encodeURIComponent(id)}` : ''}${words ? `?${words}` : ''}`;
}

export const go = (...where) => { location.hash = href(...where); };

/** To where one came from, or else to the list that this view belongs to. */
export function back(list) {
    if (visited < 1) return go(list);
    visited -= 2;
    history.back();
}

/** Changes parameters of the present view, without an entry in the history of the browser. */
export function refine(changes) {
    history.replaceState(null, '', href(route.view, route.id, { ...Object.fromEntries(route.query), ...changes }));
    last = location.hash;
    read();
}

// The view of the service: parts by name, kept equal to the controller's by the stream /view. Everything else asks with `ask`.

import { Refused, headers, openSession, session } from './api.js';

/** Silence after which the stream is taken for dead: a network that vanished says nothing. */
const SILENCE = 12_000;
const PAUSE_MIN = 500;
const PAUSE_MAX = 10_000;
/** Seconds over which the rate of a job is measured. */
const RATE_SPAN = 60;

export const store = {
    parts: new Map(),
    head: {},
    /** `connecting`, `live`, `lost`, `token` or `hidden`. */
    link: 'connecting',
    lostSince: null,
    trouble: '',
    /** Grows with each change of the parts. */
    version: 0,
};

const listeners = new Set();
export function subscribe(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
}
export const changed = () => listeners.forEach(listener => listener());

let cursor = '';
let received = 0;
const samples = new Map();

/** The clock of the controller, which alone is compared with its moments. */
export const now = () => (store.head.__TIME__ ?? 0) + (store.head.__TIME__ ? (performance.now() - received) / 1000 : 0);

export function setClock(time) {
    store.head.__TIME__ = time;
    received = performance.now();
}

/** The parts of a kind, such as `job`: pairs of name and part. */
export function parts(kind) {
    const found = [];
    for (const [name, part] of store.parts) if (name.startsWith(`${kind} `)) found.push([name.slice(kind.length + 1), part]);
    return found;
}
export const part = name => store.parts.get(name);

/** How often the parts of a kind have changed: gates and graphs change without a task. */
const kinds = new Map();
let acted = 0;

/** What was shown is asked for again, because this page has changed something. */
export function touch() {
    acted += 1;
    changed();
}

/** The sign for a list that is shown to be asked for again, also when parts of a `kind` have changed. */
export const sequence = (kind = '') => `${store.head.__START__} ${store.parts.get('changes')?.__SEQ__ ?? store.version} ${acted} ${kinds.get(kind) ?? 0}`;

/** Takes an answer to SERVICE/STATUS into the parts. */
function take(answer) {
    if (answer.__WHOLE__ !== false && (answer.__WHOLE__ || !cursor)) store.parts.clear();
    const head = {};
    for (const [name, value] of Object.entries(answer)) {
        if (name.startsWith('__')) head[name] = value;
        else if (value === null) store.parts.delete(name);
        else store.parts.set(name, value);
        const kind = name.split(' ', 1)[0];
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    }
    store.head = head;
    if (head.__TIME__) setClock(head.__TIME__);
    sample();
    store.version += 1;
    store.link = 'live';
    store.lostSince = null;
    changed();
}

function sample() {
    const open = new Set();
    for (const [name, job] of parts('job')) {
        open.add(name);
        const list = samples.get(name) ?? [];
        list.push([store.head.__TIME__, job.FINISHED]);
        while (list[0][0] < store.head.__TIME__ - RATE_SPAN || list[0][1] > job.FINISHED) list.shift();
        samples.set(name, list);
    }
    for (const name of samples.keys()) if (!open.has(name)) samples.delete(name);
}

/** Ends per second of a job in the last minute, or null if that is not known. */
export function rate(job) {
    const list = samples.get(job);
    if (!list || list.length < 2) return null;
    const [[t0, n0], [t1, n1]] = [list[0], list.at(-1)];
    return t1 - t0 > 1 && n1 > n0 ? (n1 - n0) / (t1 - t0) : null;
}

let stop = new AbortController();
const pause = (ms, signal) => new Promise(done => {
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
});

/** Follows the service for as long as the page is open and visible. */
export function follow() {
    document.addEventListener('visibilitychange', () => {
        stop.abort();
        if (document.hidden) store.link = 'hidden';
        else run();
    });
    addEventListener('online', () => { stop.abort(); run(); });
    if (!document.hidden) run();
}

/** Begins again with the rights of a new session. */
export function restart() {
    stop.abort();
    cursor = '';
    run();
}

async function run() {
    const own = new AbortController();
    stop = own;
    let wait = PAUSE_MIN;
    while (!own.signal.aborted) {
        try {
            await openSession();
            if (!session.mayAsk) throw new Refused('', 401);
            await read(own.signal, () => { wait = PAUSE_MIN; });
        } catch (error) {
            if (own.signal.aborted) return;
            store.trouble = error.message;
            if (error.status === 401 || error.status === 403) {
                store.link = 'token';
                // Only another session helps, and that begins with another address.
                return changed();
            }
        }
        if (own.signal.aborted) return;
        if (store.link !== 'lost') Object.assign(store, { link: 'lost', lostSince: now() || null, lostAt: performance.now() });
        changed();
        await pause(wait * (0.8 + Math.random() * 0.4), own.signal);
        wait = Math.min(wait * 2, PAUSE_MAX);
    }
}

/** Reads one stream to its end. */
async function read(signal, begun) {
    const own = new AbortController();
    const end = () => own.abort();
    signal.addEventListener('abort', end, { once: true });
    let watchdog = setTimeout(end, SILENCE);
    try {
        const more = cursor ? { 'Last-Event-ID': cursor } : {};
        const answer = await fetch('/view', { headers: headers({ Accept: 'text/event-stream', ...more }), signal: own.signal });
        if (!answer.ok) {
            const body = await answer.json().catch(() => ({}));
            throw new Refused(body.__ERROR_MSG__ ?? `The controller answers with status ${answer.status}.`, answer.status);
        }
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        let buffer = '';
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            clearTimeout(watchdog);
            watchdog = setTimeout(end, SILENCE);
            buffer += value;
            let at;
            while ((at = buffer.indexOf('\n\n')) >= 0) {
                if (event(buffer.slice(0, at))) begun();
                buffer = buffer.slice(at + 2);
            }
        }
    } finally {
        clearTimeout(watchdog);
        signal.removeEventListener('abort', end);
    }
}

function event(text) {
    let id = '';
    const data = [];
    for (const row of text.split('\n')) {
        if (row.startsWith('data:')) data.push(row.slice(5).trimStart());
        else if (row.startsWith('id:')) id = row.slice(3).trim();
    }
    if (!data.length) return false;
    const answer = JSON.parse(data.join('\n'));
    take(answer);
    cursor = id || answer.__CURSOR__ || '';
    return true;
}

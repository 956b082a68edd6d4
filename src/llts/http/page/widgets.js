// Small pieces that every view uses: states with a shape and a word, bars, sparklines, links and buttons to copy.

import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { href } from './router.js';
import { line, block, count, moment, short } from './text.js';
import { isAway } from './api.js';
import { now, sequence } from './store.js';

/** The states in the order of the program, with the shape that stands beside the word. */
export const STATES = {
    running: '▶', starting: '▷', ending: '◁', waiting: '·', held: '‖', ok: '✓', failed: '✕', 'timed out': '◷', expired: '⊘', killed: '■', lost: '?', skipped: '↷',
};
export const OPEN = ['running', 'starting', 'ending', 'waiting', 'held'];
export const FAILURES = ['failed', 'timed out', 'lost'];
export const FINISHED = Object.keys(STATES).filter(state => !OPEN.includes(state));

export const OUTCOMES = { SUCCEEDED: 'ok', FAILED: 'failed', TIMED_OUT: 'timed out', EXPIRED: 'expired', KILLED: 'killed', LOST: 'lost', SKIPPED: 'skipped' };
export const outcomeWord = outcome => OUTCOMES[outcome] ?? String(outcome ?? '').toLowerCase().replace(/_/g, ' ');

/** The word for the state of a task; the same rule as in src/base/shown_state.rs. */
export function stateOf(task) {
    switch (task.__STATUS__) {
    case 'WAITING': return task.__HELD_TIME__ ? 'held' : 'waiting';
    case 'DISPATCHED': case 'PREPARING': return 'starting';
    case 'RUNNING': return 'running';
    case 'FINISHED': return task.__OUTCOME__ ? outcomeWord(task.__OUTCOME__) : 'ending';
    default: return 'ending';
    }
}

const kind = word => String(word).toLowerCase().replace(/[^a-z]+/g, '-');
export const State = ({ word, shape = STATES[word] ?? '•' }) =>
    html`<span class="state s-${kind(word)}"><span class="shape" aria-hidden="true">${shape}</span>${line(word)}</span>`;

export const TaskLink = ({ id }) => html`<a class="mono" href=${href('task', id)} title=${line(id)}>${short(id)}</a>`;
export const JobLink = ({ name }) => html`<a href=${href('job', name)}>${line(name, 80)}</a>`;

/** A bar of parts; the words beside it say the same. */
function Bar({ total, segments, label }) {
    return html`<span class="bar" role="img" aria-label=${label}>${segments.map(([word, number]) =>
        number > 0 && html`<i class="f-${kind(word)}" style=${{ width: `${Math.max(number / Math.max(total, 1) * 100, 0.8)}%` }}></i>`)}</span>`;
}

/** How many tasks of a job have failed, and how many were skipped because of others, in words; empty if none. */
export const troubles = job => [[job.FAILED + job.TIMED_OUT + job.LOST, 'failed'], [job.SKIPPED, 'skipped']].filter(([number]) => number).map(([number, word]) => `${count(number)} ${word}`).join(', ');

export const jobBar = job => {
    const failed = job.FAILED + job.TIMED_OUT + job.LOST + job.EXPIRED;
    const rest = job.FINISHED - job.SUCCEEDED - failed;
    return html`<${Bar} total=${job.__TOTAL__} label=${`${job.FINISHED} of ${job.__TOTAL__} finished, ${failed} failed`}
        segments=${[['ok', job.SUCCEEDED], ['failed', failed], ['killed', rest], ['running', job.RUNNING + job.DISPATCHED + job.PREPARING + job.ENDED]]} />`;
};

/** A line of numbers; null makes a gap. */
export function Spark({ values, label, format }) {
    const known = values.filter(value => value != null);
    const max = Math.max(...known, 1e-9);
    const [w, h] = [240, 44];
    const x = index => index * w / Math.max(values.length - 1, 1);
    const y = value => h - 2 - value / max * (h - 6);
    let path = '', pen = false;
    values.forEach((value, index) => {
        if (value != null) path += `${pen ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = value != null;
    });
    const last = known.at(-1);
    return html`<figure class="spark">
        <figcaption>${label} <b>${format(last ?? 0)}</b> <span class="dim">highest ${format(known.length ? max : 0)}</span></figcaption>
        <svg viewBox="0 0 ${w} ${h}" preserveAspectRatio="none" role="img" aria-label=${`${label}: now ${format(last ?? 0)}, highest ${format(known.length ? max : 0)} in five minutes`}>
            <path class="base" d=${`M0 ${h - 2}H${w}`} /><path class="curve" d=${path || 'M0 0'} />
        </svg></figure>`;
}

/** A command with a button that copies it. */
export function Copy({ text, label = 'Copy as command', bare = false }) {
    const [done, setDone] = useState('');
    const copy = async () => {
        try {
            await navigator.clipboard.writeText(text);
            setDone('Copied');
        } catch {
            setDone('Not allowed by the browser');
        }
        setTimeout(() => setDone(''), 2000);
    };
    return html`<span class="copy">${!bare && html`<code>${line(text, 400)}</code>`}<button type="button" class="quiet" onClick=${copy} title=${block(text)}>${done || label}</button>
        <span class="hide" aria-live="polite">${done}</span></span>`;
}

/** A sentence of the service on one line. Its moments, unix seconds with six decimals, become local times. */
export const sentence = text => line(text, 1000).replace(/\b\d{10}\.\d{6}\b/g, found => moment(+found, now()));

/**
 * What a request answers, asked again when tasks or the parts of a `kind` change, or when `sign` does; meanwhile the last answer. `least` is the
 * shortest time between two requests in milliseconds.
 */
export function useAnswer(request, key, { sign = null, kind = '', least = 1000 } = {}) {
    const [state, set] = useState({ key: '', answer: null, error: '' });
    const own = useRef({ running: false, seen: null, timer: 0, key: '' });
    const seen = sign ?? sequence(kind);
    own.current.request = request;
    useEffect(() => {
        const me = own.current;
        me.key = key;
        me.alive = true;
        const run = async () => {
            if (me.running || !me.alive) return;
            me.running = true;
            me.again = false;
            const begun = performance.now();
            const asked = me.key;
            let next;
            try {
                next = { key: asked, answer: await me.request(), error: '' };
            } catch (error) {
                // While the controller is away, what is shown stays; the frame says so.
                next = isAway(error) ? null : { key: asked, error: error.message, answer: null };
            }
            me.running = false;
            if (!me.alive) return;
            if (next && asked === me.key) set(next);
            // Asking takes a tenth of the time at most.
            const rest = Math.max(least, (performance.now() - begun) * 10);
            me.timer = setTimeout(() => { me.timer = 0; if (me.again) run(); }, asked === me.key ? rest : 0);
            if (asked !== me.key) me.again = true;
        };
        me.again = true;
        if (me.lastKey !== key) { clearTimeout(me.timer); me.timer = 0; me.lastKey = key; }
        if (!me.timer) run();
    }, [key, seen]);
    useEffect(() => () => { own.current.alive = false; clearTimeout(own.current.timer); }, []);
    return state.key === key ? state : { key, answer: null, error: '' };
}

export const Trouble = ({ children }) => html`<p class="trouble" role="alert"><span aria-hidden="true">⚠ </span>${children}</p>`;
export const Empty = ({ children }) => html`<p class="dim empty">${children}</p>`;

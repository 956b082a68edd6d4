// Questions before something changes, the list of keys, and messages about what was done.

import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { changed } from './store.js';
import { Copy } from './widgets.js';

let open = null;
const toast = { text: '', kind: '', timer: 0 };

/**
 * Asks in a dialog. `fields` are inputs of the form; the promise gives their values, or null for no.
 */
export function question({ title, text, typed = '', yes, danger = false, fields = [] }) {
    return new Promise(done => {
        open = { title, text, typed, yes, danger, fields, done };
        changed();
    });
}

export function say(text, kind = 'done', stays = false) {
    clearTimeout(toast.timer);
    Object.assign(toast, { text, kind });
    if (!stays) toast.timer = setTimeout(() => { toast.text = ''; changed(); }, kind === 'bad' ? 12_000 : 5_000);
    changed();
}

export function Dialogs() {
    return html`${open && html`<${Question} key=${open.title} ...${open} />`}
        <div role="status">${toast.text && html`<p class="toast ${toast.kind}"><span aria-hidden="true">${toast.kind === 'bad' ? '⚠ ' : ''}</span>${toast.text}</p>`}</div>`;
}

function useModal() {
    const ref = useRef();
    useEffect(() => {
        const before = document.activeElement;
        ref.current.showModal();
        return () => before?.focus?.();
    }, []);
    return ref;
}

function Question({ title, text, typed, yes, danger, fields, done }) {
    const ref = useModal();
    const [values, set] = useState(Object.fromEntries(fields.map(({ name, value }) => [name, value ?? ''])));
    const answer = value => {
        open = null;
        done(value);
        changed();
    };
    return html`<dialog ref=${ref} aria-labelledby="question" onCancel=${event => { event.preventDefault(); answer(null); }}>
        <form method="dialog" onSubmit=${event => { event.preventDefault(); answer(values); }}>
            <h2 id="question">${title}</h2>
            ${text && html`<p class="lines">${text}</p>`}
            ${fields.map(({ name, label, hint }) => html`<label>${label}<input type="text" value=${values[name]} placeholder=${hint ?? ''} onInput=${event => set({ ...values, [name]: event.target.value })} /></label>`)}
            <p class="buttons"><button type="submit" class=${danger ? 'danger' : 'main'} autofocus>${yes}</button><button type="button" onClick=${() => answer(null)}>Cancel</button>${typed && html`<${Copy} bare text=${typed} />`}</p>
        </form></dialog>`;
}

const KEYS = [
    ['/', 'filter'], ['j  k  ↓  ↑', 'next, previous row'], ['Enter', 'open the row'], ['Escape', 'back, or leave the filter'], ['x', 'select the row'],
    ['*', 'select all that match'], ['r', 'retry the selection, or the row'], ['K', 'kill'], ['h', 'hold'], ['H', 'release'], ['c', 'copy as command'],
    ['g o  g t  g j  g a', 'overview, tasks, jobs, agents'], ['g g  g l  g i  g h', 'graphs, gates, incidents, history'], ['g p  g s  g d', 'prompts, task lists, TDF'], ['?', 'this list'],
];

export function Help({ close }) {
    const ref = useModal();
    return html`<dialog ref=${ref} aria-labelledby="keys" onClose=${close}>
        <h2 id="keys">Keys</h2>
        <dl class="keys">${KEYS.map(([keys, what]) => html`<dt>${keys.split('  ').map(key => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd>`)}</dl>
        <p class="buttons"><button type="button" class="main" autofocus onClick=${close}>Close</button></p></dialog>`;
}

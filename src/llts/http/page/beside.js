// The systems beside the controller: prompts, task lists, TDF. Their commands say how they are, and are asked again and again.

import { html } from './vendor/htm-preact.js';
import { get } from './api.js';
import { Copy, Trouble, useAnswer } from './widgets.js';
import { block, line } from './text.js';

export const BESIDE = {
    prompts: { title: 'Prompts', command: 'llts prompt status' },
    lists: { title: 'Task lists', command: 'llts spool status' },
    tdf: { title: 'TDF', command: 'llts tdf stats' },
};

const INTERVAL = 2000;
const TEXT_MAX = 100_000;

export function Beside({ name }) {
    const { title, command } = BESIDE[name];
    // The frame draws each second, and not in a hidden tab: so a sign of the time is enough to ask again.
    const { answer, error } = useAnswer(() => get(`/beside/${name}`), name, { sign: Math.floor(performance.now() / INTERVAL), least: INTERVAL });
    return html`<section class="page" aria-labelledby="title">
        <header class="tools"><h1 id="title">${title}</h1><${Copy} bare text=${command} /></header>
        ${error ? html`<${Trouble}>${line(error, 1000)}</${Trouble}>` : html`<pre class="card" tabindex="0">${answer == null ? 'Loading…' : block(answer, TEXT_MAX)}</pre>`}</section>`;
}

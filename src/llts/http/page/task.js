// One task: why it is as it is, its life, its output, its family and its fields.

import { html, useEffect, useState } from './vendor/htm-preact.js';
import { ask, entries, session } from './api.js';
import { Copy, Empty, JobLink, State, TaskLink, Trouble, outcomeWord, sentence, stateOf, useAnswer } from './widgets.js';
import { ACTS, actOnTasks } from './acts.js';
import { Life, readLog } from './life.js';
import { Output } from './output.js';
import { useKeys } from './keys.js';
import { href } from './router.js';
import { now } from './store.js';
import { block, bytes, command, count, duration, line, moment, short, typed } from './text.js';

/** How deep and how wide a family is shown. */
const DEPTH = 4;
const CHILDREN = 20;

export function Task({ id }) {
    const { answer, error } = useAnswer(async () => {
        const [task, why] = await Promise.all([ask('TASK/QUERY', { __TASK_ID__: id }), ask('TASK/EXPLAIN', { __TASK_ID__: id })]);
        return { task, why };
    }, id);
    if (error) return html`<div class="page"><h1>Task ${short(id)}</h1><${Trouble}>${line(error, 1000)}</${Trouble}><${Forgotten} id=${id} /></div>`;
    if (!answer) return html`<div class="page"><h1>Task ${short(id)}</h1><p class="dim">Loading…</p></div>`;
    return html`<${Shown} key=${id} ...${answer} />`;
}

function Shown({ task, why }) {
    const state = stateOf(task);
    const what = task.__SHELL__ ?? (task.__COMMAND__ ? typed(task.__COMMAND__) : task.__OPERATION__ ?? '');
    const failed = task.__OUTCOME__ != null && task.__OUTCOME__ !== 'SUCCEEDED';
    const last = failed && (task.__STDERR__ ?? '').split('\n').map(text => text.trim()).filter(Boolean).pop();
    const acts = session.mayChange ? Object.entries(ACTS).filter(([, act]) => act.fits.includes(state)) : [];
    const row = { ...task, __WHAT__: what };
    useKeys(Object.fromEntries(acts.map(([name, act]) => [act.key, () => { actOnTasks(name, [row]); }])));
    const progress = task.__STATUS__ === 'RUNNING' && task.__PROGRESS__ != null;
    return html`<article class="page" aria-labelledby="title">
        <header class="tools"><h1 id="title" class="mono">${short(task.__TASK_ID__)}</h1><${State} word=${state} />
            ${acts.map(([name, act]) => html`<button type="button" class=${act.danger ? 'danger' : ''} onClick=${() => actOnTasks(name, [row])}>${act.name}…</button>`)}
            <${Copy} bare text=${command('show', task.__TASK_ID__)} /></header>
        <p class="what mono">${block(what, 1000)}</p>
        <p class="why" role="status">${sentence(why.__WHY__)}${last && html`; last line of stderr: <span class="mono">${line(last, 300)}</span>`}</p>
        ${progress && html`<p><progress max="1" value=${task.__PROGRESS__} aria-label="Progress"></progress> ${Math.round(task.__PROGRESS__ * 100)} % <span class="dim">${line(task.__PROGRESS_TEXT__ ?? '')}</span></p>`}
        <div class="cards">
            <section class="card wide" aria-labelledby="life"><h2 id="life">Life</h2><${Life} log=${why.__LOG__} />
                <details><summary>Log</summary><ol class="log">${readLog(why.__LOG__).slice(-200).map(event => html`<li><time>${moment(event.time, now(), true)}</time> <b>${event.phase.toLowerCase()}</b> ${sentence(event.words)}</li>`)}</ol></details></section>
            <${Output} task=${task} />
            <${Family} task=${task} />
            <${Fields} task=${task} />
        </div></article>`;
}

/** The children of a task and theirs, asked for as they are opened. */
function Children({ id, depth }) {
    const { answer, error } = useAnswer(() => ask('TASK/ROWS', { __FATHER_ID__: id, __LIMIT__: CHILDREN }), id);
    if (error) return html`<p class="dim">${line(error)}</p>`;
    const children = answer ? entries(answer) : [];
    if (!children.length) return answer && depth === 0 && html`<p class="dim">It has no children.</p>`;
    return html`<ul class="tree">${children.map(([child, row]) => html`<li key=${child}><${State} word=${stateOf(row)} /> <${TaskLink} id=${child} /> <span class="mono cut">${line(row.__WHAT__, 80)}</span>
        ${depth < DEPTH && html`<${Lazy} id=${child} depth=${depth + 1} />`}</li>`)}${answer.__TOTAL__ > children.length && html`<li><a href=${href('tasks', '', { parent: id })}>all ${count(answer.__TOTAL__)}</a></li>`}</ul>`;
}
function Lazy({ id, depth }) {
    const [open, set] = useState(false);
    return html`<details onToggle=${event => set(event.target.open)}><summary class="small">children</summary>${open && html`<${Children} id=${id} depth=${depth} />`}</details>`;
}

function Family({ task }) {
    return html`<section class="card" aria-labelledby="family"><h2 id="family">Parent and children</h2>
        ${task.__FATHER_ID__ && html`<p>Parent: <${TaskLink} id=${task.__FATHER_ID__} /></p>`}<${Children} id=${task.__TASK_ID__} depth=${0} /></section>`;
}

const TIMES = /_TIME__$|__NOT_BEFORE__|__START_AFTER__|__END_BEFORE__/;
const SECONDS = /_SECONDS__$|__TIMEOUT__|__RETRY_DELAY__|__EXPECTED_DURATION__|__LOST_AFTER__/;
const LONG = ['__STDOUT__', '__STDERR__', '__REPORT_LOG__', '__TYPE__', '__CODE__', '__MATCHES__'];

function value(name, given) {
    if (given === null) return html`<span class="dim">none</span>`;
    if (name === '__JOB__') return html`<${JobLink} name=${given} />`;
    if (name === '__FATHER_ID__' || name === '__TASK_ID__') return html`<a class="mono" href=${href('task', given)}>${line(given)}</a>`;
    if (typeof given === 'number' && TIMES.test(name)) return moment(given, now(), true);
    if (typeof given === 'number' && SECONDS.test(name)) return duration(given);
    if (typeof given === 'number' && /_BYTES__$/.test(name)) return bytes(given);
    if (name === '__MAX_RSS_KB__') return bytes(given * 1024);
    return html`<span class="mono">${block(given, 2000)}</span>`;
}

function Fields({ task }) {
    const all = Object.entries(task).filter(([name]) => !LONG.includes(name) && !/^\d+:/.test(name));
    const own = all.filter(([name]) => /^__.*__$/.test(name));
    const parameters = all.filter(([name]) => !/^__.*__$/.test(name));
    const rounds = Object.entries(task).filter(([name]) => /^\d+:/.test(name) && !LONG.some(long => name.endsWith(long)));
    const table = list => html`<table class="fields"><tbody>${list.map(([name, given]) => html`<tr key=${name}><th scope="row">${line(name, 100).replace(/__/g, '').replace(/_/g, ' ').toLowerCase() || line(name)}</th><td>${value(name.replace(/^\d+:/, ''), given)}</td></tr>`)}</tbody></table>`;
    const plain = list => html`<table class="fields"><tbody>${list.map(([name, given]) => html`<tr key=${name}><th scope="row" class="mono">${line(name, 100)}</th><td>${value('', given)}</td></tr>`)}</tbody></table>`;
    return html`<section class="card span" aria-labelledby="fields"><h2 id="fields">Fields</h2>
        ${parameters.length > 0 && html`<h3>Parameters</h3>${plain(parameters)}<h3>Fields of the service</h3>`}${table(own)}
        ${rounds.length > 0 && html`<details><summary>Earlier rounds</summary>${table(rounds)}</details>`}</section>`;
}

/** What the history says of a task that the service has forgotten. */
function Forgotten({ id }) {
    const [rounds, set] = useState(null);
    useEffect(() => { ask('HISTORY/QUERY', { __TASK_ID__: id, __LIMIT__: 50 }).then(answer => set(entries(answer)), () => set([])); }, [id]);
    if (!rounds?.length) return rounds && html`<${Empty}>The history does not have it either.</${Empty}>`;
    return html`<p>The history has ${rounds.length} of its rounds:</p><ul class="plain">${rounds.map(([name, round]) => html`<li key=${name}><${State} word=${outcomeWord(round.__OUTCOME__)} /> round ${round.__ROUND__}, ended ${moment(round.__END_TIME__, now())}, ran ${duration(round.__RAN_SECONDS__)} on ${line(round.__AGENT_ID__ ?? 'no agent')} <span class="mono">${line(round.__SHELL__ ?? round.__COMMAND__ ?? round.__OPERATION__)}</span> <span class="dim">${line(round.__REASON__ ?? '')}</span></li>`)}</ul>`;
}

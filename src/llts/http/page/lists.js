// The lists that are read as a whole: jobs, gates, graphs, and the incidents, which come in pages. Tasks are in tasks.js.

import { html, useEffect, useMemo, useRef, useState } from './vendor/htm-preact.js';
import { List } from './list.js';
import { Pages, all } from './rows.js';
import { go, refine, route, href } from './router.js';
import { useKeys } from './keys.js';
import { now, rate, sequence, store } from './store.js';
import { session } from './api.js';
import { Empty, JobLink, State, TaskLink, Trouble, jobBar, outcomeWord, useAnswer, sentence, Copy, troubles } from './widgets.js';
import { closeGate, killGraph, openGate, setGate } from './acts.js';
import { command, count, duration, line, moment, roughly } from './text.js';

const ago = time => time ? html`<span title=${moment(time)}>${roughly(now() - time)} ago</span>` : '–';
export const graphWord = graph => ({ RUNNING: 'running', SUCCEEDED: 'ok', FAILED: 'failed', KILLED: 'killed' })[graph.__STATUS__] ?? line(graph.__STATUS__);
export const left = job => {
    const speed = rate(job.__JOB__);
    return speed ? (job.__TOTAL__ - job.FINISHED) / speed : null;
};
const gateShape = { OPEN: '○', FULL: '◉', PACED: '◔', CLOSED: '⊘' };
const button = (name, act, danger) => session.mayChange && html`<button type="button" class="quiet ${danger ? 'danger' : ''}" tabindex="-1" onClick=${act}>${name}</button>`;

const SPECS = {
    jobs: {
        title: 'Jobs', type: 'JOB/DETAILS', noun: 'job', open: job => go('job', job.__JOB__), command: () => command('job'),
        columns: [
            { title: 'Job', width: 'minmax(9rem, 2fr)', narrow: 1, kind: 'grow', sort: 'name', by: job => job.__JOB__, cell: job => html`<${JobLink} name=${job.__JOB__} />` },
            { title: 'Progress', width: 'minmax(7rem, 1fr)', narrow: 1, cell: jobBar },
            { title: 'Finished', width: '9rem', kind: 'number', narrow: 2, unit: 'finished', sort: 'finished', by: job => job.FINISHED / job.__TOTAL__, cell: job => `${count(job.FINISHED)} of ${count(job.__TOTAL__)}` },
            { title: 'Failed', width: '10rem', kind: 'number', narrow: 2, sort: 'failed', by: job => job.FAILED + job.TIMED_OUT + job.LOST + job.SKIPPED, cell: job => troubles(job) && html`<span class="s-failed">✕ ${troubles(job)}</span>` },
            { title: 'Running', width: '5rem', from: 800, kind: 'number', sort: 'running', by: job => job.RUNNING, cell: job => count(job.RUNNING) },
            { title: 'Waiting', width: '5.5rem', from: 800, kind: 'number', sort: 'waiting', by: job => job.WAITING, cell: job => count(job.WAITING) },
            { title: 'Median run', width: '6.5rem', from: 1000, kind: 'number', sort: 'run', by: job => job.__RUN_P50__, cell: job => duration(job.__RUN_P50__) },
            { title: 'Time left', width: '6.5rem', from: 900, kind: 'number', cell: job => job.__END_TIME__ ? 'finished' : duration(left(job)) },
            { title: 'Submitted', width: '7rem', kind: 'number', narrow: 2, sort: 'submitted', by: job => job.__SUBMIT_TIME__, cell: job => ago(job.__SUBMIT_TIME__) },
        ],
        text: job => job.__JOB__, first: 'submitted',
    },
    graphs: {
        title: 'Graphs', type: 'GRAPH/DETAILS', noun: 'graph', kind: 'graph', open: graph => go('graph', graph.__GRAPH_ID__), command: () => command('graph', 'list'),
        columns: [
            { title: 'State', width: '7rem', narrow: 1, sort: 'state', by: graph => graph.__STATUS__, cell: graph => html`<${State} word=${graphWord(graph)} />` },
            { title: 'Name', width: 'minmax(9rem, 2fr)', narrow: 1, kind: 'grow', sort: 'name', by: graph => graph.__NAME__, cell: graph => html`<a href=${href('graph', graph.__GRAPH_ID__)}>${line(graph.__NAME__ || graph.__GRAPH_ID__, 80)}</a>` },
            { title: 'Steps', width: '8rem', kind: 'number', narrow: 2, unit: 'steps', cell: graph => `${count(graph.COMPLETED + graph.DEACTIVATED)} of ${count(graph.__TOTAL__)}` },
            { title: 'Why', width: 'minmax(8rem, 2fr)', narrow: 2, cell: graph => sentence(graph.__REASON__ ?? '') },
            { title: 'Submitted', width: '8rem', kind: 'number', narrow: 2, sort: 'submitted', by: graph => graph.__SUBMIT_TIME__, cell: graph => ago(graph.__SUBMIT_TIME__) },
            { title: 'Took', width: '7rem', from: 900, kind: 'number', cell: graph => duration((graph.__END_TIME__ ?? now()) - graph.__SUBMIT_TIME__) },
            { title: '', width: '5rem', cell: graph => graph.__STATUS__ === 'RUNNING' && button('Kill', () => killGraph(graph.__GRAPH_ID__, graph.__NAME__), true) },
        ],
        text: graph => `${graph.__NAME__ ?? ''} ${graph.__GRAPH_ID__} ${graph.__GIVEN_ID__ ?? ''}`, first: 'submitted',
    },
    gates: {
        title: 'Gates', type: 'GATE/QUERY', noun: 'gate', kind: 'gate', command: () => command('gate'),
        tools: () => session.mayChange && html`<button type="button" onClick=${() => setGate()}>New gate…</button>${store.head.__PAUSED_UNTIL__ ? html`<button type="button" onClick=${() => openGate('*')}>End the pause…</button>` : html`<button type="button" onClick=${() => closeGate('*')}>Pause the service…</button>`}`,
        columns: [
            { title: 'State', width: '7rem', narrow: 1, sort: 'state', by: gate => gate.__STATUS__, cell: gate => html`<${State} word=${gate.__STATUS__.toLowerCase()} shape=${gateShape[gate.__STATUS__]} />` },
            { title: 'Gate', width: 'minmax(8rem, 2fr)', narrow: 1, kind: 'grow', sort: 'name', by: gate => gate.__GATE__, cell: gate => line(gate.__GATE__, 80) },
            { title: 'Running', width: '8rem', kind: 'number', narrow: 2, unit: 'running', sort: 'running', by: gate => gate.__RUNNING__, cell: gate => gate.__MAX_RUNNING__ == null ? count(gate.__RUNNING__) : `${count(gate.__RUNNING__)} of ${count(gate.__MAX_RUNNING__)}` },
            { title: 'Starts', width: '9rem', from: 800, kind: 'number', cell: gate => gate.__MAX_STARTS__ == null ? '–' : `${count(gate.__MAX_STARTS__)} in ${duration(gate.__INTERVAL__)}` },
            { title: 'Waiting', width: '6rem', kind: 'number', narrow: 2, unit: 'waiting', sort: 'waiting', by: gate => gate.__WAITING__, cell: gate => html`<a href=${href('tasks', '', { state: 'waiting,held', gate: gate.__GATE__ })}>${count(gate.__WAITING__)}</a>` },
            { title: 'Closed until', width: '9rem', cell: gate => gate.__CLOSED_UNTIL__ ? moment(gate.__CLOSED_UNTIL__, now()) : '–' },
            { title: '', width: '9rem', narrow: 2, cell: gate => html`${gate.__GATE__ !== '*' && button('Set…', () => setGate(gate))} ${gate.__STATUS__ === 'CLOSED' ? button('Open…', () => openGate(gate.__GATE__, gate.__WAITING__)) : button('Close…', () => closeGate(gate.__GATE__, gate.__WAITING__))}` },
        ],
        text: gate => gate.__GATE__, first: 'waiting',
    },
    incidents: {
        title: 'Incidents', type: 'HISTORY/INCIDENTS', noun: 'incident', pages: true, kind: 'incident', command: () => command('incidents'),
        columns: [
            { title: 'When', width: '10rem', narrow: 1, cell: incident => moment(incident.__TIME__, now()) },
            { title: 'What', width: '11rem', narrow: 1, kind: 'grow', cell: incident => line(incident.__INCIDENT__).toLowerCase().replace(/_/g, ' ') },
            { title: 'Why', width: 'minmax(12rem, 5fr)', narrow: 2, cell: incident => sentence(incident.__REASON__ ?? '') },
            { title: 'More alike', width: '6rem', from: 900, kind: 'number', cell: incident => incident.__COUNT__ > 1 ? count(incident.__COUNT__) : '' },
        ],
    },
};

/** Finished rounds, which the history view lists below its map. */
export const ROUNDS = [
    { title: 'Ended', width: '10rem', narrow: 2, cell: round => moment(round.__END_TIME__, now()) },
    { title: 'Outcome', width: '8rem', narrow: 1, cell: round => html`<${State} word=${outcomeWord(round.__OUTCOME__)} />` },
    { title: 'Task', width: '5rem', narrow: 1, cell: round => html`<${TaskLink} id=${round.__TASK_ID__} />` },
    { title: 'What', width: 'minmax(10rem, 3fr)', narrow: 1, kind: 'grow', cell: round => line(round.__SHELL__ ?? round.__COMMAND__ ?? round.__OPERATION__) },
    { title: 'Job', width: 'minmax(5rem, 1fr)', narrow: 2, kind: 'grow', cell: round => round.__JOB__ ? html`<${JobLink} name=${round.__JOB__} />` : '–' },
    { title: 'Agent', width: 'minmax(5rem, 1fr)', from: 1000, cell: round => line(round.__AGENT_ID__ ?? '–') },
    { title: 'Exit', width: '3.5rem', kind: 'number', cell: round => round.__EXIT_CODE__ ?? '–' },
    { title: 'Waited', width: '7rem', from: 1000, kind: 'number', cell: round => duration(round.__WAITED_SECONDS__) },
    { title: 'Ran', width: '7rem', kind: 'number', narrow: 2, cell: round => duration(round.__RAN_SECONDS__) },
];

/** Pages of a request, begun again when its fields change, and read again when tasks change. */
export function usePages(type, fields, { live = true, kind = '' } = {}) {
    const key = JSON.stringify(fields);
    const [, draw] = useState(0);
    const pages = useMemo(() => new Pages(type, fields, () => draw(n => n + 1)), [type, key]);
    useEffect(() => () => pages.close(), [pages]);
    const seen = sequence(kind);
    useEffect(() => { if (live) pages.refresh(); }, [pages, seen]);
    return pages;
}

const array = (rows, at = new Map(rows.map((row, index) => [row.name, index]))) => ({ row: index => rows[index], place: id => at.get(id), need() {}, grown: 0 });

/** One of the lists in SPECS. */
export function ListView({ name }) {
    const spec = SPECS[name];
    return spec.pages ? html`<${Paged} key=${name} spec=${spec} />` : html`<${Whole} key=${name} spec=${spec} />`;
}

function Paged({ spec }) {
    const pages = usePages(spec.type, {}, { kind: spec.kind });
    return html`<${Frame} spec=${spec} total=${pages.total} error=${pages.error}><${List} label=${spec.title} rows=${pages} total=${pages.total ?? 0} columns=${spec.columns} onOpen=${spec.open} /></${Frame}>`;
}

function Whole({ spec }) {
    const { answer, error } = useAnswer(() => all(spec.type), spec.type, { kind: spec.kind });
    const text = (route.query.get('text') ?? '').toLowerCase();
    const [key, reverse] = [route.query.get('sort') ?? spec.first, route.query.get('reverse') === 'true'];
    const by = spec.columns.find(column => column.sort === key)?.by;
    const rows = useMemo(() => {
        const kept = (answer?.rows ?? []).filter(row => !text || String(spec.text(row)).toLowerCase().includes(text));
        const order = (a, b) => typeof a === 'number' || typeof b === 'number' ? (b ?? -1) - (a ?? -1) : String(a).localeCompare(String(b));
        return by ? kept.sort((a, b) => (reverse ? -1 : 1) * order(by(a), by(b))) : kept;
    }, [answer, text, key, reverse]);
    const onSort = next => refine({ sort: next === spec.first && reverse ? '' : next, reverse: next === key && !reverse });
    return html`<${Frame} spec=${spec} total=${answer?.total} shown=${rows.length} error=${error} filter>
        <${List} label=${spec.title} rows=${array(rows)} total=${rows.length} columns=${spec.columns} onOpen=${spec.open} sort=${key} onSort=${onSort} /></${Frame}>`;
}

function Frame({ spec, total, shown = total, error, filter, children }) {
    const input = useRef();
    useKeys({ '/': () => { if (!input.current) return false; input.current.focus(); input.current.select(); } });
    return html`<section class="fill" aria-labelledby="title">
        <header class="tools"><h1 id="title">${spec.title}</h1>
            ${filter && html`<input ref=${input} type="search" placeholder=${`Filter ${spec.title.toLowerCase()}  ( / )`} aria-label=${`Filter ${spec.title.toLowerCase()}`} value=${route.query.get('text') ?? ''} onInput=${event => refine({ text: event.target.value })} />`}
            <span class="dim">${total == null ? '' : shown < total ? `${count(shown)} of ${count(total)}` : `${count(total)}`}</span>
            ${spec.tools?.()}<${Copy} bare text=${spec.command()} /></header>
        ${error ? html`<${Trouble}>${line(error, 1000)}</${Trouble}>` : total === 0 ? html`<${Empty}>There is no ${spec.noun}.</${Empty}>` : children}
    </section>`;
}

// A step graph as a drawing with the live states of its steps.

import { html, useMemo } from './vendor/htm-preact.js';
import { ask, session } from './api.js';
import { all } from './rows.js';
import { Copy, State, TaskLink, Trouble, useAnswer, sentence } from './widgets.js';
import { graphWord } from './lists.js';
import { killGraph } from './acts.js';
import { refine, route } from './router.js';
import { now } from './store.js';
import { command, count, duration, line, moment, plural, short } from './text.js';

/** Steps that are drawn; a larger graph is a table only. */
const DRAWN_MAX = 300;
const BOX = { width: 168, height: 50, right: 56, below: 18 };

const SHAPES = { CREATED: '·', ACTIVATED: '○', PREPARING: '▷', PREPARED: '◌', RUNNING: '▶', COMPLETING: '◁', COMPLETED: '✓', DEACTIVATED: '↷' };
const KINDS = { CREATED: 'waiting', ACTIVATED: 'waiting', PREPARED: 'waiting', PREPARING: 'starting', RUNNING: 'running', COMPLETING: 'ending', COMPLETED: 'ok', DEACTIVATED: 'skipped' };

// When a graph has ended, its steps are switched off; what counts then is whether they had completed.
const stateOf = step => step.__STATE__ === 'DEACTIVATED' && step.__TIMES__?.COMPLETED ? 'COMPLETED' : step.__STATE__;

const sourcesOf = step => [...new Set(Object.values(step.__SOURCES__ ?? {}).flat().map(source => source.slice(0, source.lastIndexOf('.'))))];

/** Places of the steps: a step stands right of all its sources, and in its layer near them. Loops are cut where they are met. */
function layout(steps) {
    const byName = new Map(steps.map(step => [step.name, step]));
    const layers = new Map();
    const depth = (name, path) => {
        if (layers.has(name)) return layers.get(name);
        path.add(name);
        const above = sourcesOf(byName.get(name)).filter(source => byName.has(source) && !path.has(source)).map(source => depth(source, path));
        path.delete(name);
        const layer = above.length ? Math.max(...above) + 1 : 0;
        layers.set(name, layer);
        return layer;
    };
    for (const step of steps) depth(step.name, new Set());
    // An edge over several layers has a place of its own in each, so that it does not pass behind a step. Edges of one source share it.
    const columns = [];
    const add = (layer, name, sources, step) => (columns[layer] ??= []).push({ name, sources, step });
    const passed = new Set();
    const edges = [];
    for (const step of steps) {
        const to = layers.get(step.name);
        const near = sourcesOf(step).filter(source => byName.has(source)).map(source => {
            const way = [source];
            for (let layer = layers.get(source) + 1; layer < to; layer += 1) {
                const name = `${source}\0${layer}`;
                if (!passed.has(name)) add(layer, name, [way.at(-1)]);
                passed.add(name);
                way.push(name);
            }
            edges.push({ from: source, way: [...way, step.name] });
            return way.at(-1);
        });
        add(to, step.name, near, step);
    }
    const rows = new Map();
    const middle = ({ sources }) => sources.reduce((sum, source) => sum + (rows.get(source) ?? 0), 0) / Math.max(sources.length, 1);
    columns.forEach((column, layer) => {
        if (layer) column.sort((a, b) => middle(a) - middle(b));
        column.forEach(({ name }, row) => rows.set(name, row - (column.length - 1) / 2));
    });
    const tallest = Math.max(...columns.map(column => column.length), 1);
    const places = new Map(columns.flatMap((column, layer) => column.map(({ name, step }) =>
        [name, { x: layer * (BOX.width + BOX.right) + 4, y: (rows.get(name) + (tallest - 1) / 2) * (BOX.height + BOX.below) + 4, isStep: Boolean(step) }])));
    return { places, edges, width: columns.length * (BOX.width + BOX.right) - BOX.right + 8, height: tallest * (BOX.height + BOX.below) - BOX.below + 8 };
}

function path(way, places) {
    let drawn = '';
    way.slice(1).forEach((name, index) => {
        const [a, b] = [places.get(way[index]), places.get(name)];
        const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
        drawn += `${index ? '' : `M${x1} ${y1}`}C${x1 + 28} ${y1} ${x2 - 28} ${y2} ${x2} ${y2}${b.isStep ? '' : `H${x2 + BOX.width}`}`;
    });
    return drawn;
}

function Drawing({ steps, chosen }) {
    const shape = JSON.stringify(steps.map(step => [step.name, sourcesOf(step)]));
    const { places, edges, width, height } = useMemo(() => layout(steps), [shape]);
    const done = new Set(steps.filter(step => step.__STATE__ === 'COMPLETED').map(step => step.name));
    const choose = name => refine({ step: name });
    return html`<div class="drawing" tabindex="0" role="region" aria-label="Drawing of the steps"><svg width=${width} height=${height} viewBox="0 0 ${width} ${height}">
        ${edges.map(({ from, way }) => html`<path class="edge ${done.has(from) ? 'done' : ''}" d=${path(way, places)} />`)}
        ${steps.map(step => {
            const { x, y } = places.get(step.name);
            const kind = KINDS[step.__STATE__] ?? 'waiting';
            return html`<g key=${step.name} class="step s-${kind} ${chosen === step.name ? 'chosen' : ''}" transform="translate(${x} ${y})" role="button" tabindex="0" aria-label=${`${line(step.name, 60)}, ${step.__STATE__.toLowerCase()}, ${plural(step.__TOTAL__, 'task')}`}
                onClick=${() => choose(step.name)} onKeyDown=${event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); event.stopPropagation(); choose(step.name); } }}>
                <rect width=${BOX.width} height=${BOX.height} rx="6" /><text x="12" y="20" class="name">${line(step.name, 20)}</text>
                <text x="12" y="39" class="state">${SHAPES[step.__STATE__] ?? '•'} ${step.__STATE__.toLowerCase()}</text><text x=${BOX.width - 12} y="39" text-anchor="end" class="tasks">${step.__TOTAL__ ? plural(step.__TOTAL__, 'task') : ''}</text></g>`;
        })}</svg></div>`;
}

function Step({ step }) {
    const tasks = Object.entries(step.__TASKS__ ?? {});
    return html`<section class="card wide" aria-labelledby="step" aria-live="polite"><h2 id="step">${line(step.name, 100)} <${State} word=${step.__STATE__.toLowerCase()} shape=${SHAPES[step.__STATE__]} /></h2>
        ${step.__WHY__ && html`<p>${sentence(step.__WHY__)}</p>`}
        ${tasks.map(([phase, ids]) => html`<p key=${phase}><b>${phase.toLowerCase()} ${count(ids.length)}:</b> ${ids.slice(0, 60).map(id => html`<${TaskLink} id=${id} /> `)}${ids.length > 60 && `and ${count(ids.length - 60)} more`}</p>`)}
        <p class="dim">${Object.entries(step.__TIMES__ ?? {}).map(([state, time]) => `${state.toLowerCase()} ${moment(time, now())}`).join(' · ')}</p></section>`;
}

export function Graph({ id }) {
    const { answer, error } = useAnswer(async () => {
        const [graph, steps] = await Promise.all([ask('GRAPH/QUERY', { __GRAPH_ID__: id }), all('GRAPH/DETAILS', { __GRAPH_ID__: id })]);
        return { graph, steps: steps.rows.map(step => ({ ...step, __STATE__: stateOf(step) })) };
    }, id, { kind: 'graph' });
    if (error) return html`<div class="page"><h1>Graph ${short(id)}</h1><${Trouble}>${line(error, 1000)}</${Trouble}></div>`;
    if (!answer) return html`<div class="page"><h1>Graph ${short(id)}</h1><p class="dim">Loading…</p></div>`;
    const { graph, steps } = answer;
    const chosen = steps.find(step => step.name === route.query.get('step'));
    return html`<article class="page"><header class="tools"><h1 id="title">${line(graph.__NAME__ || short(id), 100)}</h1>${session.mayChange && graph.__STATUS__ === 'RUNNING' && html`<button type="button" class="danger" onClick=${() => killGraph(id, graph.__NAME__)}>Kill…</button>`}
        <span role="status"><${State} word=${graphWord(graph)} /></span>
        <span class="dim">${count(graph.COMPLETED + graph.DEACTIVATED)} of ${count(graph.__TOTAL__)} steps · ${duration((graph.__END_TIME__ ?? now()) - graph.__SUBMIT_TIME__)}</span>
        <${Copy} bare text=${command('graph', 'show', id)} /></header>
        ${graph.__REASON__ && html`<p class="why">${sentence(graph.__REASON__)}</p>`}
        ${steps.length <= DRAWN_MAX ? html`<${Drawing} steps=${steps} chosen=${chosen?.name} />` : html`<p class="dim">${count(steps.length)} steps are too many for a drawing.</p>`}
        <div class="cards">${chosen && html`<${Step} step=${chosen} />`}
        <section class="card wide" aria-labelledby="steps"><h2 id="steps">Steps</h2><div class="scroll" tabindex="0" role="region" aria-label="Table of steps"><table class="plain wide-table"><thead><tr><th>Step</th><th>State</th><th>Tasks</th><th>What keeps it</th></tr></thead>
            <tbody>${steps.slice(0, 1000).map(step => html`<tr key=${step.name}><td><button type="button" class="link" onClick=${() => refine({ step: step.name })}>${line(step.name, 60)}</button></td><td><${State} word=${step.__STATE__.toLowerCase()} shape=${SHAPES[step.__STATE__]} /></td><td class="num">${count(step.__TOTAL__)}</td><td>${sentence(step.__WHY__ ?? '')}</td></tr>`)}</tbody></table></div></section></div></article>`;
}

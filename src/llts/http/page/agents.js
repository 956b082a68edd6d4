// The agents as a grid by host: what each one does, and for how long. Lost ones are shown only when asked for.

import { html } from './vendor/htm-preact.js';
import { ask, entries, session } from './api.js';
import { all } from './rows.js';
import { Copy, Empty, State, TaskLink, Trouble, useAnswer } from './widgets.js';
import { drain } from './acts.js';
import { href, refine, route } from './router.js';
import { now } from './store.js';
import { command, count, line, plural, roughly } from './text.js';

/** Agents that are drawn; more of them belong into a filter. */
const SHOWN_MAX = 1000;
const SHAPES = { busy: '●', free: '○', lost: '✕', drained: '◐' };

const wordOf = agent => agent.__AGENT_STATUS__ === 'LOST' ? 'lost' : agent.__AGENT_STATUS__ === 'FREE' && agent.__DRAINED__ ? 'drained' : agent.__AGENT_STATUS__.toLowerCase();
/** Agents of one machine have its address, and names that begin alike. */
const hostOf = agent => {
    const name = /^(.*)[-.]\d+$/.exec(agent.__AGENT_ID__)?.[1] ?? agent.__AGENT_ID__;
    return `${name} (${agent.__AGENT_IP__ ?? 'no address'})`;
};

function Agent({ agent, task }) {
    const word = wordOf(agent);
    const id = agent.__AGENT_ID__;
    return html`<li class="agent a-${word}"><span class="one-line"><b class="grow cut" title=${line(id)}>${line(id, 60)}</b><${State} word=${word} shape=${SHAPES[word]} />${agent.__DRAINED__ && word !== 'drained' && html`<span class="tag">◐ drains</span>`}</span>
        ${agent.__TASK_ID__ ? html`<span class="one-line"><${TaskLink} id=${agent.__TASK_ID__} /><span class="cut grow mono small">${line(task?.__WHAT__ ?? '', 100)}</span><span class="num dim">${task?.__RUN_TIME__ ? roughly(now() - task.__RUN_TIME__) : ''}</span></span>`
        : html`<span class="dim small">${word === 'lost' ? `heard ${roughly(now() - agent.__HEARD_TIME__)} ago` : 'no task'}</span>`}
        <span class="dim small cut">${[agent.__PROGRAM_VERSION__ && `version ${line(agent.__PROGRAM_VERSION__, 30)}`, agent.__TAGS__ && `tags ${line(agent.__TAGS__, 100)}`, agent.__WARM__ && `warm ${line(agent.__WARM__, 100)}`].filter(Boolean).join(' · ')}</span>
        <span class="act"><a href=${href('tasks', '', { agent: id })} aria-label=${`Tasks of ${line(id, 60)}`}>Tasks</a>${session.mayChange && html`<button type="button" class="quiet" aria-label=${`${agent.__DRAINED__ ? 'Undrain' : 'Drain'} ${line(id, 60)}`} onClick=${() => drain(id, agent.__DRAINED__)}>${agent.__DRAINED__ ? 'Undrain…' : 'Drain…'}</button>`}</span></li>`;
}

export function Agents() {
    const { answer, error } = useAnswer(async () => {
        const [agents, running] = await Promise.all([all('AGENT/DETAILS'), ask('TASK/ROWS', { __STATES__: 'running,starting,ending', __LIMIT__: 1000 })]);
        return { agents: agents.rows, tasks: new Map(entries(running).map(([id, task]) => [id, task])) };
    }, 'agents', { kind: 'agents' });
    const text = (route.query.get('text') ?? '').toLowerCase();
    const withLost = route.query.get('lost') === 'true';
    const known = answer?.agents ?? [];
    const lost = known.filter(agent => wordOf(agent) === 'lost').length;
    const matching = known.filter(agent => (withLost || wordOf(agent) !== 'lost') && (!text || JSON.stringify(agent).toLowerCase().includes(text)));
    const hosts = new Map();
    for (const agent of matching.slice(0, SHOWN_MAX)) {
        const host = hostOf(agent);
        if (!hosts.has(host)) hosts.set(host, []);
        hosts.get(host).push(agent);
    }
    const busy = list => list.filter(agent => wordOf(agent) === 'busy').length;
    return html`<div class="page"><header class="tools"><h1 id="title">Agents</h1>
        <input type="search" id="filter" placeholder="Filter agents  ( / )" aria-label="Filter agents" value=${route.query.get('text') ?? ''} onInput=${event => refine({ text: event.target.value })} />
        <label class="check"><input type="checkbox" checked=${withLost} onChange=${event => refine({ lost: event.target.checked ? 'true' : '' })} />show lost (${count(lost)})</label>
        <span class="dim">${answer ? plural(matching.length, 'agent') : ''}</span><${Copy} bare text=${command('agents')} /></header>
        ${error && html`<${Trouble}>${line(error, 1000)}</${Trouble}>`}
        ${answer && !matching.length && html`<${Empty}>${known.length ? 'No agent matches.' : html`There is no agent. <code>llts up --add 1</code> starts one.`}</${Empty}>`}
        ${[...hosts].map(([host, list]) => html`<section key=${host} aria-label=${line(host, 100)}><h2 class="host">${line(host, 100)} <span class="dim">${count(busy(list))} of ${count(list.length)} busy</span></h2>
            <ul class="agents">${list.map(agent => html`<${Agent} key=${agent.__AGENT_ID__} agent=${agent} task=${answer.tasks.get(agent.__TASK_ID__)} />`)}</ul></section>`)}
        ${matching.length > SHOWN_MAX && html`<p class="dim">${count(SHOWN_MAX)} of ${count(matching.length)} are shown; filter for the others.</p>`}</div>`;
}

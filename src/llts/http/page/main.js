// The page: its frame, the choice of the view, and the keys that work everywhere.

import { html, render, useEffect, useErrorBoundary, useState } from './vendor/htm-preact.js';
import { closeSession, session } from './api.js';
import { follow, now, part, restart, store, subscribe } from './store.js';
import { back, go, href, read, route } from './router.js';
import { Dialogs, Help } from './dialog.js';
import { useKeys } from './keys.js';
import { Agents } from './agents.js';
import { Beside } from './beside.js';
import { Graph } from './graph.js';
import { History } from './history.js';
import { ListView, left } from './lists.js';
import { Overview } from './overview.js';
import { Task } from './task.js';
import { Tasks } from './tasks.js';
import { Copy, State, Trouble, jobBar, troubles, useAnswer } from './widgets.js';
import { ask } from './api.js';
import { actOnJob } from './acts.js';
import { command, count, duration, line, moment } from './text.js';

const VIEWS = [['overview', 'Overview', 'o'], ['tasks', 'Tasks', 't'], ['jobs', 'Jobs', 'j'], ['agents', 'Agents', 'a'], ['graphs', 'Graphs', 'g'], ['gates', 'Gates', 'l'], ['incidents', 'Incidents', 'i'], ['history', 'History', 'h'],
    ['prompts', 'Prompts', 'p'], ['lists', 'Lists', 's'], ['tdf', 'TDF', 'd']];

function Job({ name }) {
    const { answer: job, error } = useAnswer(() => ask('JOB/QUERY', { __JOB__: name }), name);
    const open = job ? job.__TOTAL__ - job.FINISHED : 0;
    // The buttons keep their places, before all that grows, so that none moves under the pointer.
    const acts = job && session.mayChange ? [['retry', job.FINISHED - job.SUCCEEDED - job.KILLED], ['kill', open], ['hold', job.WAITING], ['release', job.WAITING]] : [];
    return html`<section class="fill" aria-labelledby="job-title"><header class="tools"><h1 id="job-title">${line(name, 100)}</h1>
        ${acts.map(([act, number]) => html`<button type="button" class=${act === 'kill' ? 'danger' : ''} disabled=${number <= 0} onClick=${() => actOnJob(act, name, number)}>${{ retry: 'Retry job…', kill: 'Kill job…', hold: 'Hold job…', release: 'Release job…' }[act]}</button>`)}
        ${job && html`${jobBar(job)}<span role="status">${count(job.FINISHED)} of ${count(job.__TOTAL__)} finished${troubles(job) && html`, <span class="s-failed">✕ ${troubles(job)}</span>`}</span>
            <span class="dim">${[job.__RUN_P50__ != null && `median run ${duration(job.__RUN_P50__)}`, left(job) != null && open && `${duration(left(job))} left`, job.__END_TIME__ && `ended ${moment(job.__END_TIME__, now())}`].filter(Boolean).join(' · ')}</span>`}
        <${Copy} bare text=${command('job', name)} /></header>
        ${error ? html`<${Trouble}>${line(error, 1000)}</${Trouble}>` : html`${job?.__REASON__ && html`<p class="trouble">${line(job.__REASON__, 1000)}</p>`}<${Tasks} key=${name} job=${name} />`}</section>`;
}

function View() {
    const [error, reset] = useErrorBoundary();
    useEffect(() => { if (error) console.error(error); }, [error]);
    if (error) return html`<div class="page"><${Trouble}>This view has failed: ${line(error.message)}. <button type="button" onClick=${reset}>Try again</button></${Trouble}></div>`;
    switch (route.view) {
    case 'overview': return html`<${Overview} />`;
    case 'tasks': return html`<${Tasks} key="tasks" />`;
    case 'task': return html`<${Task} key=${route.id} id=${route.id} />`;
    case 'job': return html`<${Job} key=${route.id} name=${route.id} />`;
    case 'agents': return html`<${Agents} />`;
    case 'graph': return html`<${Graph} key=${route.id} id=${route.id} />`;
    case 'history': return html`<${History} />`;
    case 'prompts': case 'lists': case 'tdf': return html`<${Beside} key=${route.view} name=${route.view} />`;
    case 'jobs': case 'graphs': case 'gates': case 'incidents': return html`<${ListView} key=${route.view} name=${route.view} />`;
    default: return html`<div class="page"><${Trouble}>There is no view ${line(route.view)}. <a href="#/">Overview</a></${Trouble}></div>`;
    }
}

/** How the page and the controller are connected, in words; lost, it says since when. */
function Link() {
    if (store.link === 'live') return html`<${State} word="live" shape="●" />`;
    if (store.link === 'lost') return html`<${State} word="no connection" shape="✕" />`;
    return html`<span class="dim">${store.link === 'token' ? 'no access' : 'connecting…'}</span>`;
}

function Banner() {
    return html`<div aria-live="polite">
        ${store.link === 'lost' && html`<p class="banner bad"><span aria-hidden="true">⚠ </span>The controller does not answer${store.lostSince ? ` since ${moment(store.lostSince)}; what is shown is from then` : ''}. The page tries again by itself.</p>`}
        ${store.link === 'token' && html`<p class="banner bad"><span aria-hidden="true">⚠ </span>${line(session.refusal || store.trouble || 'This page needs the token of the service', 300).replace(/:.*$/, '').replace(/\.$/, '')}. Type <code>llts open</code> in a terminal: it opens this page with the right to see and act.</p>`}
        ${store.link !== 'token' && session.refusal && html`<p class="banner bad"><span aria-hidden="true">⚠ </span>${line(session.refusal, 300).replace(/:.*$/, '').replace(/\.$/, '')}. Type <code>llts open</code> in a terminal: it opens this page with the right token.</p>`}</div>`;
}

const THEMES = { '': 'system', light: 'light', dark: 'dark' };
function Theme() {
    const [theme, set] = useState(document.documentElement.dataset.theme ?? '');
    const next = Object.keys(THEMES)[(Object.keys(THEMES).indexOf(theme) + 1) % 3];
    const change = () => {
        if (next) { localStorage.setItem('llts-theme', next); document.documentElement.dataset.theme = next; } else { localStorage.removeItem('llts-theme'); delete document.documentElement.dataset.theme; }
        set(next);
    };
    return html`<button type="button" class="quiet" onClick=${change} title="Light, dark, or as the system" aria-label=${`Theme: ${THEMES[theme]}`}><span aria-hidden="true">◐</span> ${THEMES[theme]}</button>`;
}

function App() {
    const [, draw] = useState(0);
    const [help, setHelp] = useState(false);
    useEffect(() => subscribe(() => draw(n => n + 1)), []);
    // Times that run on are drawn each second, and only while somebody can see them.
    useEffect(() => { const timer = setInterval(() => { if (!document.hidden) draw(n => n + 1); }, 1000); return () => clearInterval(timer); }, []);
    const parents = { task: 'tasks', job: 'jobs', graph: 'graphs' };
    useKeys({
        '?': () => setHelp(true),
        Escape: () => { if (parents[route.view]) { back(parents[route.view]); } },
        '/': () => { const input = document.querySelector('main input[type=search]'); if (!input) return false; input.focus(); input.select(); },
        ...Object.fromEntries(VIEWS.map(([view, , key]) => [`g ${key}`, () => go(view)])),
    });
    const here = parents[route.view] ?? route.view;
    const problems = [...store.parts.keys()].filter(name => name.startsWith('problem ')).length;
    const title = route.id ? route.id.split('_').pop() : VIEWS.find(([view]) => view === route.view)?.[1] ?? '';
    useEffect(() => { document.title = `${problems ? `(${problems}) ` : ''}${line(title, 60)} – llts`; });
    useEffect(() => {
        document.querySelector('main')?.focus({ preventScroll: true });
        document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    }, [route.view, route.id]);
    return html`<a class="skip" href="#main" onClick=${event => { event.preventDefault(); document.querySelector('main').focus(); }}>To the content</a>
        <header class="top"><a class="brand" href="#/"><img src="/page/icon.svg" alt="" width="18" height="18" />llts</a>
            <nav aria-label="Views">${VIEWS.map(([view, name]) => html`<a href=${view === 'overview' ? '#/' : href(view)} aria-current=${here === view ? 'page' : undefined}>${name}${view === 'overview' && problems ? html` <b class="badge" title="problems">${problems}<span class="hide"> problems</span></b>` : ''}</a>`)}</nav>
            <span class="status"><${Link} />${session.mayChange ? html`<button type="button" class="quiet" title="Forgets the right to act in this browser" onClick=${() => closeSession().then(restart)}>Sign out</button>` : html`<span class="dim" title="llts open hands over the right to act">read only</span>`}<${Theme} /><button type="button" class="quiet" onClick=${() => setHelp(true)} aria-label="Keys"><span aria-hidden="true">?</span></button></span></header>
        <${Banner} />
        <main tabindex="-1" id="main">${part('states') || store.link === 'lost' ? html`<${View} key=${`${route.view} ${route.id}`} />` : html`<div class="page">${store.link === 'token' ? '' : html`<p class="dim">Connecting…</p>`}</div>`}</main>
        ${help && html`<${Help} close=${() => setHelp(false)} />`}<${Dialogs} />`;
}

addEventListener('hashchange', () => {
    // A new token in the address of an open page begins a new session.
    if (location.hash.startsWith('#token=')) restart();
    read();
});
const root = document.getElementById('app');
root.textContent = '';
read();
render(html`<${App} />`, root);
follow();

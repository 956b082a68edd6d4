// The tasks: a filter as one types, a list of any length, and acts on what is selected. A job shows the same list with its name fixed.

import { html, useEffect, useRef, useState } from './vendor/htm-preact.js';
import { List } from './list.js';
import { usePages } from './lists.js';
import { ask, session } from './api.js';
import { go, href, refine, route } from './router.js';
import { useKeys } from './keys.js';
import { now, part, parts } from './store.js';
import { Copy, Empty, FAILURES, JobLink, OPEN, STATES, State, TaskLink, Trouble, stateOf, useAnswer, sentence } from './widgets.js';
import { ACTS, actOnMatches, actOnTasks } from './acts.js';
import { command, count, duration, line, moment, plural, roughly } from './text.js';
import { say } from './dialog.js';

const SORTS = { submitted: 'newest first', ended: 'last ended first', ran: 'longest run first', waited: 'longest wait first' };

const ranFor = task => task.__RUN_TIME__ ? (task.__END_TIME__ ?? now()) - task.__RUN_TIME__ : null;
const isLong = task => task.__USUAL__ && task.__STATUS__ === 'RUNNING' && ranFor(task) > 3 * task.__USUAL__;
const endOf = task => task.__FINISH_TIME__ ?? task.__END_TIME__;

const COLUMNS = {
    state: { title: 'State', width: '7.25rem', narrow: 1, cell: task => html`<${State} word=${stateOf(task)} />` },
    id: { title: 'Task', width: '4.25rem', narrow: 1, cell: task => html`<${TaskLink} id=${task.__TASK_ID__} />` },
    what: { title: 'What', width: 'minmax(9rem, 3fr)', narrow: 1, kind: 'grow', cell: task => html`<span title=${line(task.__WHAT__, 1000)}>${line(task.__WHAT__)}</span>` },
    why: { title: 'Why', width: 'minmax(7rem, 3fr)', narrow: 2, kind: 'grow', cell: task => task.__WHY__ ? html`<span title=${line(task.__WHY__, 1000)}>${sentence(task.__WHY__)}</span>` : '' },
    job: { title: 'Job', width: 'minmax(5rem, 1fr)', from: 900, cell: task => task.__JOB__ ? html`<${JobLink} name=${task.__JOB__} />` : '' },
    exit: { title: 'Exit', width: '3.25rem', kind: 'number', cell: task => task.__EXIT_CODE__ ?? '' },
    round: { title: 'Round', width: '3.75rem', from: 1450, kind: 'number', cell: task => task.__ROUND__ || '' },
    ran: { title: 'Ran', width: '7rem', kind: 'number', narrow: 2, sort: 'ran', cell: task => { const ran = ranFor(task); return ran == null ? '' : isLong(task) ? html`<span class="s-timed-out" title=${`usually at most ${duration(task.__USUAL__)}`}>long ${duration(ran)}</span>` : duration(ran); } },
    waited: { title: 'Waited', width: '6.5rem', from: 1450, kind: 'number', sort: 'waited', cell: task => duration((task.__DISPATCH_TIME__ ?? endOf(task) ?? now()) - task.__SUBMIT_TIME__) },
    when: { title: 'Submitted', width: '7rem', kind: 'number', narrow: 2, sort: 'submitted', cell: task => html`<span title=${moment(task.__SUBMIT_TIME__)}>${roughly(now() - task.__SUBMIT_TIME__)} ago</span>` },
    ended: { title: 'Ended', width: '7rem', from: 1300, kind: 'number', sort: 'ended', cell: task => endOf(task) ? html`<span title=${moment(endOf(task))}>${roughly(now() - endOf(task))} ago</span>` : '' },
    agent: { title: 'Agent', width: 'minmax(5rem, 1fr)', from: 1000, cell: task => task.__AGENT_ID__ ? html`<a href=${href('tasks', '', { agent: task.__AGENT_ID__ })}>${line(task.__AGENT_ID__, 60)}</a>` : '' },
};
const ORDER = ['state', 'id', 'what', 'why', 'job', 'exit', 'round', 'ran', 'waited', 'when', 'ended', 'agent'];

/** Fields that links of other views filter by, and that have no input here. */
const FURTHER = { gate: '__GATE__', parent: '__FATHER_ID__', letters: '__LETTERS__' };

/** What the address says about the tasks: the fields of TASK/ROWS, and the words of `llts list`. */
function chosen(fixed) {
    const query = route.query;
    const states = (query.get('state') ?? '').split(',').map(word => word.replace('-', ' ')).filter(word => STATES[word]);
    const fields = {};
    const words = [];
    const put = (field, value, option) => { if (value) { fields[field] = value; words.push(option, value); } };
    put('__TEXT__', query.get('text'), '--text');
    put('__JOB__', fixed.job ?? query.get('job'), '--job');
    put('__AGENT_ID__', query.get('agent'), '--agent');
    put('__OPERATION__', query.get('tool'), '--tool');
    for (const [name, field] of Object.entries(FURTHER)) {
        const value = query.get(name);
        if (!value) continue;
        fields[field] = value;
        words.push(...(name === 'letters' ? [value] : ['--where', `${field}=${value}`]));
    }
    if (query.get('longer') === 'true') { fields.__LONGER__ = true; words.push('--longer'); }
    const sort = SORTS[query.get('sort')] ? query.get('sort') : 'submitted';
    const reverse = query.get('reverse') === 'true';
    return { states, fields, words, sort, reverse };
}

const hyphens = states => states.map(state => state.replace(' ', '-')).join(',');

export function Tasks({ job }) {
    const { states, fields, words, sort, reverse } = chosen({ job });
    const [typed, setTyped] = useState(null);
    const [selection, onSelect] = useState({ ids: new Map(), all: false });
    const input = useRef();
    const timer = useRef();
    const matched = { ...fields, ...(states.length && { __STATES__: hyphens(states) }) };
    const pages = usePages('TASK/ROWS', { ...matched, ...(sort !== 'submitted' && { __SORT__: sort }), ...(reverse && { __REVERSE__: true }) });
    const total = pages.total;

    // Another filter is another list: what was selected may not be in it.
    const key = JSON.stringify(matched);
    useEffect(() => onSelect({ ids: new Map(), all: false }), [key]);

    // The counts beside the words for states are those without the choice of states; without any filter the view has them.
    const isPlain = !Object.keys(fields).length;
    const isOwn = isPlain || !states.length;
    const other = useAnswer(async () => isOwn ? null : ask('TASK/ROWS', { ...fields, __LIMIT__: 0 }), isOwn ? '' : JSON.stringify(fields));
    const counts = (isPlain ? part('states') : states.length ? other.answer : pages.counts) ?? {};

    const type = text => {
        setTyped(text);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => settle(text), 150);
    };
    const settle = text => {
        clearTimeout(timer.current);
        setTyped(null);
        if (text !== (route.query.get('text') ?? '')) refine({ text });
    };
    const chooseState = state => refine({ state: hyphens(states.includes(state) ? states.filter(each => each !== state) : [...states, state]) });
    const clear = () => refine({ state: '', text: '', job: '', agent: '', tool: '', longer: '', gate: '', parent: '', letters: '' });
    const selected = selection.all ? total ?? 0 : selection.ids.size;
    const act = (name, row) => {
        if (selection.all) return actOnMatches(name, matched, pages.counts);
        const tasks = selection.ids.size ? [...selection.ids.values()].map(each => pages.row(pages.place(each.name)) ?? each) : row ? [row] : [];
        return tasks.length ? actOnTasks(name, tasks) : undefined;
    };
    const copied = () => selection.all || !selection.ids.size
        ? command('list', ...(states.length ? ['--state', hyphens(states)] : []), ...words, ...(sort !== 'submitted' ? ['--sort', sort] : []), ...(reverse ? ['--reverse'] : []))
        : command('list', ...selection.ids.keys());
    const actKeys = session.mayChange ? Object.fromEntries(Object.entries(ACTS).map(([name, { key: letter }]) => [letter, row => void act(name, row)])) : {};
    useKeys({
        '/': () => { input.current.focus(); input.current.select(); },
        Escape: () => { if (selected) onSelect({ ids: new Map(), all: false }); else if (words.length > (job ? 2 : 0) || states.length) clear(); else return false; },
        '*': () => onSelect({ ids: new Map(), all: !selection.all }),
    });
    const columns = ORDER.filter(name => !(name === 'job' && job)).map(name => ({ ...COLUMNS[name], reversed: reverse }));
    const chip = state => html`<button type="button" class="chip s-${state.replace(' ', '-')}" aria-pressed=${states.includes(state) ? 'true' : 'false'} onClick=${() => chooseState(state)}>
        <span class="shape" aria-hidden="true">${STATES[state]}</span>${state} <b>${count(counts[state] ?? 0)}</b></button>`;
    const isFiltered = states.length || words.length > (job ? 2 : 0);
    const field = (name, label) => html`<input type="text" class="short" aria-label=${label} placeholder=${label} value=${route.query.get(name) ?? ''} list=${name === 'job' ? 'jobs' : undefined} onChange=${event => refine({ [name]: event.target.value.trim() })} />`;
    return html`<section class="fill" aria-labelledby=${job ? 'job-title' : 'title'}>
        <header class="tools">${!job && html`<h1 id="title">Tasks</h1>`}
            <input ref=${input} type="search" placeholder="Filter by text  ( / )" aria-label="Filter by text" value=${typed ?? route.query.get('text') ?? ''} onInput=${event => type(event.target.value)} onChange=${event => settle(event.target.value)} />
            ${!job && field('job', 'Job')}${field('agent', 'Agent')}
            <label class="check"><input type="checkbox" checked=${route.query.get('longer') === 'true'} onChange=${event => refine({ longer: event.target.checked ? 'true' : '' })} />longer than usual</label>
            <select aria-label="Order" value=${sort} onChange=${event => refine({ sort: event.target.value === 'submitted' ? '' : event.target.value, reverse: '' })}>${Object.entries(SORTS).map(([word, name]) => html`<option value=${word} selected=${word === sort}>${name}</option>`)}</select>
            ${['tool', ...Object.keys(FURTHER)].filter(each => route.query.get(each)).map(each => html`<button type="button" class="chip" aria-pressed="true" onClick=${() => refine({ [each]: '' })}>${each} ${line(route.query.get(each), 40)} <span aria-hidden="true">×</span></button>`)}
            ${isFiltered && html`<button type="button" class="quiet" onClick=${clear}>Clear</button>`}
            <datalist id="jobs">${parts('job').slice(0, 100).map(([name]) => html`<option value=${name} />`)}</datalist>
        </header>
        <div class="chips" role="group" aria-label="States">${Object.keys(STATES).filter(state => (counts[state] ?? 0) > 0 || states.includes(state) || FAILURES.includes(state) || OPEN.slice(0, 1).includes(state)).map(chip)}</div>
        <div class="tools acts"><span class="sum" role=${selected ? 'status' : undefined}>${selected ? html`<b>${count(selected)}</b> of ${count(total)} selected` : total == null ? '' : plural(total, 'task')}</span>
            ${selected > 0 && session.mayChange && Object.entries(ACTS).map(([name, { name: word, danger }]) => html`<button type="button" class=${danger ? 'danger' : ''} onClick=${() => act(name)}>${word}…</button>`)}
            ${selected > 0 && html`<button type="button" class="quiet" onClick=${() => onSelect({ ids: new Map(), all: false })}>Select none</button>`}
            ${selected > 0 && !selection.all && selected < total && html`<button type="button" class="quiet" onClick=${() => onSelect({ ids: new Map(), all: true })}>Select all ${count(total)} that match</button>`}
            <${Copy} bare text=${copied()} /></div>
        ${pages.error && html`<${Trouble}>${line(pages.error, 1000)}</${Trouble}>`}
        ${total === 0 ? html`<${Empty}>${isFiltered ? 'No task matches.' : html`No task yet. <code>llts run -- echo hello</code> makes one.`}</${Empty}>`
        : html`<${List} label="Tasks" rows=${pages} total=${total ?? 0} columns=${columns} selection=${selection} onSelect=${onSelect} onOpen=${task => go('task', task.__TASK_ID__)}
            sort=${sort} onSort=${next => refine({ sort: next === 'submitted' ? '' : next, reverse: next === sort && !reverse ? 'true' : '' })}
            keys=${{ ...actKeys, c: () => { const text = copied(); navigator.clipboard?.writeText(text).then(() => say(`Copied: ${line(text, 100)}`), () => say('The browser does not allow it.', 'bad')); } }} />`}
    </section>`;
}

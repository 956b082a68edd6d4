// The overview: what is wrong first, then how much there is, how fast it goes, what waits for what, and which failures are alike.

import { html, useMemo } from './vendor/htm-preact.js';
import { ask, entries, session } from './api.js';
import { Copy, Empty, FAILURES, JobLink, Spark, State, TaskLink, jobBar, stateOf, troubles, useAnswer, sentence } from './widgets.js';
import { idsOf, openGate, retryIds } from './acts.js';
import { say } from './dialog.js';
import { href } from './router.js';
import { left } from './lists.js';
import { now, part, parts, rate, store } from './store.js';
import { command, count, duration, line, moment, pattern, plural, roughly } from './text.js';

/** The failures that are read to find patterns, the newest first. */
const FAILURES_MAX = 1000;
const FAILED = { __STATES__: [...FAILURES, 'skipped'].join(','), __SORT__: 'ended' };

/** The rule of src/llts/cli/failures.rs. */
const likeness = task => [task.__OUTCOME__, task.__EXIT_CODE__ ?? '', pattern(String(task.__WHY__ ?? '').trim())].join('\n');

function patterns(tasks) {
    const groups = new Map();
    for (const task of tasks) {
        const key = likeness(task);
        const group = groups.get(key);
        if (group) {
            group.tasks.push(task);
            if (group.why !== task.__WHY__) group.differ = true;
        } else groups.set(key, { key, newest: task, why: task.__WHY__, tasks: [task], differ: false });
    }
    return [...groups.values()];
}

async function retryAlike(group) {
    let ids = group.tasks.map(task => task.__TASK_ID__);
    if (group.more) {
        // Older ones may be alike too: the number in the question is that of all.
        say('Counting…', 'done', true);
        try {
            ids = await idsOf(FAILED, row => likeness(row) === group.key);
        } catch (error) {
            return say(line(error.message), 'bad');
        }
        say('');
    }
    return retryIds(ids);
}

const Tile = ({ name, value, note, to }) => html`<a class="tile" href=${to}><span class="dim">${name}</span><b>${value}</b>${note && html`<span class="dim small">${note}</span>`}</a>`;

/** The view that shows what the command of a problem shows, if there is one. */
function viewOf(hint) {
    const [, verb, word] = /^llts (\w+)(?: (\w+))?$/.exec(hint ?? '') ?? [];
    if (verb === 'agents') return href('agents', '', { lost: true });
    if (verb === 'incidents') return href('incidents');
    return (verb === 'explain' || verb === 'show') && word ? href('tasks', '', { letters: word }) : null;
}

/** The view that a problem is about: its task, or the one that its command shows. */
const target = problem => problem.__TASK_ID__ ? href('task', problem.__TASK_ID__) : viewOf(problem.__HINT__);

function Problems() {
    const problems = parts('problem').sort(([a], [b]) => a - b);
    return html`<section class="card wide problems" aria-labelledby="problems"><h2 id="problems">${problems.length ? plural(problems.length, 'problem') : 'Problems'}</h2>
        <p class="hide" aria-live="polite">${problems.map(([, problem]) => line(problem.__WHAT__)).join('. ')}</p>
        ${problems.length ? html`<ul class="plain">${problems.map(([name, problem]) => html`<li key=${name}><span class="shape s-failed" aria-hidden="true">⚠</span>
            <div><b>${target(problem) ? html`<a href=${target(problem)}>${sentence(problem.__WHAT__)}</a>` : sentence(problem.__WHAT__)}</b>${problem.__SINCE__ && html` <span class="dim">for ${roughly(now() - problem.__SINCE__)}</span>`}
            ${problem.__HINT__ && html`<div><${Copy} text=${problem.__HINT__} label="Copy" /></div>`}</div></li>`)}</ul>`
        : html`<p><span class="s-ok" aria-hidden="true">✓ </span>Nothing is wrong.</p>`}</section>`;
}

function Counts() {
    const states = part('states') ?? {};
    const agents = part('agents') ?? {};
    const { head } = store;
    return html`<section class="wide tiles" aria-label="Counts">
        <${Tile} name="Running" value=${count(states.running)} to=${href('tasks', '', { state: 'running' })} note=${`${count((states.starting ?? 0) + (states.ending ?? 0))} starting or ending`} />
        <${Tile} name="Waiting" value=${count(states.waiting)} to=${href('tasks', '', { state: 'waiting' })} note=${head.__OLDEST_TIME__ ? `oldest ${roughly(now() - head.__OLDEST_TIME__)}` : `${count(states.held)} held`} />
        <${Tile} name="Failed" value=${count(FAILURES.reduce((sum, state) => sum + (states[state] ?? 0), 0))} to=${href('tasks', '', { state: FAILURES.map(state => state.replace(' ', '-')).join(',') })} note=${states.skipped ? `${count(states.skipped)} skipped because of them` : 'timed out and lost too'} />
        <${Tile} name="Succeeded" value=${count(states.ok)} to=${href('tasks', '', { state: 'ok' })} note=${`${count((states.killed ?? 0) + (states.expired ?? 0))} killed or expired`} />
        <${Tile} name="Agents busy" value=${`${count(agents.__BUSY__)} of ${count(agents.__TOTAL__ - (agents.__LOST__ ?? 0))}`} to=${href('agents')} note=${agents.__LOST__ ? `${count(agents.__LOST__)} lost` : `${count(agents.__FREE__)} free`} />
        <${Tile} name="Ends" value=${`${(head.__RATE__ ?? 0).toFixed(head.__RATE__ >= 100 ? 0 : 1)} / s`} to=${href('tasks', '', { sort: 'ended' })} note=${head.__RUN_P50__ != null ? `median run ${duration(head.__RUN_P50__)}` : 'in the last minute'} />
    </section>`;
}

const numbers = text => (text ?? '').split(' ').filter(Boolean).map(word => word === '-' ? null : Number(word));

function Pace() {
    const pace = part('pace');
    if (!pace) return null;
    const ends = numbers(pace.__ENDS__).map(ended => ended / pace.__INTERVAL__);
    return html`<section class="card" aria-labelledby="pace"><h2 id="pace">Last five minutes</h2>
        <${Spark} values=${ends} label="Ends per second" format=${value => value >= 100 ? count(Math.round(value)) : value.toFixed(1)} />
        <${Spark} values=${numbers(pace.__RUN_P50__)} label="Median run" format=${duration} /></section>`;
}

function Jobs() {
    const jobs = parts('job');
    return html`<section class="card" aria-labelledby="open-jobs"><h2 id="open-jobs"><a href=${href('jobs')}>Open jobs</a></h2>
        ${jobs.length ? html`<ul class="plain jobs">${jobs.slice(0, 15).map(([name, job]) => html`<li key=${name}>
            <span class="one-line"><span class="grow cut"><${JobLink} name=${name} /></span><span class="num">${count(job.FINISHED)} of ${count(job.__TOTAL__)}</span></span>${jobBar(job)}
            <span class="dim small one-line"><span class="grow">${[troubles(job), `${count(job.RUNNING)} running`, rate(name) && `${rate(name).toFixed(1)} / s`].filter(Boolean).join(' · ')}</span>${left(job) != null && html`<span>${duration(left(job))} left</span>`}</span></li>`)}</ul>
            ${jobs.length > 15 && html`<p><a href=${href('jobs')}>All jobs</a></p>`}` : html`<${Empty}>No job is open.</${Empty}>`}</section>`;
}

function Waiting() {
    const reasons = parts('waiting').sort(([, a], [, b]) => b.__COUNT__ - a.__COUNT__);
    return html`<section class="card" aria-labelledby="waiting"><h2 id="waiting">Why tasks wait</h2>
        ${reasons.length ? html`<table class="plain"><thead class="hide"><tr><th>Tasks</th><th>Why</th></tr></thead><tbody>${reasons.map(([name, reason]) => html`<tr key=${name}><td class="num"><b>${count(reason.__COUNT__)}</b></td><td><a href=${href('tasks', '', { state: 'waiting' })}>${sentence(reason.__WHY__)}</a></td></tr>`)}</tbody></table>` : html`<${Empty}>No task waits.</${Empty}>`}</section>`;
}

function Running() {
    const running = parts('running').map(([, task]) => task).sort((a, b) => (a.__RUN_TIME__ ?? Infinity) - (b.__RUN_TIME__ ?? Infinity)).slice(0, 8);
    return html`<section class="card" aria-labelledby="running"><h2 id="running"><a href=${href('tasks', '', { state: 'running', sort: 'ran' })}>Longest runs</a></h2>
        ${running.length ? html`<table class="plain"><thead class="hide"><tr><th>Task</th><th>What</th><th>Agent</th><th>For</th></tr></thead><tbody>${running.map(task => {
            const ran = task.__RUN_TIME__ ? now() - task.__RUN_TIME__ : null;
            return html`<tr key=${task.__TASK_ID__}><td><${TaskLink} id=${task.__TASK_ID__} /></td><td class="cut">${line(task.__WHAT__, 100)}</td><td class="dim cut narrow-off">${line(task.__AGENT_ID__ ?? '', 40)}</td>
                <td class="num">${duration(ran)}${task.__USUAL__ && ran > 3 * task.__USUAL__ ? html` <span class="s-timed-out">long, usually ${duration(task.__USUAL__)}</span>` : ''}</td></tr>`; })}</tbody></table>` : html`<${Empty}>No task runs.</${Empty}>`}</section>`;
}

function Failures() {
    const states = part('states') ?? {};
    const shown = parts('failed').map(([, task]) => task);
    const failed = [...FAILURES, 'skipped'].reduce((sum, state) => sum + (states[state] ?? 0), 0);
    // The list is asked for only when it can have changed.
    const { answer } = useAnswer(() => ask('TASK/ROWS', { ...FAILED, __LIMIT__: FAILURES_MAX }), 'failures', { sign: `${failed} ${shown[0]?.__TASK_ID__} ${shown[0]?.__FINISH_TIME__}`, least: 2000 });
    const tasks = useMemo(() => answer ? entries(answer).map(([, row]) => row) : shown, [answer, store.version]);
    const groups = useMemo(() => patterns(tasks), [tasks]);
    const more = (answer?.__TOTAL__ ?? 0) > tasks.length;
    return html`<section class="card wide" aria-labelledby="failures"><h2 id="failures">Failures by pattern</h2>
        ${groups.length ? html`<ul class="plain failures">${groups.slice(0, 12).map(group => {
            const { newest } = group;
            const why = group.differ ? pattern(String(group.why ?? '')) : group.why;
            return html`<li key=${group.key}><span class="head"><b class="num">${count(group.tasks.length)} ×</b> <${State} word=${stateOf(newest)} />${newest.__EXIT_CODE__ != null && html` <span class="dim">exit ${newest.__EXIT_CODE__}</span>`}
                <span class="dim">last ${newest.__FINISH_TIME__ ? `${roughly(now() - newest.__FINISH_TIME__)} ago` : ''}</span> <${TaskLink} id=${newest.__TASK_ID__} />${newest.__JOB__ && html` <${JobLink} name=${newest.__JOB__} />`}</span>
                <span class="reason mono">${why ? sentence(why) : html`<span class="dim">${newest.__EXIT_CODE__ == null ? 'no reason is known' : 'it has written nothing to stderr'}</span>`}</span><span class="dim mono cut work">${line(newest.__WHAT__, 200)}</span>
                <span class="act">${session.mayChange && stateOf(newest) !== 'skipped' && html`<button type="button" onClick=${() => retryAlike({ ...group, more })}>Retry ${group.tasks.length === 1 ? '' : 'all '}${count(group.tasks.length)}…</button>`}
                <${Copy} bare text=${group.tasks.length <= 50 ? command('retry', ...group.tasks.map(task => task.__TASK_ID__)) : command('list', '--state', 'failed,timed-out,lost', ...(newest.__WHY__ ? ['--text', String(newest.__WHY__).slice(0, 60)] : []))} /></span></li>`; })}</ul>
            ${groups.length > 12 && html`<p class="dim">and ${plural(groups.length - 12, 'further pattern')}: <a href=${href('tasks', '', { state: 'failed,timed-out,lost', sort: 'ended' })}>all failures</a></p>`}`
        : html`<${Empty}>No task has failed.</${Empty}>`}</section>`;
}

export function Overview() {
    const paused = store.head.__PAUSED_UNTIL__;
    const queue = part('queue');
    return html`<div class="page"><h1 class="hide" id="title">Overview</h1>
        ${store.head.__WARNING__ && html`<p class="trouble">${line(store.head.__WARNING__, 1000)}</p>`}
        ${queue && html`<p class="dim">Leads ${line(queue.__WHAT__, 200)} since ${moment(queue.__SINCE__, now())}. ${queue.__STANDBYS__ ? `Stands by: ${line(queue.__STANDBYS__, 300)}.` : 'No home stands by.'} An accepted task survives ${line(queue.__SURVIVES__, 200)}.</p>`}
        ${paused && html`<p class="trouble">The service is paused until ${moment(paused, now())}: no task starts. ${session.mayChange && html`<button type="button" onClick=${() => openGate('*')}>End the pause…</button>`}</p>`}
        <div class="cards two"><${Problems} /><${Counts} /><div class="cards one"><${Jobs} /><${Waiting} /></div><div class="cards one"><${Pace} /><${Running} /></div><${Failures} /></div></div>`;
}

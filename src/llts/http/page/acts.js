// What changes something: each act asks first, with the number it touches, and says afterwards what was done.

import { ask, entries, isAway, session } from './api.js';
import { question, say } from './dialog.js';
import { FINISHED, OPEN, OUTCOMES, stateOf } from './widgets.js';
import { BY_HAND, command, count, line, plural, short } from './text.js';
import { now, touch } from './store.js';

/** The acts on tasks: their request, the states that they fit, and the words of the command. */
export const ACTS = {
    retry: { type: 'RETRY', name: 'Retry', key: 'r', fits: FINISHED, but: 'have not finished', done: 'run again' },
    kill: { type: 'KILL', name: 'Kill', key: 'K', fits: OPEN, but: 'have finished', done: 'killed', danger: true },
    hold: { type: 'HOLD', name: 'Hold', key: 'h', fits: OPEN.filter(state => state !== 'held'), but: 'are held or have finished', done: 'held' },
    release: { type: 'RELEASE', name: 'Release', key: 'H', fits: ['held'], but: 'are not held', done: 'released' },
};

/** Requests that are under way at once. A browser has six connections, and two of them wait. */
const AT_ONCE = 3;
const PAGE = 1000;

const mayAct = () => {
    if (!session.mayChange) say('This page may only read. Open it with llts open to act.', 'bad');
    return session.mayChange;
};

/** Asks about tasks by their ids, then acts on those that the act fits. */
export async function actOnTasks(act, tasks) {
    const fit = tasks.filter(task => ACTS[act].fits.includes(stateOf(task)));
    return confirmAndRun(act, fit.length, tasks.length, () => fit.map(task => task.__TASK_ID__), {
        about: fit.length === 1 ? `${short(fit[0].__TASK_ID__)}: ${line(fit[0].__WHAT__, 80)}` : '', typed: fit.length <= 30 ? command(act, ...fit.map(task => task.__TASK_ID__)) : '',
    });
}

/** The same for all tasks that match `fields`, of which `counts` says how many are in each state. */
export async function actOnMatches(act, fields, counts) {
    const total = Object.values(counts).reduce((sum, number) => sum + number, 0);
    const states = Object.keys(counts).filter(state => counts[state] > 0 && ACTS[act].fits.includes(state));
    const fit = states.reduce((sum, state) => sum + counts[state], 0);
    // A job as a whole is one request.
    if (act !== 'retry' && Object.keys(fields).join() === '__JOB__') return actOnJob(act, fields.__JOB__, fit);
    const collect = () => idsOf({ ...fields, __STATES__: states.join(',') });
    return confirmAndRun(act, fit, total, collect, { typed: matchCommand(act, fields, states) });
}

/** The ids of all tasks that match: gathered before the first is changed, because a change would move the pages. */
export async function idsOf(fields, keep = () => true) {
    const ids = [];
    for (let offset = 0; ; ) {
        const answer = await ask('TASK/ROWS', { ...fields, __OFFSET__: offset, __LIMIT__: PAGE });
        const rows = entries(answer);
        for (const [id, row] of rows) if (keep(row)) ids.push(id);
        offset += rows.length;
        if (!rows.length || offset >= answer.__TOTAL__) return [...new Set(ids)];
    }
}

async function confirmAndRun(act, fit, total, collect, { about = '', typed = '' } = {}) {
    const { name, but, danger } = ACTS[act];
    if (!mayAct()) return false;
    if (!fit) {
        say(total === 1 ? `Nothing to ${act}: the task is in another state.` : `Nothing to ${act}: all ${count(total)} ${but}.`, 'bad');
        return false;
    }
    const others = total - fit;
    const text = [about, others > 0 && `${count(others)} of the ${count(total)} selected ${but} and stay as they are.`].filter(Boolean).join('\n');
    if (!await question({ title: `${name} ${plural(fit, 'task')}?`, text, typed, yes: `${name} ${count(fit)}`, danger })) return false;
    try {
        await runAll(act, await collect());
    } catch (error) {
        say(line(error.message), 'bad');
    }
    return true;
}

async function runAll(act, ids) {
    const { type, done, name } = ACTS[act];
    let next = 0, well = 0, refusal = '';
    const work = async () => {
        while (next < ids.length) {
            const id = ids[next++];
            try {
                await ask(`TASK/${type}`, { __TASK_ID__: id, ...(act === 'kill' && { __REASON__: 'the page' }) });
                well += 1;
            } catch (error) {
                refusal = error.message;
                if (isAway(error) || error.status === 401) throw error;
            }
            if (ids.length > 50 && well % 50 === 0) say(`${name}: ${count(well)} of ${count(ids.length)}…`, 'done', true);
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work)).finally(touch);
    if (refusal) say(`${plural(well, 'task')} ${done}, ${count(ids.length - well)} refused: ${line(refusal)}`, 'bad');
    else say(`${plural(well, 'task')} ${done}.`);
}

/** One request after a question. */
async function actOnce({ title, text, yes, danger, fields, type, request, done }) {
    if (!mayAct()) return;
    const values = await question({ title, text, yes, danger, fields });
    if (!values) return;
    try {
        const answer = await ask(type, typeof request === 'function' ? request(values) : request);
        touch();
        say(answer.__WARNING__ ? line(answer.__WARNING__) : done?.(answer) ?? 'Done.');
    } catch (error) {
        say(line(error.message), 'bad');
    }
}

/** The job as a whole. A retry repeats its failed tasks, and those that were skipped because of them. */
export const actOnJob = (act, job, number) => actOnce({
    title: `${ACTS[act].name} ${plural(number, 'task')} of ${line(job, 60)}?`, text: act === 'retry' ? 'Those that failed, and those that were skipped because of them.' : '',
    yes: `${ACTS[act].name} ${count(number)}`, danger: ACTS[act].danger, type: `JOB/${ACTS[act].type}`,
    request: { __JOB__: job, ...(act === 'kill' && { __REASON__: 'the page' }) }, done: answer => `${plural(answer.__COUNT__, 'task')} ${ACTS[act].done}.`,
});

export const drain = (agent, undo) => actOnce({
    title: undo ? `Give agent ${line(agent, 60)} tasks again?` : `Drain 1 agent, ${line(agent, 60)}?`, text: undo ? '' : 'It finishes what it runs, and gets no more tasks.', yes: undo ? 'Give it tasks' : 'Drain 1',
    type: 'AGENT/DRAIN', request: { __AGENT_ID__: agent, __DRAIN__: !undo }, done: () => undo ? 'It gets tasks again.' : 'It gets no more tasks.',
});

export const killGraph = (id, name) => actOnce({ title: `Kill 1 graph, ${line(name || id, 60)}?`, text: 'It ends with the last of its tasks.', yes: 'Kill 1', danger: true, type: 'GRAPH/KILL', request: { __GRAPH_ID__: id, __REASON__: 'the page' }, done: () => 'The graph ends.' });

const number = text => text.trim() === '' ? null : Number(text.trim());
export const setGate = gate => actOnce({
    title: gate ? `Limits of gate ${line(gate.__GATE__, 60)}` : 'A new gate', text: 'An empty field sets no limit.', yes: 'Set', type: 'GATE/SET',
    fields: [...gate ? [] : [{ name: 'name', label: 'Name' }],
        { name: 'running', label: 'Most running tasks', value: gate?.__MAX_RUNNING__ }, { name: 'starts', label: 'Most starts', value: gate?.__MAX_STARTS__ },
        { name: 'interval', label: 'in so many seconds', value: gate?.__INTERVAL__ }],
    request: values => ({ __GATE__: gate?.__GATE__ ?? values.name.trim(), __MAX_RUNNING__: number(String(values.running)), __MAX_STARTS__: number(String(values.starts)), ...(String(values.starts).trim() && { __INTERVAL__: number(String(values.interval)) }) }),
    done: () => 'The gate is set.',
});

export const closeGate = (name, waiting = 0) => actOnce({
    title: name === '*' ? 'Pause the service?' : `Close gate ${line(name, 60)}?`, text: name === '*' ? 'No task starts; what runs goes on.' : `${plural(waiting, 'task')} wait for it, and will wait on.`, yes: name === '*' ? 'Pause' : 'Close',
    fields: [{ name: 'seconds', label: 'For so many seconds', hint: 'until it is opened by hand' }], type: 'GATE/SET',
    request: values => ({ __GATE__: name, __CLOSED_UNTIL__: number(values.seconds) === null ? BY_HAND : now() + number(values.seconds) }), done: () => name === '*' ? 'The service is paused.' : 'The gate is closed.',
});
export const openGate = (name, waiting = 0) => actOnce({
    title: name === '*' ? 'End the pause of the service?' : `Open gate ${line(name, 60)}?`, text: name === '*' ? '' : `${plural(waiting, 'task')} wait for it.`, yes: name === '*' ? 'Let tasks start' : 'Open',
    type: 'GATE/SET', request: { __GATE__: name, __CLOSED_UNTIL__: null }, done: () => 'Tasks start again.',
});

const PHASES = { running: 'RUNNING', starting: 'DISPATCHED,PREPARING', ending: 'ENDED', waiting: 'WAITING', held: 'WAITING' };

/** The command for all that match, or nothing where its words cannot say it. */
function matchCommand(act, fields, states) {
    const { __STATES__: chosen, __TEXT__: text, __LONGER__: long, __JOB__: job, ...others } = fields;
    if (text || long || (!job && !Object.keys(others).length && !chosen) || (chosen && act === 'release')) return '';
    const outcomes = states.map(state => Object.keys(OUTCOMES).find(outcome => OUTCOMES[outcome] === state)).filter(Boolean).join();
    const which = !chosen ? [] : act === 'retry' ? ['--outcome', outcomes] : ['--status', [...new Set(states.map(state => PHASES[state]))].join()];
    return command(act, ...(job ? ['--job', job] : []), ...Object.entries(others).flatMap(([name, value]) => ['--where', `${name}=${value}`]), ...which);
}

/** Runs tasks again that are known by their ids, after the question. */
export const retryIds = ids => confirmAndRun('retry', ids.length, ids.length, () => ids, { typed: ids.length <= 30 ? command('retry', ...ids) : '' });

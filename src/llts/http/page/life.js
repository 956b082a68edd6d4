// The life of a task as a picture: a bar for each round, from the lines of the log in TASK/EXPLAIN.

import { html } from './vendor/htm-preact.js';
import { now } from './store.js';
import { duration, line, moment } from './text.js';
import { sentence } from './widgets.js';

const WORDS = { WAITING: 'waiting', DISPATCHED: 'preparing', PREPARING: 'preparing', RUNNING: 'running', ENDED: 'ending' };
/** Rounds that are drawn; a task that is deferred all day has thousands. */
const ROUNDS_MAX = 60;

/** The lines of a log as `{ time, phase, words }`. */
export const readLog = log => (log ?? '').split('\n').map(row => /^(\d+(?:\.\d+)?) ([A-Z_]+)(?:: (.*))?$/.exec(row)).filter(Boolean)
    .map(([, time, phase, words]) => ({ time: +time, phase, words: words ?? '' }));

/** The rounds: phases with a begin and an end, the agent, and how each ended. `until` is the end of a phase that goes on. */
export function rounds(log, until) {
    const list = [];
    readLog(log).forEach((event, index, events) => {
        if (event.phase === 'WAITING' || !list.length) {
            if (list.length && event.phase === 'WAITING') list.at(-1).end ||= event.words;
            list.push({ phases: [], agent: '', end: '' });
        }
        const round = list.at(-1);
        const next = events[index + 1]?.time;
        if (event.phase === 'FINISHED') round.end = event.words;
        else if (WORDS[event.phase]) round.phases.push({ word: WORDS[event.phase], from: event.time, to: next ?? until, goesOn: next === undefined });
        if (event.phase === 'ENDED') round.result = event.words;
        round.agent = /^to agent (.*)$/.exec(event.words)?.[1] ?? round.agent;
    });
    return list;
}

export function Life({ log }) {
    const at = now();
    const list = rounds(log, at);
    if (!list.length) return null;
    const cut = Math.max(0, list.length - ROUNDS_MAX);
    const drawn = list.slice(cut);
    // The time between an end and a retry says nothing about the task, so it takes no room.
    let clock = 0;
    const placed = drawn.map(round => round.phases.map(phase => {
        const from = clock;
        clock += Math.max(phase.to - phase.from, 0);
        return { ...phase, x: from, length: Math.max(phase.to - phase.from, 0) };
    }));
    const scale = 1000 / Math.max(clock, 1e-6);
    const told = (round, index) => {
        const sums = {};
        for (const { word, length } of placed[index]) sums[word] = (sums[word] ?? 0) + length;
        return `${Object.entries(sums).map(([word, length]) => `${word} ${duration(length)}`).join(', ')}`;
    };
    const ended = round => sentence([round.result, round.end].filter(Boolean).filter((word, index, all) => all.indexOf(word) === index).join(', '));
    return html`<div class="life">${cut > 0 && html`<p class="dim">${cut} earlier rounds are in the log below.</p>`}
        <ol>${drawn.map((round, index) => html`<li>
            <span class="label">round ${cut + index}${round.agent && html` <span class="dim">on</span> ${line(round.agent, 60)}`}</span>
            <svg viewBox="0 0 1000 18" preserveAspectRatio="none" role="img" aria-label=${`round ${cut + index}: ${told(round, index)}`}>
                <rect class="ground" width="1000" height="18" />
                ${[...placed[index]].sort((a, b) => (a.word === 'running') - (b.word === 'running')).map(phase => html`<rect class="p-${phase.word}" x=${Math.min(phase.x * scale, 996).toFixed(2)} y=${phase.word === 'waiting' ? 6 : 1} height=${phase.word === 'waiting' ? 6 : 16} width=${Math.max(phase.length * scale, phase.word === 'running' ? 4 : 2).toFixed(2)}><title>${phase.word} ${duration(phase.length)} from ${moment(phase.from, at, true)}</title></rect>`)}
                ${placed[index].some(phase => phase.goesOn) && html`<rect class="now" x="997" width="3" height="18"><title>now</title></rect>`}
            </svg>
            <span class="told">${told(round, index)}${ended(round) && html`<br /><span class="dim">${ended(round)}</span>`}</span></li>`)}</ol>
        <p class="legend dim" aria-hidden="true"><i class="p-waiting thin"></i>waiting <i class="p-preparing"></i>preparing <i class="p-running"></i>running <i class="p-ending"></i>ending <i class="now"></i>now</p></div>`;
}

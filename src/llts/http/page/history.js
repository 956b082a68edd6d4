// The last days by hour as a heat map, and below it the rounds of the hour that was chosen.

import { html } from './vendor/htm-preact.js';
import { List } from './list.js';
import { ROUNDS, usePages } from './lists.js';
import { all } from './rows.js';
import { Copy, Empty, Trouble, useAnswer } from './widgets.js';
import { go, href, refine, route } from './router.js';
import { now } from './store.js';
import { command, count, day, duration, line, moment, plural } from './text.js';

const SPANS = [7, 14, 30];
const HOUR = 3600;
const failedOf = group => (group.FAILED ?? 0) + (group.TIMED_OUT ?? 0) + (group.LOST ?? 0);

export function History() {
    const days = SPANS.includes(+route.query.get('days')) ? +route.query.get('days') : SPANS[0];
    // The first hour of the first day, by the clock of the controller and in the zone of the reader.
    const first = new Date(now() * 1000);
    first.setHours(0, 0, 0, 0);
    first.setDate(first.getDate() - days + 1);
    const since = Math.floor(first.getTime() / 1000);
    const { answer, error } = useAnswer(() => all('HISTORY/SUMMARY', { __GROUP__: 'hour', __SINCE__: since }), `${since}`, { sign: Math.floor(now() / 60) });
    const groups = new Map((answer?.rows ?? []).map(group => [+group.hour, group]));
    const most = Math.max(1, ...[...groups.values()].map(group => group.__COUNT__));
    const chosen = +route.query.get('from') || null;
    const cell = (date, hour) => {
        const time = Math.floor(new Date(date.getFullYear(), date.getMonth(), date.getDate(), hour).getTime() / 1000);
        const group = groups.get(time - time % HOUR);
        const when = `${day(date)} ${hour}:00`;
        if (!group) return html`<td key=${hour} class="h0"><span class="hide">none</span></td>`;
        const level = Math.max(1, Math.ceil(Math.log1p(group.__COUNT__) / Math.log1p(most) * 4));
        const failed = failedOf(group);
        const label = `${when}: ${plural(group.__COUNT__, 'round')}, ${count(failed)} failed, median run ${duration(group.__RUN_P50__)}`;
        return html`<td key=${hour} class="h${level} ${chosen === time ? 'chosen' : ''}"><a href=${href('history', '', { days: days === SPANS[0] ? '' : days, from: time, until: time + HOUR })} aria-label=${label} title=${label}>${failed ? html`<span aria-hidden="true">✕</span>` : ''}</a></td>`;
    };
    const rows = Array.from({ length: days }, (_, index) => new Date(first.getFullYear(), first.getMonth(), first.getDate() + days - 1 - index));
    return html`<section class="fill" aria-labelledby="title"><header class="tools"><h1 id="title">History</h1>
        <div class="tabs" role="group" aria-label="Days">${SPANS.map(span => html`<button type="button" aria-pressed=${span === days ? 'true' : 'false'} onClick=${() => refine({ days: span === SPANS[0] ? '' : span })}>${span} days</button>`)}</div>
        <${Copy} bare text=${command('history', '--group', 'day,hour', '--since', `${days}d`)} /></header>
        ${error ? html`<${Trouble}>${line(error, 1000)}</${Trouble}>` : html`
        <div class="scroll map" tabindex="0" role="region" aria-label="Rounds by hour"><table class="heat"><caption class="hide">Finished rounds by day and hour</caption>
            <thead><tr><th scope="col"><span class="hide">Day</span></th>${Array.from({ length: 24 }, (_, hour) => html`<th scope="col">${hour}</th>`)}</tr></thead>
            <tbody>${rows.map(date => html`<tr key=${date.getTime()}><th scope="row">${day(date)}</th>${Array.from({ length: 24 }, (_, hour) => cell(date, hour))}</tr>`)}</tbody></table></div>
        <p class="legend dim">fewer <i class="h1"></i><i class="h2"></i><i class="h3"></i><i class="h4"></i> more rounds, ✕ with failures; at most ${count(most)} in an hour</p>
        ${answer && !groups.size && html`<${Empty}>No round has finished in these days.</${Empty}>`}
        <${Rounds} key=${route.query.toString()} />`}</section>`;
}

function Rounds() {
    const [from, until] = [route.query.get('from'), route.query.get('until')];
    const failed = route.query.get('failed') === 'true';
    const pages = usePages('HISTORY/QUERY', { ...(from && { __SINCE__: +from }), ...(until && { __UNTIL__: +until }), ...(failed && { __OUTCOME__: 'FAILED,TIMED_OUT,LOST' }) }, { live: false });
    return html`<header class="tools"><h2>${from ? `${moment(+from)} to ${moment(+until, +from)}` : 'Latest rounds'}</h2><span class="dim" role="status">${pages.total == null ? '' : plural(pages.total, 'round')}</span>
        <label class="check"><input type="checkbox" checked=${failed} onChange=${event => refine({ failed: event.target.checked ? 'true' : '' })} />failed only</label>
        ${from && html`<button type="button" class="quiet" onClick=${() => refine({ from: '', until: '' })}>All hours</button>`}</header>
        ${pages.error ? html`<${Trouble}>${line(pages.error, 1000)}</${Trouble}>` : pages.total !== 0 && html`<${List} label="Rounds" rows=${pages} total=${pages.total ?? 0} columns=${ROUNDS} onOpen=${round => go('task', round.__TASK_ID__)} />`}`;
}

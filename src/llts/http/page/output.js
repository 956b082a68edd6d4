// The output of a task, live. Its end comes first, and only so much of it stays in the document as one can read.

import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/htm-preact.js';
import { ask, isAway } from './api.js';
import { Copy, Empty } from './widgets.js';
import { bytes, command, line, lines } from './text.js';

/** Bytes of one answer, and characters that stay in the document. */
const CHUNK = 48 * 1024;
const KEPT = 200_000;
const WAIT = 20_000;
const STREAMS = { STDOUT: 'stdout', STDERR: 'stderr', REPORT: 'report log' };

function decode(decoder, answer) {
    if (answer.__BASE64__ == null) return decoder.decode() + (answer.__TEXT__ ?? '');
    return decoder.decode(Uint8Array.from(atob(answer.__BASE64__), letter => letter.charCodeAt(0)), { stream: true });
}

export function Output({ task }) {
    // A failure usually says why there.
    const [stream, setStream] = useState(task.__STDERR__ && !task.__STDOUT__ ? 'STDERR' : 'STDOUT');
    const id = task.__TASK_ID__;
    return html`<section class="card wide" aria-labelledby="output"><header class="tools"><h2 id="output">Output</h2>
        <div class="tabs" role="group" aria-label="Stream">${Object.entries(STREAMS).map(([word, name]) => html`<button type="button" aria-pressed=${word === stream ? 'true' : 'false'} onClick=${() => setStream(word)}>${name}</button>`)}</div>
        <${Copy} bare text=${command('logs', ...(stream === 'STDOUT' ? ['--stdout'] : stream === 'STDERR' ? ['--stderr'] : ['--report']), id)} /></header>
        <${Text} key=${`${stream} ${id} ${task.__ROUND__}`} id=${id} round=${task.__ROUND__} stream=${stream} /></section>`;
}

function Text({ id, round, stream }) {
    const [shown, set] = useState({ text: '', from: null, total: 0, note: '', ended: false });
    const box = useRef();
    const follows = useRef(true);
    const own = useRef({});
    useEffect(() => {
        const stop = new AbortController();
        const state = own.current = { text: '', from: null, total: 0, note: '', ended: false, stop };
        follow(state, stop.signal);
        return () => stop.abort();
    }, []);

    const request = (fields, signal) => ask('TASK/OUTPUT', { __TASK_ID__: id, __ROUND__: round, __STREAM__: stream, ...fields }, signal);

    async function follow(state, signal) {
        const decoder = new TextDecoder();
        try {
            const first = await request({ __LIMIT__: 1 }, signal);
            let offset = state.from = Math.max(0, (first.__TOTAL__ ?? 0) - CHUNK);
            while (!signal.aborted) {
                const answer = await request({ __OFFSET__: offset, __WAIT__: WAIT }, signal);
                if (state.from === offset) state.from = answer.__OFFSET__;
                if (answer.__MISSING__) state.note = answer.__MISSING__;
                offset = answer.__OFFSET__ + (answer.__BYTES__ ?? 0);
                state.total = Math.max(answer.__TOTAL__ ?? 0, offset);
                state.text += decode(decoder, answer);
                if (state.text.length > KEPT) {
                    const cut = state.text.indexOf('\n', state.text.length - KEPT) + 1 || state.text.length - KEPT;
                    state.text = state.text.slice(cut);
                    state.isCut = true;
                }
                state.ended = answer.__END__;
                set({ ...state });
                if (answer.__END__) return;
                // While it is hidden, a page asks for nothing.
                while (document.hidden && !signal.aborted) await new Promise(done => { document.addEventListener('visibilitychange', done, { once: true }); signal.addEventListener('abort', done, { once: true }); });
                if (answer.__BYTES__) await new Promise(done => setTimeout(done, 100));
            }
        } catch (error) {
            if (signal.aborted) return;
            if (!isAway(error)) set({ ...state, note: error.message });
            // A lost controller comes back; a refusal stays one.
            if (isAway(error)) setTimeout(() => { if (!signal.aborted) { state.text = ''; follow(state, signal); } }, 2000);
        }
    }

    async function earlier() {
        const state = own.current;
        const from = Math.max(0, state.from - CHUNK);
        const answer = await request({ __OFFSET__: from, __LIMIT__: state.from - from }).catch(error => ({ __TEXT__: '', error }));
        state.text = (decode(new TextDecoder(), answer) + state.text).slice(0, KEPT);
        state.from = from;
        follows.current = false;
        set({ ...state });
    }
    useLayoutEffect(() => { if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
    const isEmpty = !shown.text && (shown.ended || shown.from !== null);
    return html`${shown.from > 0 && !shown.isCut && html`<p class="dim">The first ${bytes(shown.from)} are not shown. <button type="button" class="quiet" onClick=${earlier}>Show earlier</button></p>`}
        ${shown.isCut && html`<p class="dim">Only the end is shown; the command has all of it.</p>`}
        ${shown.note && html`<p class="dim">${line(shown.note, 1000)}</p>`}
        ${isEmpty ? html`<${Empty}>${shown.ended ? 'It has written nothing here.' : 'It has written nothing here yet.'}</${Empty}>`
        : html`<pre class="output" ref=${box} tabindex="0" role="region" aria-label=${STREAMS[stream]} onScroll=${event => { const at = event.target; follows.current = at.scrollTop + at.clientHeight > at.scrollHeight - 30; }}>${lines(shown.text)}</pre>`}
        <p class="dim small">${bytes(shown.total)}${shown.ended ? '' : ', live'}</p>`;
}

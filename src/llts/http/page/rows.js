// Where the rows of a list come from: pages that are asked for as one scrolls, or all of them at once.

import { ask, entries, isAway } from './api.js';
import { setClock } from './store.js';

const PAGE = 200;
/** Rows of a list that is read as a whole; a longer one says so. */
const ALL_MAX = 10_000;
/** The least time between two requests that only refresh what is shown. */
const REFRESH = 1000;

/** The rows of one request with `__OFFSET__` and `__LIMIT__`; only pages in sight are asked for. */
export class Pages {
    constructor(type, fields, changed) {
        Object.assign(this, { type, fields, changed, pages: new Map(), total: null, counts: {}, error: '', asking: false, closed: false, timer: 0, places: new Map() });
        this.wanted = [0, PAGE];
        this.pump();
    }

    close() {
        this.closed = true;
        clearTimeout(this.timer);
    }

    row(index) {
        return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE];
    }

    /** Where a row with this id is, among those that are known. */
    place(id) {
        return this.places.get(id);
    }

    need(first, last) {
        this.wanted = [first, last];
        this.pump();
    }

    /** Something has changed: what is in sight is asked for again, the rest when it comes into sight. */
    refresh() {
        for (const page of this.pages.values()) page.stale = true;
        this.pump();
    }

    /** Rows of a range, also those that were not in sight yet. */
    async range(from, to) {
        const rows = [];
        for (let index = from; index <= to; index += 1) {
            if (!this.row(index)) {
                const answer = await ask(this.type, { ...this.fields, __OFFSET__: index, __LIMIT__: Math.min(1000, to - index + 1) });
                const more = entries(answer).map(([name, row]) => ({ ...row, name }));
                if (!more.length) break;
                rows.push(...more);
                index += more.length - 1;
            } else rows.push(this.row(index));
        }
        return rows;
    }

    pump() {
        if (this.closed || this.asking || this.timer) return;
        const [first, last] = [Math.floor(this.wanted[0] / PAGE), Math.floor(Math.max(this.wanted[1] - 1, 0) / PAGE)];
        let stale = -1;
        for (let index = first; index <= last; index += 1) {
            const page = this.pages.get(index);
            if (!page && (index * PAGE < (this.total ?? 1) || index === 0)) return void this.load(index);
            if (page?.stale && stale < 0) stale = index;
        }
        if (stale < 0) return;
        const wait = Math.max(REFRESH, this.cost * 20) - (performance.now() - this.pages.get(stale).loaded);
        if (wait <= 0) return void this.load(stale);
        this.timer = setTimeout(() => { this.timer = 0; this.pump(); }, wait);
    }

    async load(index) {
        this.asking = true;
        const begun = performance.now();
        try {
            const answer = await ask(this.type, { ...this.fields, __OFFSET__: index * PAGE, __LIMIT__: PAGE });
            if (this.closed) return;
            const rows = entries(answer).map(([name, row]) => ({ ...row, name }));
            const before = this.total;
            this.total = answer.__TOTAL__ ?? rows.length;
            this.counts = Object.fromEntries(Object.entries(answer).filter(([name, value]) => !name.startsWith('__') && typeof value === 'number'));
            if (answer.__TIME__) setClock(answer.__TIME__);
            // Tasks that came on top move all pages; those out of sight are read again when they are needed.
            this.grown = before === null ? 0 : this.total - before;
            if (this.grown) for (const [other, page] of this.pages) if (other !== index) page.stale = true;
            this.pages.set(index, { rows, stale: false, loaded: performance.now() });
            for (const [other] of this.pages) if (other * PAGE >= this.total && other > 0) this.pages.delete(other);
            if (this.pages.size > 40) for (const [other] of this.pages) if (Math.abs(other - index) > 15) this.pages.delete(other);
            this.places.clear();
            for (const [other, page] of this.pages) page.rows.forEach((row, at) => this.places.set(row.name, other * PAGE + at));
            this.error = '';
        } catch (error) {
            if (this.closed) return;
            if (!isAway(error)) this.error = error.message;
            this.timer = setTimeout(() => { this.timer = 0; this.pump(); }, 2000);
        } finally {
            this.asking = false;
            this.cost = performance.now() - begun;
        }
        this.changed();
        this.pump();
    }
}

/** All rows of a request that answers in pages. */
export async function all(type, fields = {}) {
    const rows = [];
    for (;;) {
        const answer = await ask(type, { ...fields, ...(type !== 'GATE/QUERY' && { __OFFSET__: rows.length, __LIMIT__: 1000 }) });
        const more = entries(answer).map(([name, row]) => ({ ...row, name }));
        rows.push(...more);
        const total = answer.__TOTAL__ ?? rows.length;
        if (!more.length || rows.length >= total || rows.length >= ALL_MAX) return { rows, total };
    }
}

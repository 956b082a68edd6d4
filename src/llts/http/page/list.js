// A list of any length: a grid whose rows are in the document only while they are in sight. It knows nothing of what it lists.

import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/htm-preact.js';
import { useKeys } from './keys.js';
import { count } from './text.js';

const NARROW = matchMedia('(max-width: 800px)');
/** Pixels; the style sheet has the same. */
const HEIGHT = { wide: 30, narrow: 52 };
/** Browsers lay out no box much higher than this; a longer list scrolls in proportion. */
const SCROLL_MAX = 8_000_000;
const OVERSCAN = 8;

/**
 * `rows` has `row(index)`, `place(id)`, `need(first, last)`; `columns` have `title`, `width`, `cell(row)`, and `narrow`, the line that they stand in
 * on a small screen, and `from`, the width of the list below which they are left out, and a `unit` that tells numbers apart there. `selection` is `{ ids: Map, all }` or nothing, and `onOpen(row)` follows a row.
 */
export function List({ label, rows, total, columns: offered, selection, onSelect, onOpen, sort, onSort, keys = {} }) {
    const box = useRef();
    const [seen, setSeen] = useState({ top: 0, height: 600, width: 1200 });
    const [at, setAt] = useState(0);
    const [narrow, setNarrow] = useState(NARROW.matches);
    const active = useRef(null);
    const anchor = useRef(0);
    const height = narrow ? HEIGHT.narrow : HEIGHT.wide;
    const full = Math.min(total * height, SCROLL_MAX);
    const inSight = Math.max(1, Math.ceil(seen.height / height));
    const scaled = full < total * height;
    const start = scaled ? Math.round(seen.top / Math.max(full - seen.height, 1) * Math.max(total - inSight, 0)) : Math.floor(seen.top / height);
    const first = Math.max(0, Math.min(start, total - 1) - OVERSCAN);
    const last = Math.min(total, start + inSight + OVERSCAN);

    useEffect(() => {
        const change = () => setNarrow(NARROW.matches);
        const watch = new ResizeObserver(() => setSeen(old => ({ ...old, height: box.current.clientHeight, width: box.current.clientWidth })));
        NARROW.addEventListener('change', change);
        watch.observe(box.current);
        return () => { NARROW.removeEventListener('change', change); watch.disconnect(); };
    }, []);
    useEffect(() => rows.need(first, last), [rows, first, last]);
    useLayoutEffect(() => {
        // Rows that came on top push the others down; what one looks at stays where it is.
        if (rows.grown > 0 && seen.top > height && sort === 'submitted') box.current.scrollTop += rows.grown * height;
        rows.grown = 0;
    });

    const place = active.current === null ? undefined : rows.place(active.current);
    const here = Math.max(0, Math.min(place ?? at, total - 1));
    const move = index => {
        const next = Math.max(0, Math.min(index, total - 1));
        setAt(next);
        active.current = rows.row(next)?.name ?? null;
        const element = box.current;
        // A screen reader follows the row that is active in the element with the focus.
        if (!element.contains(document.activeElement)) element.focus({ preventScroll: true });
        if (scaled) {
            if (next < start || next >= start + inSight - 2) element.scrollTop = next / Math.max(total - inSight, 1) * (full - seen.height);
        } else if (next * height < element.scrollTop) element.scrollTop = next * height;
        else if ((next + 2) * height > element.scrollTop + element.clientHeight) element.scrollTop = (next + 2) * height - element.clientHeight;
    };
    const current = () => rows.row(here);
    const pick = async (index, extend) => {
        const row = rows.row(index);
        if (!row || !onSelect) return;
        const ids = new Map(selection.all ? [] : selection.ids);
        if (extend) {
            const [from, to] = [Math.min(anchor.current, index), Math.max(anchor.current, index)];
            for (const other of await rows.range(from, to)) ids.set(other.name, other);
        } else if (ids.has(row.name)) ids.delete(row.name);
        else ids.set(row.name, row);
        anchor.current = index;
        onSelect({ ids, all: false });
    };
    const page = Math.max(1, inSight - 3);
    useKeys({
        j: () => move(here + 1), ArrowDown: () => move(here + 1), k: () => move(here - 1), ArrowUp: () => move(here - 1),
        PageDown: () => move(here + page), PageUp: () => move(here - page), Home: () => move(0), End: () => move(total - 1),
        Enter: () => { const row = current(); if (row && onOpen) onOpen(row); },
        ...(onSelect && { x: () => { pick(here, false); move(here + 1); }, X: () => void pick(here, true) }),
        ...Object.fromEntries(Object.entries(keys).map(([key, act]) => [key, () => act(current())])),
    });

    const columns = offered.filter(column => seen.width >= (column.from ?? 0));
    const shown = [];
    for (let index = first; index < last; index += 1) shown.push(index);
    const template = `${onSelect ? '1.75rem ' : ''}${columns.map(column => column.width).join(' ')}`;
    const isPicked = row => selection && (selection.all || selection.ids.has(row.name));
    const cell = (column, row, unit) => html`<span role="gridcell" key=${column.title} class="cell ${column.kind ?? ''}">${column.cell(row)}${unit}</span>`;
    const tick = (row, index) => onSelect && html`<span role="gridcell" class="tick"><input type="checkbox" tabindex="-1" aria-label="Select" checked=${isPicked(row)} onClick=${event => { event.stopPropagation(); pick(index, event.shiftKey); }} /></span>`;
    const open = (event, row) => {
        if (event.target.closest('a, button, input, label') || !onOpen || getSelection()?.toString()) return;
        onOpen(row);
    };
    const draw = index => {
        const row = rows.row(index);
        const top = scaled ? seen.top + (index - start) * height : index * height;
        const common = { id: `row-${index}`, role: 'row', 'aria-rowindex': index + 2, key: row?.name ?? index, style: { top: `${top}px`, height: `${height}px` } };
        if (!row) return html`<div ...${common} class="row blank"><span role="gridcell" class="cell dim">…</span></div>`;
        const name = `row ${index === here ? 'here' : ''} ${isPicked(row) ? 'picked' : ''}`;
        const more = { onClick: event => { setAt(index); active.current = row.name; open(event, row); }, ...(onSelect && { 'aria-selected': isPicked(row) ? 'true' : 'false' }) };
        if (!narrow) return html`<div ...${common} ...${more} class=${name}>${tick(row, index)}${columns.map(column => cell(column, row))}</div>`;
        return html`<div ...${common} ...${more} class=${name}>${tick(row, index)}<span class="two" role="presentation">
            <span class="one-line" role="presentation">${offered.filter(column => column.narrow === 1).map(column => cell(column, row))}</span>
            <span class="one-line dim" role="presentation">${offered.filter(column => column.narrow === 2).map(column => cell(column, row, column.unit && ` ${column.unit}`))}</span></span></div>`;
    };
    const direction = column => sort === column.sort ? (column.reversed ? 'ascending' : 'descending') : undefined;
    return html`<div class="list ${narrow ? 'narrow' : ''}" ref=${box} tabindex="0" role="grid" aria-label=${label} aria-rowcount=${total + 1} aria-multiselectable=${onSelect ? 'true' : undefined}
        aria-activedescendant=${here >= first && here < last ? `row-${here}` : undefined} style=${{ '--columns': template }} onScroll=${event => { const { scrollTop } = event.target; setSeen(old => ({ ...old, top: scrollTop })); }}>
        <div class="heads" role="row" aria-rowindex="1">${onSelect && html`<span role="columnheader" class="tick"><input type="checkbox" tabindex="-1" aria-label=${`Select all ${count(total)}`} checked=${selection.all} onClick=${() => onSelect({ ids: new Map(), all: !selection.all })} /></span>`}
            ${columns.map(column => html`<span role="columnheader" class="cell ${column.kind ?? ''}" aria-sort=${direction(column)}>${column.sort && onSort
        ? html`<button type="button" class="head" tabindex="-1" onClick=${() => onSort(column.sort)}>${column.title}${sort === column.sort ? html`<span aria-hidden="true"> ▾</span>` : ''}</button>` : column.title}</span>`)}</div>
        <div class="space" role="presentation" style=${{ height: `${full}px` }}>${shown.map(draw)}</div>
    </div>`;
}

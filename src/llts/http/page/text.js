// Texts: what comes from tasks made harmless to look at, times and numbers in words, and commands to copy.

// Controls, formatting characters that reorder or hide text, and lone surrogates.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

function visible(letter) {
    const code = letter.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return '␡';
    if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
    return code < 0x100 ? `\\x${code.toString(16)}` : `\\u${code.toString(16)}`;
}

/** The most characters of a text that are shown at once in a row. */
const ROW_MAX = 300;

/** Any value as text with every character visible, cut after `max` characters. Line feeds and tabs stay. */
export function block(value, max = 2000) {
    const text = typeof value === 'string' ? value : value == null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    const cut = text.length > max ? text.slice(0, max) : text;
    const shown = cut.replace(HIDDEN, visible);
    return text.length > max ? `${shown}… (${count(text.length - max)} more characters)` : shown;
}

/** As `block`, on one line. */
export const line = (value, max = ROW_MAX) => block(value, max).replace(/\n/g, '␤').replace(/\t/g, ' ');

/** Lines of an output; each is cut, because one of ten megabytes would stop the browser. */
export const lines = (text, max = 2000) => text.replace(/\r\n/g, '\n').split('\n').map(each => block(each, max)).join('\n');

const NUMBER = new Intl.NumberFormat('en');
export const count = number => number == null ? '–' : NUMBER.format(number);
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

/** Seconds as a length of time in at most two units. */
export function duration(seconds) {
    if (seconds == null || !Number.isFinite(+seconds)) return '–';
    const s = Math.max(0, +seconds);
    if (s < 0.0995) return `${s < 0.00995 ? (s * 1000).toFixed(1).replace('.0', '') : Math.round(s * 1000)} ms`;
    if (s < 9.95) return `${s.toFixed(1)} s`;
    if (s < 60) return `${Math.min(59, Math.round(s))} s`;
    const two = (large, small, by, a, b) => `${large} ${a}${small ? ` ${small} ${b}` : ''}`;
    const m = Math.round(s / 60);
    if (s < 3570) return two(Math.floor(s / 60), Math.floor(s % 60), 60, 'min', 's');
    if (m < 48 * 60) return two(Math.floor(m / 60), m % 60, 60, 'h', 'min');
    const h = Math.round(s / 3600);
    return two(Math.floor(h / 24), h % 24, 24, 'd', 'h');
}

/** The largest unit alone, for columns. */
export const roughly = seconds => duration(seconds).split(' ').slice(0, 2).join(' ');

const pad = number => String(number).padStart(2, '0');
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** The value of a gate that stays closed until somebody opens it. */
export const BY_HAND = 9e9;

/** Unix seconds as a local time; the day is left out if it is that of `now`. */
export function moment(seconds, now, exact = false) {
    if (seconds == null) return '–';
    if (seconds >= BY_HAND) return 'opened by hand';
    const at = new Date(seconds * 1000);
    const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}${exact ? `.${String(at.getMilliseconds()).padStart(3, '0')}` : ''}`;
    return now && new Date(now * 1000).toDateString() === at.toDateString() ? time : `${day(at)} ${time}`;
}
export const day = at => `${at.getDate()} ${MONTHS[at.getMonth()]}`;

export const bytes = number => number == null ? '–'
    : number < 1024 ? `${number} B`
        : number < 1048576 ? `${(number / 1024).toFixed(1)} KiB`
            : number < 1073741824 ? `${(number / 1048576).toFixed(1)} MiB` : `${(number / 1073741824).toFixed(1)} GiB`;

/** The letters that name a task in tables. */
export const short = id => line(String(id).split('_').pop(), 24);

/** A word for a shell. */
const quote = word => /^[\w@%+=:,./-]+$/.test(word) ? word
    : /[\u0000-\u001f\u007f]/.test(word) ? `$'${word.replace(/[\\']/g, '\\$&').replace(/[\u0000-\u001f\u007f]/g, c => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`)}'`
        : `'${word.replace(/'/g, "'\\''")}'`;
/** The words of a command as one would type them; the text itself if it is no list of words. */
export function typed(text) {
    try { return JSON.parse(text).map(word => quote(String(word))).join(' '); } catch { return text; }
}
export const command = (...words) => ['llts', ...words.filter(word => word != null && word !== '').map(word => quote(String(word)))].join(' ');

/**
 * The pattern of a line: what stays when numbers, paths, hexadecimal and quoted texts are replaced. The program groups
 * failures by the same rule (src/base/pattern.rs), so that both show the same groups.
 */
export function pattern(text) {
    return text.trim().slice(0, 1000).replace(/(?<![\p{L}\p{N}])(["'`]).*?\1|[^\s\p{Cc}"'`()[\]{}<>,;=:|…]+/gu, (found, mark) => mark ? `${mark}…${mark}` : fold(found));
}

function fold(word) {
    const core = word.replace(/[.!?]+$/, '');
    const end = word.slice(core.length);
    if (core.length > 1 && core.includes('/')) return `PATH${/\.\p{L}+$/u.exec(core.split('/').pop())?.[0] ?? ''}${end}`;
    if (/^0x[\da-f]+$/i.test(core) || (/^[\da-f]{8,}$/i.test(core) && /\d/.test(core) && /[a-f]/i.test(core))) return `HEX${end}`;
    return core.replace(/\d[\d.]*/g, 'N') + end;
}

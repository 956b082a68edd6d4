// Requests to the service: POST /api and /session. A refusal is an error whose message is the sentence of the answer.

/** Where the key of the session is kept. Browsers separate this by port, and cookies they do not. */
const KEY = 'llts-key';

export class Refused extends Error {
    constructor(message, status, code) {
        super(message);
        this.status = status;
        this.code = code;
    }
}

/** Whether an error says that the controller cannot be reached, rather than what it thinks of a request. */
export const isAway = error => error.status === 0 || error.status >= 500;

export const session = { mayAsk: true, mayChange: false, version: '', refusal: '' };

export function headers(more = {}) {
    const key = localStorage.getItem(KEY);
    return key ? { ...more, 'LLTS-Key': key } : more;
}

async function exchange(path, options) {
    try {
        const answer = await fetch(path, options);
        return { answer, body: await answer.text() };
    } catch (error) {
        if (error.name === 'AbortError') throw error;
        throw new Refused('The controller does not answer.', 0);
    }
}

async function send(path, options) {
    const { answer, body } = await exchange(path, options);
    let value;
    try {
        value = JSON.parse(body, exact);
    } catch {
        throw new Refused(`The controller answers with status ${answer.status}.`, answer.status);
    }
    if (!answer.ok || value.__CODE__) throw new Refused(value.__ERROR_MSG__ ?? `The controller answers with status ${answer.status}.`, answer.status, value.__CODE__);
    return value;
}

// An integer that a double cannot hold stays the text that was sent, where the browser tells it.
const exact = (_, value, context) => typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value;

const JSON_TYPE = { 'Content-Type': 'application/json' };

/** Asks a request of the wire; `signal` ends a wait. */
export const ask = (type, fields = {}, signal = undefined) =>
    send('/api', { method: 'POST', headers: headers(JSON_TYPE), body: JSON.stringify({ __TYPE__: type, ...fields }), signal });

/** A text of the door. */
export async function get(path) {
    const { answer, body } = await exchange(path, { headers: headers() });
    if (!answer.ok) throw new Refused(`The controller answers with status ${answer.status}.`, answer.status);
    return body;
}

/** The rights of this page, after a token from the address was exchanged for a session. */
export async function openSession() {
    const token = /^#token=(.+)$/.exec(location.hash)?.[1];
    if (token) {
        session.refusal = '';
        // The token leaves the address first: it must not stay in the history of the browser.
        history.replaceState(null, '', location.pathname + '#/');
        try {
            const answer = await send('/session', { method: 'POST', headers: headers(JSON_TYPE), body: JSON.stringify({ token: decodeURIComponent(token) }) });
            localStorage.setItem(KEY, answer.key);
        } catch (error) {
            session.refusal = error.message;
        }
    }
    const answer = await send('/session', { headers: headers() });
    Object.assign(session, { mayAsk: answer.may_ask, mayChange: answer.may_change, version: answer.version });
}

export async function closeSession() {
    await send('/session', { method: 'DELETE', headers: headers() }).catch(() => {});
    localStorage.removeItem(KEY);
    await openSession();
}

/** The objects of an answer by name, as a list. */
export const entries = answer => Object.entries(answer).filter(([, value]) => value && typeof value === 'object' && !Array.isArray(value));

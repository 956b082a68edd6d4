"""pi = 16 arctan(1/5) - 4 arctan(1/239), summed in parts by as many agents as there are.

The dispatcher binds a REP socket, the desk, and submits workers that name it as their father. A worker asks the desk
for a part, computes it, and hands it in with its next question. So one worker does all the parts if no other agent is
free. The dispatcher ends after its workers; one that could not start meanwhile is ended by LLTS.

Each term is rounded on its own, in integers: the result is the same however the parts are cut and whoever adds them.
"""

import json
import sys

try:
    import zmq
except ImportError:
    zmq = None

# How long the desk waits for a worker before the dispatcher does a part itself: what busy or dead agents cost.
PATIENCE_MS = 2000
# Between two looks whether the workers have ended.
DISMISS_MS = 20
# A peer that is silent for so long is gone.
SILENCE_MS = 60_000
# What report.log shows; the rest of the digits would only crowd it.
DIGITS_SHOWN = 1000


def main():
    task, controller = read_info("../task.info"), read_info("../controller.info")
    if zmq is None:
        end(3, "pi needs pyzmq: install it for the python3 of the agent (pip install pyzmq)")
    if task.get("mode") == "worker":
        work(task["desk"])
        return
    parts, terms = positive(task, "parts", 8), positive(task, "terms", 1000)
    sums = dispatch(task, controller, parts, terms)
    say("pi = " + digits(sum(sums.values()), terms))


def dispatch(task, controller, parts, terms):
    """Gets every part done and returns the sums, by the number of the part."""
    llts = request_socket(controller["CONTROLLER_ADDRESS"])
    agents = ask(llts, {"__TYPE__": "AGENT/QUERY"})["__TOTAL__"]
    if agents < 2:
        # The one slot is ours: a worker could only start after us.
        say(f"there is one agent only: computing all {parts} parts here")
        return {part: partial_sum(part, parts, terms) for part in range(parts)}

    desk = zmq.Context.instance().socket(zmq.REP)
    port = desk.bind_to_random_port("tcp://" + controller["AGENT_IP"])
    worker = {
        "__TYPE__": "TASK/SUBMIT",
        "__OPERATION__": task["__OPERATION__"],
        "__FATHER_ID__": task["__TASK_ID__"],
        "mode": "worker",
        "desk": f"tcp://{controller['AGENT_IP']}:{port}",
    }
    workers = []
    for _ in range(min(parts, agents - 1)):
        reply = ask(llts, worker)
        if reply["__CODE__"] == 0:
            workers.append(reply["__TASK_ID__"])
        else:
            say(f"a worker was refused: {reply.get('__ERROR_MSG__', reply['__CODE__'])}")
    sums = collect(desk, parts, terms)
    dismiss(desk, llts, workers)
    return sums


def collect(desk, parts, terms):
    """Hands parts out at the desk until each has been handed in."""
    fresh, sums, by_workers = list(range(parts)), {}, 0
    while len(sums) < parts:
        if desk.poll(PATIENCE_MS):
            message = json.loads(desk.recv())
            if "part" in message and message["part"] not in sums:
                sums[message["part"]] = int(message["sum"], 16)
                by_workers += 1
            part = fresh.pop(0) if fresh else None
            desk.send(json.dumps({"part": part, "parts": parts, "terms": terms}).encode())
        else:
            # Nobody asks, so all agents are busy, or the worker that has the part is lost.
            part = fresh.pop(0) if fresh else min(set(range(parts)) - set(sums))
            sums[part] = partial_sum(part, parts, terms)
    say(f"{parts} parts: {by_workers} by workers, {parts - by_workers} here")
    return sums


def dismiss(desk, llts, workers):
    """Tells each worker that no part is left, and waits for its end: LLTS kills the children of a task that has ended."""
    patience = PATIENCE_MS
    while workers and patience > 0:
        if desk.poll(DISMISS_MS):
            desk.recv()
            desk.send(json.dumps({"part": None}).encode())
            continue
        states = [ask(llts, {"__TYPE__": "TASK/QUERY", "__TASK_ID__": worker})["__STATUS__"] for worker in workers]
        workers = [worker for worker, state in zip(workers, states) if state != "FINISHED"]
        # One that has not started may never do so, because other tasks have all agents.
        patience = patience - DISMISS_MS if set(states) <= {"WAITING", "FINISHED"} else PATIENCE_MS


def work(address):
    """Asks the desk for parts until it has none left."""
    desk, message = request_socket(address), {}
    while True:
        order = ask(desk, message)
        if order["part"] is None:
            return
        # Hexadecimal, because Python refuses to turn very long integers into decimals.
        message = {"part": order["part"], "sum": hex(partial_sum(**order))}


def partial_sum(part, parts, terms):
    """Every `parts`th term from number `part` on, in units of one scale()th."""
    unit, total = scale(terms), 0
    for k in range(part, terms, parts):
        odd = 2 * k + 1
        term = 16 * unit // (odd * 5**odd) - 4 * unit // (odd * 239**odd)
        total += -term if k % 2 else term
    return total


def scale(terms):
    # Ten digits more than the terms give take up the roundings.
    return 10 ** (digits_right(terms) + 10)


def digits_right(terms):
    # A term is 25 times smaller than the one before: log10(25) = 1.397.
    return terms * 139 // 100


def digits(total, terms):
    shown = min(digits_right(terms), DIGITS_SHOWN)
    text = str(total * 10**shown // scale(terms))
    return text[0] + "." + text[1:]


def request_socket(address):
    socket = zmq.Context.instance().socket(zmq.REQ)
    socket.linger = 0
    socket.rcvtimeo = SILENCE_MS
    socket.connect(address)
    return socket


def ask(socket, message):
    socket.send(json.dumps(message).encode())
    try:
        return json.loads(socket.recv())
    except zmq.Again:
        end(1, f"no answer from {socket.last_endpoint.decode()}")


def read_info(path):
    with open(path, encoding="utf-8") as lines:
        return dict(line.rstrip("\n").split("=", 1) for line in lines)


def positive(task, key, default):
    text = task.get(key, str(default))
    if not text.isdecimal() or int(text) == 0:
        end(2, f"{key} is not a positive number: '{text}'")
    return int(text)


def say(text):
    with open("report.log", "a", encoding="utf-8") as report:
        report.write(text + "\n")


def end(code, text):
    say(text)
    sys.exit(code)


main()

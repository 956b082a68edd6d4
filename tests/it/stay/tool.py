#!/usr/bin/env python3
"""A tool that stays, and does what its task says: it behaves, or it does not."""
import json, os, signal, socket, subprocess, sys, time

line = socket.socket(fileno=int(os.environ["LLTS_STAY_FD"]))
lines = line.makefile()


def encoded(**message):
    return json.dumps(message).encode() + b"\n"


def say(then=b"", **message):
    # Together, so that nobody can see the first without the second.
    line.sendall(encoded(**message) + then)


def done(message, exit_code=0, **more):
    say(type="done", id=message["id"], round=message["round"], exit_code=exit_code, **more)


def do(message):
    task = message["task"]
    mode = task.get("mode", "count")
    if mode == "count":
        print("task", count)
        print("trouble", count, file=sys.stderr)
        sys.stdout.flush()
        done(message, report=f"report {count}", value={"count": count, "pid": os.getpid(), "x": task.get("x")})
    elif mode == "fails":
        done(message, exit_code=7, report="it failed")
    elif mode == "large":
        done(message, value="x" * int(task["size"]))
    elif mode == "folder":
        with open(os.path.join(message["folder"], "out.txt"), "w") as out:
            out.write(open(os.path.join(message["folder"], "in.txt")).read().upper())
        done(message, value=os.listdir(message["folder"]))
    elif mode == "slow":
        print("working", flush=True)
        open(os.path.join(os.environ["PLACE"], "begun"), "w").close()
        kill = json.loads(lines.readline())
        done(message, exit_code=9, report=f"gave up after {kill['type']}")
    elif mode == "hangs":
        open(os.path.join(os.environ["PLACE"], "begun"), "w").close()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    elif mode == "leaves":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        done(message)
    elif mode == "leaves-the-socket":
        subprocess.Popen(["sleep", "1000"], start_new_session=True, pass_fds=[line.fileno()])
        done(message)
    elif mode == "forks":
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        done(message)
    elif mode == "dies":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "exits":
        os._exit(int(task["code"]))
    elif mode == "closes":
        os.close(line.fileno())
        time.sleep(1000)
    elif mode == "shuts":
        line.shutdown(socket.SHUT_RDWR)
        time.sleep(1000)
    elif mode == "twice":
        again = encoded(type="done", id=message["id"], round=message["round"], exit_code=0)
        done(message, then=again)
    elif mode == "other":
        say(type="done", id="TASK_1.000000_aaaaa", round=0, exit_code=0)
    elif mode == "round":
        say(type="done", id=message["id"], round=message["round"] + 1, exit_code=0)
    elif mode == "ready":
        say(type="ready", version=1)
    elif mode == "garbage":
        line.sendall(b"hello world\n")
    elif mode == "binary":
        line.sendall(b'{"type": "\xff\xfe"}\n')
    elif mode == "list":
        line.sendall(b"[1, 2]\n")
    elif mode == "no-code":
        say(type="done", id=message["id"], round=message["round"])
    elif mode == "big-code":
        done(message, exit_code=300)
    elif mode == "type":
        say(type="progress", id=message["id"])
    elif mode == "endless":
        try:
            while True:
                line.sendall(b"x" * 65536)
        except OSError:
            time.sleep(1000)
    elif mode == "flood":
        more = b"more\n" * 1000
        done(message, then=more)
        try:
            while True:
                line.sendall(more)
        except OSError:
            sys.exit()
    elif mode == "exec":
        os.execvp("sleep", ["sleep", "1000"])
    elif mode == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif mode == "late":
        done(message)
        while not os.path.exists(os.path.join(os.environ["PLACE"], "go")):
            time.sleep(0.01)
        print("too late", flush=True)
        open(os.path.join(os.environ["PLACE"], "gone"), "w").close()
    elif mode == "exits-later":
        done(message)
        os._exit(3)
    elif mode == "prints":
        sys.stdout.write("y" * int(task["size"]))
        sys.stdout.flush()
        done(message)
    elif mode == "progress":
        with open(os.environ["LLTS_PROGRESS_FILE"], "w") as progress:
            progress.write("0.5 half\n")
        open(os.path.join(os.environ["PLACE"], "begun"), "w").close()
        lines.readline()
        done(message)


say(type="ready", version=1)
count = 0
for message in map(json.loads, lines):
    if message["type"] == "stop":
        break
    if message["type"] == "task":
        count += 1
        do(message)

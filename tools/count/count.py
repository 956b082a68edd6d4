"""Answers each task with the number of tasks that this process has had. The lines are those of docs/stay.md."""

import json
import os
import socket

line = socket.socket(fileno=int(os.environ["LLTS_STAY_FD"]))


def say(**message):
    line.sendall(json.dumps(message).encode() + b"\n")


say(type="ready", version=1)
count = 0
for message in map(json.loads, line.makefile()):
    if message["type"] == "stop":
        break
    if message["type"] == "task":
        count += 1
        say(type="done", id=message["id"], round=message["round"], exit_code=0, value=count)

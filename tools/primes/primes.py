"""The least divisor of a number, from a table that is made once."""

import json
import os
import socket

LARGEST = 100_000_000
line = socket.socket(fileno=int(os.environ["LLTS_STAY_FD"]))


def say(**message):
    line.sendall(json.dumps(message).encode() + b"\n")


def table():
    """All primes up to the root of the largest number."""
    is_prime = bytearray([1]) * (int(LARGEST**0.5) + 1)
    is_prime[:2] = b"\0\0"
    for number in range(2, len(is_prime)):
        if is_prime[number]:
            is_prime[number * number :: number] = bytes(len(is_prime[number * number :: number]))
    return [number for number in range(len(is_prime)) if is_prime[number]]


def answer(task):
    number = int(task["number"])
    if not 2 <= number <= LARGEST:
        return {"exit_code": 2, "report": f"number is {number}; give one from 2 to {LARGEST}"}
    divisor = next((prime for prime in primes if number % prime == 0), number)
    return {"exit_code": 0, "report": f"the least divisor of {number} is {divisor}", "value": divisor}


primes = table()
say(type="ready", version=1)
for message in map(json.loads, line.makefile()):
    if message["type"] == "stop":
        break
    if message["type"] == "task":
        say(type="done", id=message["id"], round=message["round"], **answer(message["task"]))

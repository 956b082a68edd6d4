"""A prompt worker from the document alone, with the standard library only: `python3 document_worker.py HOST PORT`.

It joins under its own port, acknowledges requests and checks at once, and works in a thread of its own. What it does for a
prompt stands in the prompt: `sleep SECONDS` takes so long, `fail` fails. A closed connection is the end.

Like the original, it takes what one recv() returns after JOIN for one JSON text, and dies of anything behind it.
"""

import json
import socket
import sys
import threading
import time


class Worker:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sending = threading.Lock()

    def send(self, kind, msg="", **more):
        with self.sending:
            self.socket.sendall(json.dumps({"type": kind, "msg": msg, **more}).encode() + b"\n")

    def messages(self):
        """What the master says, object by object: they may stand one behind the other without anything between them."""
        decoder = json.JSONDecoder()
        received = b""
        while True:
            text = received.decode(errors="ignore").lstrip()
            try:
                message, end = decoder.raw_decode(text)
            except ValueError:
                piece = self.socket.recv(1 << 16)
                if not piece:
                    return
                received += piece
                continue
            received = text[end:].encode()
            yield message

    def serve(self):
        self.send("JOIN", str(self.socket.getsockname()[1]))
        answer = self.socket.recv(1 << 16)
        if not answer:
            return
        if json.loads(answer)["type"] != "JOIN_ACK":
            sys.exit("no JOIN_ACK")
        for message in self.messages():
            kind = message["type"]
            if kind == "CHECK":
                self.send("CHECK_ACK", req_id=message["req_id"])
            elif kind == "REQUEST":
                self.send("REQUEST_ACK", req_id=message["req_id"])
                threading.Thread(target=self.work, args=(message,), daemon=True).start()

    def work(self, message):
        done = True
        for line in message["msg"].splitlines():
            verb, _, rest = line.partition(" ")
            if verb == "sleep":
                time.sleep(float(rest))
            elif verb == "fail":
                done = False
        try:
            self.send("DONE" if done else "FAILED", f"task_{message['req_id']}")
        except OSError:
            # The master is gone: the reader hears of it, too.
            pass


def main():
    host, port = sys.argv[1], int(sys.argv[2])
    while True:
        try:
            worker = Worker(host, port)
            break
        except OSError:
            time.sleep(0.02)
    try:
        worker.serve()
    except OSError:
        pass


if __name__ == "__main__":
    main()

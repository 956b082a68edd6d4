"""Files and tools on their way to the controller and back, in parts."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from llts.connection import Connection, Fields
from llts.errors import Error, Refused
from llts.state import escaped

if TYPE_CHECKING:
    from llts.submission import Inputs

# How often the controller may answer that it has not what was sent: another sender of the same bytes may interfere.
SETBACKS_MAX = 100

# Seconds between two questions whether the controller has checked a complete file. It tells nothing by itself.
CHECK_PAUSE = 0.02

NOT_ALLOWED = -1011


class Input:
    """A file for a task."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        with path.open("rb") as file:
            self.digest, self.total = digest_of(file)
        self.is_executable = bool(path.stat().st_mode & 0o100)


def read_inputs(inputs: Inputs) -> list[Input]:
    """Return the files of ``in_``: paths, or paths by the names that the task finds."""
    if isinstance(inputs, Mapping):
        return [Input(name, Path(path)) for name, path in inputs.items()]
    if isinstance(inputs, str | os.PathLike):
        inputs = [inputs]
    return [Input(Path(path).name, Path(path)) for path in inputs]


def digest_of(file: BinaryIO) -> tuple[str, int]:
    """Return the SHA-256 of a file in hexadecimal digits, and its bytes."""
    digest, total = hashlib.sha256(), 0
    while part := file.read(1 << 20):
        digest.update(part)
        total += len(part)
    return digest.hexdigest(), total


def put_inputs(connection: Connection, inputs: Iterable[Input]) -> None:
    """Send the files that the controller lacks."""
    for one in inputs:
        with one.path.open("rb") as file:
            put(connection, "FILE/PUT", {"__TOOL_DIGEST__": one.digest, "__TOTAL__": one.total}, file, str(one.path))


def inputs_text(inputs: Iterable[Input]) -> str:
    """Return the value of ``__IN__``."""
    return json.dumps({escaped(one.name): one.digest + ("+x" if one.is_executable else "") for one in inputs})


def put_for(connection: Connection, inputs: Iterable[Input], submit: Callable[[], object]) -> None:
    """Send the files for a submit, which is made after that.

    A sender that may not send commands may send a file after its submit was refused for lack of it.
    """
    try:
        put_inputs(connection, inputs)
    except Refused as error:
        if error.code != NOT_ALLOWED:
            raise
        try:
            submit()
        except Refused:
            put_inputs(connection, inputs)


def put(connection: Connection, kind: str, fields: Fields, file: BinaryIO, name: str) -> None:
    """Send a file or a tool. ``name`` is for errors. The first request has no bytes, and its answer says where to begin."""
    offset, part, setbacks = 0, b"", 0
    total = fields["__TOTAL__"]
    while True:
        data = {"__BASE64__": base64.b64encode(part).decode()} if part else {}
        answer = connection.ask(kind, {**fields, "__OFFSET__": offset, **data}).result()
        if answer.get("__COMPLETE__"):
            return
        if answer["__OFFSET__"] != offset + len(part):
            setbacks += 1
            if setbacks > SETBACKS_MAX:
                raise Error(f"the controller does not keep the parts of {name}; try again")
        offset = answer["__OFFSET__"]
        if offset >= total > 0:
            time.sleep(CHECK_PAUSE)
        file.seek(offset)
        part = file.read(answer["__LIMIT__"])
        if not part and offset < total:
            raise Error(f"{name} ends after {offset} of its {total} bytes; if it is being written, wait until it is complete")


def get(connection: Connection, digest: str, target: Path) -> None:
    """Fetch a file. It has its name when its bytes are right, and not before."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    found, offset = hashlib.sha256(), 0
    try:
        with draft.open("wb") as file:
            while True:
                answer = connection.ask("FILE/GET", {"__TOOL_DIGEST__": digest, "__OFFSET__": offset}).result()
                part = base64.b64decode(answer["__BASE64__"])
                file.write(part)
                found.update(part)
                offset += len(part)
                if offset >= answer["__TOTAL__"] or not part:
                    break
        if found.hexdigest() != digest:
            raise Error(f"the bytes of {target.name} arrived wrong; fetch it again")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def push_tool(connection: Connection, name: str, archive: BinaryIO, by: str) -> None:
    """Make an archive the newest version of a tool. One that the controller has is not sent."""
    digest, total = digest_of(archive)
    fields: dict[str, Any] = {"__OPERATION__": name, "__TOOL_DIGEST__": digest, "__TOTAL__": total, "__BY__": by}
    put(connection, "TOOL/PUT", fields, archive, f"the archive of {name}")

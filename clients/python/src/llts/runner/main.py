"""The tool that runs the functions of llts.Executor. It is packed with ``stay.py``, which is ``llts/tool.py``.

The first argument is the version of Python of the client. ``initializer.pickle`` holds a function and its arguments.
"""

import base64
import pickle
import sys
import traceback
from pathlib import Path

import cloudpickle  # a copy of the client's, so that agents need no package; or a part of the pickle module
from stay import Reply, serve

# Characters of a value, below VALUE_BYTES_MAX of the service.
VALUE_CHARACTERS_MAX = 32_000

# Characters of an exception as a pickle, and of its traceback: together they fit into a value, also when each becomes an escape.
ERROR_CHARACTERS_MAX, TRACEBACK_CHARACTERS_MAX = 20_000, 2_000

wanted = sys.argv[1]
own = "{}.{}".format(*sys.version_info)
mismatch = (
    None
    if own == wanted
    else (
        "this agent runs Python {}, and the function is one of Python {}: name a Python of that version with "
        "executor(python=...)".format(own, wanted)
    )
)
functions = {}


def dumps(value):
    """Pickle a value, by value where it belongs to the main program."""
    try:
        data = pickle.dumps(value)
    except Exception:
        return cloudpickle.dumps(value)
    return cloudpickle.dumps(value) if b"__main__" in data else data


def portable(error):
    """Pickle an exception, or what can be said of one that cannot be pickled, or is too large."""
    try:
        text = base64.b64encode(dumps(error)).decode()
        pickle.loads(base64.b64decode(text))
        if len(text) <= ERROR_CHARACTERS_MAX:
            return text
    except Exception:
        pass
    said = "{}: {}".format(type(error).__name__, error)[:TRACEBACK_CHARACTERS_MAX]
    return base64.b64encode(pickle.dumps(RuntimeError(said))).decode()


def function_of(text):
    """Return a function that came with a call. The same bytes are read once."""
    function = functions.get(text)
    if function is None:
        if len(functions) >= 100:
            functions.clear()
        function = functions[text] = pickle.loads(base64.b64decode(text))
    return function


def call(task):
    """Run the call of a task."""
    if "function" in task:
        function, arguments = function_of(task["function"]), pickle.loads(base64.b64decode(task["call"]))
    else:
        # The inputs of some senders are in a folder of their own.
        found = [path for path in (Path(task.folder, name) for name in ("call.pickle", "in/call.pickle")) if path.exists()]
        function, arguments = pickle.loads(found[0].read_bytes())
    if task.get("chunk"):
        return [function(*each) for each in arguments]
    args, kwargs = arguments
    return function(*args, **kwargs)


def handle(task):
    """Answer a task with the pickle of a result, or of an exception."""
    if mismatch is not None:
        return Reply({"mismatch": mismatch}, mismatch, 1)
    try:
        data = dumps(call(task))
    except SystemExit as error:
        said = "the function has called sys.exit({!r})".format(error.code)
        return Reply({"error": portable(RuntimeError(said)), "traceback": said}, said, 1)
    except Exception as error:
        trace = traceback.format_exc()
        return Reply({"error": portable(error), "traceback": trace[-TRACEBACK_CHARACTERS_MAX:]}, trace, 1)
    text = base64.b64encode(data).decode()
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text
    if task.folder is not None:
        Path(task.folder, "result.pickle").write_bytes(data)
        return {"file": "result.pickle"}
    why = "the result has {} bytes as a pickle, and may have {}: use executor(files=True)".format(
        len(data), VALUE_CHARACTERS_MAX * 3 // 4
    )
    return Reply({"large": why}, why, 1)


if mismatch is None:
    initializer = Path("initializer.pickle")
    if initializer.exists():
        function, arguments = pickle.loads(initializer.read_bytes())
        function(*arguments)
serve(handle)

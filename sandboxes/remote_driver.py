"""A small program that runs a Python program on the far side where a service cannot: arguments, bytes that are no text, the channel.

The channel's content follows a mark at the end of standard output. Nothing here is secret from the program, nor needs to be: what
it forges are values, and they are compared elsewhere.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from guerdon.sandboxes.base import Job, Limits

__all__ = ["driver", "encoded", "split"]

_MARK = "\n\x1eguerdon-channel:"

_DRIVER = """
import base64, fcntl, json, os, subprocess, sys, tempfile
job = json.loads({job!r})
def file(content):
    with tempfile.TemporaryFile() as new:
        new.write(content)
        new.seek(0)
        return fcntl.fcntl(new.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)
open("solution.py", "wb").write(base64.b64decode(job["source"]))
for path, content in job["files"]:
    if "/" in path: os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "wb").write(base64.b64decode(content))
environment, fds = {{**os.environ, "PYTHONHASHSEED": "0"}}, ()
if job["channel"]:
    channel, fds = file(b""), (3,)
    os.dup2(channel, 3)
    environment["GUERDON_CHANNEL"] = "3"
stdin = file(base64.b64decode(job["stdin"]))
done = subprocess.run([sys.executable, "solution.py", *job["args"]], stdin=stdin, env=environment, pass_fds=fds)
if job["channel"]:
    os.lseek(channel, 0, os.SEEK_SET)
    print(job["mark"], base64.b64encode(open(channel, "rb").read({limit} + 1)).decode(), sep="", flush=True)
if done.returncode < 0:
    os.kill(os.getpid(), -done.returncode)
os._exit(done.returncode & 255)
"""


def driver(job: Job, limits: Limits) -> str:
    """The source of the program that runs a job."""
    carried = {
        "source": encoded(job.source.encode("utf-8", "surrogatepass")),
        "files": [(path, encoded(content)) for path, content in job.files],
        "stdin": encoded(job.stdin),
        "args": list(job.args),
        "channel": job.channel,
        "mark": _MARK,
    }
    return _DRIVER.format(job=json.dumps(carried), limit=limits.output_kb * 1024)


def split(fields: dict[str, Any]) -> dict[str, Any]:
    """Take what the driver put behind its mark for the channel.

    Without the mark the program ended its driver or the output was cut: the program's doing, so its status stands and the channel is
    empty, which no grader takes for an answer.
    """
    out, mark, text = fields.get("stdout", b"").rpartition(_MARK.encode())
    if not mark:
        return fields
    try:
        channel = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        return {**fields, "status": "output_limit", "stdout": out, "detail": "the channel was cut"}
    return {**fields, "stdout": out, "channel": channel}


def encoded(content: bytes) -> str:
    """Base64, as JSON carries it."""
    return base64.b64encode(content).decode()

"""The same function by four executors, in alternating rounds; see run.sh. Each has two processes for calls."""

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import celery

app = celery.Celery("compare", broker=os.environ["COMPARE_REDIS"], backend=os.environ["COMPARE_REDIS"])
app.conf.worker_hijack_root_logger = False

CALLS, SINGLE = 10_000, 300


def score(x):
    return x * x


task = app.task(name="score")(score)


class Celery:
    """A producer of tasks, with the interface of the others."""

    def one(self, x):
        return task.delay(x).get(disable_sync_subtasks=False)

    def map(self, xs):
        # A group is what its users take for a map.
        return celery.group(task.s(x) for x in xs)().get(disable_sync_subtasks=False)


class Futures:
    """Whatever has submit and map of concurrent.futures."""

    def __init__(self, executor):
        self.executor = executor

    def one(self, x):
        return self.executor.submit(score, x).result()

    def map(self, xs):
        return list(self.executor.map(score, xs))


class Dask(Futures):
    def map(self, xs):
        # Dask gives two calls of one function with equal arguments one result, unless it is told not to.
        return self.executor.gather(self.executor.map(score, list(xs), pure=False))

    def one(self, x):
        return self.executor.submit(score, x, pure=False).result()


def spawned():
    before = time.perf_counter()
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    return time.perf_counter() - before


def timed(call, *arguments):
    before = time.perf_counter()
    result = call(*arguments)
    return time.perf_counter() - before, result


def main():
    from dask.distributed import Client as DaskClient
    from dask.distributed import LocalCluster

    import llts

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    subjects = {
        "llts executor()": Futures(llts.Client().executor()),
        "ProcessPoolExecutor(2)": Futures(ProcessPoolExecutor(2)),
        "Dask, 2 workers": Dask(DaskClient(cluster)),
        "Celery on Redis, 2 workers": Celery(),
    }
    expected = [x * x for x in range(CALLS)]
    one, many, processes, lines = {name: [] for name in subjects}, {name: [] for name in subjects}, [], []
    for subject in subjects.values():
        subject.map(range(100))
    for _ in range(int(sys.argv[1])):
        processes.append(statistics.median(spawned() for _ in range(SINGLE)))
        before = time.perf_counter()
        subprocess.run(["xargs", "-P2", "-n1", "true"], input="x\n" * 2000, text=True, check=True)
        lines.append(2000 / (time.perf_counter() - before))
        for name, subject in subjects.items():
            one[name].append(statistics.median(timed(subject.one, x)[0] for x in range(SINGLE)))
            seconds, results = timed(subject.map, range(CALLS))
            assert results == expected, name
            many[name].append(CALLS / seconds)
            print(f"{name}: {one[name][-1] * 1e3:.2f} ms, {many[name][-1]:.0f}/s", file=sys.stderr)
    spawn, rate = statistics.median(processes), statistics.median(lines)
    print(f"| `posix_spawn` of `true`; `xargs -P2 true` | {spawn * 1e3:.2f} ms | 1 | {rate:.0f}/s | 1 |")
    for name in subjects:
        latency, throughput = statistics.median(one[name]), statistics.median(many[name])
        print(f"| {name} | {latency * 1e3:.2f} ms | {latency / spawn:.2f} | {throughput:.0f}/s | {throughput / rate:.2f} |")
    cluster.close(timeout=10)
    for name in ("llts executor()", "ProcessPoolExecutor(2)"):
        subjects[name].executor.shutdown()
    # Threads of the libraries would wait for their peers, which run.sh ends.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

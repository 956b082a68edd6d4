"""The client for asyncio."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LIMIT, push

import llts


def run(service, body):
    async def main():
        async with llts.aio.Client(service.home) as c:
            return await asyncio.wait_for(body(c), LIMIT)

    return asyncio.run(main())


def test_tasks(service):
    async def body(c):
        tool = await asyncio.to_thread(push, c.plain, "aio", 'echo "$PARAM_n"')
        task = await c.submit(tool, {"n": 1})
        assert (await task.result()).stdout == "1\n"
        assert await task.stdout() == "1\n"
        assert [part async for part in task.logs()] == [b"1\n"]
        assert (await task.query()).id == task.id == c.task(task.id).id
        assert await task.explain()
        tasks = await c.submit_many(tool, [{"n": n} for n in range(5)])
        assert sorted([(await t.result()).stdout async for t in llts.aio.as_completed(tasks)]) == [f"{n}\n" for n in range(5)]
        with pytest.raises(llts.Refused):
            await c.submit("there-is-no-such-tool")
        failed = await c.run("exit 3")
        with pytest.raises(llts.TaskFailed):
            await failed.result()
        assert "waiting" in await c.stats()
        assert len(await c.agents()) == 2
        assert isinstance(await c.gates(), dict)
        assert {state.id async for state in c.list(tool=tool)} >= {t.id for t in tasks}

    run(service, body)


def test_many_waits_need_no_threads(service):
    async def body(c):
        job = c.job("aio")
        tasks = [job.run(["true"], cwd="/") for _ in range(300)]
        states = await asyncio.gather(*(task.wait() for task in tasks))
        assert all(state.succeeded for state in states)
        assert len([task async for task in job.as_completed()]) == 300
        assert (await job.wait())["succeeded"] == 300
        assert (await job.query())["total"] == 300

    run(service, body)


def test_waits_can_be_cancelled_and_limited(service):
    async def body(c):
        task = await c.run(["sleep", "60"])
        with pytest.raises(TimeoutError):
            await task.wait(0.05)
        waiting = asyncio.create_task(task.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await task.kill("enough")
        assert (await task.wait()).outcome == "KILLED"

    run(service, body)


def test_files_and_graphs(service, tmp_path):
    async def body(c):
        task = await c.run("echo hi > a.txt", out="*.txt")
        assert "a.txt" in await task.files()
        [path] = await task.fetch(tmp_path)
        assert path.read_text() == "hi\n"
        graph = llts.Graph()
        graph.step("one", command=["true"])
        assert (await c.run_graph(graph)).status == "SUCCEEDED"
        graph.step("bad", command=["false"])
        with pytest.raises(llts.GraphFailed, match="bad"):
            await c.run_graph(graph)

    run(service, body)


def test_waits_leave_the_threads_to_other_calls(service, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)

    async def body(c):
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        job = c.job("aio-silent")
        task = job.run(["sleep", "60"])
        graph = llts.Graph()
        graph.step("one", command=["cat", str(go)])

        async def logged():
            return [part async for part in task.logs()]

        waits = [asyncio.create_task(it) for it in (job.wait(), logged(), task.stdout(), task.stderr(), c.run_graph(graph))]
        await asyncio.sleep(0)
        # The one thread gets to this and to the kill if the waits, which had it before, have left it.
        await asyncio.to_thread(go.write_text, "")
        await task.kill()
        ended, *texts, state = await asyncio.gather(*waits)
        assert (ended["killed"], texts, state.status) == (1, [[], "", ""], "SUCCEEDED")

    run(service, body)


def test_a_client_is_closed_while_calls_have_all_threads(service):
    async def main():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        async with llts.aio.Client(service.home) as c:
            task = await c.run(["sleep", "60"])
            # Only the close ends this wait.
            waiting = loop.run_in_executor(None, task.plain.wait)
        with pytest.raises(llts.Error, match="closed"):
            await waiting
        async with llts.aio.Client(service.home) as c:
            await c.task(task.id).kill()

    asyncio.run(asyncio.wait_for(main(), LIMIT))

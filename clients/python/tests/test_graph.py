"""Graphs that are built in Python."""

import pytest
from conftest import LIMIT

import llts


def words(folder):
    graph = llts.Graph("words")
    split = graph.step("split", command=["sh", "-c", "printf 'a\\nb\\nc\\n' > ../provide/parts"], outputs=["parts"])
    count = graph.step("count", command=["sh", "-c", 'echo "$INPUT_in"'], inputs={"in": split["parts"]}, tasks="in")
    merge = graph.step("merge", inputs={"in": [count, split["parts"]]})
    graph.step("end", command=["true"], inputs={"in": merge}, policy={"__MAX_FAILS__": 1})
    return graph


def test_a_graph_runs(c, tmp_path):
    run = c.submit_graph(words(tmp_path), given_id="mine")
    assert run.result(LIMIT).status == "SUCCEEDED"
    steps = run.steps()
    assert set(steps) == {"split", "count", "merge", "end"}
    assert steps["split"]["state"] == "DEACTIVATED"
    counts = [state for state in c.list(job=run.id) if state.fields.get("__STEP__") == "count"]
    assert sorted(state.stdout for state in counts) == ["a\n", "b\n", "c\n"]
    assert c.graph(run.id).query().status == "SUCCEEDED"
    assert run.id in {state.id for state in c.graphs()}


def test_a_graph_that_fails_names_the_step(c):
    graph = llts.Graph()
    graph.step("bad", command=["false"])
    with pytest.raises(llts.GraphFailed, match="bad") as raised:
        c.submit_graph(graph).result(LIMIT)
    assert raised.value.state.status == "FAILED"


def test_a_graph_can_be_killed_and_has_one_key(c):
    graph = llts.Graph("long")
    graph.step("long", command=["sleep", "60"])
    runs = [c.submit_graph(graph, submit_key="one") for _ in range(2)]
    assert runs[0].id == runs[1].id
    with pytest.raises(TimeoutError):
        runs[0].wait(0.05)
    runs[0].kill("enough")
    assert runs[0].wait(LIMIT).status == "KILLED"


def test_wrong_graphs_are_refused(c):
    graph = llts.Graph()
    graph.step("a", command=["true"])
    with pytest.raises(ValueError, match="already"):
        graph.step("a", command=["true"])
    with pytest.raises(llts.Refused):
        c.submit_graph('{"steps": {"a": {"inputs": {"in": ["nowhere.out"]}}}}')

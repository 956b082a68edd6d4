"""Runs one part of a suite: `pytest -p part --part 1/3` runs the tests 1, 4, 7, …, so that a runner of many suites can spread it."""


def pytest_addoption(parser):
    parser.addoption("--part", default="1/1", help="which of how many parts of the suite, such as 2/3")


def pytest_collection_modifyitems(config, items):
    part, parts = map(int, config.option.part.split("/"))
    mine = items[part - 1 :: parts]
    config.hook.pytest_deselected(items=[item for item in items if item not in mine])
    items[:] = mine

import pytest

from machine import Machine


@pytest.fixture
def machine(tmp_path_factory):
    made = Machine(tmp_path_factory.mktemp("machine"))
    yield made
    made.close()

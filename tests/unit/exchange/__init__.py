import pytest

pytest.register_assert_rewrite("tests.unit.exchange.playbook")

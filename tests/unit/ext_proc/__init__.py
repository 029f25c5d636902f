import pytest

pytest.register_assert_rewrite("tests.unit.ext_proc.playbook")

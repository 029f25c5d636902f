"""Headers are found by their names in lower case, however a client or a provider spelt them."""

from extproc.headers import chosen, in_lower_case


def test_names_in_any_case_become_lower_case_and_values_stay() -> None:
    assert in_lower_case({"Content-Type": "Text/Plain", "x-b": "B"}) == {"content-type": "Text/Plain", "x-b": "B"}
    assert in_lower_case({"x-a": "A", "RETRY-AFTER": "1"}) == {"x-a": "A", "retry-after": "1"}


def test_headers_that_are_in_lower_case_are_not_copied() -> None:
    headers = {":path": "/", "x-a-1": "A"}
    assert in_lower_case(headers) is headers


def test_no_headers_are_no_headers() -> None:
    assert in_lower_case({}) == {}


def test_what_a_set_of_names_decides_is_worked_out_once_for_all_of_them() -> None:
    asked: list[str] = []

    def is_ours(name: str) -> bool:
        asked.append(name)
        return name.startswith("x-")

    ours = chosen(is_ours)
    for _ in range(2):
        assert ours["x-b", "a", "x-a"] == ("x-b", "x-a")
    assert asked == ["x-b", "a", "x-a"]
    for number in range(50):
        assert ours[f"x-{number}" * 1000,] == (f"x-{number}" * 1000,)
    assert list(ours) == [("x-b", "a", "x-a")]

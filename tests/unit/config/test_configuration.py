"""`Config`: which rule serves a model, which models a team may use, which keys are secret."""

from __future__ import annotations

from extproc.config import Attempt, Backend, Config, ModelRule, Team


def rule(match: str, *listed: str) -> ModelRule:
    return ModelRule(match=match, attempts=[Attempt(backend="b", model="x")], list=list(listed))


def config(*rules: ModelRule, teams: dict[str, Team] | None = None) -> Config:
    return Config(backends={"b": Backend(api="openai", url="https://x.example/v1", key="sk-b")}, models=list(rules),
                  teams=teams or {})


def test_the_first_rule_that_matches_wins_and_case_matters() -> None:
    exact, glob = rule("claude-opus"), rule("claude-*")
    served = config(exact, glob)
    assert served.find_rule("claude-opus") is exact
    assert served.find_rule("claude-opus-4") is glob
    assert served.find_rule("Claude-opus") is None
    assert served.find_rule("") is None


def test_any_number_of_names_is_found_and_few_are_remembered() -> None:
    served = config(rule("claude-*"), rule("*"))
    for _ in range(2):
        for number in range(3000):
            assert served.find_rule(f"claude-{number}") is served.models[0]
            assert served.find_rule(f"x{number}") is served.models[1]
    assert served.find_rule.cache_info().currsize <= 1024  # type: ignore[attr-defined]
    before = served.find_rule.cache_info().currsize  # type: ignore[attr-defined]
    assert served.find_rule(f"x{'y' * 201}") is served.models[1]
    assert served.find_rule.cache_info().currsize == before  # type: ignore[attr-defined]


def test_a_rule_is_found_by_its_id() -> None:
    served = config(rule("a"), rule("b*"))
    assert all(served.rule_by_id(one.id) is one for one in served.models)
    assert served.rule_by_id("gone-00000000") is None


def test_an_unknown_name_gets_similar_names() -> None:
    served = config(rule("claude-*", "claude-sonnet-4-5", "claude-opus-4-1"), rule("GPT-5"))
    assert served.similar_models("claude-sonet-45")[0] == "claude-sonnet-4-5"
    assert served.similar_models("gpt5")[0] == "GPT-5"
    assert served.similar_models("zzz") == ["claude-sonnet-4-5", "claude-opus-4-1", "GPT-5"]
    assert len(config(*(rule(f"model-{n}") for n in range(9))).similar_models("model-")) == 5


def test_listed_models_have_no_duplicates_and_no_globs() -> None:
    served = config(rule("a"), rule("b*", "b1", "b2"), rule("c?", "b1"), rule("*"))
    assert served.listed_models() == ["a", "b1", "b2"]


def test_a_team_sees_and_uses_its_own_models_only() -> None:
    served = config(rule("claude-*", "claude-a"), rule("gpt"),
                    teams={"red": Team(key="r", models=["claude-*"]), "all": Team(key="a")})
    assert served.listed_models("red") == ["claude-a"]
    assert served.listed_models("all") == ["claude-a", "gpt"]
    assert served.allows("red", "claude-zzz")
    assert not served.allows("red", "gpt")
    assert served.similar_models("gpt", "red") == ["claude-a"]
    assert not served.allows(None, "gpt")
    assert not served.allows("unknown", "gpt")


def test_without_teams_every_model_is_allowed() -> None:
    assert config(rule("a")).allows(None, "a")


def test_keys_are_known_for_scrubbing_and_never_shown() -> None:
    served = Config(backends={"a": Backend(api="openai", url="https://a.example", key="short"),
                              "b": Backend(api="openai", url="https://b.example", key="much-longer"),
                              "c": Backend(api="openai", url="https://c.example")},
                    models=[], teams={"t": Team(key=["team-key-1", "team-key-2"])})
    assert list(served.secrets()) == ["much-longer", "short"]
    for key in ("much-longer", "short", "team-key-1", "team-key-2"):
        assert key not in repr(served)

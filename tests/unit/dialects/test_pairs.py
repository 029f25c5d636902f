"""Pairs of key and value between tags: Hunyuan, IQuest, K2 Horizon, Solar Open 2, Poolside."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
VALVE = ("valve", {"id": 3, "locked": True})


def hunyuan(*calls: tuple[str, dict[str, str]], suffix: str = "", separator: bool = True, line: str = "\n") -> str:
    def tag(name: str) -> str:
        return f"<{name}{suffix}>"

    blocks = []
    for name, values in calls:
        pairs = "".join(f"{tag('arg_key')}{key}{tag('/arg_key')}{line}{tag('arg_value')}{value}{tag('/arg_value')}{line}"
                        for key, value in values.items())
        blocks.append(f"{tag('tool_call')}{name}{tag('tool_sep') if separator else ''}{line}{pairs}{tag('/tool_call')}")
    return f"{tag('tool_calls')}{line}{line.join(blocks)}{line}{tag('/tool_calls')}"


@pytest.mark.parametrize("model", ["tencent/Hy3-preview", "tencent/hy4", "tencent/Hunyuan-A13B-Instruct", "nobody/x"])
@pytest.mark.parametrize("suffix", ["", ":opensource", ":6124c78e"])
@pytest.mark.parametrize("separator", [True, False])
def test_hunyuan(model: str, suffix: str, separator: bool) -> None:
    calls = (("tide", {"harbor": "Brest"}), ("valve", {"id": "3", "locked": "true"}), ("ping", {}))
    for line in ("\n", ""):
        raw = hunyuan(*calls, suffix=suffix, separator=separator or not line, line=line)
        assert_reads(None, f"Checking.{raw}", BREST, VALVE, ("ping", {}), text="Checking.", model=model)
        assert_reads(None, f"{raw}\nDone.", BREST, VALVE, ("ping", {}), text="Done.", model=model)


class TestHunyuan:
    def test_around_it(self) -> None:
        raw = hunyuan(("tide", {"harbor": "Brest"}), suffix=":opensource")
        assert_reads("hy3", f"<think:opensource>Hm.</think:opensource>{raw}<｜hy_eos:opensource｜>", BREST, reasoning="Hm.")
        assert_reads("hy3", "<think>Hm.</think>\nHigh.<｜hy_eos｜>", reasoning="Hm.", text="High.")

    def test_of_a_key_that_comes_twice_the_last_value_counts(self) -> None:
        pair = "<arg_key>{}</arg_key><arg_value>{}</arg_value>"
        for key, values, want in (("harbor", ("Paris", "Brest"), "Brest"), ("id", ("1", "2"), 2)):
            name = "tide" if key == "harbor" else "valve"
            raw = "".join(pair.format(key, value) for value in values)
            assert_reads("hy3", f"<tool_calls><tool_call>{name}{raw}</tool_call></tool_calls>", (name, {key: want}))

    def test_markup_in_a_value(self) -> None:
        for value in ("a < b </arg_value> c", "<tool_call>x</tool_call>", "line\n\n", "</tool_calls> is a tag"):
            raw = hunyuan(("tide", {"harbor": value, "day": "x"}), suffix=":opensource")
            assert_reads("hy3", raw.replace("</arg_value>", "</arg_value:opensource>"),
                  ("tide", {"harbor": value.replace("</arg_value>", "</arg_value:opensource>"), "day": "x"}))

    def test_missing_closers(self) -> None:
        raw = hunyuan(("tide", {"harbor": "Brest"}))
        for missing in ("</tool_calls>", "\n</tool_call>\n</tool_calls>"):
            assert_reads("hy3", raw.removesuffix(missing), BREST)
        assert_breaks_off("hy3", raw[:raw.index("</arg_value>")], "tide")

    def test_a_suffixed_block_that_holds_nothing_is_dropped(self) -> None:
        assert_reads("hy3", "High.\n<tool_calls:opensource>\n</tool_calls:opensource><｜hy_eos:opensource｜>", text="High.")

    def test_what_calls_no_offered_tool_is_text(self) -> None:
        assert_stays_text("hy3", hunyuan(("exec", {"cmd": "ls"})))
        assert_stays_text("hy3", hunyuan(("exec", {"cmd": "ls"}), suffix=":opensource"))
        assert_stays_text("hy3", "It writes <tool_calls> and <tool_call:opensource> around a call.")


@pytest.mark.parametrize("tag", ["iquest_tool_call", "iquestcoder_tool_call"])
@pytest.mark.parametrize("line", ["", "\n"])
def test_iquest(tag: str, line: str) -> None:
    def call(name: str, *pairs: tuple[str, str]) -> str:
        return f"<{tag}>{name}{line}" + "".join(
            f"<arg_key>{key}</arg_key>{line}<arg_value>{value}</arg_value>{line}" for key, value in pairs) + f"</{tag}>"

    raw = call("tide", ("harbor", "12345")) + call("valve", ("id", "3"), ("locked", "true"))
    for model in ("IQuestLab/IQuest-Coder-V2-Instruct", "nobody/knows-it"):
        assert_reads(None, f"I look.\n{raw}", ("tide", {"harbor": "12345"}), VALVE, text="I look.", model=model)
    assert_reads("iquest", call("ping") + "<|im_end|>", ("ping", {}))
    assert_stays_text("iquest", call("exec", ("cmd", "ls")))


class TestK2Horizon:
    def test_kinds_of_bodies(self) -> None:
        typed = "<ifm|arg_type>integer</ifm|arg_type>"
        for kind in ("", typed):
            raw = (f"<ifm|tool_calls>\n<ifm|tool_call>valve\n<ifm|arg_key>id</ifm|arg_key>{kind}<ifm|arg_value>3"
                   f"</ifm|arg_value>\n<ifm|arg_key>locked</ifm|arg_key>{kind}\n<ifm|arg_value>true</ifm|arg_value>\n"
                   "</ifm|tool_call>\n<ifm|tool_call>ping</ifm|tool_call>\n</ifm|tool_calls>")
            assert_reads("k2-horizon", f"Before{raw}after", VALVE, ("ping", {}), text="Beforeafter", exact=True)
            assert_reads(None, raw, VALVE, ("ping", {}), model="LLM360/K2-Horizon")

    def test_json_bodies(self) -> None:
        first, second = '{"name": "valve", "arguments": {"id": "3", "locked": true}}', '{"name": "ping", "arguments": {}}'
        separate = f"<ifm|tool_call>{first}</ifm|tool_call>\n<ifm|tool_call>{second}</ifm|tool_call>"
        for body in (separate, f"[{first}, {second}]", f"<ifm|tool_call>[{first}, {second}]</ifm|tool_call>"):
            assert_reads("k2-horizon", f"Before <ifm|tool_calls>{body}</ifm|tool_calls> after", VALVE, ("ping", {}),
                  text="Before after")

    def test_reasoning(self) -> None:
        for kind in ("think", "think_fast", "think_faster"):
            assert_reads("k2-horizon", f"<ifm|{kind}>Hm.</ifm|{kind}>High.", reasoning="Hm.", text="High.")

    def test_text(self) -> None:
        assert_stays_text("k2-horizon", "<ifm|tool_calls>junk</ifm|tool_calls>")
        assert_stays_text("k2-horizon", "<ifm|tool_calls><ifm|tool_call>exec</ifm|tool_call></ifm|tool_calls>")
        assert_stays_text("k2-horizon", '<ifm|tool_calls><ifm|tool_call>{"name": "exec"}</ifm|tool_call></ifm|tool_calls>')
        assert_breaks_off("k2-horizon", "<ifm|tool_calls><ifm|tool_call>tide<ifm|arg_key>harbor</ifm|arg_key><ifm|arg_value>Br",
                   "tide")


class TestSolarOpen2:
    def call(self, name: str, *pairs: tuple[str, str]) -> str:
        return f"<|tool_call:start|>{name}\n" + "".join(
            f"<|tool_arg:start|>{key}<|tool_arg:value|>{value}<|tool_arg:end|>\n" for key, value in pairs
        ) + "<|tool_call:end|>"

    def test_calls(self) -> None:
        raw = (f"<|think:start|>Hm.<|think:end|>Sure.{self.call('tide', ('harbor', 'Brest'))}\n"
               f"{self.call('valve', ('id', '3'), ('locked', 'true'))}")
        for model in ("upstage/Solar-Open2-250B", "nobody/knows-it"):
            assert_reads(None, raw, BREST, VALVE, reasoning="Hm.", text="Sure.", model=model)
        assert_reads("solar-open-2", self.call("ping"), ("ping", {}))

    def test_of_a_name_that_comes_twice_the_first_value_counts(self) -> None:
        assert_reads("solar-open-2", self.call("tide", ("harbor", "Brest"), ("harbor", "Paris"), ("day", "x")),
              ("tide", {"harbor": "Brest", "day": "x"}))
        assert_reads("solar-open-2", self.call("valve", ("id", "3"), ("id", "4"), ("locked", "true")), VALVE)

    def test_missing_ends(self) -> None:
        broken = "<|tool_call:start|>tide\n<|tool_arg:start|>harbor<|tool_arg:value|>Brest"
        whole = self.call("ping")
        assert_reads("solar-open-2", f"{broken}<|tool_call:end|>{whole}", BREST, ("ping", {}))
        assert_reads("solar-open-2", f"{broken}<|tool_arg:end|>\n{whole}", BREST, ("ping", {}))
        assert_breaks_off("solar-open-2", broken, "tide")

    def test_half_a_sentinel_in_a_value_is_data(self) -> None:
        assert_reads("solar-open-2", self.call("tide", ("harbor", "a <|tool_call: b")), ("tide", {"harbor": "a <|tool_call: b"}))
        assert_stays_text("solar-open-2", self.call("exec", ("cmd", "ls")))


def test_poolside() -> None:
    pairs = "tide\n<arg_key>harbor</arg_key>\n<arg_value>Brest</arg_value>\n"
    for raw in (f"<tool_call>{pairs}</tool_call>", f"<user>{pairs}</user>", f"<tool_call>{pairs}</user>",
                '<tool_call>tide\n{"harbor": "Brest"}</tool_call>', '<tool_call>tide {"harbor": "Brest"}\n</tool_call>'):
        assert_reads(None, f"I look.\n{raw}</assistant>", BREST, text="I look.", model="poolside/Laguna-M.1")
        assert_reads("poolside", raw + raw, BREST, BREST)
    assert_stays_text("poolside", "The <user> asked <tool_call>.")
    assert_stays_text("poolside", '<tool_call>exec\n{"cmd": "ls"}</tool_call>')
    assert_breaks_off("poolside", '<tool_call>tide\n{"harbor": "Br', "tide")

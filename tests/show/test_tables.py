"""What a trace looks like in a terminal of 100 columns."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import torch
from rich.console import Console, RenderableType

from attnscope.calls import Call, Source, Trace
from attnscope.calls.trace import Other, Unseen
from attnscope.show.tables import SAME, shapes_table, trace_table
from attnscope.show.walks import MOST_KEYS, walk_view

CallMaker = Callable[..., Call]


def drawn(view: RenderableType, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width, highlight=False, markup=False).print(view)
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    return text


def row(text: str, index: int) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [str(index)])


def test_every_call_is_listed_and_what_repeats_is_a_ditto(layers: Trace) -> None:
    text = drawn(trace_table(layers, "sample:net"))
    for index in range(6):
        assert f"encoder.layer.{index}.attention.self" in row(text, index)
        assert "exact" in row(text, index)
    assert "causal 58%" in row(text, 0)
    assert "0.3536" in row(text, 0)
    assert row(text, 1).count(SAME) == 7
    assert "6 calls, all replayed exactly" in text
    assert "sdpa  at pack/model.py:40 in forward" in text


def test_nothing_is_cut_off_at_100_columns(make_call: CallMaker) -> None:
    module = "model.language_model.decoder.block.11.layer.1.EncDecAttention"
    extras = {"bias": torch.randn(1, 4, 6, 6), "softcap": 50.0, "dropout": 0.1}
    calls = [make_call(n, module, causal=True, step=n, kv_heads=2, **extras) for n in range(2)]
    text = drawn(trace_table(Trace(calls), "sample:net"))
    pieces = [line[7:40].split()[0] for line in text.splitlines() if line[7:10].strip()]
    assert module in "".join(pieces)
    for word in ("causal 58%", "bias", "cap 50", "dropout 0.1", "4/2", "exact", "step"):
        assert word in text


def test_what_is_unusual_is_said(make_call: CallMaker) -> None:
    calls = [
        make_call(0, "a", sinks=torch.zeros(1, 4, 1, 1), error=3e-7),
        make_call(1, "b", scale=torch.tensor([0.1, 0.2, 0.3, 0.4]).view(1, 4, 1, 1), kind="eager"),
        make_call(2, "c", scale=None, unknown=("scale",), error=None, line=70),
    ]
    text = drawn(trace_table(Trace(calls), "net"))
    assert "sink" in row(text, 0)
    assert "3e-07" in row(text, 0)
    assert "0.100–0.400" in row(text, 1)
    assert "unread:" in text
    assert "sdpa a" in row(text, 0)
    assert "eager b" in row(text, 1)
    assert "sdpa c" in row(text, 2)
    assert "1 replayed exactly, 1 within 3e-07 of the model's own output (rounding)" in text
    assert "1 without a" in text


def test_more_than_rounding_is_said(make_call: CallMaker) -> None:
    calls = [
        make_call(0, error=3e-7),
        make_call(1, error=1.2),
        make_call(2, error=1e-7, kind="eager"),
    ]
    text = drawn(trace_table(Trace(calls), "net"))
    assert "1 within 3e-07 of the model's own output (rounding)" in text
    assert "2 off by up to 1e+00, which is more than rounding" in " ".join(text.split())


def test_what_was_not_looked_into_stands_below(layers: Trace) -> None:
    source = layers[0].source
    layers.unseen.append(Unseen("blocks.3", "compiled by torch.compile"))
    for layer in range(20):
        layers.others.append(Other(f"mlp.{layer}.router", source, "router", "chooses experts"))
    text = drawn(trace_table(layers, "net"))
    assert "blocks.3: compiled by torch.compile" in text
    assert "mlp.0.router, mlp.1.router" in text
    assert "and 8 more" in text
    assert text.count("router: chooses") == 1


def test_a_trace_without_calls_says_why() -> None:
    assert "no attention seen, because no values were weighed by a softmax of q·k" in drawn(
        trace_table(Trace(), "net")
    )
    unseen = Trace(unseen=[Unseen("net", "it is a scripted module")])
    assert "no attention seen, because it is a scripted module" in drawn(trace_table(unseen, "net"))


def test_a_selection_is_counted(layers: Trace) -> None:
    text = drawn(trace_table(layers, "net", layers.select(module="encoder.layer.2")))
    assert "1 of 6 calls, replayed exactly" in text


def test_the_shape_sheet_names_axes_and_parameters(layers: Trace) -> None:
    text = drawn(shapes_table(layers[0].shapes()))
    assert "batch 2 × heads 4 × queries 6 × head_dim 8" in text
    assert "batch 2 × queries 6 × 32" in text
    assert "to_q.weight, to_q.bias" in text
    assert "lines of /somewhere/model.py" in text
    assert [line.split()[-1] for line in text.splitlines() if "head" in line][-1] == SAME
    assert "12" in next(line for line in text.splitlines() if "to_q.weight" in line).split()


def test_a_shape_sheet_of_two_files_names_the_file_in_each_row(layers: Trace) -> None:
    sheet = layers[0].shapes()
    other = Source("/elsewhere/heads.py", 7, "split", "x.transpose(1, 2)")
    rows = (sheet.rows[0], replace(sheet.rows[1], source=other))
    text = drawn(shapes_table(replace(sheet, module="", rows=rows)))
    assert "model.py:12" in text
    assert "heads.py:7" in text
    assert "shapes of call 0  (the model itself)" in text


def test_a_walk_shows_the_steps_with_the_numbers_of_the_call(layers: Trace) -> None:
    walk = layers.walk(0, 1, 3)
    text = drawn(walk_view(walk, ["[CLS]", "the", "cat", "sat", "on", "mat"], "sat"))
    for head in ("1 dot products", "2 scale", "3 mask and bias", "4 softmax", "5 weighted sum"):
        assert head in text
    assert "query 3 “sat”" in text
    assert "× 0.3536 = 1/√8" in text
    assert "2 of 6 keys are hidden" in text
    assert f"{walk.rows[2].weight:.4f}" in text
    on = next(line for line in text.splitlines() if line.split()[:2] == ["4", "on"])
    assert on.split()[-2:] == ["hidden", "0.0000"]


def test_a_long_walk_keeps_the_largest_weights(make_call: CallMaker) -> None:
    trace = Trace([make_call(0, queries=70, causal=True)])
    walk = trace.walk(0, 0, -1)
    text = drawn(walk_view(walk))
    top = max(walk.rows, key=lambda item: item.weight)
    assert f"{top.weight:.4f}" in row(text, top.key)
    assert f"and {70 - MOST_KEYS} other keys, together" in text


def test_a_walk_with_bias_and_sink_says_so(make_call: CallMaker) -> None:
    parts = {"bias": torch.randn(1, 4, 6, 6), "sinks": torch.ones(1, 4, 1, 1), "softcap": 2.0}
    text = drawn(walk_view(Trace([make_call(0, **parts)]).walk(0, 0, 0)))
    assert "3 bias" in text
    assert "the row sums to 0." in text
    assert "soft-capped" in text

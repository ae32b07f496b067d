from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        {init}
        self.shown = None

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        {body}


model = Attention()
inputs = torch.randn(2, 6, 16)
"""


def program(body: str, init: str = "pass") -> str:
    return PROGRAM.format(body=body, init=init)


@pytest.mark.parametrize(
    "body",
    [
        "return (q.detach() @ k.detach().mT / 4).softmax(-1) @ v  # here",
        "w = (q @ k.mT / 4).softmax(-1).detach(); return w @ v  # here",
        "w = F.one_hot((q @ k.mT).argmax(-1), 6).float(); return w @ v  # here",
        "w = torch.from_numpy((q @ k.mT).detach().numpy()); return w.softmax(-1) @ v  # here",
    ],
)
def test_a_way_back_that_is_cut(tmp_path: Path, body: str) -> None:
    finding = only(tmp_path, program(body), "AS902")
    assert (finding.code, finding.severity) == ("AS902", "warning")
    assert {"q.weight", "k.weight"} <= set(finding.evidence["parameters"])
    assert finding.evidence["value_gradient"] > 0
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    ("body", "starved"),
    [
        ("return (q @ k.detach().mT / 4).softmax(-1) @ v  # here", "k.weight"),
        ("return (q.data @ k.mT / 4).softmax(-1) @ v  # here", "q.weight"),
        ("return (q @ k.mT / 4).softmax(-1) @ v.detach()  # here", "v.weight"),
        ("return (q @ k.mT / 4).softmax(-1) @ v * self.g.detach()  # here", "g"),
        ("return (q @ k.mT / 4).softmax(-1) @ v * self.g.item()  # here", "g"),
        ("return (q @ k.mT / self.g.tolist()).softmax(-1) @ v  # here", "g"),
        ("return (q @ k.mT / 4).softmax(-1) @ v * self.g.round()  # here", "g"),
        (
            "return (q @ k.mT / 4).softmax(-1) @ v * (self.gate(x) > 0).float()  # here",
            "gate.weight",
        ),
        (
            "return torch.where(self.gate(x) > 0, (q @ k.mT).softmax(-1) @ v, 0.0)  # here",
            "gate.weight",
        ),
        ("q, k, v = self.qkv(x).chunk(3, -1); k = k.detach()  # here", "qkv.weight"),
        (
            "q, k, v = self.qkv(x).chunk(3, -1); w = (q @ k.mT).softmax(-1).data  # here",
            "qkv.weight",
        ),
    ],
)
def test_one_part_that_learns_nothing(tmp_path: Path, body: str, starved: str) -> None:
    tail = "; return (q @ k.mT).softmax(-1) @ v" if "k = k" in body else "; return w @ v"
    if "return" not in body:
        body = body.replace("  # here", f"{tail}  # here")
    init = "self.gate, self.qkv = nn.Linear(width, width), nn.Linear(width, 3 * width); "
    text = program(body, f"{init}self.g = nn.Parameter(torch.tensor(1.3))")
    finding = only(tmp_path, text, "AS902")
    assert starved in finding.evidence["parameters"]
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


def test_a_switch_is_named_as_the_cause(tmp_path: Path) -> None:
    body = "with torch.no_grad(): w = (q @ k.mT / 4).softmax(-1)\n        return w @ v"
    assert only(tmp_path, program(body), "AS902").evidence["operation"] == "no_grad"


def test_sparse_tables_are_judged_like_others(tmp_path: Path) -> None:
    init = "self.p = nn.Embedding(6, width, sparse=True)"
    body = "q = q + self.p(torch.arange(6)){}; return (q @ k.mT / 4).softmax(-1) @ v"
    assert found(tmp_path, program(body.format(""), init), "AS902") == []
    starved = only(tmp_path, program(body.format(".detach()"), init), "AS902")
    assert starved.evidence["parameters"] == ["p.weight"]


@pytest.mark.parametrize("q", ["self.q(x)", "x @ self.q.weight.T"])
def test_queries_and_keys_that_start_at_zero(tmp_path: Path, q: str) -> None:
    init = "for m in (self.q, self.k): nn.init.zeros_(m.weight), nn.init.zeros_(m.bias)"
    body = f"q = {q}; return (q @ k.mT / 4).softmax(-1) @ v"
    finding = only(tmp_path, program(body, init), "AS902")
    assert finding.evidence["stage"] == "q and k"
    assert "|dq|" in finding.message


def test_tokens_that_hold_nothing_yet_are_silent(tmp_path: Path) -> None:
    body = "return (q @ k.mT / 4).softmax(-1) @ (v + 1)"
    init = "for m in (self.q, self.k): nn.init.zeros_(m.bias)"
    text = program(body, init).replace("torch.randn(2, 6, 16)", "torch.zeros(2, 6, 16)")
    assert found(tmp_path, text, "AS902") == []


def test_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    body = "s = q @ k.mT; return ((s - s.detach()).sqrt() + s).softmax(-1) @ v"
    finding = only(tmp_path, program(body), "AS902")
    assert finding.evidence["not_finite"] > 0


@pytest.mark.parametrize(
    "body",
    [
        "w = (q @ k.mT / 4).softmax(-1); self.shown = w.detach(); return w @ v",
        "s = (q @ k.mT).softmax(-1); h = F.one_hot(s.argmax(-1), 6) + s - s.detach(); return h @ v",
        "m = x.detach(); return (q @ self.k(m).mT / 4).softmax(-1) @ self.v(m)",  # stands still
        (
            "m = torch.zeros(2, 2, 6, 16); m[0], m[1] = k.detach(), v.detach(); "
            "return (q @ m[0].mT / 4).softmax(-1) @ m[1]"
        ),  # a cache that is written to
        "return ((q @ k.mT / 4).softmax(-1) @ v) * 0",  # a branch that starts at zero
        "s = self.g * v; h = s + (s.round() - s).detach(); return (q @ k.mT).softmax(-1) @ h",
        (
            "s = self.i(x)[..., 0]; m = s >= s.topk(3).values[:, -1:]; "
            "return (q @ k.mT).masked_fill(~m[:, None], -1e9).softmax(-1) @ v"
        ),
        (
            "y = (q @ k.mT).softmax(-1) @ v; z = self.c[torch.cdist(y, self.c).argmin(-1)]; "
            "return y + (z - y).detach()"
        ),
        "y = (q @ k.mT).softmax(-1) @ v; t = self.i(x).data; return y, F.mse_loss(y[..., :1], t)",
    ],
)
def test_ways_back_on_purpose_are_silent(tmp_path: Path, body: str) -> None:
    init = "self.g, self.i = nn.Parameter(torch.tensor(1.3)), nn.Linear(width, 1)"
    init += "; self.c = nn.Parameter(torch.randn(5, width))"
    assert found(tmp_path, program(body, init), "AS902") == []


@pytest.mark.parametrize(
    "body",
    [
        "k, v = k.detach(), v.detach(); return (q @ k.mT / 4).softmax(-1) @ v",
        (
            "q, k, v = self.p(x).chunk(3, -1); k, v = k.data, v.data\n"
            "        return (q @ k.mT / 4).softmax(-1) @ v"
        ),
        (
            "m = x.detach()\n        with torch.no_grad(): k, v = self.k(m), self.v(m)\n"
            "        return (q @ k.mT / 4).softmax(-1) @ v"
        ),
    ],
)
def test_projections_of_keys_and_values_that_never_learn(tmp_path: Path, body: str) -> None:
    init = "self.p = nn.Linear(width, 3 * width)"
    finding = only(tmp_path, program(body, init), "AS902")
    assert "of k and v" in finding.message


@pytest.mark.parametrize(
    "tail", ["model.requires_grad_(False)", "model.forward = torch.no_grad()(model.forward)"]
)
def test_models_that_are_not_trained_are_silent(tmp_path: Path, tail: str) -> None:
    text = program("return (q.detach() @ k.detach().mT / 4).softmax(-1) @ v")
    assert found(tmp_path, f"{text}{tail}\n", "AS902") == []


def test_queries_alone_may_start_at_zero(tmp_path: Path) -> None:
    init = "nn.init.zeros_(self.q.weight), nn.init.zeros_(self.q.bias)"
    assert found(tmp_path, program("return (q @ k.mT / 4).softmax(-1) @ v", init), "AS902") == []


INDEXED = """
with torch.no_grad():
            scores = self.pick(x) @ self.seen(x).mT
            best = {best}
        hidden = torch.ones_like(scores, dtype=torch.bool).scatter(-1, best, False)
        weights = (q @ k.mT / 4).masked_fill(hidden, -1e9).softmax(-1)
        return {result}
"""
INDEXERS = "self.pick, self.seen = nn.Linear(width, 4), nn.Linear(width, 4)"


@pytest.mark.parametrize(
    "best",
    ["scores.topk(3).indices", "scores.argsort(-1)[..., -3:]", "scores.sort(-1)[1][..., :3]"],
)
def test_what_only_chooses_the_keys_may_have_no_gradient(tmp_path: Path, best: str) -> None:
    body = INDEXED.format(best=best, result="weights @ v").strip()
    assert found(tmp_path, program(body, INDEXERS), "AS902") == []


HOOKED = "y = (q @ k.mT / 4).softmax(-1) @ v; y.requires_grad and y.register_hook({hook}); return y"


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        ("torch.zeros_like", True),
        ("lambda g: g * 0", True),
        ("lambda g: g.clamp(-0.1, 0.1)", False),
        ("lambda g: None", False),
    ],
)
def test_hooks_on_tensors(tmp_path: Path, hook: str, told: bool) -> None:  # noqa: FBT001  of the table
    findings = found(tmp_path, program(HOOKED.format(hook=hook)), "AS902")
    assert [(code, severity) for code, severity, _ in findings] == [("AS902", "warning")] * told


@pytest.mark.parametrize(
    "table", ["register_full_backward_hook", "register_full_backward_pre_hook"]
)
def test_hooks_on_modules_and_on_what_is_frozen(tmp_path: Path, table: str) -> None:
    init = "self.o = nn.Linear(width, width)"
    body = "return x + self.o((q @ k.mT / 4).softmax(-1) @ v)"
    hook = (
        "def hook(module, *grads):\n"
        "    return tuple(each * 0 for each in grads[0])  # here\n\n\n"
        f"model.o.{table}(hook)\n"
    )
    finding = only(tmp_path, program(body, init) + hook, "AS902")
    assert finding.evidence["hook"] == "hook"
    assert {"q.weight", "k.weight", "v.weight"} <= set(finding.evidence["parameters"])
    assert finding.evidence["without_it"] > 0
    assert finding.source is not None
    assert finding.source.code.endswith("# here")
    frozen = "model.v.weight.register_hook(torch.zeros_like)\n"
    assert found(tmp_path, program(body, init) + frozen, "AS902") == []


CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, {out})

    def attend(self, x):
        return (self.q(x) @ self.k(x).mT / 4).softmax(-1) @ self.v(x)

    def forward(self, x):
        {first}
        return self.last(checkpoint(self.attend, x, use_reentrant={reentrant}))  # here


model = Attention()
inputs = torch.randn(2, 6, 16)
"""


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # that is the fault
def test_reentrant_checkpoints_that_get_nothing_to_send_gradients_to(tmp_path: Path) -> None:
    lost = {"first": "pass", "reentrant": "True"}
    finding = only(tmp_path, CHECKPOINTED.format(**lost, out=3), "AS902")
    assert finding.severity == "warning"
    assert {"q.weight", "v.bias"} <= set(finding.evidence["parameters"])
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # that is the fault
def test_a_checkpoint_in_what_may_be_a_part_of_a_larger_model(tmp_path: Path) -> None:
    program = CHECKPOINTED.format(first="pass", reentrant="True", out=16)
    assert only(tmp_path, program, "AS902").severity == "note"


@pytest.mark.parametrize(
    ("first", "reentrant"),
    [("pass", "False"), ("x = self.first(x)", "True"), ("x = x.requires_grad_()", "True")],
)
def test_checkpoints_that_hand_gradients_on(tmp_path: Path, first: str, reentrant: str) -> None:
    program = CHECKPOINTED.format(first=first, reentrant=reentrant, out=3)
    assert found(tmp_path, program, "AS902") == []

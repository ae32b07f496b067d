from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks.written import found, only

PROGRAM = """
class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        {init}

    def forward(self, x, context=None):
        {body}


model = Attention().eval()
inputs = torch.randn(2, 6, 16)
"""
PLAIN = "return self.out(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))"


def program(body: str = PLAIN, init: str = "pass") -> str:
    return PROGRAM.format(body=body, init=init)


@pytest.mark.parametrize(
    ("body", "init", "name"),
    [
        (PLAIN + "  # here", "self.scale = nn.Parameter(torch.ones(()))", "scale"),
        (PLAIN + "  # here", "self.sinks = nn.Parameter(torch.zeros(4))", "sinks"),
        (PLAIN, "self.norm = nn.LayerNorm(width)  # here", "norm.weight"),
        (
            (
                "q, k = self.q(x), self.k(x); v = self.k(x)  # here\n"
                "        return self.out(F.scaled_dot_product_attention(q, k, v))"
            ),
            "pass",
            "v.weight",
        ),
        (
            (
                "q, v = self.q(x), self.v(x)\n        k = self.q(x)  # here\n"
                "        return self.out(F.scaled_dot_product_attention(q, k, v))"
            ),
            "pass",
            "k.weight",
        ),
        (
            "self.scale.exp()  # here\n        " + PLAIN,
            "self.scale = nn.Parameter(torch.zeros(()))",
            "scale",
        ),
        (
            "bias = self.bias * 2\n        " + PLAIN + "  # here",
            "self.bias = nn.Parameter(torch.zeros(6, 6))",
            "bias",
        ),
    ],
)
def test_what_is_built_and_left_out(tmp_path: Path, body: str, init: str, name: str) -> None:
    finding = only(tmp_path, program(body, init), "AS903")
    assert (finding.code, finding.severity) == ("AS903", "warning")
    assert name in finding.evidence["parameters"]
    assert finding.evidence["moved"] == 0.0
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize(
    ("body", "init"),
    [
        (PLAIN, "pass"),
        (
            f"if context is not None: x = x + self.cross(context)\n        {PLAIN}",
            "self.cross = nn.Linear(width, width)",
        ),
        (PLAIN, "self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(4))"),
        (PLAIN, "self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)"),
        (
            "return self.out(F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1)))",
            (
                "self.qkv = nn.Linear(width, 3 * width)\n"
                "        with torch.no_grad():\n"
                "            parts = (self.q, self.k, self.v)\n"
                "            self.qkv.weight.copy_(torch.cat([m.weight for m in parts]))\n"
                "            self.qkv.bias.copy_(torch.cat([m.bias for m in parts]))"
            ),
        ),
    ],
)
def test_what_may_be_idle_is_silent(tmp_path: Path, body: str, init: str) -> None:
    assert found(tmp_path, program(body, init), "AS903") == []


def test_what_cancels_in_the_softmax_is_idle(tmp_path: Path) -> None:
    init = "self.sinks = nn.Parameter(torch.randn(1))"
    body = (
        "s = self.q(x) @ self.k(x).mT / 4; v = self.v(x)\n"
        "        return self.out((s + {}).softmax(-1) @ v)  # here"
    )
    rows = only(tmp_path, program(body.format("self.sinks"), init), "AS903")
    assert rows.evidence["parameters"] == ["sinks"]
    keys = body.format("self.sinks * torch.arange(s.shape[-1])")
    assert found(tmp_path, program(keys, init), "AS903") == []


AROUND = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.far, self.seen = nn.Embedding(9, 1), []
        self.first, self.second = Attention(), Attention()

    def forward(self, x):
        at = torch.arange(x.shape[1])
        bias = self.far((at[:, None] - at).abs()).squeeze(-1)
        {lost}
        return self.second(self.first(x)) + x * bias.sum()


model = Model().eval()
"""


def test_a_table_whose_lookup_is_thrown_away(tmp_path: Path) -> None:
    lost = "bias = torch.zeros(1)"
    finding = only(tmp_path, program(PLAIN) + AROUND.format(lost=lost), "AS903")
    assert finding.evidence["parameters"] == ["far.weight"]
    assert found(tmp_path, program(PLAIN) + AROUND.format(lost="pass"), "AS903") == []


def test_what_is_kept_as_an_attribute_is_no_waste(tmp_path: Path) -> None:
    init = "self.tell = nn.Linear(width, 1)"
    body = f"self.loss = self.tell(x).square().mean()\n        {PLAIN}"
    assert found(tmp_path, program(body, init), "AS903") == []


BLOCK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.feed = nn.Linear(16, 16)

    def forward(self, x):
        h = self.norm(x)
        y, weights = self.attention(h, h, h)  # here
        return {result}


model = Block().eval()
inputs = torch.randn(2, 6, 16)
"""


def test_attention_that_is_computed_and_dropped(tmp_path: Path) -> None:
    finding = only(tmp_path, BLOCK.format(result="x + self.feed(h)"), "AS903")
    assert finding.severity == "warning"
    assert finding.module == "attention"
    assert "attention.in_proj_weight" in finding.evidence["parameters"]
    assert "attention.out_proj.bias" in finding.evidence["parameters"]
    assert finding.source is not None
    assert finding.source.code.endswith("# here")


@pytest.mark.parametrize("result", ["x + self.feed(y)", "(x + self.feed(h), weights)"])
def test_attention_of_which_something_is_used(tmp_path: Path, result: str) -> None:
    assert not found(tmp_path, BLOCK.format(result=result), "AS903")


def test_layers_that_start_alike_are_no_copies(tmp_path: Path) -> None:
    init = "self.decay = nn.Parameter(torch.linspace(0.1, 0.4, width)); self.fast = True"
    body = f"x = x if self.fast else x * self.decay\n        {PLAIN}"
    tail = """
model = nn.Sequential(Attention(), Attention()).eval()
model[0].fast = False
"""
    finding = only(tmp_path, program(body, init) + tail, "AS903")
    assert finding.evidence["parameters"] == ["1.decay"]


def test_parts_that_a_subclass_inherits_and_does_without_are_silent(tmp_path: Path) -> None:
    tail = """
class Bare(Attention):
    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))


model = Bare().eval()
"""
    assert found(tmp_path, program() + tail, "AS903") == []


def test_parameters_are_as_they_were(tmp_path: Path) -> None:
    tail = """
before = {name: value.clone() for name, value in model.state_dict().items()}
"""
    text = program(PLAIN, "self.scale = nn.Parameter(torch.ones(3))") + tail
    file = tmp_path / "again.py"
    file.write_text("")
    finding = only(tmp_path, text, "AS903")
    assert finding.evidence["parameters"] == ["scale"]


def test_what_chooses_all_keys_is_not_added_to_them(tmp_path: Path) -> None:
    body = (
        "best = (x @ self.pick).topk(6, 1).indices\n"
        "        seen = torch.full((2, 1, 6), -1e9).scatter(-1, best[:, None], 0.0)\n"
        "        w = (self.q(x) @ self.k(x).mT / 4 + seen).softmax(-1)\n"
        "        return self.out(w @ self.v(x))"
    )
    init = "self.pick = nn.Parameter(torch.randn(width))"
    assert [
        each for each in found(tmp_path, program(body, init), "AS903") if "note" not in each
    ] == []


SINKS = """
s = self.q(x) @ self.k(x).mT / 4
        s = torch.cat((s, self.sink.expand(2, 6, 1)), -1)
        w = {weights}  # here
        return self.out(w @ self.v(x))"""


def test_what_is_joined_and_sliced_off_is_idle(tmp_path: Path) -> None:
    init = "self.sink = nn.Parameter(torch.randn(1))"
    early = program(SINKS.format(weights="s[..., :-1].softmax(-1)").strip(), init)
    late = program(SINKS.format(weights="s.softmax(-1)[..., :-1]").strip(), init)
    assert found(tmp_path, early, "AS903") == [("AS903", "warning", True)]
    assert found(tmp_path, late, "AS903") == []


BUILT = """
class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.into, self.attention = nn.Linear(5, width), Attention()
        self.key_table = nn.Embedding(9, width)
        self.last = nn.Linear(width, 3)

    def forward(self, x, key):
        x = self.into(x) + self.key_table(key)
        return self.last(x + self.attention(x))


model = Model().eval()
inputs = torch.randn(2, 6, 5), torch.randint(9, (2, 6))
"""


@pytest.mark.parametrize(
    ("freezing", "severity"),
    [
        ("for n, p in model.named_parameters(): p.requires_grad = 'k' not in n  # here", "warning"),
        ("model.attention.q.requires_grad_(False)  # here", "note"),
        ("for n in ['v.weight']: model.attention.get_parameter(n).requires_grad = False", "note"),
    ],
)
def test_one_projection_that_is_frozen_alone(tmp_path: Path, freezing: str, severity: str) -> None:
    finding = only(tmp_path, program() + BUILT + freezing, "AS903")
    assert finding.severity == severity
    assert finding.evidence["trained_matrices"] > 3


@pytest.mark.parametrize(
    "freezing",
    [
        "for p in (model.attention.q, model.attention.k): p.requires_grad_(False)",
        "for n, p in model.named_parameters(): p.requires_grad = '.q' in n or '.v' in n",
        "model.key_table.requires_grad_(False)",
        "model.requires_grad_(False); model.attention.requires_grad_(True).k.requires_grad_(False)",
    ],
)
def test_what_is_frozen_by_kind_is_meant(tmp_path: Path, freezing: str) -> None:
    assert found(tmp_path, program() + BUILT + freezing, "AS903") == []


UNLISTED = {
    "a list": ("self.extra = [nn.Linear(16, 16)]  # here", "self.extra[0](x)"),
    "a dict in a list": (
        "self.extra = [{'a': nn.Linear(16, 16)}]  # here",
        "self.extra[0]['a'](x)",
    ),
    "a tensor": ("self.extra = torch.ones(16, requires_grad=True)  # here", "x * self.extra"),
    "a function": (
        "self.extra = (lambda f: lambda x: f(x))(nn.Linear(16, 16))  # here",
        "self.extra(x)",
    ),
    "the forward": ("pass", "nn.Linear(16, 16)(x)  # here"),
    "the forward, as an attribute": (
        "pass",
        "(setattr(self, 'extra', nn.Linear(16, 16)) or self.extra)(x)  # here",
    ),
}


@pytest.mark.parametrize("name", UNLISTED)
def test_what_no_module_lists_never_learns(tmp_path: Path, name: str) -> None:
    init, made = UNLISTED[name]
    text = program(f"x = {made}\n        {PLAIN}", init)
    assert found(tmp_path, text, "AS903") == [("AS903", "warning", True)]


LISTED = {
    "frozen": ("self.extra = [nn.Linear(16, 16).requires_grad_(False)]", "self.extra[0](x)"),
    "listed elsewhere": ("self.extra = [self.q]", "self.extra[0](x)"),
    "on purpose": ("self.__dict__['extra'] = nn.Linear(16, 16)", "self.extra(x)"),
    "built by the first run": (
        "self.extra = None",
        "(self.extra or setattr(self, 'extra', nn.Linear(16, 16)) or self.extra)(x)",
    ),
    "data": ("pass", "nn.Parameter(x.detach())"),
    "a leaf of zeros": ("pass", "x + torch.zeros(16, requires_grad=True)"),
}


@pytest.mark.parametrize("name", LISTED)
def test_what_is_listed_elsewhere_or_learns_nothing_is_silent(tmp_path: Path, name: str) -> None:
    init, made = LISTED[name]
    assert not found(tmp_path, program(f"x = {made}\n        {PLAIN}", init), "AS903")

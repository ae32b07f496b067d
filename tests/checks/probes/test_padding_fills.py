from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.masking.padded import padded
from attnscope.checks.probes.padding_fills import padding_fills
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject


class Encoder(nn.Module):
    def __init__(self, *, masked: bool, causal: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.3, batch_first=True)
        self.masked, self.causal = masked, causal

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        drop = attention_mask == 0 if self.masked and attention_mask is not None else None
        n = input_ids.shape[1]
        future = torch.ones(n, n, dtype=torch.bool).triu(1) if self.causal else None
        out: Tensor = self.layer(self.embed(input_ids), src_mask=future, src_key_padding_mask=drop)
        return out


IDS = torch.randint(1, 30, (3, 9), generator=torch.Generator().manual_seed(1))
MASK = (torch.arange(9) < torch.tensor([[9], [4], [6]])).long()


@pytest.mark.parametrize("masked", [True, False])
def test_only_an_unmasked_encoder_leaks(masked: bool) -> None:  # noqa: FBT001  one of two cases
    subject = Subject(Encoder(masked=masked).eval(), {"input_ids": IDS, "attention_mask": MASK})
    (fill,) = padding_fills(subject)
    assert fill.leaks is not masked
    assert torch.equal(fill.real, MASK.bool())
    assert (fill.outputs, fill.of) == (0 if masked else 10, "tokens")


def test_padding_is_put_in_where_a_mask_is_taken_and_none_given() -> None:
    subject = Subject(Encoder(masked=False).eval(), {"input_ids": IDS})
    (fill,) = padding_fills(subject)
    assert fill.leaks
    assert fill.real.sum(1).tolist() == [9, 9, 6]
    assert "attention_mask" not in subject.given.values  # the subject itself stays as it is


def test_a_causal_model_is_padded_on_the_left() -> None:
    subject = Subject(
        Encoder(masked=False, causal=True).eval(), {"input_ids": IDS}, {"causal": True}
    )
    changed = padded(subject)
    assert changed.roles.padding[0].real(changed.given)[2].tolist() == [False] * 3 + [True] * 6
    assert padding_fills(subject)[0].leaks


def test_nothing_says_what_padding_is() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    with pytest.raises(Skipped, match="declare it"):
        padding_fills(Subject(layer, torch.randn(2, 5, 16)))


def test_model_inputs_and_random_state_are_as_before() -> None:
    model = Encoder(masked=False).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ids, mask, state = IDS.clone(), MASK.clone(), torch.get_rng_state()
    padding_fills(Subject(model, {"input_ids": ids, "attention_mask": mask}))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert model.training
    assert torch.equal(ids, IDS)
    assert torch.equal(mask, MASK)
    assert torch.equal(state, torch.get_rng_state())


def test_the_mask_of_an_encoder_is_not_the_decoders() -> None:
    class Both(nn.Module):
        def forward(
            self,
            input_ids: Tensor,
            decoder_input_ids: Tensor,
            attention_mask: Tensor | None = None,
            decoder_attention_mask: Tensor | None = None,
        ) -> Tensor:
            del attention_mask, decoder_attention_mask
            return input_ids.sum() + decoder_input_ids.double()

    subject = Subject(Both(), {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]})
    found = {each.name: each.stream.name for each in subject.roles.padding}
    assert found == {
        "attention_mask": "input_ids",
        "decoder_attention_mask": "decoder_input_ids",
    }

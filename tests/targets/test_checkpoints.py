"""Hugging Face checkpoint folders, without a network and without pickle."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attnscope.errors import TargetError
from attnscope.targets import Wishes, resolve

transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

WORDS = ["[PAD]", "[UNK]", "the", "cat", "sat", "on", "mat"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny language model with a tokenizer of seven words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    folder = tmp_path_factory.mktemp("checkpoint")
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=12,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, WORDS[1]))
    words.pre_tokenizer = Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token=WORDS[1], pad_token=WORDS[0]
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in saved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_texts_become_a_padded_batch_with_labels(saved: Path) -> None:
    target = resolve(str(saved), Wishes(texts=("the cat sat", "the mat")))
    assert type(target.model).__name__ == "LlamaForCausalLM"
    assert not target.model.training
    assert target.kwargs["input_ids"].tolist() == [[2, 3, 4], [2, 6, 0]]
    assert target.kwargs["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert target.tokens() == ("the", "cat", "sat")
    assert target.tokens(row=1) == ("the", "mat", "[PAD]")
    assert target.tokens(length=5) is None
    target.model(**target.kwargs)


def test_texts_to_be_continued_are_padded_on_the_left(saved: Path) -> None:
    target = resolve(str(saved), Wishes(texts=("the cat sat", "the mat"), continued=True))
    assert target.kwargs["attention_mask"].tolist() == [[1, 1, 1], [0, 1, 1]]


def test_without_text_token_ids_are_made(saved: Path) -> None:
    target = resolve(str(saved))
    assert target.kwargs["input_ids"].max() < 32
    target.model(**target.kwargs)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_implementation_is_chosen(saved: Path, attention: str) -> None:
    model = resolve(str(saved), Wishes(attention=attention)).model
    assert model.config._attn_implementation == attention  # type: ignore[union-attr]


def test_the_weights_are_those_that_were_saved(saved: Path) -> None:
    from safetensors.torch import load_file

    model = resolve(str(saved)).model
    stored = load_file(saved / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(model.state_dict()[name], stored[name])


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "it has no tokens"), ("cat " * 13, "13 tokens, the model 12 positions")],
)
def test_a_text_that_does_not_fit_is_explained(saved: Path, text: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        resolve(str(saved), Wishes(texts=(text,)))
    assert said in str(caught.value)


def test_a_pickle_is_never_opened(copied: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "executed",))  # type: ignore[return-value]

    (copied / "model.safetensors").unlink()
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(TargetError, match="reading a pickle can run any code"):
        resolve(str(copied))
    assert not (tmp_path / "executed").exists()


def test_code_inside_a_checkpoint_is_never_run(copied: Path, tmp_path: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config |= {
        "model_type": "of_my_own",
        "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"},
    }
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "code.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    with pytest.raises(TargetError):
        resolve(str(copied))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", None, "it has no config.json"),
        ("config.json", b"{", "config.json"),
        ("model.safetensors", None, "it has no *.safetensors"),
        ("model.safetensors", b"\x08", "SafetensorError"),
    ],
)
def test_a_damaged_checkpoint_is_explained(
    copied: Path, file: str, content: bytes | None, said: str
) -> None:
    (copied / file).unlink()
    if content is not None:
        (copied / file).write_bytes(content)
    with pytest.raises(TargetError) as caught:
        resolve(str(copied))
    assert said in str(caught.value)


def test_text_without_a_tokenizer_is_explained(copied: Path) -> None:
    for file in copied.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(TargetError, match="no tokenizer that can be loaded"):
        resolve(str(copied), Wishes(texts=("the cat",)))
    assert resolve(str(copied)).tokenizer is None


def test_a_stored_trace_is_told_from_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(TargetError, match="it is a stored trace"):
        resolve(str(tmp_path))


def test_an_encoder_decoder_gets_shifted_decoder_ids(saved: Path, tmp_path: Path) -> None:
    config = transformers.T5Config(
        vocab_size=32, d_model=16, d_kv=4, d_ff=24, num_layers=1, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    for file in saved.glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    target = resolve(str(tmp_path), Wishes(texts=("the cat sat",)))
    assert target.kwargs["decoder_input_ids"].tolist() == [[0, 2, 3]]
    target.model(**target.kwargs)


@pytest.mark.parametrize(
    ("blocked", "target", "said"),
    [
        ("transformers", "arch:llama", "the package transformers is not installed"),
        ("transformers", "CHECKPOINT", "pip install 'attnscope[hf]'"),
        ("transformers", "sample:minilm", "pip install 'attnscope[hf]'"),
    ],
)
def test_a_missing_package_is_named(saved: Path, blocked: str, target: str, said: str) -> None:
    code = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from attnscope.errors import MissingExtraError
from attnscope.targets import resolve
try:
    resolve({target!r}.replace("CHECKPOINT", {str(saved)!r}))
except MissingExtraError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said in run.stdout

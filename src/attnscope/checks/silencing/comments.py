"""`# attnscope: ignore[AS201] reason`, and which lines each of these comments speaks of.

After code it speaks of its statement, alone on a line of the statement that follows. On the head of
a function or class, or on one of its decorators, it speaks of everything inside.
"""

from __future__ import annotations

import difflib
import io
import linecache
import os
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnscope.checks import rules as table

__all__ = ["Comment", "comments_of", "file_of"]

_FORM = "write # attnscope: ignore[AS201] and the reason"
_COMMENT = re.compile(
    r"#\s*attnscope\s*:\s*ignore\b\s*(?:\[(?P<codes>[^\]]*)\])?(?P<reason>(?:(?!\s#\s).)*)",
    re.IGNORECASE,
)
_BEFORE_REASON = " \t:;,.–—-"
_BLANK = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})
_HEADS = frozenset({"def", "class"})


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment.

    line: where it stands; first, last: the lines that it speaks of. codes: of the rules that it
    silences; none where it can't be used. problems: what is wrong with it, in words.
    """

    file: str
    line: int
    first: int
    last: int
    codes: tuple[str, ...]
    reason: str
    problems: tuple[str, ...] = ()

    def covers(self, file: str, line: int) -> bool:
        """Return whether a line is among those that the comment speaks of."""
        return file == self.file and self.first <= line <= self.last


@dataclass(frozen=True, slots=True)
class _Statement:
    """The lines of a statement, or of the head of one that has a body; scope: with that body."""

    first: int
    last: int
    scope: int


def file_of(name: str) -> str:
    """Return a file's name as all comments have it: absolute, unless it is no file at all."""
    if name.startswith("<"):  # a cell of a notebook
        return name
    return os.path.abspath(name)  # noqa: PTH100  a link keeps the name that it is known by


def comments_of(file: str) -> tuple[Comment, ...]:
    """Return the comments of a file that silence, or mean to; none where it can't be read."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    if "attnscope" not in text.lower():
        return ()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return ()
    statements = _statements(tokens)
    remarks = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    found = []
    for token in tokens:
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            line = token.start[0]
            lines = _spoken_of(line, statements, remarks)
            made = Comment(file, line, *(lines or (line, line)), (), "")
            found.append(
                _read(made, match["codes"], match["reason"])
                if lines is not None
                else replace(made, problems=("no statement follows it",))
            )
    return tuple(found)


def _read(comment: Comment, words: str | None, reason: str) -> Comment:
    """Return a comment with its codes and its reason, or with what is wrong with them."""
    named = [word.strip() for word in (words or "").split(",") if word.strip()]
    said = " ".join(reason.strip(_BEFORE_REASON).split())
    if not named:
        return replace(comment, problems=(f"it names no rule; {_FORM}",))
    if not said:
        return replace(comment, problems=(f"it gives no reason; {_FORM}",))
    rules = [(word, table.rule_of(word)) for word in named]
    codes = tuple(dict.fromkeys(rule.code for _, rule in rules if rule is not None))
    strange = tuple(_unknown(word) for word, rule in rules if rule is None)
    return replace(comment, codes=codes, reason=said, problems=strange)


def _unknown(word: str) -> str:
    words = [text for rule in table.RULES for text in (rule.code, rule.name)]
    close = difflib.get_close_matches(word, words, n=2)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; see attnscope rules"
    return f"there is no rule {word!r}{hint}"


# -- which lines ---------------------------------------------------------------------------------


def _spoken_of(
    line: int, statements: list[_Statement], remarks: set[int]
) -> tuple[int, int] | None:
    """Return the first and last line that a comment on some line speaks of, None where none.

    remarks: the lines with comments, of which several may stand before a statement.
    """
    own = [each for each in statements if each.first <= line <= each.last]
    if own:
        return own[0].first, max(each.scope for each in own)
    following = next((each for each in statements if each.first > line), None)
    if following is None or not remarks.issuperset(range(line, following.first)):
        return None
    return following.first, following.scope


def _statements(tokens: list[tokenize.TokenInfo]) -> list[_Statement]:
    """Return the statements of a file in order, decorators as a part of what they decorate."""
    found: list[_Statement] = []
    decorators: int | None = None
    for at, end, words in _logical_lines(tokens):
        first, last = tokens[at].start[0], tokens[end].start[0]
        if words[0] == "@":
            decorators = first if decorators is None else decorators
            continue
        head = words[0] in _HEADS or (words[0] == "async" and words[1:2] == ["def"])
        scope = _end_of_body(tokens, end) if head else last
        found.append(_Statement(decorators if decorators is not None else first, last, scope))
        decorators = None
    return found


def _logical_lines(tokens: list[tokenize.TokenInfo]) -> Iterator[tuple[int, int, list[str]]]:
    """Iterate over the indices of the first token and the NEWLINE of each logical line."""
    start: int | None = None
    for at, token in enumerate(tokens):
        if start is None and token.type not in {*_BLANK, tokenize.NEWLINE, tokenize.ENDMARKER}:
            start = at
        elif start is not None and token.type == tokenize.NEWLINE:
            yield start, at, [each.string for each in tokens[start : start + 2]]
            start = None


def _end_of_body(tokens: list[tokenize.TokenInfo], newline: int) -> int:
    """Return the last line of the body that follows the NEWLINE of a head."""
    depth, last = 0, tokens[newline].start[0]
    for token in tokens[newline + 1 :]:
        if token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
            if depth <= 0:
                return last
        elif token.type not in {tokenize.NL, tokenize.COMMENT}:
            if depth == 0:
                return last
            last = token.end[0]
    return last

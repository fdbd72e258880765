"""Find secrets by their form in bytes: tokens, private keys, passwords in URLs, and values beside a secret's name.

Most text has none, so that each kind is first looked for by what is fast to find: a long word, a few letters of a name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from llmbx.entry.secret_fields import SCHEME, is_credential, is_value
from llmbx.entry.secret_shapes import LONGEST_WORD, PHRASES, TOKENS

Span = tuple[int, int]

WORD = bytes(ord("a") if chr(code).isalnum() and code < 128 or code in b"_-" else ord(" ") for code in range(256))
"""Translates the letters of words to `a`, and all else to a space."""

NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
LONGEST_BEGINNING, LONGEST_NAME, LONGEST_VALUE, LONGEST_KEY = 50, 80, 4000, 12_000
COLOUR = r"(?:\x1b\[[0-9;]{0,12}m)?"
FIELDS = tuple(
    rf"{stem}[a-z0-9_-]{{0,24}}(?P<closed>\\{{0,3}}[\"'`])?[\])]?{COLOUR}[ \t]{{0,40}}"
    rf"(?P<between>:=|=>|[:=](?!=)|>|->|\.{{3,80}}|,(?=[ \t]{{0,4}}\\{{0,3}}[\"'])){COLOUR}[ \t]{{0,40}}{COLOUR}"
    r"(?:[bru]{0,2}(?P<open>\\{0,3}[\"'`]))?(?=[^\s\"'`])"
    for stem in (r"p(?:ass|wd)", r"secret", r"cred", r"auth", r"k(?:ey|en|ie)", r"_(?:pat|jwt)", r"signature")
)
"""A part of a name with a secret, and what stands between the name and its value. In text in small letters."""

OPTIONS = (
    r"--[a-z][a-z0-9_.-]{0,60}(?:[ \t]{1,4}|(?P<closed>\\{0,3}[\"']),?[ \t]{0,4}(?=\\{0,3}[\"']))"
    r"(?P<between>)(?P<open>\\{0,3}[\"'`])?(?=[^\s\"'`-])"
)
PEM = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
PEM_TEXT = re.compile(rb"[A-Za-z0-9+/=\\]{15,}[A-Za-z0-9+/=](?=\r?\n|[\"'\\]|\Z)")
CUT_OFF = re.compile(rb"(?:[^\n]{0,200}?[A-Za-z0-9+/=]{40,}\r?\n){1,200}")
"""Lines of a key whose end is missing."""

USER = rb"://([^\s/?#\"'\\<>]{1,999})@(?!sha256:)"
UNQUOTED = re.compile(rb"[^\s\"'`<>\x1b]{1,4000}")
CUT = re.compile(rb"\\[nrt\"']|[,;&][ ]?[A-Za-z_][A-Za-z0-9_.-]{0,60}[=:]|[,;)\]}|&.]+$")
NAMED = re.compile(rb"[A-Za-z0-9_.-]{1,200}")
QUOTE = re.compile(rb"[\"']?")
COOKIES = re.compile(rb"[^\n\"']*")
SENTENCE = re.compile(rb"[.,]? [A-Za-z]")
"""What follows a word that is no password: `wrong password: try again`."""

WRITTEN = re.compile(rb"%[0-9A-Fa-f]{2}|\\[abfnrtv]|[0-9]{0,3}m|[_-]+")
"""What may stand in a word before a token: an encoded character, an escape, the end of a colour code."""


class _Patterns:
    """The compiled expressions. They are made when they are used first: most commands need none."""

    def __init__(self) -> None:
        tokens = "|".join(shape.pattern for shape in TOKENS)
        self.token = re.compile(f"(?<![A-Za-z0-9_-])(?:{tokens})".encode())
        self.after = re.compile(tokens.encode())
        self.phrases = tuple(re.compile(shape.pattern.encode()) for shape in PHRASES)
        self.fields = tuple(re.compile(field.encode()) for field in FIELDS)
        self.options = re.compile(OPTIONS.encode())
        self.pem, self.user = re.compile(PEM), re.compile(USER)


_patterns = functools.lru_cache(maxsize=1)(_Patterns)


def spans(data: bytes, continued: bool = False) -> Iterator[Span]:
    """Where secrets of a known form are in `data`; two may overlap. `continued`: it may begin inside of a name."""
    patterns, small = _patterns(), data.lower()
    yield from _tokens(data, patterns)
    for pattern in patterns.phrases:
        yield from (found.span(pattern.groups) for found in pattern.finditer(small))
    for pattern in (*patterns.fields, patterns.options):
        yield from _beside_names(data, small, pattern, continued)
    yield from _private_keys(data, patterns)
    if b"@" in data:
        yield from _users(data, patterns)


def without(text: str, mark: str, find: Callable[[bytes], Iterator[Span]] = spans) -> str:
    """`text` with a mark in place of each secret that `find` finds."""
    try:
        data, errors = text.encode("utf-8", "surrogateescape"), "surrogateescape"
    except UnicodeEncodeError:  # half of a pair in a text of JavaScript's
        data, errors = text.encode("utf-8", "surrogatepass"), "surrogatepass"
    parts, done = [], 0
    for start, end in sorted(find(data)):
        if start >= done:  # a number of JSON becomes a text, so that it stays JSON
            parts += [data[done:start], (f'"{mark}"' if is_bare(data, start, end) else mark).encode()]
        done = max(done, end)
    return b"".join((*parts, data[done:])).decode("utf-8", errors) if parts else text


def is_bare(data: bytes, start: int, end: int) -> bool:
    """Whether the span is a number after a name in quotes."""
    return data[start:end].isdigit() and data[max(0, start - 60) : start].rstrip(b" \t\n").endswith(b'":')


def _tokens(data: bytes, patterns: _Patterns) -> Iterator[Span]:
    words, run = data.translate(WORD), b"a" * LONGEST_WORD
    at = words.find(run)
    while at >= 0:
        end = words.find(b" ", at + LONGEST_WORD)
        end = len(data) if end < 0 else end
        if found := patterns.token.match(data, at) or _inside(data, at, patterns):
            yield found.span()
        at = words.find(run, max(end, found.end() if found else 0))


def _inside(data: bytes, at: int, patterns: _Patterns) -> re.Match[bytes] | None:
    """A token that begins after an escape at the beginning of a word, or before the word: `\\nhf_…`, `hvs.…`."""
    begin = at
    if data[at - 1 : at] in (b".", b":", b"~"):
        while begin > max(0, at - LONGEST_BEGINNING) and (data[begin - 1] in NAME or data[begin - 1] in b":~"):
            begin -= 1
    if data[begin - 1 : begin] in (b"\\", b"%", b"[", b";", b"") or data[begin : begin + 1] in (b"_", b"-"):
        written = WRITTEN.match(data, max(0, begin - 1)) or WRITTEN.match(data, begin)
        if written and (found := patterns.after.match(data, written.end())):
            return found if found.end() > at else None
    if begin < at:
        return next((found for found in patterns.token.finditer(data, begin, at + LONGEST_KEY) if found.end() > at), None)
    return None


def _beside_names(data: bytes, small: bytes, pattern: re.Pattern[bytes], continued: bool) -> Iterator[Span]:
    for found in pattern.finditer(small):
        begin = found.start()
        while begin > 0 and data[begin - 1] in NAME and found.start() - begin < LONGEST_NAME:
            begin -= 1
        name = NAMED.match(data, begin)
        if name is None or (continued and begin == 0) or data[begin - 1 : begin] == b"/":
            continue
        quote = found["open"] or (b"" if found["closed"] else QUOTE.match(data[begin - 1 : begin])[0])
        span = _secret(name[0].decode(), data, _value(data, found.end(), quote), found["between"])
        if span is not None:
            yield span


def _value(data: bytes, start: int, quote: bytes) -> Span:
    """Where the value is: up to the quote that began it or the whole assignment, or up to what ends a word."""
    if quote:
        end, line = (data.find(text, start, start + LONGEST_VALUE) for text in (quote, b"\n"))
        while len(quote) == 1 and end > 0 and data[end - 1 : end] == b"\\" and data[end - 2 : end - 1] != b"\\":
            end = data.find(quote, end + 1, start + LONGEST_VALUE)
        if end >= 0 and (line < 0 or end < line):
            return start, end
    plain = UNQUOTED.match(data, start)
    if plain is None:
        return start, start
    cut = CUT.search(data, start, plain.end())
    return start, cut.start() if cut else plain.end()


def _secret(name: str, data: bytes, value: Span, between: bytes) -> Span | None:
    """The part of a value that is a secret."""
    start, end = value
    text = data[start:end]
    if text.startswith(b"-----BEGIN") or (between == b"," and not any(char in b"0123456789" for char in text)):
        return None
    if name.lower().endswith("authorization") and (scheme := SCHEME.match(data, start)):
        start = scheme.end()
        if end <= start:
            credential = UNQUOTED.match(data, start)
            end = credential.end() if credential else start
        return (start, end) if is_credential(data[start:end].decode("latin-1")) else None
    if name.lower().endswith("cookie") and b"=" in text:
        rest = COOKIES.match(data, start)
        end = rest.end() if rest else end
    if between == b":" and text.isalpha() and SENTENCE.match(data, end):
        return None
    return (start, end) if is_value(name, text.decode("utf-8", "replace")) else None


def _private_keys(data: bytes, patterns: _Patterns) -> Iterator[Span]:
    """The lines of private keys. Between them there may be lines of other ranks; each may have a prefix."""
    for begin in patterns.pem.finditer(data):
        first, end = begin.end(), data.find(b"-----END", begin.end(), begin.end() + LONGEST_KEY)
        if end < 0:
            lines = CUT_OFF.match(data, data.find(b"\n", first) + 1) if data[first : first + 2].strip() == b"" else None
            end = lines.end() if lines else first + len(re.match(rb"[A-Za-z0-9+/=\\]*", data[first:])[0])
        yield from (found.span() for found in PEM_TEXT.finditer(data, first, end))
        column = begin.start() - (data.rfind(b"\n", 0, begin.start()) + 1)
        short = re.compile(rb"(?<=\n)[^\n]{%d}([A-Za-z0-9+/=]{1,64})\r?(?=\n)" % min(column, 500))
        yield from (found.span(1) for found in short.finditer(data, first, end))


def _users(data: bytes, patterns: _Patterns) -> Iterator[Span]:
    for found in patterns.user.finditer(data):
        if b":" in found[1] or data[max(0, found.start() - 5) : found.start()].lower().endswith((b"http", b"https")):
            yield found.span(1)

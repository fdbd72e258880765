"""Find secrets by their form in bytes: tokens, private keys, passwords in URLs, and values beside a secret's name.

Most text has none, so that each kind is first looked for by what is fast to find: a long word, a few letters of a name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator

from llmbx.entry.secret_fields import COOKIE, SCHEME, Kind, is_credential, is_value, kind_of
from llmbx.entry.secret_shapes import DOTTED, FIELDS, LONGEST_WORD, PHRASES, TOKENS, Shape

Span = tuple[int, int]

WORD = bytes(ord("a") if (chr(code).isalnum() and code < 128) or code in b"_-" else ord(" ") for code in range(256))
"""Translates the letters of words to `a`, and all else to a space."""

WORDS = bytes(ord("a") if code in b".:~" else letter for code, letter in enumerate(WORD))
"""The same, with what may stand between two words of a token."""

NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
SHORTEST_NUMBER = 8
"""A shorter number in JSON may be a word's number in the file of a tokenizer."""

LONGEST_BEGINNING, LONGEST_NAME, LONGEST_VALUE, LONGEST_KEY = 50, 80, 4000, 12_000
COLOUR = r"(?:\x1b\[[0-9;]{0,12}m)?"
FIELD = (
    rf"[a-z0-9_-]{{0,24}}(?P<closed>\\{{0,3}}[\"'`])?[\])]?{COLOUR}[ \t]{{0,40}}"
    rf"(?P<between>,?\s{{0,60}}[\"']?value[\"']?:|:=|=>|[:=](?!=)|%3d|>|->|│|\.{{3,80}}|(?<=sshpass) -p[ =]?|"
    rf",(?=[ \t]{{0,4}}\\{{0,3}}[\"'])){COLOUR}"
    rf"[ \t]{{0,40}}{COLOUR}\[?(?:[bru]{{0,2}}(?P<open>\\{{0,3}}[\"']))?(?=[^\s\"'`])"
    r"(?!null\b|none\b|true\b|false\b)"
)
"""The rest of a name, and what stands between the name and its value. In text in small letters."""

OPTIONS = (
    r"--[a-z][a-z0-9_.-]{0,60}(?:[ \t]{1,4}|\r?\n[ \t]{0,40}- |(?P<closed>\\{0,3}[\"']),?\s{0,60}(?=\\{0,3}[\"']))"
    r"(?P<between>)(?P<open>\\{0,3}[\"'])?(?=[^\s\"'`-])"
)
"""An option of a command line or of a list of arguments, up to its value."""

PEM = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
KEY_LINE = re.compile(rb"\\[nr]([A-Za-z0-9+/=]{1,200})(?=\\[nr])|([A-Za-z0-9+/=]{16,200})(?=\r?\n|[\"'\\]|\Z)")
"""A line of a key: of its own, or in a text with escapes."""

SHORT_LINE = re.compile(rb"[A-Za-z0-9+/=]{1,64}\s*")
CUT_OFF = re.compile(
    rb"\r?\n(?:[^\n]{0,200}?[A-Za-z0-9+/=]{40,200}\r?\n){1,200}|(?:[A-Za-z0-9+/=]{0,200}\\{1,3}[nr]){1,200}"
)
"""Lines of a key whose end is missing."""

USER = rb"://([^\s/?#\"'\\<>]{1,999})@(?!sha256:)"
UNQUOTED = re.compile(rb"[^\s\"'`<>\x1b]{1,4000}")
CUT = re.compile(rb"\\[nrt\"']|[,;&][ ]?[A-Za-z_][A-Za-z0-9_.-]{0,60}[=:]")
NAMED = re.compile(rb"[A-Za-z0-9_.-]{1,200}")
QUOTE = re.compile(rb"[\"']?")
COOKIES = re.compile(rb"[^\n\"']*")
SENTENCE = re.compile(rb"[.,]? [A-Za-z=]")
"""What follows a word that is not a password: `wrong password: try again`."""

SHORT_WORD_ENDS = (b".", b":", b"~")
ESCAPES = (b"\\", b"%", b"[", b";")
WRITTEN = re.compile(rb"%[0-9A-Fa-f]{2}|\\[abfnrtv]|[0-9]{0,3}m|[_-]+")
"""What may stand in a word before a token: an encoded character, an escape, the end of a colour code."""


class _Patterns:
    """The compiled expressions. They are made when they are used first: most commands need none."""

    def __init__(self) -> None:
        firsts = {anchor[0] for shape in TOKENS for anchor in shape.anchors}
        self.tokens = {ord(first): _any(shape for shape in TOKENS if _begins(shape, first)) for first in firsts}
        self.other_tokens = _any(shape for shape in TOKENS if not shape.anchors)
        self.dotted = _any(DOTTED)
        self.phrases = tuple(
            re.compile(
                f"{anchor}{_any(shape for shape in PHRASES if anchor in shape.anchors).pattern.decode()}".encode()
            )
            for anchor in dict.fromkeys(anchor for shape in PHRASES for anchor in shape.anchors)
        )
        self.fields = tuple(re.compile(f"{field}{FIELD}".encode()) for field in FIELDS)
        self.options = re.compile(OPTIONS.encode())
        self.pem, self.user = re.compile(PEM), re.compile(USER)


def _any(shapes: Iterable[Shape]) -> re.Pattern[bytes]:
    return re.compile(f"(?:{'|'.join(shape.pattern for shape in shapes)})".encode())


def _begins(shape: Shape, first: str) -> bool:
    return any(anchor.startswith(first) for anchor in shape.anchors)


_patterns = functools.lru_cache(maxsize=1)(_Patterns)


def spans(data: bytes, continued: bool = False) -> Iterator[Span]:
    """Where secrets of a known form are in `data`; two may overlap. `continued`: it may begin inside of a name."""
    patterns, small = _patterns(), data.lower()
    yield from _tokens(data, patterns)
    for pattern in patterns.phrases:
        yield from (match.span(match.lastindex or 0) for match in pattern.finditer(small))
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
        if match := _token(data, at, patterns):
            yield match.span()
            end = max(end, match.end())
        at = words.find(run, end)


def _token(data: bytes, at: int, patterns: _Patterns) -> re.Match[bytes] | None:
    """A token at the beginning of a long word, after an escape there (`\\nhf_…`), or before the word (`hvs.…`)."""
    begin = at
    if data[at - 1 : at] in SHORT_WORD_ENDS:
        before = data[max(0, at - LONGEST_BEGINNING) : at]
        begin = at - len(before) + before.translate(WORDS).rfind(b" ") + 1
    if data[begin - 1 : begin] in ESCAPES or data[begin : begin + 1] in (b"_", b"-"):
        written = WRITTEN.match(data, max(0, begin - 1)) or WRITTEN.match(data, begin)
        start = written.end() if written else begin
        if start != at and (match := _token_at(data, start, patterns) or patterns.dotted.match(data, start)):
            return match
    while begin < at:
        if match := patterns.dotted.match(data, begin):
            return match
        begin = data.find(b":", begin, at) + 1 or at
    return _token_at(data, at, patterns)


def _token_at(data: bytes, at: int, patterns: _Patterns) -> re.Match[bytes] | None:
    pattern = patterns.tokens.get(data[at]) if at < len(data) else None
    return (pattern and pattern.match(data, at)) or patterns.other_tokens.match(data, at)


def _beside_names(data: bytes, small: bytes, pattern: re.Pattern[bytes], continued: bool) -> Iterator[Span]:
    done = 0
    for match in pattern.finditer(small):
        begin = match.start()
        while begin > 0 and data[begin - 1] in NAME and match.start() - begin < LONGEST_NAME:
            begin -= 1
        named = NAMED.match(data, begin)
        if named is None or begin < done or (continued and begin == 0) or data[begin - 1 : begin] == b"/":
            continue
        kind = kind_of(named[0].decode())
        if kind is None:
            continue
        before = data[begin - 1 : begin]
        quote = match["open"] or (before if before in (b'"', b"'") and not match["closed"] else b"")
        start, end = _value(data, match.end(), quote)
        done = 0 if quote else end
        if match["between"] == b"," and not any(char in b"0123456789" for char in data[start:end]):
            continue  # a list of names
        span = _credential(data, start, end) if named[0].lower().endswith(b"authorization") else None
        prose = match["between"] == b":" and not quote and _is_prose(data, begin, start, end)
        if span is None and not prose:
            span = _secret(kind, data, start, end)
        if span is not None:
            yield span


def _is_prose(data: bytes, begin: int, start: int, end: int) -> bool:
    """Whether words after a colon are a sentence's, as in `wrong password: try again`."""
    words = data[start:end].replace(b"_", b"").isalpha()
    apart = data[start - 1 : start] != b":" and not (data[begin - 2 : begin - 1].isalpha() and data[begin - 1] == 32)
    return words and not (apart and not SENTENCE.match(data, end))


def _value(data: bytes, start: int, quote: bytes) -> Span:
    """Where the value is: up to the quote that began it or the whole assignment, or up to what ends a word."""
    if quote:
        end, line = (data.find(text, start, start + LONGEST_VALUE) for text in (quote, b"\n"))
        while end > 0 and data[end - 1 : end] == b"\\" and (len(quote) > 1 or data[end - 2 : end - 1] != b"\\"):
            end = data.find(quote, end + 1, start + LONGEST_VALUE)  # it is escaped
        if end >= 0 and (line < 0 or end < line):
            return start, end
    return start, _word_end(data, start)


def _word_end(data: bytes, start: int) -> int:
    """The end of a value without quotes."""
    plain = UNQUOTED.match(data, start)
    if plain is None:
        return start
    cut = CUT.search(data, start, plain.end())
    return start + len(data[start : cut.start() if cut else plain.end()].rstrip(b",;:)]}|&."))


def _credential(data: bytes, start: int, end: int) -> Span | None:
    """The part of a header that follows `Bearer` or another scheme."""
    scheme = SCHEME.match(data, start)
    if scheme is None:
        return None
    start = scheme.end()
    if end <= start:  # it was not in quotes
        end = _word_end(data, start)
    return (start, end) if is_credential(data[start:end].decode("latin-1")) else None


def _secret(kind: Kind, data: bytes, start: int, end: int) -> Span | None:
    if kind.form is COOKIE and (cookies := COOKIES.match(data, start)):
        end = cookies.end()
    text = data[start:end].decode("utf-8", "replace")
    if end - start < SHORTEST_NUMBER and is_bare(data, start, end):
        return None
    return (start, end) if is_value(kind, text) and not text.startswith("-----BEGIN") else None


def _private_keys(data: bytes, patterns: _Patterns) -> Iterator[Span]:
    """The lines of private keys. Between them there may be lines of other ranks; each may have a prefix."""
    for begin in patterns.pem.finditer(data):
        first, end = begin.end(), data.find(b"-----END", begin.end(), begin.end() + LONGEST_KEY)
        if end < 0:
            whole = CUT_OFF.match(data, first, first + LONGEST_KEY)
            end = whole.end() if whole else first
        yield from (match.span(match.lastindex or 0) for match in KEY_LINE.finditer(data, first, end))
        prefix, at = begin.start() - (data.rfind(b"\n", 0, begin.start()) + 1), first
        for line in data[first:end].splitlines(keepends=True):
            if SHORT_LINE.fullmatch(line, prefix):
                yield at + prefix, at + len(line.rstrip())
            at += len(line)


def _users(data: bytes, patterns: _Patterns) -> Iterator[Span]:
    for match in patterns.user.finditer(data):
        if b"{" in match[1]:
            continue  # source code
        if b":" in match[1] or data[max(0, match.start() - 5) : match.start()].lower().endswith((b"http", b"https")):
            yield match.span(1)

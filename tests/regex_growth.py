"""Find regular expressions whose matching time can grow faster than the length of the text.

A backtracking matcher is slow on a text if the expression can read a part of it in several ways that lead to the same
place: `(a+)+b` (exponential), `a*a*b` (quadratic), and, when it is searched for, `a+b`, because the search begins again
at every letter. The criterion is that of Weber and Seidl for ambiguous automata ("On the degree of ambiguity of finite
automata", 1991): two states p != q and a word that leads from p to p, from p to q, and from q to q.

The automaton has one state for each character of the expression (Glushkov), and one for the search before the match.
Where it is not exact it finds too much, never too little: conditions such as `\b` inside are taken to hold, and counted
repetitions are short. A text is one line, so that a final `.*$` cannot fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

ALPHABET = [*map(chr, range(128)), *"é…█٣\u2028"]
ALL = (1 << len(ALPHABET)) - 1
COPIES = 3
"""Number of copies of a part with a counted repetition: more copies add no growth."""

LINE_END = 1 << ALPHABET.index("\n")
CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
START, LINE_START, WORD_START, BEGIN, HUB = -1, -2, -3, -4, -5
"""States before the first character: anywhere, after a line end, after no letter, at the very beginning, in a loop."""

State = int
Frontier = list[tuple[State, int]]
"""States from which the next character is read, each with the characters that may not follow."""


def grows(pattern: str | bytes, flags: int = 0, searched: bool = True, whole: bool = False) -> str | None:
    """Return an ambiguous part of the expression, or None if matching takes time in proportion to the text.

    `searched` is whether a match may begin anywhere, `whole` whether it must reach the end of the text.
    """
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    automaton = Automaton(flags | _parser.parse(pattern, flags).state.flags)
    frontier = automaton.read(list(_parser.parse(pattern, flags)), [(START, 0)])
    done = {state for state, forbidden in frontier if forbidden != ALL or state in automaton.ends}
    if whole:
        done = {s for s in done if any(to == s and mask | LINE_END == ALL for to, mask in automaton.edges[s])}
    edges = automaton.graph(searched, done)
    found = _ambiguous(edges)
    return None if found is None else f"{text}: {' and '.join(automaton.names.get(s, 'search') for s in found)}"


class Automaton:
    """The states and edges of one expression."""

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.edges: dict[State, list[tuple[State, int]]] = {START: [], LINE_START: [], WORD_START: [], BEGIN: []}
        self.names: dict[State, str] = {}
        self.ends: set[State] = set()
        self.before: dict[State, int] = {}
        self._hubs = HUB

    def graph(self, searched: bool, done: set[State]) -> dict[State, list[tuple[State, int]]]:
        """The edges with those of the search; states in `done` end a match, so that nothing is tried after them."""
        edges = {state: list(found) for state, found in self.edges.items()}
        word = _mask(lambda c: re.match(r"\w", c))
        if any(mask & ~word for _, mask in edges[WORD_START]):
            edges[START] += edges[WORD_START]
            edges[WORD_START] = []
        if searched:
            edges[START] += [(START, ALL), (LINE_START, LINE_END), (WORD_START, ALL & ~word), *self.before.items()]
        kept = {state: [(to, mask) for to, mask in found if to not in done and mask] for state, found in edges.items()}
        return {state: found for state, found in kept.items() if state not in done}

    def read(self, nodes: Sequence[Any], frontier: Frontier) -> Frontier:
        """Add the nodes after the frontier; return the frontier after them."""
        for place, (op, value) in enumerate(nodes):
            last = nodes[place - 1] if place else None
            frontier = self._node(op, value, frontier, last)
        return frontier

    def _node(self, op: Any, value: Any, frontier: Frontier, last: Any) -> Frontier:
        if (mask := self._single(op, value)) is not None:
            return self._step(mask, frontier, f"{op} {value}")
        if op is sre.SUBPATTERN:
            return self.read(list(value[3]), frontier)
        if op is sre.ATOMIC_GROUP:
            return self.read(list(value), frontier)
        if op is sre.BRANCH:
            return [item for branch in value[1] for item in self.read(list(branch), frontier)]
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            return self._repeat(op, *value, frontier)
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self._look(op, *value, frontier)
        if op is sre.AT:
            return self._at(value, frontier, last)
        raise NotImplementedError(f"{op} in a regular expression")

    def _step(self, mask: int, frontier: Frontier, name: str) -> Frontier:
        state = len(self.names)
        self.names[state], self.edges[state] = name, []
        for before, forbidden in frontier:
            self.edges[before].append((state, mask & ~forbidden))
        return [(state, 0)]

    def _repeat(self, op: Any, low: int, high: Any, body: Any, frontier: Frontier) -> Frontier:
        nodes = list(body)
        if high is not sre.MAXREPEAT:
            done = []
            for copy in range(min(high, low + COPIES, 2 * COPIES)):
                done += frontier if copy >= low else []
                frontier = self.read(nodes, frontier)
            return [*done, *frontier]
        for _ in range(min(low, COPIES) - 1):
            frontier = self.read(nodes, frontier)
        self._hubs -= 1
        hub = self._hubs
        self.edges[hub] = []
        after = self.read(nodes, [(hub, 0)])
        firsts, nullable = self.edges.pop(hub), any(state == hub for state, _ in after)
        ends = [(state, forbidden) for state, forbidden in after if state != hub]
        for state, forbidden in [*frontier, *ends]:
            self.edges[state] += [(to, mask & ~forbidden) for to, mask in firsts]
        leaving = [*ends, *(frontier if low == 0 or nullable else [])]
        mask = self._single(*nodes[0]) if len(nodes) == 1 else None
        if op is sre.POSSESSIVE_REPEAT and mask is not None:
            return [(state, forbidden | mask) for state, forbidden in leaving]
        return leaving

    def _look(self, op: Any, direction: int, body: Any, frontier: Frontier) -> Frontier:
        nodes = list(body)
        mask = self._single(*nodes[0]) if len(nodes) == 1 else None
        if direction < 0:
            return self._begins(frontier, op is sre.ASSERT, mask)
        self.read(nodes, frontier)
        if mask is None:
            return frontier
        return [(state, f | (mask if op is sre.ASSERT_NOT else ALL & ~mask)) for state, f in frontier]

    def _begins(self, frontier: Frontier, after: bool, mask: int | None) -> Frontier:
        """A condition on the character before: exact at the start of the expression, else taken to hold."""
        if mask is None or not any(state == START for state, _ in frontier):
            return frontier
        self._hubs -= 1
        state = self._hubs
        self.edges[state], self.before[state] = [], mask if after else ALL & ~mask
        begun = [(state if s == START else s, f) for s, f in frontier]
        return begun if after else [*begun, (BEGIN, 0)]

    def _at(self, where: Any, frontier: Frontier, last: Any) -> Frontier:
        if where is sre.AT_BEGINNING or where is sre.AT_BEGINNING_STRING:
            line = self.flags & re.MULTILINE and where is sre.AT_BEGINNING
            return [*((LINE_START, f) for s, f in frontier if s == START and line), (BEGIN, 0)]
        if where is sre.AT_BOUNDARY and any(s == START for s, _ in frontier):
            return [*((WORD_START if s == START else s, f) for s, f in frontier), (BEGIN, 0)]
        if where in (sre.AT_END, sre.AT_END_STRING):
            if last is not None and self._reads_to_the_end(last):
                self.ends |= {state for state, _ in frontier}
            return [(state, ALL) for state, _ in frontier]
        return frontier

    def _reads_to_the_end(self, node: Any) -> bool:
        op, value = node
        if op is sre.SUBPATTERN:
            return bool(value[3]) and self._reads_to_the_end(list(value[3])[-1])
        unlimited = op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[1] is sre.MAXREPEAT and value[0] <= 1
        return unlimited and len(value[2]) == 1 and self._single(*next(iter(value[2]))) in (ALL, ALL & ~LINE_END)

    def _single(self, op: Any, value: Any) -> int | None:
        """The characters that a node reads; None if it does not read exactly one."""
        if op is sre.ANY:
            return ALL if self.flags & re.DOTALL else ALL & ~LINE_END
        if op is sre.LITERAL:
            return self._char(value)
        if op is sre.NOT_LITERAL:
            return ALL & ~self._char(value)
        if op is sre.IN:
            mask = 0
            for kind, item in value:
                mask |= self._item(kind, item)
            return ALL & ~mask if value[0][0] is sre.NEGATE else mask
        return None

    def _item(self, kind: Any, item: Any) -> int:
        if kind is sre.LITERAL:
            return self._char(item)
        if kind is sre.RANGE:
            low, high = item
            both = bool(self.flags & re.IGNORECASE)
            return _mask(lambda c: any(low <= ord(d) <= high for d in ({c, *c.lower(), *c.upper()} if both else c)))
        if kind is sre.CATEGORY:
            return _mask(lambda c: re.match(CATEGORIES[item], c))
        return 0

    def _char(self, code: int) -> int:
        char = chr(code)
        wanted = {char, char.lower(), char.upper()} if self.flags & re.IGNORECASE else {char}
        if char not in ALPHABET:
            return 1 << ALPHABET.index("é")
        return _mask(lambda c: c in wanted)


def _mask(test: Any) -> int:
    return sum(1 << place for place, char in enumerate(ALPHABET) if test(char))


def _ambiguous(edges: dict[State, list[tuple[State, int]]]) -> tuple[State, ...] | None:
    reach = {state: _reachable(edges, state) for state in edges}
    cycling = [state for state in edges if state in reach[state]]
    for state in cycling:
        ways: dict[State, int] = {}
        for to, mask in edges[state]:
            if state in reach.get(to, ()) or to == state:
                if ways.get(to, 0) & mask:
                    return (state, to)
                ways[to] = ways.get(to, 0) | mask
    for p in cycling:
        for q in cycling:
            if p != q and q in reach[p] and _leads(edges, reach, p, q):
                return (p, q)
    return None


def _reachable(edges: dict[State, list[tuple[State, int]]], start: State) -> set[State]:
    """States that can be reached with one character or more."""
    found: set[State] = set()
    todo = [start]
    while todo:
        for to, mask in edges.get(todo.pop(), ()):
            if mask and to not in found:
                found.add(to)
                todo.append(to)
    return found


def _leads(
    edges: dict[State, list[tuple[State, int]]], reach: dict[State, set[State]], p: State, q: State
) -> bool:  # fmt: skip
    """Whether one word leads from p to p, from p to q, and from q to q."""
    seen = {(p, p, q)}
    todo = [(p, p, q)]
    while todo:
        x, y, z = todo.pop()
        for state in _steps(edges, x, y, z):
            if state == (p, q, q):
                return True
            a, b, c = state
            useful = p in {a, *reach[a]} and q in {b, *reach[b]} and q in {c, *reach[c]}
            if useful and state not in seen:
                seen.add(state)
                todo.append(state)
    return False


def _steps(
    edges: dict[State, list[tuple[State, int]]], x: State, y: State, z: State
) -> Iterator[tuple[State, State, State]]:  # fmt: skip
    for a, first in edges[x]:
        for b, second in edges[y]:
            if both := first & second:
                yield from ((a, b, c) for c, third in edges[z] if both & third)

"""The book's colours: one for each role, on a light page and on a dark one."""

from __future__ import annotations

# Each role's colour on a light and on a dark page. Contrast with the page is at least 4.5 to 1, and
# colour-blind readers can tell the roles apart (except `grid` and `page`, which carry no meaning).
COLOURS = {
    "ink": ("#1f2328", "#e6e6ea"),
    "muted": ("#5f6773", "#9aa3af"),
    "grid": ("#d9dce1", "#3a3f47"),
    "page": ("#ffffff", "#14181e"),
    "accent": ("#4f46e5", "#9b95ff"),
    "data": ("#28845d", "#32dfaa"),
    "test": ("#b14728", "#cf7a32"),
    "gradient": ("#7f097a", "#f03986"),
    "value": ("#3e3311", "#f2d232"),
}
# A concept keeps its colour through the book, so several concepts share one.
_ALIASES = {
    "model": "accent",
    "query": "accent",
    "train": "data",
    "key": "data",
    "validation": "test",
}
PALETTE: dict[str, str] = {role: light for role, (light, _) in COLOURS.items()}
PALETTE |= {alias: PALETTE[role] for alias, role in _ALIASES.items()}

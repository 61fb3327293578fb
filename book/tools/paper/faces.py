"""The faces of the printed book: packages of npm, one version of each, pinned by its SHA-512.

Libertinus Serif is set beside KaTeX's Computer Modern: their small letters are equally high. Source
Sans labels the figures, Source Code sets the code. All are under the SIL Open Font Licence.
"""

from __future__ import annotations

import base64
import re

from book.tools.live.packages import Package

SUBSETS = ("latin", "latin-ext", "greek")
FACES = {  # the packages, and the weights and slopes that the book uses
    Package(
        "@fontsource/libertinus-serif",
        "5.3.0",
        "adef4c62d29f2c5c59c6571f575dbb22a1bcef033b91817da3fff17d9b9fcecaf6cf6dbeb5f2aee7"
        "1449c12f68324b08d5fbb28791fd396405b5560cf32a620e",
    ): ("400", "400-italic", "700", "700-italic"),
    Package(
        "@fontsource/source-sans-3",
        "5.3.1",
        "3b7631bdba2d50e818236671d1b05c10c3639f08ad45ff4fdbef69779e2c328bb1d4d1eb7579ccc1"
        "9bacc363fbf2516113338f3788253844265f4012692ebcb8",
    ): ("400", "400-italic", "600"),
    Package(
        "@fontsource/source-code-pro",
        "5.3.1",
        "aac2449302565d83fff5c966b6ddc1b08959f8baf872e46034082ed2fc9974280448c44c85190098"
        "41451c734cf3555d79446a8390f9f91af76c02c315abfbf0",
    ): ("400", "400-italic", "600"),
}


def rules() -> str:
    """The `@font-face` rules, with the faces in them. Raises NoBundle where npm has them not."""
    found = []
    for package, styles in FACES.items():
        files = package.members()
        for style in styles:
            sheet = files[f"package/{style}.css"].decode()
            for name, rule in re.findall(r"/\* (\S+) \*/\s*(@font-face \{.*?\})", sheet, re.DOTALL):
                subset = name.removeprefix(package.name.split("/")[1] + "-").rsplit("-", 2)[0]
                if subset in SUBSETS:
                    data = base64.b64encode(files[f"package/files/{name}.woff2"]).decode()
                    source = f"src: url(data:font/woff2;base64,{data}) format('woff2');"
                    found.append(re.sub(r"src: .*?;\n", source + "\n", rule))
    return "\n".join(found)

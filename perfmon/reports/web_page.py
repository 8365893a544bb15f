"""Reports as one HTML file: data, styles and scripts are inside, nothing is loaded, and text of logs is never markup.

A page is a fragment of HTML, style sheets and scripts in `pages/`, all of them constant, and a document of data. The
data stand in a block that a browser does not run; the scripts write them to the page as text only. The Content Security
Policy names the hash of each script and style: a browser runs nothing else, whatever a log holds.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).with_name("pages")
_STYLES, _SCRIPTS = ("page.css",), ("page.js",)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{styles}
</head>
<body>
<noscript>This report is drawn by its own script: enable JavaScript for it. It loads nothing.</noscript>
{body}
<script type="application/json" id="data">{data}</script>
{scripts}
</body>
</html>
"""


def web_page(
    title: str, body: str, document: dict[str, Any], *, scripts: Sequence[str], styles: Sequence[str] = ()
) -> str:
    """The page with the fragment `body`; names are those of files in `pages/`, in the order of their use.

    `title` is constant text. `document` holds plain values without NaN and infinities.
    """
    style, script = ([_read(name).strip() for name in names] for names in ((*styles, *_STYLES), (*_SCRIPTS, *scripts)))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, script))}",
            f"style-src {' '.join(map(_hash, style))}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    # Text of logs must not end the block of data: `<` is written as an escape that JSON reads as the same.
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(
        policy=policy,
        title=title,
        styles="\n".join(f"<style>{text}</style>" for text in style),
        body=_read(body).strip(),
        data=data,
        scripts="\n".join(f"<script>{text}</script>" for text in script),
    )


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of the policy that admits this script or style alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

"""A hook of mkdocs: examples that pages link to are beside docs in a checkout, and inside the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Any, config: Any) -> Any:
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.suffix in (".py", ".sql"):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return markdown.replace("](../../examples/", "](../examples/")

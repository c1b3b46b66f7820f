"""Checks that what the documents name exists; run by `make docs-check`.

Four things are checked in README.md, CONTRIBUTING.md, CHANGELOG.md, systemd/ and docs/, and of the commands
the examples in their help:

- every relative link leads to a file and, where it names one, to a heading in it;
- every `gcs` command with its options, and every `make` target, in a fenced block;
- every setting, as `-s section.key=…`, as a variable, or alone in a code span;
- every dependency of pyproject.toml has its line in docs/dependencies.md.
"""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from cli import main as gcs
from gcs.config import SECTIONS, SETTINGS

ROOT = Path(__file__).parent.parent
VARIABLES = {setting.variable for setting in SETTINGS.values()} | {"GCS_CONFIG"}

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
OPTION = re.compile(r"(?:-s|--set)[ =]([a-z_]+\.[a-z_]+)=")
VARIABLE = re.compile(rf"\bGCS_(?:CONFIG|(?:{'|'.join(SECTIONS).upper()})_[A-Z_]+)\b")
SPAN = re.compile(rf"`((?:{'|'.join(SECTIONS)})\.[a-z_]+)`")
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return FENCE.sub("", self.text)

    def commands(self) -> Iterator[list[str]]:
        """The words of each shell command in fenced blocks, without prompts and comments."""
        for block in FENCE.findall(self.text):
            for line in block.replace("\\\n", " ").splitlines()[1:-1]:
                for command in re.split(r"&&|\|\||[|;]", line.strip().removeprefix("$ ")):
                    try:
                        yield shlex.split(command, comments=True)
                    except ValueError:  # not a shell command, but some other language
                        continue


def documents() -> Iterator[Document]:
    """All documents of the project."""
    for pattern in ("*.md", "docs/**/*.md", "systemd/*.md"):
        for path in sorted(ROOT.glob(pattern)):
            yield Document(path, path.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as Git forges make them."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Document) -> Iterator[str]:
    """Relative links that lead nowhere."""
    for link in LINK.findall(document.prose):
        name, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = document.path.parent / name if name else document.path
        if not target.exists():
            yield f"the link {link} leads nowhere"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"the link {link} names a heading that is not there"


def unknown_commands(document: Document) -> Iterator[str]:
    """Commands and targets that do not exist."""
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for words in document.commands():
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words[:1] == ["gcs"] and (wrong := unknown_word(words[1:])):
            yield f"`{' '.join(words)}`: there is no {wrong}"
        elif words[:1] == ["make"]:
            for word in words[1:]:
                if not re.match(r"-|[A-Z_]+=", word) and word not in targets:
                    yield f"`{' '.join(words)}`: there is no target {word}"


def unknown_word(words: list[str]) -> str | None:
    """The first command or option of a `gcs` command line that does not exist."""
    command: click.Command = gcs
    rest = iter(words)
    for word in rest:
        if word.startswith("-"):
            option = _option(command, word.partition("=")[0])
            if option is None:
                return f"option {word}"
            if not option.is_flag and "=" not in word:
                next(rest, None)
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"command {word}"
            command = found
    return None


def wrong_examples(command: click.Command = gcs, name: str = "gcs") -> Iterator[str]:
    """Examples in the help of commands that name what does not exist."""
    for line in (command.epilog or "").splitlines():
        for each in re.findall(r"\bgcs [^|>]+", line):
            if wrong := unknown_word(shlex.split(each)[1:]):
                yield f"{name} --help: `{each.strip()}`: there is no {wrong}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from wrong_examples(found, f"{name} {below}")


def _option(command: click.Command, name: str) -> click.Option | None:
    context = click.Context(command, **gcs.context_settings)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and name in (*parameter.opts, *parameter.secondary_opts):
            return parameter
    return None


def unknown_settings(document: Document) -> Iterator[str]:
    """Settings that do not exist."""
    for name in [*OPTION.findall(document.text), *SPAN.findall(document.prose)]:
        if name not in SETTINGS:
            yield f"there is no setting {name}"
    for name in VARIABLE.findall(document.text):
        if name not in VARIABLES:
            yield f"there is no variable {name}"


def unexplained_dependencies() -> Iterator[str]:
    """Dependencies that docs/dependencies.md does not explain."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    explained = set(re.findall(r"^\| `([\w-]+)", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE))
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["dev"], *extras["spark"]]
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in needed}
    yield from (f"{name} is not explained" for name in sorted(names - explained))
    yield from (f"{name} is explained, but is no dependency" for name in sorted(explained - names))


def complaints() -> Iterator[str]:
    """All that is wrong, a sentence each."""
    for document in documents():
        for check in (broken_links, unknown_commands, unknown_settings):
            yield from (f"{document.path.relative_to(ROOT)}: {complaint}" for complaint in check(document))
    yield from wrong_examples()
    yield from (f"docs/dependencies.md: {complaint}" for complaint in unexplained_dependencies())


def main() -> int:
    """Print what is wrong; the exit code says whether anything was."""
    wrong = list(complaints())
    for complaint in wrong:
        print(complaint)
    print(f"docs-check: {len(list(documents()))} documents, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

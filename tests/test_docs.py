"""The documents are right: their examples run, and what they name and link to exists."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer
from benchmarks.papers.sap.sweep import printed

import skyband
from skyband import Monitor, TopK, errors, last
from skyband.cli.app import app
from skyband.topk import ALGORITHMS
from skyband.topk.sap.rank_test import UPPER, critical_values
from skyband.topk.sap.state import three_sigma, unit_size
from tests.command_line import Runner

ROOT = Path(__file__).parent.parent
AT_THE_TOP = ("ARCHITECTURE.md", "PAPERS.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = sorted(
    ["README.md", *AT_THE_TOP, *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_SERVERS = ("docs/guides/kafka-to-redis.md",)
"""Pages that tests/spark/test_guides.py follows, with real servers."""
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, kind):
    return [text for language, text in FENCE.findall(text_of(page)) if language == kind]


def pages_with(kind):
    return [page for page in PAGES if blocks(page, kind)]


# ---------------------------------------------------------------- what they show


def test_the_table_of_connectors_is_that_of_the_code():
    from skyband.spark.connectors import CONNECTORS

    rows = re.findall(r"^\| `(\w+)`.*? \| (.*?) \| (.*?) \| (.*?) \|$", connect_section(), re.M)
    assert [name for name, *_ in rows] == list(CONNECTORS)
    for name, jars, *releases in rows:
        connector = CONNECTORS[name]
        assert f"`{connector.coordinate}`" in jars
        for jar in connector.jars:
            group, artifact, version = jar.split(":")
            assert artifact in jars
            assert group in jars
            assert version in jars
        ran = [release.startswith("ran on 4.") for release in releases]
        assert ran == [version in connector.ran_with for version in ("4.2", "4.3")], name


def connect_section():
    """The part of the page about jobs that is about connectors."""
    return text_of("docs/jobs.md").split("### connect\n")[1].split("\n### ")[0]


ON_SPARK = [page for page in PAGES if "skyband.spark" in "".join(blocks(page, "python"))]


@pytest.mark.parametrize(
    "page", [page for page in pages_with("python") if page not in (*ON_SPARK, *WITH_SERVERS)]
)
def test_python_prints_what_the_page_shows(page):
    check_python(page)


@pytest.mark.parametrize("page", ON_SPARK)
@pytest.mark.usefixtures("lasting_session")
def test_python_on_spark_prints_what_the_page_shows(page):
    check_python(page)


def check_python(page):
    """Blocks of a page share their names; the ``text`` after a block is what it prints."""
    fences = [*FENCE.findall(text_of(page)), ("", "")]
    names = {"__name__": "__main__"}
    for (kind, code), (after, shown) in itertools.pairwise(fences):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, page, "exec"), names)
            assert out.getvalue() == (shown if after == "text" else "")


def sessions(page):
    """Commands of ``console`` blocks, with what they print."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def without_the_plan(lines):
    """What ``explain`` prints, without the choice of ``auto``, which may be tuned."""
    kept, in_plan = [], False
    for line in lines:
        in_plan = line.startswith("algorithm") or (in_plan and not line.startswith("candidates"))
        if not in_plan:
            kept.append(line)
    return kept


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands_print_what_the_page_shows(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    run = Runner(capsys, monkeypatch)
    for command, shown in sessions(page):
        program, *words = shlex.split(command)
        assert program == "skyband"
        ran = run(*words)
        lines = [line.rstrip() for line in (ran.out + ran.err).splitlines()]
        expected = shown.splitlines()
        if words[0] == "explain" and "--algorithm" not in words:
            lines, expected = without_the_plan(lines), without_the_plan(expected)
        assert lines == expected, command


# ---------------------------------------------------------------- what they name


@pytest.mark.parametrize("page", pages_with("sh"))
def test_shell_commands_exist(page):
    targets = re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE)
    for line in "".join(blocks(page, "sh")).splitlines():
        words = shlex.split(line, comments=True)
        words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
        if words[0] == "make":
            assert words[1] in targets
        elif words[0] == "skyband":
            parse(words[1:])
        else:
            assert words[:3] == [".venv/bin/python", "-m", "pytest"], line
            assert all((ROOT / word).is_file() for word in words if word.startswith("tests/"))


def parse(words):
    """Parse the words of a command without running it."""
    command = typer.main.get_command(app)
    command.commands[words[0]].make_context(words[0], words[1:])


def test_every_command_and_option_is_in_the_reference():
    page = text_of("docs/command-line.md")
    parts = {part.split()[1]: part for part in re.split(r"^## `", page, flags=re.MULTILINE)[1:]}
    commands = typer.main.get_command(app).commands
    assert set(commands) == {name.strip("`") for name in parts} - {"--version"}
    for name, command in commands.items():
        part = next(text for title, text in parts.items() if title.strip("`") == name)
        for parameter in command.params:
            for option in (o for o in parameter.opts if o.startswith("--")):
                assert option == "--help" or f"`{option}" in part, f"{name} {option}"


@pytest.mark.parametrize("page", ["README.md", "docs/algorithms.md", "CHANGELOG.md"])
def test_every_algorithm_is_named(page):
    assert [name for name in ALGORITHMS if f"`{name}`" not in text_of(page)] == []


def test_public_names_are_sorted_and_complete():
    assert skyband.__all__ == sorted(skyband.__all__)
    assert all(getattr(skyband, name).__name__ == name for name in skyband.__all__)
    here = {
        name
        for name, value in vars(skyband).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)  # a part that another test imported
        and getattr(value, "__module__", "").startswith("skyband")
    }
    tree = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert here | tree <= set(skyband.__all__)
    assert set(skyband._LATER) <= set(skyband.__all__)


def test_papers_name_tests_and_files_that_exist():
    page = text_of("PAPERS.md")
    for module, test in re.findall(r"`(test_\w+)(?:::(test_\w+))?`", page):
        code = text_of(f"tests/{module}.py")
        assert not test or f"def {test}(" in code, (module, test)
    folders = (ROOT / "src", ROOT / "benchmarks")
    sources = [p.relative_to(ROOT).as_posix() for folder in folders for p in folder.rglob("*.py")]
    for path in re.findall(r"`((?:\w+/)*\w+\.py)`", page):
        assert any(f"/{source}".endswith(f"/{path}") for source in sources), path


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_are_named_exist(page):
    """Also in pictures; a row of a table that begins with a folder names files in it."""
    folders = ("src", "tests", "benchmarks", "examples")
    sources = [
        f"/{path.relative_to(ROOT).as_posix()}"
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    ]
    for line in text_of(page).splitlines():
        row = re.match(r"\| `(\w+/)` \|", line)
        within = f"/{row[1]}" if row else "/"
        for name in re.findall(r"(?<![\w/<>*.])(?:\w+/)*\w+\.py\b", line):  # no <placeholders>
            assert any(s.endswith(f"/{name}") and within in s for s in sources), line


# ---------------------------------------------------------------- what they link to


def anchors(page):
    text = re.sub(r'^--8<-- "(.*)"$', lambda line: text_of(line[1]), text_of(page), flags=re.M)
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", h).strip().lower().replace(" ", "-") for h in headings}


def known_anchors(target):
    """What a link may name in a file: a heading; of a picture, the colours it is for."""
    if target.suffix == ".png":
        return {"only-light", "only-dark"}
    return anchors(str(target.relative_to(ROOT)))


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page):
    for link in LINK.findall(FENCE.sub("", text_of(page))):
        if not link.startswith("https://"):
            path, _, anchor = link.partition("#")
            target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
            assert target.is_file(), link
            assert not anchor or anchor in known_anchors(target), link


def test_the_site_holds_the_documents_at_the_top():
    for page in AT_THE_TOP:
        assert text_of(f"docs/{page}") == f'--8<-- "{page}"\n'
        links = LINK.findall(FENCE.sub("", text_of(page)))
        assert all(link.startswith("https://") or link in AT_THE_TOP for link in links)


def test_the_site_builds(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(AT_THE_TOP)
    loaded = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"')
    assert [address for page in pages for address in loaded.findall(page.read_text("utf-8"))] == []


# The repository speaks of Skyband alone: not of how it was made, and of nothing left to do.
OTHER = re.compile(r"\b(todo|fixme|xxx)\b|/home/|\bDESIGN\.md")


def test_the_repository_speaks_of_skyband_alone():
    folders = ("src", "tests", "benchmarks", "docs")
    files = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / page for page in AT_THE_TOP)]
    for folder in folders:
        for suffix in ("py", "md", "csv", "svg"):
            files += (ROOT / folder).rglob(f"*.{suffix}")
    for path in files:
        if path != Path(__file__):
            match = OTHER.search(path.read_text(encoding="utf-8"))
            assert match is None, (path, match)


# ---------------------------------------------------------------- what PAPERS.md says of the papers


def table(number, dataset, parameter, value, algorithm):
    return printed()[str(number), dataset, parameter, str(value), algorithm]


def mean_ratio(number, one, other, datasets):
    keys = [key for key in printed() if key[0] == str(number) and key[1] in datasets]
    return statistics.mean(
        printed()[key] / printed()[(*key[:4], other)] for key in keys if key[4] == one
    )


def test_numbers_that_sap_quotes():
    k = {a: [table(3, "stock", "k", v, a) for v in (10, 1000)] for a in ("sap", "sap-dynamic")}
    assert k == {"sap": [9.58, 15.4], "sap-dynamic": [10.64, 19.2]}
    assert [round(100 * (b / a - 1)) for a, b in [*k.values(), (9.58, 23.4)]] == [61, 80, 144]
    saved = [
        1 - table(2, "stock", "m", m, "algorithm-1") / table(2, "stock", "m", m, "non-delay")
        for m in (7, 37)
    ]
    assert [round(100 * share, 1) for share in saved] == [66.3, 39.0]
    left = [
        table(2, "planet", "m", m, "algorithm-1+s-avl") / table(2, "planet", "m", m, "algorithm-1")
        for m in (7, 37)
    ]
    assert [round(100 * share, 1) for share in left] == [72.7, 91.9]
    shares = [mean_ratio(3, "sap", "sap-dynamic", [name]) for name in ("planet", "time_r")]
    assert [round(100 * share) for share in shares] == [77, 79]
    for n in ("0.5%", "1%"):
        assert table(3, "time_r", "n", n, "sap") > table(3, "time_r", "n", n, "sap-dynamic")
    assert table(3, "time_r", "k", 100, "sap-equal") == 41.1
    assert table(2, "time_r", "m", 33, "algorithm-1+s-avl") == 41.3
    rows = {key[2:]: number for key, number in printed().items() if key[:2] == ("3", "trip")}
    twins = {
        key: (number, printed()[("3", "time_u", *key)])
        for key, number in rows.items()
        if key[2] == "sap" and number != printed()[("3", "time_u", *key)]
    }
    assert twins == {("s", "1%", "sap"): (11.2, 11.27)}
    usual = ["stock", "trip", "planet", "time_u"]
    for other, everywhere, elsewhere in (("mintopk", 3.5, 1.8), ("sap", 6.3, 3.5)):
        assert round(mean_ratio(6, "kskyband", other, [*usual, "time_r"]), 1) == everywhere
        assert round(mean_ratio(6, "kskyband", other, usual), 1) == elsewhere
    kept = [table(6, name, "s", "10%", "mintopk") / 100 for name in [*usual, "time_r"]]
    assert (round(min(kept), 1), round(max(kept), 1)) == (2.8, 4.2)


def test_table_7_counts_candidates():
    keys = [key for key in printed() if key[0] == "7"]
    ratios = [printed()[("9", *key[1:])] / printed()[key] for key in keys]
    assert [round(ratio) for ratio in (min(ratios), statistics.median(ratios), max(ratios))] == [
        30,
        34,
        37,
    ]


def test_m_star_of_table_2():
    for n in range(1, 10**6, 997):
        assert math.ceil(math.sqrt(n / max(n / 1000, 100))) <= 32


def test_numbers_that_mintopk_quotes():
    assert 0.172e-3 * 100_000 < 18 < 120 < 1.72e-3 * 100_000
    assert round(1 - 0.097 / 0.172, 2) == 0.44
    assert 1 - 0.097 / 1.72 > 0.85


def test_rank_test_takes_sample_sizes():
    first, second = 10, math.ceil(three_sigma(10))
    assert second == 25
    mean = first * (first + second + 1) / 2
    deviation = math.sqrt(first * second * (first + second + 1) / 12)
    exact = critical_values(first, second)[second]
    assert abs(mean + UPPER * deviation - exact) <= 1


def test_units_can_be_longer_than_partitions():
    n, s, k = 21, 3, 2
    parts = math.ceil(math.sqrt(n / max(s, k)))
    longest = n / (1 + three_sigma(k) / k)
    assert (round(longest, 1), n / parts, unit_size(n, s, k)) == (2.9, 7, 6)


def test_a_cut_is_always_at_twice_zeta():
    for k in (1, 2, 10, 100, 1000, 10**6):
        zeta = three_sigma(k)
        assert 2 * zeta == pytest.approx(zeta + 3 * math.sqrt(zeta) + k)


def test_appendix_a_has_another_minimum():
    n, s, k = 3600, 4, 100  # an hour, every four seconds
    bound = {m: m * k + n * k / (s * m) for m in range(1, 101)}
    assert min(bound, key=bound.get) == math.sqrt(n / s) == 30
    assert bound[math.ceil(math.sqrt(n / max(s, k)))] > 2 * bound[30]


def on_random_scores(algorithm, n, s, k, counter):
    """A counter over the slides of full windows."""
    scores = np.random.default_rng(0).random(6 * n)
    monitor = Monitor(TopK(k=k, window=last(count=n, slide=s, full=True)), algorithm)
    monitor.push(scores[: 2 * n])
    before = monitor.counters()[counter]
    monitor.push(scores[2 * n :])
    return monitor.counters()[counter], before


def test_minimal_set_on_random_scores():
    for n, s, k in ((20_000, 2_000, 20), (10_000, 100, 20)):
        kept, _ = on_random_scores("mintopk", n, s, k, "candidates")
        assert kept / k == pytest.approx(sum(1 / j for j in range(1, n // s + 1)), rel=0.05)


def test_windows_that_an_arrival_enters():
    n, s, k = 20_000, 2_000, 20
    after, before = on_random_scores("pretopk", n, s, k, "insertions")
    entered = (after - before) / (4 * n)
    assert entered == pytest.approx(k / s * (1 + math.log(n / k)), rel=0.05)
    assert entered > 10 * (2 * k / (3 * s))


def test_rising_scores_move_every_pointer():
    n, rows = 500, 2_000
    monitor = Monitor(TopK(k=10, window=last(count=n, slide=1)), "mintopk")
    monitor.push(np.arange(rows, dtype=float))
    assert monitor.counters()["events"] > 0.9 * n * rows

"""The site has a page for every public name, and its checks would see a fault."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import keyhole

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """The program that makes the site."""
    spec = importlib.util.spec_from_file_location("keyhole_site", ROOT / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_a_sentence(site: ModuleType) -> None:
    assert list(site.undocumented_names()) == []


def test_every_public_name_and_learner_is_in_the_reference(site: ModuleType) -> None:
    names, learners = site.names_page(), site.learners_page()
    for path in (*(f"keyhole.{name}" for name in keyhole.__all__), *site.list_rooms()):
        assert f"{path}\n" in names
    for name in (*keyhole.LEARNERS, *keyhole.GATES):
        assert f"\n## {name}\n" in learners


def test_every_class_and_function_of_a_room_has_an_example(site: ModuleType) -> None:
    called = {k: v for k, v in site.list_rooms().items() if callable(v)}
    assert [path for path, thing in called.items() if ">>>" not in (thing.__doc__ or "")] == []


def test_adapters_and_the_fold_are_in_the_reference_with_spark_or_without(site: ModuleType) -> None:
    assert "::: keyhole.integrations.spark.streams\n" in site.integrations_page()
    assert "::: keyhole.integrations.sklearn.SetClassifier\n" in site.integrations_page()
    assert "::: keyhole.keyed.fold.Fold\n" in site.keyed_page()


def test_every_page_of_the_navigation_is_written_or_made(site: ModuleType, tmp_path: Path) -> None:
    import tomllib

    site.write_pages(tmp_path / "docs")
    configured = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    asked = _pages(configured)
    found = {str(path.relative_to(tmp_path / "docs")) for path in (tmp_path / "docs").rglob("*.md")}
    assert asked <= found
    assert set(site.GENERATED) <= asked


def test_help_of_every_command_fits_the_width_of_a_page(site: ModuleType) -> None:
    assert max(map(len, site.cli_page().splitlines())) <= 80


def _pages(nav: object) -> set[str]:
    """Return every page that a navigation names."""
    if isinstance(nav, str):
        return {nav}
    below = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(_pages(one) for one in below))  # type: ignore[attr-defined]


def test_every_error_has_one_row_in_its_table(site: ModuleType) -> None:
    rows = site.errors_page().rstrip().splitlines()[4:]
    assert all(row.startswith("| ") or row == "|---|---|---|" for row in rows)
    assert sum(row.startswith("| `InvalidError`") for row in rows) == 1


def test_every_command_and_route_is_in_the_reference(site: ModuleType) -> None:
    assert "## keyhole demo\n" in site.cli_page()
    assert "## POST /v1/feedback\n" in site.http_page()


def test_signs_names_of_functions_and_primes_stand_where_they_belong(site: ModuleType) -> None:
    typeset = site.typeset_formula(r"r \ln r - \max(-A'_g, 0) \le \lvert x'\rvert", wide=False)
    assert '<mo lspace="0.1em" rspace="0.17em">ln</mo>' in typeset
    assert '<mo lspace="0.1em" rspace="0">max</mo>' in typeset
    assert typeset.count('<mo form="prefix">&#x02212;</mo>') == 1  # that of -A alone
    assert "<msub><mrow><mi>A</mi><mo>&#x02032;</mo></mrow><mi>g</mi></msub>" in typeset
    assert 'form="prefix">&#x0007C;</mo><mrow><mi>x</mi><mo>&#x02032;</mo></mrow>' in typeset


def test_formulas_keep_their_punctuation_beside_them_and_scroll_by_keys(
    site: ModuleType, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        r'<p>(<span class="arithmatex">\(x\)</span>).</p><div class="arithmatex">\[y\]</div>'
    )
    assert list(site.finish_pages(tmp_path)) == []
    shown = re.sub(r"<math.*?</math>", "formula", page.read_text())
    assert '<p><span class="arithmatex">(formula).</span></p>' in shown
    assert '<div class="arithmatex" tabindex="0">formula</div>' in shown


def test_a_number_keeps_its_per_cent_sign_and_code_its_spaces(site: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>10 % of <code>7 % 2</code></p>")
    assert list(site.finish_pages(tmp_path)) == []
    assert page.read_text() == "<p>10\N{NO-BREAK SPACE}% of <code>7 % 2</code></p>"


def test_every_formula_of_a_page_is_paired_and_can_be_typeset(site: ModuleType) -> None:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        formulas = re.findall(r"\$\$(.+?)\$\$|\$(\S[^$\n]*?)\$", text, flags=re.DOTALL)
        for tex in map("".join, formulas):
            typeset = site.typeset_formula(tex.strip(), wide=False)
            assert "\\" not in typeset, f"{page.name}: {tex}"
            assert "&</mi>" not in typeset, f"{page.name}: {tex}"
        left = re.sub(r"\$\$(.+?)\$\$|\$(\S[^$\n]*?)\$", "", text, flags=re.DOTALL)
        assert "$" not in left, f"{page.name}: {left[max(0, left.find('$') - 60) :][:120]}"


def test_the_font_of_formulas_has_their_signs_and_their_italic_letters(
    site: ModuleType, tmp_path: Path
) -> None:
    from fontTools.ttLib import TTFont

    (tmp_path / "assets").mkdir()
    formula = site.typeset_formula(r"\alpha \le \sqrt{h}", wide=False)
    (tmp_path / "page.html").write_text(f"<p>{formula}</p> <p>not of a formula: \N{SNOWMAN}</p>")
    site.write_font(tmp_path)
    font = TTFont(tmp_path / "assets" / "math.woff")
    assert "MATH" in font  # where indices and exponents stand
    assert {0x2264, 0x221A, 0x1D6FC, 0x210E} <= font.getBestCmap().keys()
    assert ord("\N{SNOWMAN}") not in font.getBestCmap()
    assert "Open Font License" in font["name"].getDebugName(13)  # which asks to be named


def test_broken_links_are_seen(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#part"></a><a href="c.html"></a>'
    )
    (tmp_path / "b.html").write_text('<a href="a.html#top"></a><a href="https://example.org/x"></a>')
    assert list(site.broken_links(tmp_path)) == [
        "a.html links to b.html#part, which is no heading",
        "a.html links to c.html",
    ]

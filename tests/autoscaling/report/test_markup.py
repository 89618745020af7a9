"""Whatever people name their pods, it is text on the page."""

from __future__ import annotations

import json

from stowplan_autoscaling.report.markup import Markup, json_script, table, tag, text

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u2028"


def test_text_is_escaped_and_markup_is_not() -> None:
    """At any depth."""
    assert text(HOSTILE) == "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;\u2028"
    assert tag("p", ["a<b", tag("b", "c")], None) == "<p>a&lt;b<b>c</b></p>"
    assert text(Markup("<br>")) == "<br>"


def test_a_zero_byte_is_no_text_in_html() -> None:
    """A browser would drop it or stop at it."""
    assert text("a\0b") == "a\ufffdb"


def test_attributes_are_escaped_too() -> None:
    """True has no value; None and False are left out."""
    made = tag("i", class_="a b", data_name='"><x>', hidden=True, title=None, id=False)
    assert made == '<i class="a b" data-name="&quot;&gt;&lt;x&gt;" hidden></i>'


def test_json_in_the_page_cannot_end_its_element() -> None:
    """And it still says the same."""
    made = json_script("data", json.dumps([HOSTILE], ensure_ascii=False))
    inner = made[made.index(">") + 1 : made.rindex("</script>")]
    assert not set("<>&\u2028") & set(inner)
    assert json.loads(inner) == [HOSTILE]


def test_a_table_says_which_cells_are_headings() -> None:
    """Of columns and of rows; words stand to the left."""
    made = table(["name", "kind", "count"], [["a", "b", "1"]], label="Things", words=2)
    assert '<th scope="col" class="left">kind</th><th scope="col">count</th>' in made
    assert '<th scope="row">a</th><td class="left">b</td><td>1</td>' in made
    assert 'role="region" aria-label="Things" tabindex="0"' in made

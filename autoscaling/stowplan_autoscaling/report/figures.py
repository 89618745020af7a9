"""Figures of Bokeh as all sections use them: without ornament, as wide as the page, on axes that line up.

Colours of text and grids are set by the page's script, for the colour scheme that is on. Legends and titles stand in
the page, where they wrap, print and can be read aloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from bokeh.models import (
    BasicTickFormatter,
    BoxZoomTool,
    ColumnDataSource,
    ContinuousTicker,
    CrosshairTool,
    DatetimeTickFormatter,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Span
from bokeh.models.glyphs import Line, Step, VAreaStep
from bokeh.models.renderers import GlyphRenderer
from bokeh.models.text import BaseText
from bokeh.plotting import figure

from stowplan_autoscaling.experiment.run_tables import Floats
from stowplan_scheduler.timestamps import parse_time

LEFT: Final = 58
"""Room for the labels of the vertical axis, in pixels: the same everywhere, so that frames stand in line."""

HEIGHT: Final = 150
_HATCH: Final = "right_diagonal_line"

Style = Literal["area", "pale", "hatch"]
_ALPHA: Final[dict[Style, float]] = {"area": 0.75, "pale": 0.2, "hatch": 0.12}
_NANO: Final = 10**6
"""Nanoseconds in a millisecond, which is what Bokeh counts time in."""

_SECONDS: Final[dict[float | str, str | BaseText]] = {
    0.001: "1 ms",
    0.01: "10 ms",
    0.1: "0.1 s",
    1.0: "1 s",
    10.0: "10 s",
    60.0: "1 min",
    300.0: "5 min",
    1800.0: "30 min",
    7200.0: "2 h",
    36_000.0: "10 h",
    360_000.0: "100 h",
}


class TimeAxis:
    """The virtual time of the runs: figures on it share what is shown of it, and the line under the pointer."""

    def __init__(self, start: str, duration: float) -> None:
        self._start = parse_time(start) / _NANO
        end = self._start + duration * 1000
        self.range = Range1d(start=self._start, end=end, bounds=(self._start, end), min_interval=30_000, name="time")
        self._cursor = Span(dimension="height", line_dash="dotted", line_width=1, name="cursor")

    def moments(self, seconds: Floats) -> Floats:
        """Seconds of the run as Bokeh's times."""
        return self._start + seconds * 1000

    def figure(self, top: float, *, height: int = HEIGHT, share: bool = False, **options: Any) -> figure:
        """A figure over time, from 0 to `top`. share: the vertical axis is in percent."""
        options.setdefault("y_range", Range1d(start=0, end=padded(top)))
        made = plain(x_range=self.range, x_axis_type="datetime", height=height, **options)
        made.xaxis.formatter = DatetimeTickFormatter(
            days="%d %b", hours="%H:%M", hourmin="%H:%M", minutes="%H:%M", minsec="%H:%M:%S"
        )
        if "y_range" in options and isinstance(options["y_range"], Range1d):
            made.yaxis.formatter = NumeralTickFormatter(format="0%" if share else "0.[00]a")
        made.add_tools(CrosshairTool(dimensions="height", overlay=self._cursor))
        return made


def plain(**options: Any) -> figure:
    """A figure with nothing around it; dragging zooms in horizontally."""
    zoom = BoxZoomTool(dimensions="width")
    made = figure(
        tools=[zoom],
        active_drag=zoom,
        toolbar_location=None,
        sizing_mode="stretch_width",
        min_border_left=LEFT,
        min_border_right=14,
        min_border_top=6,
        min_border_bottom=24,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        **options,
    )
    for axis in (*made.xaxis, *made.yaxis):
        axis.minor_tick_line_color = None
        axis.major_tick_in = 0
        axis.axis_line_color = None if axis in made.yaxis else axis.axis_line_color
    made.xgrid.visible = False
    if isinstance(made.yaxis.ticker, ContinuousTicker):
        made.yaxis.ticker.desired_num_ticks = 4
    return made


def padded(top: float) -> float:
    """The end of an axis that shows up to `top`."""
    return top * 1.06 if top > 0 else 1.0


def source(columns: Mapping[str, Floats | Sequence[str]], *, exact: bool = False) -> ColumnDataSource:
    """Columns of equal length. Numbers take four bytes each, but for times, or if they are to be exact."""
    data: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            data[name] = values.astype("<f8" if exact or name == "time" else "<f4")
        else:
            data[name] = list(values)
    return ColumnDataSource(data=data)


class Choice(NamedTuple):
    """An option of a picker (see sections.picker), by its number: what belongs to another one is not seen."""

    picker: str
    number: int

    def marks(self, renderer: GlyphRenderer[Any]) -> None:
        """The renderer is seen if this option is chosen; at first it is the first one."""
        renderer.visible = self.number == 0
        renderer.tags = [f"{self.picker}:{self.number}"]


def step_line(
    on: figure, data: ColumnDataSource, column: str, colour: str, *, choice: Choice | None = None, dash: str = "solid"
) -> GlyphRenderer[Any]:
    """A number that holds until its next sample."""
    line = on.add_glyph(data, Step(x="time", y=column, mode="after", line_color=colour, line_width=1.6, line_dash=dash))
    if choice is not None:
        choice.marks(line)
    return line


def step_area(
    on: figure,
    data: ColumnDataSource,
    low: str,
    high: str,
    colour: str,
    *,
    style: Style = "area",
    choice: Choice | None = None,
) -> GlyphRenderer[Any]:
    """What lies between two numbers. style: as in the legend of the page."""
    look: dict[str, Any] = {"fill_color": colour, "fill_alpha": _ALPHA[style]}
    if style == "hatch":
        look |= {"hatch_pattern": _HATCH, "hatch_color": colour, "hatch_scale": 7, "hatch_weight": 1.3}
    area = on.add_glyph(data, VAreaStep(x="time", y1=low, y2=high, step_mode="after", **look))
    if choice is not None:
        choice.marks(area)
    return area


def hover(on: figure, line: GlyphRenderer[Any], rows: Sequence[tuple[str, str]]) -> None:
    """What the pointer shows of a moment: the time, and rows of a label and a column with its format, as "@x{0.0}"."""
    hover_lines(on, line, [("time", "@time{%a %H:%M:%S}"), *rows], formatters={"@time": "datetime"})


def hover_lines(on: figure, line: GlyphRenderer[Any], rows: Sequence[tuple[str, str]], **options: Any) -> None:
    """The same on another axis."""
    # Steps cannot be pointed at in Bokeh; a line over the same points can, and is not seen.
    data = line.data_source
    assert isinstance(data, ColumnDataSource)
    points = on.add_glyph(data, Line(x=line.glyph.x, y=line.glyph.y, line_alpha=0))
    points.visible, points.tags = line.visible, line.tags
    tips = [(inert(label), value) for label, value in rows]
    on.add_tools(HoverTool(renderers=[points], mode="vline", line_policy="prev", tooltips=tips, **options))


def inert(label: str) -> str:
    """A label without the signs that Bokeh replaces by values."""
    return label.replace("@", "＠").replace("$", "＄")


def seconds_axis(on: figure) -> None:
    """A logarithmic horizontal axis of seconds, from hundredths to days."""
    on.xaxis.ticker = FixedTicker(ticks=[tick for tick in _SECONDS if isinstance(tick, float)])
    on.xaxis.formatter = BasicTickFormatter()
    on.xaxis.major_label_overrides = {**_SECONDS}

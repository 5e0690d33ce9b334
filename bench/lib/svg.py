"""Plots as SVG, with nothing but text. Colours follow the reader's light or dark mode."""

import html
import math

WIDTH = 860
LEFT = 330  # where bars begin
RIGHT = 90  # room for what is written behind a bar
LINE = 24
SERIES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 16px; font-weight: 600 } .quiet { fill: #59636e } .end { text-anchor: end }
.middle { text-anchor: middle }
.page { fill: #ffffff } .grid { stroke: #d1d9e0 } .whisker { stroke: #1f2328; stroke-width: 1.5 }
.a { fill: #0969da; stroke: #0969da } .b { fill: #8c959f; stroke: #8c959f } .c { fill: #1a7f37; stroke: #1a7f37 }
.d { fill: #bc4c00; stroke: #bc4c00 } .e { fill: #8250df; stroke: #8250df } .f { fill: #bf8700; stroke: #bf8700 }
.g { fill: #cf222e; stroke: #cf222e } .h { fill: #1b7c83; stroke: #1b7c83 } .i { fill: #bf3989; stroke: #bf3989 }
.j { fill: #57606a; stroke: #57606a }
.line { fill: none; stroke-width: 2 } .hollow { fill-opacity: 0.15; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .quiet { fill: #9198a1 } .page { fill: #0d1117 } .grid { stroke: #3d444d }
.whisker { stroke: #f0f6fc }
.a { fill: #4493f8; stroke: #4493f8 } .c { fill: #3fb950; stroke: #3fb950 } .d { fill: #f0883e; stroke: #f0883e }
.e { fill: #ab7df8; stroke: #ab7df8 } .f { fill: #d29922; stroke: #d29922 } .g { fill: #f85149; stroke: #f85149 }
.h { fill: #39c5cf; stroke: #39c5cf } .i { fill: #db61a2; stroke: #db61a2 } .j { fill: #9198a1; stroke: #9198a1 }
.line { fill: none } }
"""


def text(x, y, words, kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(words)}</text>'


def rect(x, y, width, height, kind):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height}" class="{kind}"/>'


def rule(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def page(title, height, items):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{html.escape(title)}">',
        f"<style>{STYLE}</style>",
        rect(0, 0, WIDTH, height, "page"),
        text(16, 26, title, "title"),
        *items,
        "</svg>\n",
    ])


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bars(title, rows, unit):
    """rows: (name, value, p95 or None, series or "" for what others publish). On a logarithmic scale."""
    values = [value for _, value, p95, _ in rows for value in (value, p95 or value)]
    low, high = math.floor(math.log10(min(values))), math.log10(max(values))
    span = max(high - low, 0.1)

    def at(value):
        return LEFT + (math.log10(value) - low) / span * (WIDTH - LEFT - RIGHT)

    bottom = 46 + LINE * len(rows)
    items = []
    for power in range(low, math.ceil(high)):
        items += [rule(at(10**power), 40, at(10**power), bottom, "grid"),
                  text(at(10**power), bottom + 16, f"{10.0**power:g} {unit}", "quiet middle")]
    for i, (name, value, p95, series) in enumerate(rows):
        y = 46 + LINE * i
        items += [text(LEFT - 8, y + 13, name, "end"), rect(LEFT, y, at(value) - LEFT, 16, series or "b hollow")]
        if p95 and p95 > value:
            items.append(rule(at(value), y + 8, at(p95), y + 8, "whisker"))
        items.append(text(at(max(value, p95 or value)) + 6, y + 13, figure(value), "quiet"))
    return page(title, bottom + 30, items)


def stack(title, parts, unit):
    """One bar of parts that add up, and what each is."""
    parts = {name: max(value, 0) for name, value in parts.items()}
    total = sum(parts.values())
    items, x = [], 16.0
    for i, (name, value) in enumerate(parts.items()):
        width = value / total * (WIDTH - 32)
        series = SERIES[i % len(SERIES)]
        y = 100 + LINE * i
        items += [rect(x, 44, width, 32, series), rect(16, y, 14, 14, series), text(40, y + 12, name),
                  text(500, y + 12, f"{value:.2f} {unit}", "end"), text(570, y + 12, f"{value / total:.0%}", "quiet end")]
        x += width
    return page(f"{title}: {total:.2f} {unit}", 110 + LINE * len(parts), items)


def lines(title, series, unit, across):
    """series: name to {x: y}. Both on logarithmic scales."""
    xs = sorted({x for points in series.values() for x in points})
    ys = [y for points in series.values() for y in points.values()]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    left, right, top, bottom = 70, WIDTH - 150, 50, 350

    def x_of(x):
        span = math.log10(xs[-1] / xs[0]) or 1
        return left + math.log10(x / xs[0]) / span * (right - left)

    def y_of(y):
        return bottom - (math.log10(y) - low) / max(high - low, 1) * (bottom - top)

    items = []
    for power in range(low, high + 1):
        y = y_of(10**power)
        items += [rule(left, y, right, y, "grid"), text(left - 8, y + 4, f"{10.0**power:g} {unit}", "quiet end")]
    for x in xs:
        items += [rule(x_of(x), top, x_of(x), bottom, "grid"), text(x_of(x), bottom + 18, f"{x:,}", "quiet middle")]
    items.append(text((left + right) / 2, bottom + 40, across, "quiet middle"))
    for i, (name, points) in enumerate(series.items()):
        kind = "acde"[i % 4]
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in sorted(points.items()))
        last = max(points)
        items += [f'<polyline points="{path}" class="{kind} line"/>', text(x_of(last) + 8, y_of(points[last]) + 4, name)]
    return page(title, bottom + 56, items)

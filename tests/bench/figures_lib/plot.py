"""Pictures of the figures: lines over places of an x axis, logarithmic, as plain SVG."""

import math
import re

COLORS = ["#0b6e4f", "#1f78b4", "#e08214", "#b2182b", "#762a83", "#777777", "#8c510a", "#35978f"]
WIDTH, HEIGHT, LEFT, TOP = 560, 320, 66, 44


def text(x, y, words, size=12, anchor="middle", more=""):
    words = str(words).replace("&", "&amp;").replace("<", "&lt;")
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-family="sans-serif" {more}>{words}</text>')


def number(value):
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def axis(values):
    low = math.floor(math.log10(min(values)))
    return low, max(math.ceil(math.log10(max(values))), low + 1)


def panel(title, unit, lines, y):
    """`lines`: name -> {place: value}; the places of the first line that has most are the axis."""
    places = []
    for line in lines.values():
        places += [place for place in line if place not in places]
    values = [value for line in lines.values() for value in line.values() if value > 0]
    low, high = axis(values)
    top, bottom, left, right = y + TOP, y + HEIGHT - 34, LEFT, WIDTH - 190

    def at_x(place):
        return left + (places.index(place) + 0.5) * (right - left) / len(places)

    def at_y(value):
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - top)

    out = [text(left, y + 18, title, 14, "start", 'font-weight="bold"'), text(left, top - 8, unit, 11, "start")]
    for power in range(low, high + 1):
        line = at_y(10.0 ** power)
        out.append(f'<line x1="{left}" x2="{right}" y1="{line:.1f}" y2="{line:.1f}" stroke="#ddd"/>')
        out.append(text(left - 6, line + 4, number(10.0 ** power), 11, "end"))
    out += [text(at_x(place), bottom + 18, place, 11) for place in places]
    for i, (name, line) in enumerate(lines.items()):
        color = COLORS[i % len(COLORS)]
        points = [(at_x(place), at_y(value)) for place, value in line.items() if value > 0]
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{color}"/>' for a, b in points]
        out.append(f'<circle cx="{right + 14}" cy="{top + 18 * i}" r="5" fill="{color}"/>')
        out.append(text(right + 24, top + 4 + 18 * i, name, 12, "start"))
    return out


def mark(path, words):
    """Puts words below a picture; nothing for no words."""
    if not words:
        return
    with open(path, encoding="utf-8") as file:
        picture = file.read()
    height = int(re.search(r'height="([0-9]+)"', picture).group(1))
    line = text(8, height - 4, words, 10, "start", 'fill="#b2182b"')
    with open(path, "w", encoding="utf-8") as file:
        file.write(picture.replace("</svg>", line + "\n</svg>"))


def draw(path, panels):
    """`panels`: (title, unit, lines), one under the other."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * len(panels)}">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, (title, unit, lines) in enumerate(panels):
        out += panel(title, unit, lines, i * HEIGHT)
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")

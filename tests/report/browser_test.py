#!/usr/bin/env python3
"""The page of `trireme report` in a real browser without a window: drawn, hovered, no error, readable on a phone.

  tests/report/browser_test.py PROGRAM MPIEXEC [--keep DIR]   exit code 77: no chromium here
"""
import argparse
import csv
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DECK = """
[model]
layers = 2
width = 16
heads = 2
context = 16
[data]
path = "text.tokens"
validation = 0.2
[train]
batch = 4
microbatch = 1
steps = 20
[evaluate]
every_steps = 5
batches = 1
[checkpoint]
every_steps = 8
[run]
backend = "host"
threads = 1
"""

# Runs before the page's own code, and after it. What it finds goes into the page's text, which the browser prints.
BEFORE = """<script>
window.found = {errors: []};
addEventListener("error", e => found.errors.push(String(e.message)));
for (const level of ["error", "warn"]) console[level] = (...a) => found.errors.push(level + ": " + a.join(" "));
</script>"""
AFTER = """<script>
addEventListener("load", () => setTimeout(async () => {
  try {
    const canvases = [...document.querySelectorAll("canvas")];
    found.drawn = canvases.map(c => {
      const {data} = c.getContext("2d").getImageData(0, 0, c.width, c.height), colors = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 128) colors.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
      return {label: c.getAttribute("aria-label"), width: c.width, colors: colors.size};
    });
    const hover = async (label, pick) => {
      const canvas = canvases.find(c => c.getAttribute("aria-label") === label), chart = Chart.getChart(canvas);
      canvas.scrollIntoView();
      const [set, index] = pick(chart), point = chart.getDatasetMeta(set).data[index].getCenterPoint();
      for (let i = 0; i < 20 && !(chart.tooltip.opacity > 0); ++i) {  // it comes with a frame that is drawn
        const box = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new MouseEvent("mousemove", {clientX: box.left + point.x, clientY: box.top + point.y, bubbles: true}));
        await new Promise(done => setTimeout(done, 50));
      }
      const tip = chart.tooltip;
      return {opacity: tip.opacity, title: tip.title, lines: (tip.body ?? []).flatMap(b => b.lines)};
    };
    found.loss = await hover("loss", chart => [0, 6]);
    found.rate = await hover("learning rate", chart => [0, 9]);
    found.first_axis = Chart.getChart(canvases[0]).scales.x.max;
    document.querySelector("button[data-axis=tokens]").click();
    found.second_axis = Chart.getChart(canvases[0]).scales.x.max;
    found.width = document.documentElement.clientWidth;
    found.scroll = document.documentElement.scrollWidth;
    found.small = [...document.querySelectorAll("body *")].filter(e => e.childNodes.length && [...e.childNodes].some(
      n => n.nodeType === 3 && n.textContent.trim()) && e.getClientRects().length && parseFloat(getComputedStyle(e).fontSize) < 11).length;
    found.text = document.body.innerText;
    found.injected = window.injected ?? null;
  } catch (e) { found.errors.push("test: " + e + e.stack); }
  const out = document.createElement("pre");
  out.id = "found"; out.textContent = JSON.stringify(found);
  document.body.append(out);
}, 300));
</script>"""


def run(command, where, code=0):
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{command}: code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


class Browser:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def command(self, width, height, *more):
        return [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                f"--user-data-dir={self.folder / 'profile'}", f"--window-size={width},{height}",
                "--virtual-time-budget=8000", "--run-all-compositor-stages-before-draw", *more]

    def framed(self, text, width):
        """Windows refuse to be as narrow as a phone; a frame, for which style and layout are those of a window, does not."""
        return (f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><iframe style="width:{width}px;height:3000px;border:0" '
                f'srcdoc="{html.escape(text)}"></iframe><script>setInterval(() => {{ const f = document.querySelector('
                '"iframe").contentDocument.getElementById("found"); if (f && !document.getElementById("found")) '
                'document.body.append(f.cloneNode(true)); }, 50)</script>')

    def look(self, page, width, height, *more, frame=0):
        """What AFTER finds, in the window or in a frame of that width."""
        text = page.read_text().replace("<head>", "<head>" + BEFORE, 1).replace("</body>", AFTER + "</body>", 1)
        watched = page.with_name("watched.html")
        watched.write_text(self.framed(text, frame) if frame else text)
        for _ in range(6):
            dom = subprocess.run(self.command(width, height, "--dump-dom", *more, watched.as_uri()), capture_output=True,
                                 text=True, timeout=120)
            got = re.search(r'<pre id="found">(.*?)</pre>', dom.stdout, re.S)
            assert got, f"the page said nothing:\n{dom.stdout[-2000:]}\n{dom.stderr[-2000:]}"
            found = json.loads(html.unescape(got.group(1)))
            # Without a window a browser may draw no frame after an event, with which a tooltip would come.
            if found["errors"] or (found["loss"]["opacity"] and found["rate"]["opacity"]):
                break
        return found

    def shoot(self, page, width, height, to, *more):
        subprocess.run(self.command(width, height, f"--screenshot={to}", *more, page.as_uri()), capture_output=True, timeout=120)


def make_runs(program, mpiexec, folder):
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog, " * 200)
    (folder / "deck.toml").write_text(DECK)
    run([program, "tokenize", "text.txt", "--output", "text.tokens"], folder)
    run([program, "train", "deck.toml", "--run-dir", "one"], folder)
    # Stopped and gone on with; a name that would be HTML if anything took it for such.
    evil = "two <img src=x onerror=injected=1>"
    run([program, "train", "deck.toml", "--run-dir", evil, "train.steps=10", "optimizer.lr=1e-3"], folder)
    run([mpiexec, "-n", "2", program, "train", "deck.toml", "--run-dir", evil, "--restart", "latest", "optimizer.lr=1e-3",
         "parallel.pipe=2", "run.trace_steps=[12,13]"], folder)
    # A run that has written next to nothing yet.
    (folder / "begun").mkdir()
    (folder / "begun" / "history.csv").write_text((folder / "one" / "history.csv").read_text().split("\n")[0] + "\n")
    return evil


def history(folder, step):
    with open(folder / "history.csv") as f:
        return next(r for r in csv.DictReader(f) if int(r["step"]) == step)


def shown(x):
    """As page.js writes numbers: six digits."""
    return float(f"{float(x):.6g}")


def check(found, folder, evil):
    assert found["errors"] == [], found["errors"]
    labels = {d["label"]: d for d in found["drawn"]}
    for what in ("loss", "validation loss", "gradient norm", "learning rate", "tokens/s", "one: time of each rank, steps 1 to 20",
                 f"{evil}: step 13, traced", "one: planned step", "one: peaks of memory by kind",
                 f"{evil}: bytes sent by each rank, by axis"):
        assert what in labels, f"no chart {what}: {sorted(labels)}"
    for label, d in labels.items():
        assert d["width"] > 0 and d["colors"] >= 3, f"{label} is empty: {d}"
    row = history(folder / "one", 7)
    assert found["loss"]["opacity"] > 0 and found["loss"]["title"] == ["step 7"], found["loss"]
    lines = dict(line.rsplit(": ", 1) for line in found["loss"]["lines"])
    assert float(lines["one"]) == shown(row["loss"]), (found["loss"], row)
    lines = dict(line.rsplit(": ", 1) for line in found["rate"]["lines"])
    assert "one" in lines, found["rate"]
    assert float(lines["one"]) == shown(history(folder / "one", 10)["lr"]), found["rate"]
    assert found["second_axis"] > 10 * found["first_axis"], "tokens are no other axis"
    assert found["injected"] is None, "a run's name became HTML"
    for text in ("begun: outcome.json is missing", "┆ restart", "◇ checkpoint", "Drawn by Chart.js"):
        assert text in found["text"], f"{text!r} is not on the page"
    assert re.search(r"optimizer.lr: \S+ -> 0.001", found["text"]), "what differs between the decks is not on the page"
    assert found["small"] == 0, f"{found['small']} elements have letters smaller than 11 px"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("mpiexec")
    arguments.add_argument("--keep", help="leave runs, page and pictures here")
    a = arguments.parse_args()
    chromium = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
    if not chromium:
        print("SKIP: no chromium here (apt-get install chromium)")
        return 77
    program = str(pathlib.Path(a.program).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(a.keep or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        evil = make_runs(program, a.mpiexec, folder)
        print(run([program, "report", "one", evil, "begun", "-o", "report.html"], folder).strip())
        page = folder / "report.html"
        assert not re.search(r'(src|href)="(https?:)?//', page.read_text().split("<script>")[0]), "the page loads something"
        browser = Browser(chromium, folder)
        check(browser.look(page, 1280, 900), folder, evil)
        check(browser.look(page, 1280, 900, "--blink-settings=preferredColorScheme=0"), folder, evil)  # dark
        phone = browser.look(page, 500, 900, frame=390)
        check(phone, folder, evil)
        assert phone["width"] == 390, f"the window is {phone['width']} wide"
        assert phone["scroll"] <= phone["width"], f"{phone['scroll']} pixels do not fit {phone['width']}"
        print(f"drawn {len(phone['drawn'])} charts, hovered, {phone['width']} px wide without scrolling: passed")
        if a.keep:
            browser.shoot(page, 1280, 3400, folder / "wide.png")
            browser.shoot(page, 1280, 3400, folder / "dark.png", "--blink-settings=preferredColorScheme=0")
            narrow = folder / "phone.html"
            narrow.write_text(browser.framed(page.read_text(), 390))
            browser.shoot(narrow, 500, 3000, folder / "phone.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""The report page in a real browser: report_page.py BIN_DIR

Trains briefly, opens the page from disk in headless Chromium, and checks that it reports no errors, requests nothing
from the network, shows the tensors that `predict --attention-out` writes, and responds to mouse and keyboard.
Skipped if Debian's chromium and chromium-driver are not installed. SEPPO_SCREENSHOTS=FOLDER keeps screenshots;
SEPPO_ALL_ANSWERS=1 compares the answers to all 19,602 expressions instead of some of them.
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from browser import Browser

bin_dir = os.path.abspath(sys.argv[1])
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("skipped: the report page in a browser; install chromium and chromium-driver")
    sys.exit(77)

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)


def run(*words):
    return subprocess.run([os.path.join(bin_dir, words[0]), *words[1:]], check=True, capture_output=True, text=True).stdout


failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("wrong: " + what)


def read_npy(path):
    content = open(path, "rb").read()
    length = struct.unpack("<H", content[8:10])[0]
    shape = [int(n) for n in re.search(rb"'shape': \(([\d,]+)\)", content)[1].split(b",") if n]
    return shape, struct.unpack(f"<{(len(content) - 10 - length) // 4}f", content[10 + length:])


CHOOSE = """for (const [id, value] of [['sample', arguments[0]], ['map', arguments[1]], ['head', arguments[2]]]) {
  const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event('change')); }"""
WEIGHTS = "return [...document.querySelectorAll('#heat rect.w')].map(e => +e.dataset.weight)"
SHADES = "return [...document.querySelectorAll('#heat rect.w')].map(e => +e.getAttribute('fill-opacity'))"
READOUT = "return document.getElementById('weight').textContent"
TICKS = """const f = [...document.querySelectorAll('#curves figure')].find(f => f.textContent.startsWith(arguments[0]));
  return [...f.querySelectorAll('.tick')].map(e => e.textContent)"""
CURVES = """return [...document.querySelectorAll('#curves figure')].map(
  f => [...f.querySelectorAll('polyline')].map(e => e.getAttribute('points')))"""
FIGURES = "return [...document.querySelectorAll('#curves figure figcaption')].map(e => e.textContent)"


def check_map(browser, name, expected=None):
    """The opacities of the displayed map are its weights relative to the largest; returns the weights."""
    weights, shades = browser.run(WEIGHTS), browser.run(SHADES)
    most = float(re.match(r"[\d.]+", browser.run("return document.getElementById('most').textContent"))[0])
    check(most >= max(weights) - 0.001, f"{name}: the legend says {most}, but there is a weight of {max(weights)}")
    check(all(abs(shade * most - weight) <= 0.002 for shade, weight in zip(shades, weights)), f"{name}: shades are not weights")
    if expected is not None:
        check(len(weights) == len(expected) and all(abs(a - b) <= 0.0006 for a, b in zip(weights, expected)),
              f"{name} differs from the tensor")
    return weights


def check_readout(browser, cell, when):
    text, weight = browser.run(READOUT), browser.run(WEIGHTS)[cell]
    shown = re.fullmatch(r".* looks at .*: (\d\.\d{3})", text)
    check(shown and abs(float(shown[1]) - weight) <= 0.0006, f"{when} the weight read out is '{text}', not {weight}")


summary = json.loads(run(
    "addsub", "train", "--epochs", "4", "--epoch-steps", "15", "--d-model", "16", "--heads", "2", "--d-ff", "16",
    "--schedule", "const", "--warmup-steps", "0", "--lr", "0.002", "--eval-interval", "1", "--log-interval", "1", "--report",
    "--log-format", "none", "--json", "--out", "m").splitlines()[-1])
page = os.path.abspath("m/report.html")
pages = [page]
browser = Browser()
try:
    browser.open(page)
    check(browser.run("return document.querySelectorAll('#curves figure').length") >= 6, "curves are missing")
    inputs = browser.run("return [...document.querySelectorAll('#samples tbody tr td:first-child')].map(e => e.textContent)")
    check(len(inputs) == 8, "there are not eight samples")
    check(browser.run("return document.querySelectorAll('#samples td.good, #samples td.bad').length") == 16,
          "right and wrong are not marked")
    browser.screenshot("light.png")

    # Captions give the last values, validation is next to training, and axes fit the data.
    metrics = [json.loads(line) for line in open("m/metrics.jsonl")]
    losses = [line["loss"] for line in metrics if "loss" in line], [line["val_loss"] for line in metrics if "val_loss" in line]
    captions = browser.run(FIGURES)
    shown = re.fullmatch(r"loss(?: \(log\))?\u25cf training ([\d.]+)\u25cf validation ([\d.]+)", captions[0])
    check(shown and all(abs(float(text) - values[-1]) <= 0.006 * values[-1] for text, values in zip(shown.groups(), losses)),
          f"the caption {captions[0]} does not tell the last losses, {losses[0][-1]} and {losses[1][-1]}")
    check(browser.run(TICKS, "learning rate")[0] == "0" and float(browser.run(TICKS, "learning rate")[-1]) >= 0.001,
          "the axis of a constant learning rate does not begin at 0")
    browser.run("drawCurves('decades', [{name: 'training', kind: 'a', points: [[1, 2], [2, 0.5], [3, 7.5e-8]]}])")
    check(browser.run(FIGURES)[-1] == "decades (log)\u25cf training 7.5e-8", "losses over decades are not on a log scale")
    check([float(t) for t in browser.run(TICKS, "decades")] == [1e-7, 1e-5, 1e-3, 1e-1], "ticks of a log scale are not powers of ten")
    # For each figure: the caption gives the last values, and the curves rise and fall with the values.
    columns = {"loss": ("loss", "val_loss"), "accuracy": ("accuracy", "val_token_accuracy"), "exact": (None, "val_exact"),
               "exact not in train": (None, "val_exact_not_in_train"), "learning rate": ("lr", None),
               "gradient norm": ("gradient_norm", None)}
    captions = [caption for caption in captions if not caption.startswith("decades")]
    titles = [re.match(r"[^\u25cf(]+", caption)[0].strip() for caption in captions]
    check(sorted(titles) == sorted(columns), f"the figures are {titles}")
    for title, caption, curves in zip(titles, captions, browser.run(CURVES)):
        shown = re.findall(r"\u25cf (training|validation) ([-+\d.e]+)", caption)
        keys = [key for key in columns.get(title, ()) if key]
        check(len(shown) == len(keys) == len(curves), f"{title} has the curves {shown}")
        for key, (_, text), points in zip(keys, shown, curves):
            series = [(line["step"], line[key]) for line in metrics if key in line]
            unit = 0.01 if caption.endswith("%") else 1  # shares are in percent
            check(abs(float(text) * unit - series[-1][1]) <= 0.006 * abs(series[-1][1]), f"{title}: {text} is not {series[-1][1]}")
            places = [tuple(map(float, point.split(","))) for point in points.split()]
            check(len(places) == len(series), f"{title}: {len(places)} points for {len(series)} values")
            for (x, y), (step, value) in zip(places, series):
                for (other_x, other_y), (other_step, other) in zip(places, series):
                    check(step >= other_step or x < other_x, f"{title}: step {step} is not left of {other_step}")
                    check(value > other or y >= other_y - 0.05, f"{title}: {value} is drawn above {other}")
    told = browser.run("return document.getElementById('result').textContent")
    units = {"": 1, " %": 0.01}
    result = {"val_" + name.replace(" ", "_"): float(value) * units[unit]
              for name, value, unit in re.findall(r"([a-z ]+) ([-+\d.e]+)( %)?(?:, |$)", told)}
    check(sorted(result) == sorted(keys[1] for keys in columns.values() if keys[1]) and
          all(abs(value - summary[key]) <= 0.006 * abs(summary[key]) for key, value in result.items()),
          f"the result is told as {told}")
    for selector in ("#about", "#samples td"):
        check(browser.run("return getComputedStyle(document.querySelector(arguments[0])).whiteSpace", selector) == "pre-wrap",
              f"blanks of {selector} collapse")

    # For one sample, the maps of every layer and head are those that predict writes.
    sample = 2
    run("addsub", "predict", "--model", "m", "--attention-out", "maps", inputs[sample])
    names = browser.run("return [...document.querySelectorAll('#map option')].map(e => e.textContent)")
    check(len(names) == 12, "there are not twelve maps")
    for number, name in enumerate(names):
        (heads, queries, keys), weights = read_npy(f"maps/{name}.npy")
        for head in range(heads):
            browser.run(CHOOSE, str(sample), str(number), str(head))
            check_map(browser, f"{name}, head {head}", weights[head * queries * keys:(head + 1) * queries * keys])

    # The network in the page answers what is typed as the program does, and tells what it cannot read.
    def ask(text):
        browser.run("const e = document.getElementById('input'); e.value = ''; e.focus()")
        browser.press(*text)
        return browser.run("return ['answer', 'verdict', 'refused'].map(id => document.getElementById(id).textContent)")
    stride = (1, 1) if os.environ.get("SEPPO_ALL_ANSWERS") else (7, 11)
    expressions = [f"{a} {sign} {b}" for a in range(-49, 50, stride[0]) for b in range(-49, 50, stride[1]) for sign in "+-"]
    told = subprocess.run([os.path.join(bin_dir, "addsub"), "predict", "--model", "m"], input="\n".join(expressions) + "\n",
                          check=True, capture_output=True, text=True).stdout.splitlines()
    answers = [answer for first in range(0, len(expressions), 300) for answer in browser.run(
        "return arguments[0].map(e => shown.question.answer(e)).map(a => "
        "[a.text, Math.min(...a.places.map(p => { const [x, y] = [...p.logits].sort((x, y) => y - x); return x - y; }))])",
        expressions[first:first + 300])]
    check(len(told) == len(answers) == len(expressions), "not all expressions are answered")
    for expression, line, (answer, lead) in zip(expressions, told, answers):
        is_same = line.split("   ")[0] in (f"{expression} = {answer}", "BOS " + re.sub(r"(?<=\d) (?=\d)", "", answer))
        check(is_same or lead < 2e-5, f"the page answers {expression} with '{answer}', the program with '{line}'")
    answer, verdict, refused = ask("48 - 27")
    line = run("addsub", "predict", "--model", "m", "48 - 27")
    check(verdict == ("wrong: it is 21" if "wrong" in line else "right") and not refused, f"48 - 27 is judged '{verdict}'")
    check(browser.run("return document.querySelectorAll('#places figure').length") >= 1, "there are no probabilities")
    check(ask("48 - 99")[2] == "operands are from -49 to 49", "an operand out of range is not refused")
    check(ask("what?")[2] and browser.run("return document.getElementById('input').getAttribute('aria-invalid')") == "true",
          "a text that is no expression is not refused")

    # All heads at a glance: the most needed head first and chosen; a click chooses another one.
    check(os.path.getsize(page) < 700_000, f"the page has {os.path.getsize(page)} bytes")
    browser.open(page)
    heads = browser.run("return [...document.querySelectorAll('#grid .head')].map(e => e.getAttribute('aria-label'))")
    check(len(heads) == 24 and all(re.fullmatch(r"\S+ head \d, (not )?needed: [\d.e-]+ % without it", head) for head in heads),
          f"the heads are {heads}")
    check(re.match(r"\d+ of 24 heads are needed", browser.run("return document.getElementById('needs').textContent")), "needs are not told")
    pressed = "return [...document.querySelectorAll('#grid .head')].findIndex(e => e.getAttribute('aria-pressed') === 'true')"
    first = browser.run("return shown.needs.ranking(shown.view.maps)[0]")
    chosen = browser.run(pressed)
    check(heads[chosen].startswith(f"{first['name']} head {first['head']},"), f"{heads[chosen]} is shown first, not {first}")
    browser.run("document.querySelectorAll('#grid .head')[17].click()")
    name, head = re.match(r"(\S+) head (\d)", heads[17]).groups()
    check(browser.run("return [shown.view.map.name, String(shown.view.head)]") == [name, head] and browser.run(pressed) == 17,
          "a click on a head does not choose it")
    # A head can be switched off, and all on again.
    logits = "return shown.question.last.places.flatMap(p => [...p.logits])"
    whole = browser.run(logits)
    browser.run("document.getElementById('off').click()")
    check(browser.run(logits) != whole and f"without {name} {head}." in browser.run("return document.getElementById('switched').textContent"),
          "switching a head off changes nothing")
    browser.run("document.getElementById('all').click()")
    check(browser.run(logits) == whole and not browser.run("return document.getElementById('switched').textContent"),
          "switching all heads on does not bring the answer back")

    # Step by step: each box and each step opens its numbers; each number tells its sum.
    boxes = browser.run("return [...document.querySelectorAll('#network a')].map(e => e.dataset.step)")
    check(len(boxes) == 3 + 4 + 3 + 6 + 2, f"the figure has the boxes {boxes}")
    for box in boxes:
        browser.run("document.querySelector(`#network a[data-step='${arguments[0]}']`).dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))", box)
        time.sleep(0.05)
        told = browser.run("return [shown.steps.chosen && shown.steps.chosen.id, document.querySelectorAll('#numbers td').length]")
        check(told[0] == box and told[1] > 0, f"the box {box} opens {told}")
    count = browser.run("shown.steps.walk(1 - shown.steps.steps.length); return shown.steps.steps.length")
    for place in range(count):
        told = browser.run("const [step, because] = ['count', 'because'].map(id => document.getElementById(id).textContent);"
                           "document.getElementById('after').click(); return [step, because]")
        check(told[0] == f"step {place + 1} of {count}" and re.fullmatch(r".+: \S+ = .+", told[1]), f"step {place + 1} tells {told}")
    browser.run("shown.steps.choose('encoder.0.self_attn 1/softmax')")
    check(browser.run("return document.querySelectorAll('#inhead a').length") == 10, "the figure of a head is not there")
    browser.run("document.getElementById('numbers').focus()")
    browser.run("document.querySelector('#numbers td[data-i=\"2\"][data-j=\"3\"]').click()")
    browser.press("\ue015", "\ue014")  # down, right
    place = browser.run("const e = document.querySelector('#numbers .at'); return [e.dataset.i, e.dataset.j]")
    check(place == ["3", "4"], f"the arrow keys do not move among the numbers: {place}")

    # While it learned: the first snapshot answers in another way, the last place is the kept model.
    check(browser.run("return document.getElementById('history').hidden") is False, "there is no slider")
    slide = "const e = document.getElementById('when'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))"
    browser.run(slide, 0)
    check(browser.run(logits) != whole and browser.run("return document.getElementById('then').textContent").startswith("step 15: "),
          "the slider does not show what the model was")
    browser.run(slide, 99)
    check(browser.run(logits) == whole, "the end of the slider is not the kept model")

    # What each token contributes.
    time.sleep(0.5)
    check(browser.run("return document.querySelectorAll('#saliency td').length") >= 9, "there is no saliency")

    # Mouse and keyboard: the readout follows the choice of head, layer and sample.
    browser.run(CHOOSE, "0", "0", "1")
    browser.point('#heat rect.c[data-i="3"][data-j="5"]')
    for choice in (("0", "0", "1"), ("0", "0", "0"), ("0", "3", "0"), ("5", "3", "1")):
        browser.run(CHOOSE, *choice)
        check_readout(browser, 3 * 9 + 5, f"at sample, layer and head {choice}")
        mark = browser.run("const e = document.querySelector('#heat rect.at'); return e && [e.dataset.i, e.dataset.j]")
        check(mark == ["3", "5"], f"at {choice} the marked square is {mark}")
    browser.run("document.getElementById('heat').focus()")
    browser.press("\ue013", "\ue014")  # up, right
    place = browser.run("const e = document.querySelector('#heat .at'); return [e.dataset.i, e.dataset.j]")
    check(place == ["2", "6"], f"the arrow keys do not move: {place}")
    browser.run("document.getElementById('head').focus()")
    browser.press("\ue013")
    time.sleep(0.2)  # the page gets the event a little later
    check(browser.run("return document.getElementById('head').value") == "0", "the head cannot be chosen by keyboard")
    check_readout(browser, 2 * 9 + 6, "for the head chosen by keyboard")
    browser.run("document.querySelectorAll('#samples tbody tr')[4].click()")
    check(browser.run("return document.getElementById('sample').value") == "4", "a click on a sample does not choose it")

    # The other programs' pages: curves, samples, and maps whose rows sum to one.
    with open("text.txt", "w") as file:
        file.write("the quick brown fox jumps over the lazy dog. " * 200)
    for name, program, *options in (
            ("reverse", "reverse"), ("written", "reverse", "--architecture", "encoder-decoder"),
            ("count", "count", "--pooling", "mean"), ("odd_one", "odd_one"), ("translate", "translate", "--validation", "20"),
            ("charlm", "charlm", "--data", "text.txt", "--block", "16")):
        run(program, "train", "--max-steps", "5", "--report", "--log-format", "none", "--out", name, *options)
        pages.append(os.path.abspath(f"{name}/report.html"))
        browser.open(pages[-1])
        captions = browser.run(FIGURES)
        check(len(captions) >= 4 and "validation" in captions[0], f"{name}: curves are missing")
        samples = browser.run("return document.querySelectorAll('#samples tbody tr').length")
        check(samples > 0, f"{name}: there are no samples")
        browser.run(CHOOSE, str(samples - 1), "0", "0")
        keys = browser.run("return 1 + Math.max(...[...document.querySelectorAll('#heat rect.c')].map(e => +e.dataset.j))")
        cells = check_map(browser, name)
        rows = [sum(cells[i:i + keys]) for i in range(0, len(cells), keys)]
        check(rows and all(abs(row - 1) < 0.02 for row in rows), f"{name}: the rows of a map sum to {rows}")
        browser.screenshot(f"{name}.png")

    # An encoder-decoder that writes digits answers as the program does, and has the maps of both halves.
    browser.open(os.path.abspath("written/report.html"))
    for digits in ("3141592653589793", "0000000000000000", "1234567890123456"):
        answer, lead = browser.run(
            "const a = shown.question.answer(arguments[0]); return [a.text, Math.min(...a.places.map("
            "p => { const [x, y] = [...p.logits].sort((x, y) => y - x); return x - y; }))]", digits)
        line = run("reverse", "predict", "--model", "written", digits).strip()
        check(line.split("   ")[0] == answer or lead < 2e-5, f"the page answers {digits} with '{answer}', the program with '{line}'")
    names = set(browser.run("return [...document.querySelectorAll('#map option')].map(e => e.textContent)"))
    check(names == {"encoder.0.self_attn", "decoder.0.self_attn", "decoder.0.cross_attn"}, f"its maps are {names}")
    check(browser.run("return document.querySelectorAll('#network a').length") > 0, "its figure has no boxes")

    errors = [e["message"] for e in browser.log("browser") if e["level"] == "SEVERE"]
    check(not errors, f"the console has errors: {errors}")
    requests = {json.loads(e["message"])["message"]["params"].get("request", {}).get("url", "") for e in browser.log("performance")
                if "Network.requestWillBeSent" in e["message"]}
    check(all(not url.startswith("http") for url in requests), f"the page asks the network for {requests}")

    # On a phone, in light and dark mode: nothing is wider than the screen.
    def emulate(what, **parameters):
        browser.call("POST", browser.session + "/goog/cdp/execute", {"cmd": "Emulation." + what, "params": parameters})
    emulate("setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=2, mobile=True)
    for path in pages:
        for scheme, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 22, 26)")):
            emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.open(path)
            browser.run("document.querySelectorAll('details').forEach(e => { e.open = true; })")
            browser.run("if (shown.steps) shown.steps.walk(12)")
            time.sleep(0.1)
            width = browser.run("return document.documentElement.scrollWidth")
            check(width <= 360, f"{path} is {width} pixels wide on a phone")
            check(browser.run("return getComputedStyle(document.body).backgroundColor") == colour, f"it is not {scheme}")
    browser.screenshot("phone.png")
finally:
    browser.close()

# During training, the page says so, and is complete at any time.
training = subprocess.Popen([os.path.join(bin_dir, "reverse"), "train", "--report", "--log-format", "none", "--out", "r"],
                            stdout=subprocess.DEVNULL)
seen = ""
while training.poll() is None:
    if os.path.exists("r/report.html"):
        seen = open("r/report.html").read()
        check(seen.endswith("</html>\n"), "a half-written page can be seen")
        if '"finished":false' in seen:
            break
    time.sleep(0.05)
check('"finished":false' in seen, "the page is not there while training runs")
training.terminate()
training.wait()

print("the report page: " + (f"{len(failures)} checks failed" if failures else "all checks passed"))
sys.exit(1 if failures else 0)

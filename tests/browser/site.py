#!/usr/bin/python3
"""The documentation site in a real browser: site.py ROOT PROGRAMS

Builds the site with script/site, which checks its links, and opens pages in headless Chromium: nothing is wider than a
phone's 360 pixels, dark and light differ and can be read, formulas are set, the search finds what a page says, both
also without a server, and nothing comes from the network. Skipped if Debian's mkdocs, mkdocs-material, libjs-katex,
chromium and chromium-driver are not installed.
"""
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from browser import Browser

root, programs = (os.path.abspath(path) for path in sys.argv[1:3])
has_programs = all(shutil.which(program) for program in ("mkdocs", "chromium", "chromedriver"))
if not has_programs or not os.path.exists("/usr/share/javascript/katex"):
    print("skipped: the site in a browser; install mkdocs, mkdocs-material, libjs-katex, chromium and chromium-driver")
    sys.exit(77)
subprocess.run([os.path.join(root, "script/site"), "--programs", programs], check=True, stdout=subprocess.DEVNULL)
folder = os.path.join(root, "build/site/html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Quiet, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://localhost:{server.server_port}/"
browser = Browser()
browser.resize(360, 740)


def wait_for(script, what):
    for _ in range(100):
        value = browser.run(script)
        if value:
            return value
        time.sleep(0.1)
    sys.exit(f"{what} does not come")


def formulas():
    """How many formulas a page displays, how many are marked red as wrong, and TeX that is not set."""
    return browser.run("const main = document.querySelector('main').cloneNode(true);"
                       "const count = kind => main.querySelectorAll(kind).length;"
                       "const set = count('.katex-display'), red = count('.katex-error');"
                       "main.querySelectorAll('pre, code, .katex').forEach(part => part.remove());"
                       "return [set, red, main.textContent.match(/\\$.*|\\\\[(\\[].*/g)]")


def formulas_of(page):
    """How many displayed formulas the page's text has; None if it has none, nor any in a line."""
    name = os.path.join(root, "docs", page.removesuffix(".html") + ".md")
    if not os.path.exists(name):
        return None
    with open(name, encoding="utf-8") as file:
        text = file.read()
    shown = text.count("```math")
    return shown if shown or "$" in re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S) else None


def search(query, place):
    """Types the query; a page whose address has the place must be among the results."""
    browser.run("document.querySelector('#__search').checked = true;"
                "const query = document.querySelector('[data-md-component=search-query]');"
                "query.value = arguments[0]; query.focus(); query.dispatchEvent(new Event('keyup'))", query)
    found = wait_for("return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)", "a result")
    assert any(place in link for link in found), found


def luminance(element, of):
    color = browser.run("return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", element, of)
    shares = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
    linear = [share / 12.92 if share < 0.04 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(factor * share for factor, share in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(element):
    """With the page's background; text needs 4.5 (WCAG 2.1)."""
    dark, light = sorted((luminance("body", "backgroundColor"), luminance(element, "color")))
    return (light + 0.05) / (dark + 0.05)


try:
    pages = [os.path.relpath(os.path.join(where, name), folder) for where, _, names in os.walk(folder)
             for name in names if name.endswith(".html") and name not in ("404.html", "reverse-report.html")]
    documents = sorted(page for page in pages if not page.startswith("source/"))
    sources = sorted(page for page in pages if page.startswith("source/"))
    assert len(documents) > 30 and len(sources) > 100, (len(documents), len(sources))
    wide = []

    def check_width(page, part):
        browser.visit(address + page)
        width = browser.run("return document.querySelector(arguments[0]).scrollWidth", part)
        if width > 360:
            wide.append(f"{page} is {width} pixels wide")

    # Scripts take most of a page's time. They lay out what is around the text, the same on all pages of a kind.
    browser.let_pages_run_scripts(False)
    for page in documents + sources[::25]:
        check_width(page, "main")
    browser.let_pages_run_scripts(True)
    for page in ("programs/reverse.html", "packages.html", sources[0], "index.html"):
        check_width(page, "html")
    assert not wide, wide

    with_formulas = {page: count for page in documents if (count := formulas_of(page)) is not None}
    assert len(with_formulas) > 10 and sum(with_formulas.values()) > 25, with_formulas
    for page, count in with_formulas.items():
        check_width(page, "main")
        assert formulas() == [count, 0, None], (page, count, formulas())
    assert not wide, wide

    browser.visit(address + "first-transformer.html")
    backgrounds = set()
    for scheme in ("default", "slate"):
        browser.run("document.body.setAttribute('data-md-color-scheme', arguments[0])", scheme)
        backgrounds.add(luminance("body", "backgroundColor"))
        for element in ("article p", "article p a", ".katex"):
            assert contrast(element) > 4.5, (scheme, element, contrast(element))
    assert len(backgrounds) == 2, backgrounds

    search("checkpoint", "training")

    # The same from a disk, without a server.
    browser.open(os.path.join(folder, "first-transformer.html"))
    assert formulas() == [with_formulas["first-transformer.html"], 0, None], formulas()
    wait_for("return [...document.fonts].some(font => /KaTeX_Main/.test(font.family) && font.status === 'loaded')",
             "a font of the formulas")
    search("checkpoint", "training")

    requests = [re.search(r'"url":"(.*?)"', line["message"]) for line in browser.log("performance")
                if "Network.requestWillBeSent" in line["message"]]
    inside = (address, "file:", "data:", "blob:")
    outside = {match[1] for match in requests if match and not match[1].startswith(inside)}
    assert not outside, outside
    errors = [line["message"] for line in browser.log("browser") if line["level"] == "SEVERE"]
    assert not errors, errors
finally:
    browser.close()
print(f"{len(documents)} pages and {len(sources)} sources")

"""A browser for tests: chromedriver's protocol without a library."""
import base64
import json
import os
import re
import subprocess
import urllib.request


class Browser:
    """Headless Chromium, by the parts of the WebDriver protocol that are needed here."""

    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        line = ""
        while "successfully on port" not in line:
            line = self.driver.stdout.readline()
        self.url = "http://localhost:" + re.search(r"on port (\d+)", line)[1]
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,1400"]
        options = {"args": arguments, "perfLoggingPrefs": {"enableNetwork": True}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
        self.session = "/session/" + session["sessionId"]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        return json.load(urllib.request.urlopen(request, timeout=60))["value"]

    def command(self, name, parameters):
        """One of the protocol of Chromium's developer tools."""
        self.call("POST", self.session + "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def resize(self, width, height):
        """Makes pages as large as those of a phone, which may be smaller than a window."""
        self.command("Emulation.setDeviceMetricsOverride",
                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True})

    def let_pages_run_scripts(self, allowed):
        """Those of pages that are visited from now on; run() works in any case."""
        self.command("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def visit(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def open(self, path):
        self.visit("file://" + path)

    def run(self, script, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind):
        return self.call("POST", self.session + "/se/log", {"type": kind})

    def press(self, *keys):
        actions = [a for key in keys for a in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})]
        self.call("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def point(self, selector):
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        x, y = self.run("const b = document.querySelector(arguments[0]).getBoundingClientRect();"
                        "return [Math.round(b.x + b.width / 2), Math.round(b.y + b.height / 2)]", selector)
        self.call("POST", self.session + "/actions", {"actions": [{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
            "actions": [{"type": "pointerMove", "duration": 0, "x": x, "y": y}]}]})

    def screenshot(self, name):
        where = os.environ.get("SEPPO_SCREENSHOTS")
        if where:
            with open(os.path.join(where, name), "wb") as file:
                file.write(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def close(self):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.kill()

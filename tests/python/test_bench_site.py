"""What `asv publish` makes of the committed results, in a browser: the grid, a graph with history, the regressions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import chromium

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
# The site takes its scripts from the network. Here they come from packages of npm, by a part of each address.
PACKAGES = ["jquery@3.3.1", "flot@0.8.3", "flot-orderbars@1.0.0", "stupid-table-plugin@1.1.3", "blueimp-md5@2.19.0"]
PACKAGES += ["bootstrap@3.1.1"]
SCRIPTS = {
    "jquery-3": "jquery/dist/jquery.min.js",
    "orderBars": "flot-orderbars/js/jquery.flot.orderBars.js",
    "stupidtable": "stupid-table-plugin/stupidtable.min.js",
    "md5": "blueimp-md5/js/md5.min.js",
    "bootstrap.min.js": "bootstrap/dist/js/bootstrap.min.js",
    "bootstrap.min.css": "bootstrap/dist/css/bootstrap.min.css",
    **{
        f"{name}.min.js": f"flot/{name}.js"
        for name in ("jquery.flot", "jquery.flot.time", "jquery.flot.selection", "jquery.flot.categories")
    },
}
GRAPH = "cpu_tables.Tables.track_key_ns"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm for the scripts of asv's site: apt-get install npm")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text("{}")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", *PACKAGES], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"npm cannot fetch the scripts of asv's site: {done.stderr[-300:]}")
    return folder / "node_modules"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not (ROOT / "asv_bench").is_dir() or shutil.which("git") is None:
        pytest.skip("asv_bench is in a checkout of the repository only")
    pytest.importorskip("asv", reason="needs asv")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "asv", "publish", "-o", str(folder)]
    subprocess.run(command, cwd=ROOT / "asv_bench", check=True, capture_output=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as started:
        yield started


@pytest.fixture
def tab(browser, modules, site):
    folder, address = site
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.said, opened.missing = [], []
    # asv asks for each curve that a benchmark could have, and takes a missing file for one that is not there.
    opened.on(
        "console", lambda m: m.type == "error" and "/graphs/" not in m.location["url"] and opened.said.append(m.text)
    )
    opened.on("response", lambda got: got.status >= 400 and opened.missing.append(got.url))
    opened.on("pageerror", lambda error: opened.said.append(str(error)))

    def from_npm(route):
        found = [path for part, path in SCRIPTS.items() if part in route.request.url]
        assert len(found) == 1, f"{route.request.url}: {found}"
        route.fulfill(path=modules / found[0], headers={"Access-Control-Allow-Origin": "*"})

    def without_digests(route):  # of the files that the network has
        route.fulfill(
            body=re.sub(r' integrity="[^"]*"', "", (folder / "index.html").read_text()), content_type="text/html"
        )

    opened.route(re.compile("^https:"), from_npm)
    opened.route(re.compile(rf"^{address}(index\.html)?(#.*)?$"), without_digests)
    yield opened
    opened.close()


def kept(tab, name):
    """A screenshot, beside the other files of the run."""
    folder = ROOT / "build" / "asv-site"
    folder.mkdir(parents=True, exist_ok=True)
    picture = tab.screenshot(path=folder / f"{name}.png")
    assert len(picture) > 10_000, "nothing is drawn"  # an empty page has 6,000 bytes


def test_the_grid_has_a_curve_of_every_benchmark_that_has_results(tab, site):
    folder, address = site
    tab.goto(address)
    tab.wait_for_selector(".benchmark-container canvas")
    benchmarks = json.loads((folder / "index.json").read_text())["benchmarks"]
    assert tab.evaluate("[...document.querySelectorAll('.benchmark-container')].map(e => e.hash.slice(1))") == list(
        benchmarks
    )
    for _ in benchmarks:  # curves are fetched when they come into view
        tab.mouse.wheel(0, 300)
        tab.wait_for_timeout(50)
    with_results = {path.stem for path in (folder / "graphs" / "summary").glob("*.json")}
    assert len(with_results) > 20
    drawn = tab.evaluate("[...document.querySelectorAll('.benchmark-container:has(canvas)')].map(e => e.hash.slice(1))")
    assert set(drawn) == with_results
    assert all(url.partition("/graphs/summary/")[2].partition(".json")[0] not in with_results for url in tab.missing)
    tab.evaluate("scrollTo(0, 0)")
    tab.wait_for_function("scrollY == 0")
    tab.wait_for_timeout(500)  # until it is drawn again
    kept(tab, "grid")
    assert tab.said == []


def test_a_graph_shows_the_history(tab, site):
    _, address = site
    tab.goto(f"{address}#{GRAPH}")
    tab.wait_for_selector("#main-graph canvas")
    tab.wait_for_timeout(1500)  # curves are fetched one after the other
    points = tab.evaluate(
        "$('#main-graph').data('plot').getData().map(s => s.data.filter(p => p && p[1] !== null).length)"
    )
    assert max(points) >= 25, f"no curve has a history: {points}"
    kept(tab, "graph")
    assert tab.said == []
    assert all("/graphs/" in url for url in tab.missing)


def test_the_regressions_are_those_of_the_file(tab, site):
    folder, address = site
    tab.goto(f"{address}#regressions")
    tab.wait_for_selector("#regressions-body table")
    named = {
        entry[0].partition("(")[0] for entry in json.loads((folder / "regressions.json").read_text())["regressions"]
    }
    text = tab.inner_text("#regressions-body")
    assert named
    assert [name for name in named if name not in text] == []
    kept(tab, "regressions")
    assert tab.said == tab.missing == []

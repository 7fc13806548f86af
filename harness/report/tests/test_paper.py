#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sample's page in the style of the template as it is now: on paper under ten pages and 5 MB with no
picture higher than half a page, 1280 pixels wide every table fits its box, and 390 pixels wide the page
does too, with the figures of a card below each other. Ends with 77 where no chromium is.

    test_paper.py SOURCE_DIR
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile


# Opens what is folded, and leaves the tables that are wider than their boxes.
WIDE = """<script>addEventListener("load", () => {
  document.querySelectorAll("details").forEach(item => { item.open = true; });
  const wide = [...document.querySelectorAll(".wide")].filter(box => box.scrollWidth > box.clientWidth);
  document.title = "wide: " + wide.map(box => box.querySelector("tr").textContent).join("; ");
})</script>"""


# Of what is printed, the highest picture over the height inside the margins of a page.
TALL = """<script>addEventListener("load", () => {
  const heights = [...document.querySelectorAll(".pictures figure")].map(item => item.getBoundingClientRect().height);
  document.title = "tall: " + Math.max(...heights) / (186 / 25.4 * 96);
})</script>"""

# Names of columns that stand before the figures of cards, and whether something makes the page wider
# than its frame: a window cannot be as narrow as a telephone.
NARROW = """<script>addEventListener("load", () => {
  const frame = document.createElement("iframe");
  frame.style.width = "390px";
  frame.onload = () => {
    const inner = frame.contentDocument, edges = new Set();
    inner.querySelectorAll(".wide td[data-l]").forEach(cell => {
      if (cell.getClientRects().length) edges.add(inner.defaultView.getComputedStyle(cell).paddingLeft);
    });
    document.title = "narrow: " + inner.documentElement.scrollWidth + " " + [...edges].join(" ");
  };
  frame.srcdoc = PAGE;
  document.body.replaceChildren(frame);
})</script>"""


def run(browser, folder, page, *options):
    """What the browser prints of a page."""
    index = os.path.join(folder, "index.html")
    with open(index, "w", encoding="utf-8") as file:
        file.write(page)
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder,
                           *options, "file://" + index],
                          check=True, capture_output=True, timeout=200).stdout.decode()


def main(source):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        print("no chromium")
        return 77
    with open(os.path.join(source, "reports", "template.html"), encoding="utf-8") as file:
        style = re.search("<style>.*</style>", file.read(), re.S).group()
    with open(os.path.join(source, "reports", "sample", "index.html"), encoding="utf-8") as file:
        page, changed = re.subn("<style>.*?</style>", lambda _: style, file.read(), count=1, flags=re.S)
    assert changed == 1
    with tempfile.TemporaryDirectory(prefix="attnbench-test-") as folder:
        paper = os.path.join(folder, "paper.pdf")
        run(browser, folder, page, "--no-pdf-header-footer", "--print-to-pdf=" + paper)
        shown = run(browser, folder, page.replace("</body>", WIDE + "</body>"), "--window-size=1280,900",
                    "--dump-dom")
        printed = run(browser, folder, page.replace("@media print {", "@media all {")
                      .replace("</body>", TALL + "</body>"), "--window-size=1032,900", "--dump-dom")
        # Pictures are as wide as their boxes in any case, and make the page megabytes long.
        cards = json.dumps(re.sub('src="data:[^"]*"', "", page)).replace("</", "<\\/")
        narrow = run(browser, folder, "<!DOCTYPE html><body>" + NARROW.replace("PAGE", cards) + "</body>",
                     "--window-size=800,900", "--virtual-time-budget=20000", "--dump-dom")
        with open(paper, "rb") as file:
            pdf = file.read()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    wide = re.search("<title>wide: (.*?)</title>", shown).group(1)
    tall = float(re.search("<title>tall: (.*?)</title>", printed).group(1))
    width, *edges = re.search("<title>narrow: (.*?)</title>", narrow).group(1).split()
    print(f"{pages} pages, {len(pdf)} bytes, highest picture {tall:.2f} of a page; too wide: {wide or 'none'}; "
          f"of 390 pixels {width}, figures at {edges}")
    return int(not (0 < pages < 10 and len(pdf) < 5e6 and 0 < tall <= 0.5) or wide != "" or
               int(width) > 390 or edges != ["146px"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

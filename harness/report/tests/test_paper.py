#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sample's page in the style of the template as it is now: on paper under ten pages and 5 MB, and
1280 pixels wide every table fits its box. Ends with 77 where no chromium is.

    test_paper.py SOURCE_DIR
"""
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
        with open(paper, "rb") as file:
            pdf = file.read()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    wide = re.search("<title>wide: (.*?)</title>", shown).group(1)
    print(f"{pages} pages, {len(pdf)} bytes; too wide: {wide or 'none'}")
    return int(not (0 < pages < 10 and len(pdf) < 5e6) or wide != "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

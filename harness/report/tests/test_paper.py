#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sample's page on paper, in the style of the template as it is now: under ten pages and 5 MB.
Ends with 77 where no chromium is.

    test_paper.py SOURCE_DIR
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


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
        index, paper = (os.path.join(folder, name) for name in ("index.html", "paper.pdf"))
        with open(index, "w", encoding="utf-8") as file:
            file.write(page)
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder,
                        "--no-pdf-header-footer", "--print-to-pdf=" + paper, "file://" + index],
                       check=True, capture_output=True, timeout=200)
        with open(paper, "rb") as file:
            pdf = file.read()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    print(f"{pages} pages, {len(pdf)} bytes")
    return int(not (0 < pages < 10 and len(pdf) < 5e6))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

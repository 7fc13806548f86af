# SPDX-License-Identifier: Apache-2.0
"""Every path and every function of ours that a guide names in backticks exists.

    test_guides.py SOURCE_DIR
"""
import os
import re
import sys

GUIDES = ["README.md", "CONTRIBUTING.md", "backends/README.md", "harness/README.md",
          "reference/README.md", "reference/ops/README.md", "reference/scores/README.md"]
PLACEHOLDER = re.compile(r"NAME|WHAT|VERB|<|\*|\.\.\.|^build|^RUN|^DIR|^plots/")
PATH = re.compile(r"^[\w.-]+/[\w./-]*$")
OURS = re.compile(r"^(attn|ref)_\w+$")


def words(text):
    """What stands in backticks outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def exists(root, guide, path):
    """As seen from the guide's folder, from the root, or from a folder of the harness."""
    folders = [os.path.dirname(guide), "", "harness", "harness/include", "backends"]
    return any(os.path.exists(os.path.join(root, folder, path)) for folder in folders)


def defined(root):
    """Words that begin like ours in headers and sources, not in comments alone."""
    found = set()
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith((".c", ".h", ".cc")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    code = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
                found.update(re.findall(r"\b(?:attn|ref)_\w+", code))
    return found


def check(root):
    names = set()
    for folder in ("harness", "reference", "backends"):
        names |= defined(os.path.join(root, folder))
    wrong = []
    for guide in GUIDES:
        with open(os.path.join(root, guide), encoding="utf-8") as file:
            text = file.read()
        for link in re.findall(r"\]\(([^)#:\s]+)\)", text):
            if not exists(root, guide, link):
                wrong.append(f"{guide}: link to {link}")
        for word in words(text):
            if PLACEHOLDER.search(word):
                continue
            if OURS.match(word) and word not in names:
                wrong.append(f"{guide}: {word} is defined nowhere")
            elif PATH.match(word) and not exists(root, guide, word):
                wrong.append(f"{guide}: there is no {word}")
    return wrong


def main():
    wrong = check(sys.argv[1])
    print("\n".join(wrong))
    print(f"{len(GUIDES)} guides, {len(wrong)} names that do not exist")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py - a bill of materials of an installed attnbench, as SPDX 2.3 in JSON.

    sbom.py PREFIX [--version V] [-o FILE]      PREFIX: where `cmake --install` or dpkg put it

Every file with its SHA-256 and SHA-1, and the libraries that its programs and plugins link, by the
Debian packages that own them. Libraries that a plugin opens at run time (Python, cuDNN, ...) are not
linked and not listed. The same tree gives the same bytes.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys

LICENCE = "Apache-2.0"


def files_of(prefix):
    for folder, folders, names in os.walk(prefix):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, prefix), path


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def linked(path):
    """Absolute paths of the libraries that the dynamic linker finds for a file."""
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    return set(re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout))


def owner(library):
    """(package, version) of Debian, or None."""
    for path in (library, os.path.realpath(library), "/usr" + library):
        done = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            package = done.stdout.split(": ")[0].split(",")[0]
            version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package],
                                     capture_output=True, text=True, check=True).stdout
            return package, version
    return None


def identity(kind, text):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def document(prefix, version):
    files, libraries = [], set()
    codes = []
    for number, (name, path) in enumerate(files_of(prefix)):
        with open(path, "rb") as file:
            content = file.read()
        sha1 = hashlib.sha1(content).hexdigest()
        codes.append(sha1)
        files.append({"SPDXID": f"SPDXRef-File-{number}", "fileName": "./" + name,
                      "checksums": [{"algorithm": "SHA1", "checksumValue": sha1},
                                    {"algorithm": "SHA256",
                                     "checksumValue": hashlib.sha256(content).hexdigest()}],
                      "licenseConcluded": LICENCE, "licenseInfoInFiles": ["NOASSERTION"],
                      "copyrightText": "NOASSERTION"})
        if is_elf(path):
            libraries |= linked(path)
    packages = [{
        "SPDXID": "SPDXRef-attnbench", "name": "attnbench", "versionInfo": version,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1(
            "".join(sorted(codes)).encode()).hexdigest()},
        "licenseConcluded": LICENCE, "licenseDeclared": LICENCE, "licenseInfoFromFiles": [LICENCE],
        "copyrightText": "NOASSERTION"}]
    links = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
              "relatedSpdxElement": "SPDXRef-attnbench"}]
    links += [{"spdxElementId": "SPDXRef-attnbench", "relationshipType": "CONTAINS",
               "relatedSpdxElement": file["SPDXID"]} for file in files]
    inside = os.path.realpath(prefix) + os.sep
    for package, of_package in sorted({found for found in map(owner, (
            library for library in libraries
            if not os.path.realpath(library).startswith(inside))) if found}):
        packages.append({
            "SPDXID": identity("Debian", package), "name": package, "versionInfo": of_package,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{package.split(':')[0]}"
                                                  f"@{of_package}"}]})
        links.append({"spdxElementId": "SPDXRef-attnbench", "relationshipType": "DEPENDS_ON",
                      "relatedSpdxElement": identity("Debian", package)})
    name = f"attnbench-{version}"
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": name,
            "documentNamespace": "https://spdx.org/spdxdocs/" + name + "-" + packages[0][
                "packageVerificationCode"]["packageVerificationCodeValue"],
            "creationInfo": {"created": "1970-01-01T00:00:00Z", # or two builds would differ
                             "creators": ["Tool: attnbench-sbom.py"]},
            "packages": packages, "files": files, "relationships": links}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix")
    parser.add_argument("--version")
    parser.add_argument("-o", "--out")
    given = parser.parse_args()
    program = os.path.join(given.prefix, "bin", "attnbench")
    if not given.version:
        given.version = subprocess.run([program, "--version"], capture_output=True, text=True,
                                       check=True).stdout.split()[1]
    text = json.dumps(document(given.prefix, given.version), indent=1) + "\n"
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()

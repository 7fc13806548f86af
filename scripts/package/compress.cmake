# SPDX-License-Identifier: Apache-2.0
# compress.cmake - Debian wants manual pages compressed; run by CPack on what it has staged.
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.1")
list(FILTER pages INCLUDE REGEX "/man1/")
foreach(page IN LISTS pages)
    execute_process(COMMAND gzip -9nf ${page})
endforeach()

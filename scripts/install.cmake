# SPDX-License-Identifier: Apache-2.0
# install.cmake - what authors of plugins need: the public headers, the CMake package, the pkg-config
# file. Programs, plugins and data are installed by the folders that make them. Nothing here holds
# an absolute path, so that an installation can be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attnbench)
set(made ${CMAKE_CURRENT_BINARY_DIR}/package)

# The ABI only ever grows (backend.h), so a newer package of the same major version will do.
configure_package_config_file(scripts/attnbench-config.cmake.in ${made}/attnbench-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${made}/attnbench-config-version.cmake
    COMPATIBILITY SameMajorVersion)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})
configure_file(scripts/attnbench.pc.in ${made}/attnbench.pc @ONLY)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME devel)
install(TARGETS attn_abi EXPORT attnbench-targets)
install(EXPORT attnbench-targets NAMESPACE attnbench:: DESTINATION ${package_dir})
install(FILES ${made}/attnbench-config.cmake ${made}/attnbench-config-version.cmake
              scripts/attnbench-plugin.cmake DESTINATION ${package_dir})
install(FILES ${made}/attnbench.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY harness/include/attnbench DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT attnbench)
# Guides whose links lead to parts of the source tree that are not installed: only their words are.
foreach(pair backends/README.md:${CMAKE_INSTALL_DOCDIR} reference/BOUND.md:${CMAKE_INSTALL_DOCDIR}
             reports/README.md:${ATTNBENCH_SHARE_DIR}/reports
             scripts/cluster/README.md:${ATTNBENCH_SHARE_DIR}/cluster)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 guide)
    list(GET pair 1 destination)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${guide})
    file(READ ${guide} text)
    string(REGEX REPLACE "\\[([^]\n]+)\\]\\([^):#\n][^):\n]*\\)" "\\1" text "${text}")
    file(WRITE ${made}/${guide} "${text}")
    install(FILES ${made}/${guide} DESTINATION ${destination} COMPONENT attnbench)
endforeach()
if(ATTNBENCH_WHEEL)
    # Of the libraries that a wheel has inside, as Debian ships their licences.
    file(GLOB libstdcxx RELATIVE /usr/share/doc /usr/share/doc/libstdc++-*-dev)
    foreach(package libjansson-dev libmd-dev zlib1g-dev libsqlite3-dev libbenchmark-dev libopenblas-dev
                    libc6-dev ${libstdcxx})
        install(FILES /usr/share/doc/${package}/copyright COMPONENT attnbench OPTIONAL
                DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package})
    endforeach()
endif()

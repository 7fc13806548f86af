# SPDX-License-Identifier: Apache-2.0
# attnbench-plugin.cmake - the function that makes a plugin; used by this tree's own backends, and
# installed with the package for those of other projects.

# attnbench_add_plugin(NAME SOURCES file... [LIBRARIES target...])
# A plugin NAME.so in ATTNBENCH_PLUGIN_DIR, from sources that see the ABI header alone, with
# NAME.skips (expected skips) and NAME.roof (the library's practical roof) beside it where the folder
# has them. All are installed to ATTNBENCH_LIB_DIR, where an attnbench of the same prefix finds them. It
# links what ATTNBENCH_PLUGIN_LIBRARIES names too, and still finds libraries outside the project once
# installed.
function(attnbench_add_plugin name)
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
    file(REMOVE ${ATTNBENCH_PLUGIN_DIR}/${name}.missing)
    add_library(attn_plugin_${name} MODULE ${arg_SOURCES})
    set_property(GLOBAL APPEND PROPERTY ATTNBENCH_PLUGINS attn_plugin_${name})
    set_target_properties(attn_plugin_${name} PROPERTIES
        OUTPUT_NAME ${name} PREFIX "" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
        INSTALL_RPATH_USE_LINK_PATH ON LIBRARY_OUTPUT_DIRECTORY ${ATTNBENCH_PLUGIN_DIR})
    target_link_libraries(attn_plugin_${name} PRIVATE attnbench::abi ${ATTNBENCH_PLUGIN_LIBRARIES}
                                                      ${arg_LIBRARIES})
    install(TARGETS attn_plugin_${name} LIBRARY DESTINATION ${ATTNBENCH_LIB_DIR})
    foreach(beside ${name}.skips ${name}.roof)
        if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${beside})
            configure_file(${beside} ${ATTNBENCH_PLUGIN_DIR}/${beside} COPYONLY)
            install(FILES ${beside} DESTINATION ${ATTNBENCH_LIB_DIR})
        endif()
    endforeach()
endfunction()

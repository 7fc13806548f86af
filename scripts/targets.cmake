# SPDX-License-Identifier: Apache-2.0
# targets.cmake - the shared INTERFACE targets, and the functions by which folders add plugins and
# tests.

# attnbench_has_flag(FLAG RESULT)
# Does the C compiler know the flag?
include(CheckCCompilerFlag)
function(attnbench_has_flag flag result)
    string(MAKE_C_IDENTIFIER "ATTNBENCH_HAS${flag}" cached)
    check_c_compiler_flag(${flag} ${cached})
    set(${result} ${${cached}} PARENT_SCOPE)
endfunction()

# Warnings, sanitizers and counters of all our own code. Messages are cut to the caller's buffer on
# purpose, so -Wformat-truncation says nothing.
add_library(attn_warnings INTERFACE)
target_compile_options(attn_warnings INTERFACE
    -Wall -Wextra -Wshadow -Wconversion -Wundef -Wvla
    $<$<OR:$<C_COMPILER_ID:GNU>,$<CXX_COMPILER_ID:GNU>>:-Wno-format-truncation>
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    $<$<BOOL:${ATTNBENCH_WERROR}>:-Werror>)
target_compile_definitions(attn_warnings INTERFACE _GNU_SOURCE)
if(ATTNBENCH_SANITIZE)
    target_compile_options(attn_warnings INTERFACE
        -fsanitize=${ATTNBENCH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(attn_warnings INTERFACE -fsanitize=${ATTNBENCH_SANITIZE})
endif()
if(ATTNBENCH_COVERAGE)
    # Atomic: the reference counts from many threads.
    target_compile_options(attn_warnings INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(attn_warnings INTERFACE --coverage)
endif()

# Hardening of all our own code, programs and plugins: they read files and talk to plugins that nobody
# has checked. README.md says what it costs kernels. _FORTIFY_SOURCE needs the optimiser, and
# sanitizers do its work; at 3, objects whose size only the program knows are checked, too.
include(CheckCSourceCompiles)
check_c_source_compiles("
    #include <features.h>
    #if !__GLIBC_PREREQ(2, 34) || !__has_builtin(__builtin_dynamic_object_size)
    #error
    #endif
    int main(void) { return 0; }" ATTNBENCH_HAS_FORTIFY_3)
set(ATTNBENCH_FORTIFY -D_FORTIFY_SOURCE=2)
if(ATTNBENCH_HAS_FORTIFY_3)
    set(ATTNBENCH_FORTIFY -D_FORTIFY_SOURCE=3)
endif()
set(ATTNBENCH_HARDENING)
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full)
    attnbench_has_flag(${flag} has)
    if(has)
        list(APPEND ATTNBENCH_HARDENING ${flag})
    endif()
endforeach()
add_library(attn_hardening INTERFACE)
target_compile_options(attn_hardening INTERFACE ${ATTNBENCH_HARDENING})
if(NOT ATTNBENCH_SANITIZE)
    target_compile_options(attn_hardening INTERFACE
        $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE ${ATTNBENCH_FORTIFY}>)
endif()
target_link_options(attn_hardening INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
target_link_libraries(attn_warnings INTERFACE attn_hardening)
include(CheckPIESupported)
check_pie_supported()

# The headers that a backend sees: backend.h, which it needs, and problem.h with rows.h, which help.
# Outside this tree the target is attnbench::abi too.
add_library(attn_abi INTERFACE)
add_library(attnbench::abi ALIAS attn_abi)
set_target_properties(attn_abi PROPERTIES EXPORT_NAME abi)
target_include_directories(attn_abi INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/harness/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(ATTNBENCH_PLUGIN_LIBRARIES attn_warnings)
include(${CMAKE_CURRENT_LIST_DIR}/attnbench-plugin.cmake)

# attnbench_build_for(LABELS label... TARGETS target...)
# The targets serve tests of these labels alone: where those do not run, nothing builds them. Tests
# labelled "full" run in trees with ATTNBENCH_FULL, those labelled "release" in trees without
# sanitizers and counters.
function(attnbench_build_for)
    cmake_parse_arguments(arg "" "" "LABELS;TARGETS" ${ARGN})
    if(("full" IN_LIST arg_LABELS AND NOT ATTNBENCH_FULL) OR
       ("release" IN_LIST arg_LABELS AND (ATTNBENCH_SANITIZE OR ATTNBENCH_COVERAGE)))
        set_target_properties(${arg_TARGETS} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
endfunction()

# attnbench_add_test(NAME SOURCES file... [LIBRARIES target...] [LABELS label...] [ARGS arg...])
# A cmocka test program. Label "full" keeps it out of the fast tier, "release" out of trees with
# sanitizers: there it is neither run nor built.
function(attnbench_add_test name)
    if(NOT ATTNBENCH_TESTS)
        return()
    endif()
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;LABELS;ARGS" ${ARGN})
    add_executable(test_${name} ${arg_SOURCES})
    set_target_properties(test_${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(test_${name} PRIVATE attn_warnings ${arg_LIBRARIES} cmocka)
    add_test(NAME ${name} COMMAND test_${name} ${arg_ARGS})
    # Code with counters or sanitizers takes up to twenty times as long.
    set(limit 300)
    if(ATTNBENCH_SANITIZE OR ATTNBENCH_COVERAGE)
        set(limit 900)
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${limit})
    if(arg_LABELS)
        set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
        attnbench_build_for(LABELS ${arg_LABELS} TARGETS test_${name})
    endif()
endfunction()

# attnbench_leave_out(NAME REASON [BACKENDS...])
# Says in one line why a plugin is not built, and leaves that line where `list` and `doctor` look,
# with the names of its backends where they are not its own.
# A plugin of an earlier build goes: it would be offered beside the line that says it is missing.
function(attnbench_leave_out name reason)
    message(STATUS "attnbench: backend ${name} left out: ${reason}")
    file(REMOVE ${ATTNBENCH_PLUGIN_DIR}/${name}.so ${ATTNBENCH_PLUGIN_DIR}/${name}.skips
                ${ATTNBENCH_PLUGIN_DIR}/${name}.roof)
    list(JOIN ARGN "\n" backends)
    file(WRITE ${ATTNBENCH_PLUGIN_DIR}/${name}.missing "${reason}\n${backends}")
    install(FILES ${ATTNBENCH_PLUGIN_DIR}/${name}.missing DESTINATION ${ATTNBENCH_LIB_DIR})
endfunction()

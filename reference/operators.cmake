# SPDX-License-Identifier: Apache-2.0
# operators.cmake - how an operator's folder joins the reference, and the registry of operators.

# attnbench_add_operator(NAME SOURCES file...)
# The operator of this folder: its sources join the reference. One of them defines
# `const struct ref_op ref_op_NAME`.
function(attnbench_add_operator name)
    cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(attn_reference PRIVATE ${arg_SOURCES})
    set_property(GLOBAL APPEND PROPERTY ATTNBENCH_OPERATORS ${name})
endfunction()

# attnbench_write_registry(FILE [name...])
# Writes the source that defines `ref_ops`: the operators of reference/ops and those named here. An
# executable that compiles FILE with the sources of the operators named here has them beside the
# others: its own ref_ops stands in for the one of the library.
function(attnbench_write_registry file)
    get_property(operators GLOBAL PROPERTY ATTNBENCH_OPERATORS)
    list(APPEND operators ${ARGN})
    list(SORT operators)
    set(declarations "")
    set(entries "")
    foreach(name IN LISTS operators)
        string(APPEND declarations "extern const struct ref_op ref_op_${name};\n")
        string(APPEND entries "    &ref_op_${name},\n")
    endforeach()
    file(CONFIGURE OUTPUT ${file} @ONLY CONTENT
"/* The registry of operators. Generated: reference/operators.cmake. */
#include \"reference/op.h\"

@declarations@
const struct ref_op *const ref_ops[] = {
@entries@    NULL};
")
endfunction()

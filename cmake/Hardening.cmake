# Protection against exploits, for all targets; tests/checks/hardening.py finds it in the programs. Without it the
# sanitizers and Valgrind see more: they report what it hides, such as reading a variable without a value.
option(HARDENING "Protect the programs against exploits" ON)
include(CheckCCompilerFlag)

# NDEBUG would remove the assertions from what is installed.
foreach(type IN ITEMS RELEASE RELWITHDEBINFO MINSIZEREL)
    string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_${type} "${CMAKE_C_FLAGS_${type}}")
endforeach()

# add_flag FLAG: adds FLAG if the compiler for this architecture has it.
function(add_flag flag)
    string(MAKE_C_IDENTIFIER "HAVE${flag}" variable)
    set(CMAKE_REQUIRED_FLAGS -Werror) # clang only warns of flags for another architecture
    check_c_compiler_flag(${flag} ${variable})
    if(${variable})
        add_compile_options(${flag})
    endif()
endfunction()

if(HARDENING AND NOT SANITIZER)
    add_compile_options(-U_FORTIFY_SOURCE $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
    add_compile_options("$<$<IN_LIST:$<TARGET_PROPERTY:TYPE>,EXECUTABLE;STATIC_LIBRARY>:-fPIE>")
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
    add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code)
    add_flag(-fstack-protector-strong)
    add_flag(-fstack-clash-protection)
    add_flag(-ftrivial-auto-var-init=zero) # UNINITIALIZED (common/macros.h) exempts a variable
    add_flag(-mbranch-protection=standard) # ARM: checks the targets of indirect branches, and return addresses
    # x86: the same, if the linker marks the programs for it. It does if all objects are marked, those of the C library
    # included, which Debian's are not.
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=Scrt1.o OUTPUT_VARIABLE start_file OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${CMAKE_READELF} -n ${start_file} OUTPUT_VARIABLE start_notes ERROR_QUIET)
    if(start_notes MATCHES "IBT, SHSTK")
        add_flag(-fcf-protection=full)
    endif()
endif()

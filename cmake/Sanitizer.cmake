# SANITIZER selects a run-time checker for all targets:
#   (empty) none   address = ASan + UBSan   thread = TSan   fuzzer = ASan + UBSan + coverage (clang)
set(SANITIZER "" CACHE STRING "address, thread, fuzzer or empty")
set_property(CACHE SANITIZER PROPERTY STRINGS "" address thread fuzzer)

# -O1: without optimization, the tests take a seventh more CPU time; with -O2, compiling takes a third more.
set(sanitizer_flags_address -fsanitize=address,undefined -fno-sanitize-recover=undefined -O1)
set(sanitizer_flags_thread -fsanitize=thread)
set(sanitizer_flags_fuzzer -fsanitize=fuzzer-no-link,address,undefined
                           -fno-sanitize-recover=undefined)

if(SANITIZER)
    if(NOT DEFINED sanitizer_flags_${SANITIZER})
        message(FATAL_ERROR "SANITIZER is '${SANITIZER}' (address, thread, fuzzer or empty)")
    endif()
    add_compile_options(${sanitizer_flags_${SANITIZER}} -fno-omit-frame-pointer -g1)
    add_link_options(${sanitizer_flags_${SANITIZER}})
endif()
if(SANITIZER STREQUAL "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # At a fixed address the tables of the sanitizers need no relocation, which would copy their pages at each start.
    add_compile_options("$<$<IN_LIST:$<TARGET_PROPERTY:TYPE>,EXECUTABLE;STATIC_LIBRARY;OBJECT_LIBRARY>:-fno-pie>")
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
    add_library(leak_search STATIC ${CMAKE_SOURCE_DIR}/tests/checks/leak_search.c)
    target_compile_options(leak_search PRIVATE -fno-sanitize=all) # it runs before the sanitizer is ready
    link_libraries(leak_search)
    add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,--undefined=dl_iterate_phdr>)
endif()

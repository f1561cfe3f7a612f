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

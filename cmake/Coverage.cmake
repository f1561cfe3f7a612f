# COVERAGE counts how often each line and branch runs (clang). The counters are a mapped file, so that they outlive
# processes that are killed, and need nothing that a sandbox forbids.
option(COVERAGE "Count how often each line and branch runs" OFF)

if(COVERAGE)
    add_compile_options(-gdwarf-4 # Valgrind cannot read version 5 of clang
        -fprofile-instr-generate -fcoverage-mapping "SHELL:-mllvm -runtime-counter-relocation")
    add_link_options(-fprofile-instr-generate)
endif()

# Every target is compiled with these; WERROR makes them errors (continuous integration, lint).
option(WERROR "Treat warnings as errors" OFF)
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
                    -Wpointer-arith -Wformat=2 -Wundef -fno-common)
add_compile_definitions(_GNU_SOURCE)
if(WERROR)
    add_compile_options(-Werror)
endif()

# Warnings for all targets; WERROR (./dev lint) makes them errors.
option(WERROR "Treat warnings as errors" OFF)
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
                    -Wpointer-arith -Wformat=2 -Wundef -fno-common)
add_compile_definitions(_GNU_SOURCE)
if(WERROR)
    add_compile_options(-Werror)
endif()

# STATIC=ON: webserverd, wsctl and wsconsole link all libraries statically (./dev static). wsload and webserverd-acme cannot: libcurl's
# static library needs that of Kerberos, which Debian does not have.
option(STATIC "Link webserverd, wsctl and wsconsole statically" OFF)
if(STATIC)
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
    set(PKG_CONFIG_ARGN --static)
    # --no-warnings: the C library would warn that it looks up users with its shared libraries, if they are there.
    add_link_options(-Wl,--no-warnings $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static-pie>)
endif()

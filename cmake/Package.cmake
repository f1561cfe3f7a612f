# The Debian package. Included right after project(), by ./dev package only. Two builds of the same sources are equal, byte by
# byte, wherever the sources are; ./dev sets SOURCE_DATE_EPOCH.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME webserverd)
set(CPACK_PACKAGE_VENDOR "The webserverd authors")
# As for other tools of Debian, DEBFULLNAME and DEBEMAIL name who builds the package.
set(packager "The webserverd authors <webserverd@lists.example.org>")
if(DEFINED ENV{DEBEMAIL} AND DEFINED ENV{DEBFULLNAME})
    set(packager "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_CONTACT "${packager}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "web server that can be inspected and changed while it runs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"A server of static files over HTTP/1.1 and HTTP/2 with TLS: a master process,
sandboxed workers with threads, and a logger. It publishes every counter,
thread state and log record in shared memory.

wsconsole shows all of it live in a terminal, wsctl changes threads, workers,
caches and limits under load, and wsload generates load and measures it.")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION httpd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS logrotate)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bpftrace, prometheus")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/cmake/PackageFiles.cmake")
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=/usr/src/webserverd)

set(PROBES ON)
set(PACKAGE_NEEDS_MANDOC ON)
# Debian's zsh loads the completions of packages from here.
set(ZSH_COMPLETIONS share/zsh/vendor-completions)

# dpkg preserves an administrator's changes to these files.
file(WRITE "${CMAKE_BINARY_DIR}/conffiles"
     "${CMAKE_INSTALL_SYSCONFDIR}/webserverd/webserver.ini\n${CMAKE_INSTALL_SYSCONFDIR}/logrotate.d/webserverd\n")
foreach(script IN ITEMS postinst prerm postrm)
    list(APPEND control_files "${CMAKE_SOURCE_DIR}/cmake/debian/${script}")
endforeach()
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/conffiles ${control_files})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

include(CPack)

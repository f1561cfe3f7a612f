# The Debian package. Included right after project(), by ./dev package only.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME webserverd)
set(CPACK_PACKAGE_VENDOR "The webserverd authors")
set(CPACK_PACKAGE_CONTACT "The webserverd authors <webserverd@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION httpd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

# Debian's zsh loads the completions of packages from here.
set(ZSH_COMPLETIONS share/zsh/vendor-completions)

# dpkg preserves an administrator's changes to these files.
file(WRITE "${CMAKE_BINARY_DIR}/conffiles"
     "${CMAKE_INSTALL_SYSCONFDIR}/webserverd/webserver.ini\n${CMAKE_INSTALL_SYSCONFDIR}/logrotate.d/webserverd\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/conffiles")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

include(CPack)
